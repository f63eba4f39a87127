from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from slurm_flex.actions import (
    Action,
    CancelRequest,
    CreateGroup,
    CreateInstances,
    DeleteInstances,
    DeleteRequest,
    MakeRequest,
    ReportHost,
    SaveConsole,
)
from slurm_flex.cloud_acts import apply_cloud, judge_outcomes
from slurm_flex.cluster import Pool
from slurm_flex.compute.errors import (
    BadConfiguration,
    ComputeError,
    PermissionDenied,
    QuotaExceeded,
    RateLimited,
    Unreachable,
)
from slurm_flex.compute.fleet import Operation, Verdict
from slurm_flex.memory import Pending, Store, open_store
from slurm_flex.model import CloudError, Memory, Snapshot
from slurm_flex.results import Result
from tests.builders import NOON, instance, node, request, world
from tests.builders import pool as a_pool
from tests.unit.daemon.fakes import FakeFleet

WEEK = timedelta(days=7)
MOMENT = world(node("c1-gx-[0-1]", "alloc#"), a_pool("gx"), a_pool("gy"))


def ask(name: str = "j51-1", *nodes: str) -> MakeRequest:
    return MakeRequest(
        pool="gx", name=name, nodes=nodes or ("c1-gx-0",), job=51, run_duration=WEEK, why="wanted"
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path, NOON).store
    yield opened
    opened.close()


def send(
    store: Store, fleet: FakeFleet, *actions: Action, snapshot: Snapshot = MOMENT
) -> list[Result]:
    return apply_cloud(actions, snapshot, fleet, store)


def test_what_is_sent_is_looked_at_later(store: Store) -> None:
    fleet = FakeFleet()
    (result,) = send(store, fleet, ask("j51-1", "c1-gx-0", "c1-gx-1"))
    assert fleet.calls == [("request", "gx", "j51-1", ("c1-gx-0", "c1-gx-1"))]
    assert result.ok
    (pending,) = result.pending
    assert pending.operation.target == ("j51-1",)
    assert pending.nodes == ("c1-gx-0", "c1-gx-1")


def test_a_request_is_sent_again_with_the_same_nonce_until_its_fate_is_known(store: Store) -> None:
    lost = FakeFleet(failing={"request": Unreachable(CloudError("unreachable", "reset"))})
    (result,) = send(store, lost, ask())
    assert "unreachable" in result.error
    assert result.answer is None
    assert result.finished_nonces == ()
    refused = FakeFleet(failing={"request": QuotaExceeded(CloudError("QUOTA_EXCEEDED", "none"))})
    (result,) = send(store, refused, ask())
    assert refused.nonces == lost.nonces
    assert result.finished_nonces == ("gx/j51-1",)


def test_a_nonce_is_on_the_disk_before_the_call(store: Store, tmp_path: Path) -> None:
    seen: list[str] = []

    class Peeking(FakeFleet):
        def _answer(self, *arguments: object) -> Operation:  # type: ignore[override]
            reader = open_store(tmp_path, NOON).store
            seen.append(reader.nonces(["gx/j51-1"], NOON)["gx/j51-1"])
            reader.close()
            return super()._answer(*arguments)  # type: ignore[arg-type]

    fleet = Peeking()
    send(store, fleet, ask())
    assert seen == fleet.nonces


def test_a_request_that_cannot_be_written_down_is_not_sent_and_the_rest_is(store: Store) -> None:
    fleet = FakeFleet()
    store._db.execute("PRAGMA query_only = 1")
    asked, cancelled = send(
        store, fleet, ask(), CancelRequest(pool="gx", name="j50-1", why="its job is gone")
    )
    assert "not sent" in asked.error
    assert cancelled.ok
    assert [call[0] for call in fleet.calls] == ["cancel_request"]


@pytest.mark.parametrize(
    "error",
    [
        QuotaExceeded(CloudError("QUOTA_EXCEEDED", "no more")),
        PermissionDenied(CloudError("forbidden", "no role")),
        BadConfiguration(CloudError("invalid", "no such machine type")),
    ],
)
def test_a_refusal_is_an_answer_for_the_next_plan(store: Store, error: ComputeError) -> None:
    fleet = FakeFleet(failing={"request": error, "create_instances": error})
    creation = CreateInstances(pool="gy", nodes=("c1-gy-0",), why="wanted")
    asked, created = send(store, fleet, ask(), creation)
    assert asked.answer is not None
    assert created.answer is not None
    assert (asked.answer.request, asked.answer.nodes) == ("j51-1", ("c1-gx-0",))
    assert (created.answer.request, created.answer.nodes) == (None, ("c1-gy-0",))
    assert asked.answer.code == created.answer.code == error.error.code


@pytest.mark.parametrize(
    "error",
    [
        Unreachable(CloudError("timeout", "no answer")),
        RateLimited(CloudError("rateLimitExceeded", "slowly")),
    ],
)
def test_what_may_pass_by_itself_gives_nothing_back(store: Store, error: ComputeError) -> None:
    (result,) = send(store, FakeFleet(failing={"request": error}), ask())
    assert not result.ok
    assert result.answer is None


def test_one_failure_stops_nothing_else(store: Store) -> None:
    fleet = FakeFleet(failing={"cancel_request": Unreachable(CloudError("timeout", ""))})
    results = send(
        store,
        fleet,
        CancelRequest(pool="gx", name="j1-1", why="gone"),
        DeleteInstances(pool="gx", nodes=("c1-gx-3",), why="off"),
        DeleteInstances(pool="nowhere", nodes=("c1-nowhere-3",), why="off"),
        ask(),
    )
    assert [result.ok for result in results] == [False, True, False, True]
    assert "no longer in the cluster file" in results[2].error


def test_the_next_vm_of_a_name_is_another_deletion(store: Store) -> None:
    fleet = FakeFleet()
    deletion = DeleteInstances(pool="gx", nodes=("c1-gx-0",), why="off")
    first = world(node("c1-gx-0", "idle%"), instance("c1-gx-0", number="111"))
    second = world(node("c1-gx-0", "idle%"), instance("c1-gx-0", number="222"))
    for moment in (first, first, second):
        send(store, fleet, deletion, snapshot=moment)
    assert fleet.nonces[0] == fleet.nonces[1]
    assert fleet.nonces[0] != fleet.nonces[2]


@pytest.mark.parametrize(
    ("action", "verdict", "is_new"),
    [
        (DeleteInstances(pool="gx", nodes=("c1-gx-0",), why="off"), Verdict.FAILED, True),
        (DeleteInstances(pool="gx", nodes=("c1-gx-0",), why="off"), Verdict.DONE, False),
        (DeleteRequest(pool="gx", name="j51-1", why="over"), Verdict.FAILED, True),
        (DeleteRequest(pool="gx", name="j51-1", why="over"), Verdict.DONE, False),
        (CancelRequest(pool="gx", name="j51-1", why="its job is gone"), Verdict.FAILED, True),
        (CancelRequest(pool="gx", name="j51-1", why="its job is gone"), Verdict.ALREADY, True),
        (CancelRequest(pool="gx", name="j51-1", why="its job is gone"), Verdict.DONE, False),
    ],
)
def test_a_removal_that_came_to_nothing_is_sent_again_as_a_new_call(
    store: Store, action: Action, verdict: Verdict, is_new: bool
) -> None:
    """The same requestId would be answered with the failed operation for an hour. A removal that
    is done stays the same call, lest a list that lags has the next VM of that name deleted."""
    moment = world(node("c1-gx-0", "idle%"), instance("c1-gx-0"), request("j51-1", "c1-gx-0"))
    fleet = FakeFleet()
    (first,) = send(store, fleet, action, snapshot=moment)
    store.keep_pending(first.pending)
    looked_at = store.pending()
    error = CloudError("CONDITION_NOT_MET", "it is being provisioned")
    fleet.verdicts = {one.operation.name: (verdict, error) for one in looked_at}
    outcomes = fleet.poll([one.operation for one in looked_at])
    over, _, _ = judge_outcomes(looked_at, outcomes, NOON)
    store.save(Memory(), over=over)
    assert not store.pending()
    send(store, fleet, action, snapshot=moment)
    assert (fleet.nonces[0] != fleet.nonces[1]) is is_new


def test_the_next_place_in_a_queue_is_another_deletion_too(store: Store) -> None:
    fleet = FakeFleet()
    deletion = DeleteInstances(pool="gx", nodes=("c1-gx-0",), why="off")
    for name in ("j51-1", "j51-2"):
        moment = world(instance("c1-gx-0", None), request(name, "c1-gx-0"))
        send(store, fleet, deletion, snapshot=moment)
    assert len(set(fleet.nonces)) == 2


def test_a_missing_group_is_made_step_by_step_and_never_twice_at_once(store: Store) -> None:
    fleet = FakeFleet()
    making = CreateGroup(pool="gx", why="the first node of this pool is wanted")
    (result,) = send(store, fleet, making)
    store.keep_pending(result.pending)
    (again,) = send(store, fleet, making)
    assert again.ok
    assert len(fleet.calls) == 1


def test_a_group_that_cannot_be_made_gives_back_the_nodes_that_wait_for_it(store: Store) -> None:
    refused = PermissionDenied(CloudError("forbidden", "no role"))
    fleet = FakeFleet(failing={"create_group": refused})
    (result,) = send(store, fleet, CreateGroup(pool="gx", why="wanted"))
    assert result.answer is not None
    assert result.answer.nodes == ("c1-gx-0", "c1-gx-1")


def test_consoles_are_kept_for_their_owner_alone(store: Store, tmp_path: Path) -> None:
    saving = SaveConsole(pool="gx", nodes=("c1-gx-0", "c1-gx-1"), why="boot failed")
    (result,) = send(store, FakeFleet(), saving)
    assert result.ok
    files = sorted((tmp_path / "consoles").iterdir())
    assert [file.name.partition("-2026")[0] for file in files] == ["c1-gx-0", "c1-gx-1"]
    assert files[0].read_text() == "console of c1-gx-0\n"
    assert files[0].stat().st_mode & 0o777 == 0o600


def test_a_console_that_cannot_be_read_keeps_no_other_from_being_kept(
    store: Store, tmp_path: Path
) -> None:
    class Mute(FakeFleet):
        def console(self, pool: Pool, node: str) -> str:
            if node == "c1-gx-0":
                raise Unreachable(CloudError("timeout", "no answer"))
            return super().console(pool, node)

    saving = SaveConsole(pool="gx", nodes=("c1-gx-0", "c1-gx-1"), why="boot failed")
    (result,) = send(store, Mute(), saving)
    assert "no answer" in result.error
    assert [file.name[:7] for file in (tmp_path / "consoles").iterdir()] == ["c1-gx-1"]


def test_hosts_are_reported_once_an_incarnation(store: Store) -> None:
    fleet = FakeFleet()
    report = ReportHost(pool="gx", nodes=("c1-gx-0", "c1-gx-1"), why="GPU 3 fell off the bus")
    moment = world(instance("c1-gx-0", number="111"), instance("c1-gx-1", number="222"))
    (result,) = send(store, fleet, report, snapshot=moment)
    assert sorted(fleet.nonces) == ["c1-gx-0=111", "c1-gx-1=222"]
    assert len(result.pending) == 2


def test_a_failed_operation_is_an_answer_a_done_one_is_forgotten() -> None:
    def pending(number: int, kind: str = "request") -> Pending:
        operation = Operation("gx", kind, (f"j{number}-1",), f"operation-{number}", "zone")
        return Pending(operation, (f"c1-gx-{number}",), NOON)

    looked_at = [pending(0), pending(1), pending(2), pending(3, "delete_instances")]
    no = CloudError("QUOTA_EXCEEDED", "no more")
    fleet = FakeFleet(
        verdicts={
            "operation-0": (Verdict.DONE, None),
            "operation-1": (Verdict.FAILED, no),
            "operation-3": (Verdict.FAILED, no),
        }
    )
    outcomes = fleet.poll([one.operation for one in looked_at])
    over, answers, failures = judge_outcomes(looked_at, outcomes, NOON)
    assert over == [looked_at[0], looked_at[1], looked_at[3]]
    assert [(one.request, one.nodes, one.code) for one in answers] == [
        ("j1-1", ("c1-gx-1",), "QUOTA_EXCEEDED")
    ]
    assert len(failures) == 2
