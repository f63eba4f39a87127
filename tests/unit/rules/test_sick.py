"""A health check of ours drained a node: its VM is replaced (DESIGN: rule `sick`)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slurm_flex.actions import Event, JobComment, JobHold, ReportHost
from slurm_flex.model import Job, Snapshot
from slurm_flex.plan import close_breaker
from tests.builders import (
    NOON,
    Played,
    decide,
    half_seen,
    instance,
    job,
    later,
    node,
    passes,
    pool,
    repeat,
    world,
)

BROKEN = "slurm-flex: health: GPU 3 fell off the bus"


def test_an_idle_node_that_we_drained_is_replaced() -> None:
    """Scenario 31."""
    acts = passes(
        *repeat(
            world(
                node("c1-gx-0", "drain", reason=BROKEN, since="-5m"),
                instance("c1-gx-0", created="-2h"),
            ),
            2,
        )
    ).all
    assert acts.nodes("delete_instances") == {"c1-gx-0"}
    forced = [one for one in acts.kind("node_power_down") if getattr(one, "how", "") == "force"]
    assert forced


@pytest.mark.parametrize("report", [False, True])
def test_before_the_vm_goes_its_console_is_kept_and_where_the_site_wants_its_host_reported(
    report: bool,
) -> None:
    sick = world(
        node("c1-gx-0", "drain", reason=BROKEN, since="-5m"),
        instance("c1-gx-0", created="-2h"),
        settings={"report_faulty_hosts": True} if report else {},
    )
    kinds = [
        [one.KIND for one in acts.of_kinds("save_console", "report_host", "delete_instances")]
        for acts in passes(sick, later(sick, "30s"), later(sick, "60s"))
    ]
    if report:
        assert kinds == [["save_console", "report_host"], [], ["delete_instances"]]
    else:
        assert kinds[0] == ["save_console", "delete_instances"]


def test_only_broken_gpus_are_reported_each_with_what_the_check_found() -> None:
    """A full disk is no fault of the host."""
    reasons = {
        "c1-gx-0": "slurm-flex:health: gpu-ecc: GPU 3 has 2 uncorrectable ECC errors (epilog)",
        "c1-gx-1": "slurm-flex:health: disk: / is 97 % full (epilog)",
    }
    sick = world(
        *(node(name, "drain", reason=said, since="-5m") for name, said in reasons.items()),
        instance("c1-gx-[0-1]", created="-2h"),
        settings={"report_faulty_hosts": True},
    )
    acts = decide(sick)
    (report,) = acts.of(ReportHost)
    assert (report.nodes, report.why) == (("c1-gx-0",), reasons["c1-gx-0"])
    assert acts.nodes("delete_instances") == {"c1-gx-1"}


@pytest.mark.parametrize("status", ["REPAIRING", "NEW_IN_2031"])
def test_a_vm_that_its_report_ends_is_deleted_then_and_one_that_doesnt_run_isnt_reported(
    status: str,
) -> None:
    """A report is lost if its VM goes meanwhile (facts: compute-engine.md)."""

    def seen(status: str, now: str) -> Snapshot:
        return world(
            node("c1-gx-0", "drain", reason=BROKEN, since="-5m"),
            instance("c1-gx-0", status, created="-2h"),
            settings={"report_faulty_hosts": True},
            now=now,
        )

    played = passes(seen("RUNNING", "-30s"), seen(status, "now"))
    assert not played[0].of_kinds("delete_instances", "node_power_down")
    assert not played[1].of_kinds("save_console", "report_host")
    assert played[1].nodes("delete_instances") == {"c1-gx-0"}
    alone = decide(seen(status, "now"))
    assert not alone.kind("report_host")
    assert alone.nodes("save_console") == alone.nodes("delete_instances") == {"c1-gx-0"}


@pytest.mark.parametrize("state", ["drng", "MIXED+CLOUD+DRAIN", "IDLE+CLOUD+DRAIN+COMPLETING"])
def test_a_drained_node_that_is_still_busy_is_waited_for(state: str) -> None:
    """Scenarios 30 and 33."""
    acts = passes(
        *repeat(
            world(
                node("c1-gx-0", state, reason=BROKEN, since="-5m"),
                instance("c1-gx-0", created="-2h"),
                job(51, "R", nodes="c1-gx-0", starts="-1h"),
            ),
            3,
        )
    ).all
    assert not acts.of_kinds("delete_instances", "node_power_down", "node_down")


def on_it(*jobs: int, state: str = "mix", now: str = "now", **settings: object) -> Snapshot:
    """c1-gx-0 with these jobs on it; drained by a check of ours a moment before `now`."""
    is_sick = "DRAIN" in state
    return world(
        node("c1-gx-0", state, **({"reason": BROKEN, "since": "-5s"} if is_sick else {})),
        instance("c1-gx-0", created="-2h"),
        *(job(number, "R", nodes="c1-gx-0", starts="-1h") for number in jobs),
        now=now,
        settings=settings,
    )


BUSY, IDLE = "MIXED+CLOUD+DRAIN", "IDLE+CLOUD+DRAIN"


def is_replaced(*snapshots: Snapshot) -> bool:
    return passes(*snapshots).all.nodes("delete_instances") == {"c1-gx-0"}


def test_a_node_of_which_each_job_had_a_part_stays_drained() -> None:
    """A person looks: one job's fault may be another's data on the local disk."""
    shared = on_it(51, 52, now="-1m"), on_it(52, state=BUSY, now="-30s")
    assert not is_replaced(*shared, on_it(state=IDLE), on_it(state=IDLE, now="+30s"))
    both = on_it(51, 52, state=BUSY, now="-30s")
    assert not is_replaced(both, on_it(state=IDLE), on_it(state=IDLE, now="+30s"))


@pytest.mark.parametrize("context", ["prolog", "epilog"])
@pytest.mark.parametrize("also", ["", "; also xid"])
def test_so_does_one_whose_only_job_had_a_part_unless_the_site_wants_it_replaced(
    context: str, also: str
) -> None:
    """The node says so: only there is known how many of its GPUs the job has."""
    for how, said, gone in [
        ("drain", ", part of the node", set()),
        ("replace", ", part of the node", {"c1-gx-0"}),
        ("drain", "", {"c1-gx-0"}),
    ]:
        reason = f"slurm-flex:health: gpu-ecc: GPU 3 has 2 errors ({context}{said}{also})"
        ill = world(
            node("c1-gx-0", "drain", reason=reason, since="-5m"),
            instance("c1-gx-0", created="-2h"),
            settings={"health_partial_node": how},
        )
        assert passes(*repeat(ill, 4)).all.nodes("delete_instances") == gone


def test_unless_the_site_wants_it_replaced() -> None:
    played = [
        on_it(*jobs, state=state, now=now, health_partial_node="replace")
        for jobs, state, now in [((51, 52), "mix", "-1m"), ((52,), BUSY, "-30s"), ((), IDLE, "now")]
    ]
    assert is_replaced(*played)


@pytest.mark.parametrize("met", [(), (53,)])
def test_jobs_that_shared_it_and_left_before_it_fell_ill_keep_nothing(met: tuple[int, ...]) -> None:
    """The one that met the fault had the node to itself, whether a pass saw it there or not."""
    before, ill = on_it(51, 52, now="-1m"), on_it(*met, state=BUSY, now="-30s")
    assert is_replaced(before, ill, on_it(state=IDLE))
    assert is_replaced(before, ill, later(ill, "10s"), later(ill, "20s"), on_it(state=IDLE))


def test_the_job_that_met_the_fault_counts_it_and_not_those_that_had_left() -> None:
    def seen(*there: int, state: str, now: str) -> Snapshot:
        waits = [job(number, restarts=1) for number in (51, 52, 53) if number not in there]
        snapshot = on_it(*there, state=state, now=now)
        jobs = (*snapshot.slurm.jobs, *waits)
        return replace(snapshot, slurm=replace(snapshot.slurm, jobs=jobs))

    played = passes(
        seen(51, 52, state="mix", now="-1m"),
        seen(53, state=BUSY, now="-30s"),
        seen(53, state=BUSY, now="-20s"),
        seen(state=IDLE, now="now"),
    )
    assert played.memory.health_restarts == {"53": 1}


def test_a_job_past_its_limit_is_held_until_slurm_shows_it_and_never_after_its_release() -> None:
    """The process may die between remembering the hold and doing it."""

    def seen(state: str, mine: Job, *, now: str) -> Snapshot:
        both = node("c1-gx-[0-1]", state, **({} if state == "mix" else {"reason": BROKEN}))
        return world(
            both, instance("c1-gx-[0-1]"), mine, settings={"max_health_restarts": 1}, now=now
        )

    back = job(51, reason="BeginTime", starts="+90s", restarts=1)
    held = replace(back, reason="JobHeldAdmin")
    played = passes(
        seen("mix", job(51, "R", nodes="c1-gx-[0-1]", starts="-1h"), now="-1m"),
        seen(IDLE, back, now="-30s"),
        seen(IDLE, back, now="-20s"),
        seen(IDLE, held, now="-10s"),
        seen(IDLE, back, now="now"),
    )
    assert [len(acts.of(JobHold)) for acts in played] == [0, 1, 1, 0, 0]
    assert "held after 1 restarts" in played[2].one(JobComment).text
    gone = [acts.nodes("delete_instances") for acts in played]
    assert gone == [set(), set(), set(), {"c1-gx-0", "c1-gx-1"}, {"c1-gx-0", "c1-gx-1"}]


def test_a_foreign_drain_is_never_touched() -> None:
    """Scenario 32."""
    acts = passes(
        *repeat(
            world(
                node("c1-gx-0", "drain", reason="bad fan", user="root", since="-5h"),
                instance("c1-gx-0", created="-9h"),
            ),
            5,
        )
    ).all
    assert not acts.beside("reserve")


def test_a_drain_older_than_the_vm_is_stale() -> None:
    """Scenario 36: it was about the VM before."""
    acts = passes(
        *repeat(
            world(
                node("c1-gx-0", "drain", reason=BROKEN, since="-2h"),
                instance("c1-gx-0", created="-10m"),
            ),
            2,
        )
    ).all
    assert acts.nodes("node_resume") == {"c1-gx-0"}
    assert not acts.of_kinds("delete_instances", "node_power_down")


def test_a_drain_of_ours_on_a_node_that_is_off_is_cleared() -> None:
    acts = passes(
        *repeat(
            world(
                node("c1-gx-0", "IDLE+CLOUD+DRAIN+POWERED_DOWN", reason=BROKEN, since="-2h"),
            ),
            3,
        )
    ).all
    forced = [one for one in acts.kind("node_power_down") if getattr(one, "how", "") == "force"]
    assert {name for one in forced for name in getattr(one, "nodes", ())} == {"c1-gx-0"}


def test_a_fifth_of_a_pool_sick_at_once_is_not_believed() -> None:
    """Scenario 40: the check may be wrong."""
    acts = passes(
        *repeat(
            world(
                pool("gx", size=10),
                node("c1-gx-[0-2]", "drain", reason=BROKEN, since="-5m"),
                node("c1-gx-[3-9]", "idle"),
                instance("c1-gx-[0-9]", created="-2h"),
            ),
            4,
        )
    ).all
    assert not acts.of_kinds("delete_instances", "node_power_down", "node_down")
    assert acts.kind("event"), "somebody should hear of it"


@pytest.mark.parametrize(("size", "replaced"), [(14, False), (15, True)])
def test_a_fifth_itself_is_believed_and_a_crowd_is_told_of_once(size: int, replaced: bool) -> None:
    sick = world(
        pool("gx", size=size),
        node("c1-gx-[0-2]", "drain", reason=BROKEN, since="-5m"),
        node(f"c1-gx-[3-{size - 1}]", "idle"),
        instance(f"c1-gx-[0-{size - 1}]", created="-2h"),
    )
    acts = passes(*repeat(sick, 4)).all
    assert bool(acts.nodes("delete_instances")) == replaced
    told = [one.text for one in acts.of(Event) if one.event == "POOL_SICK"]
    assert told == (
        [] if replaced else ["3 nodes are sick at once: none is replaced, a person must look"]
    )


def test_two_sick_nodes_of_a_small_pool_are_replaced() -> None:
    """More than a fifth, but fewer than three."""
    acts = passes(
        *repeat(
            world(
                pool("gx", size=4),
                node("c1-gx-[0-1]", "drain", reason=BROKEN, since="-5m"),
                node("c1-gx-[2-3]", "idle"),
                instance("c1-gx-[0-3]", created="-2h"),
            ),
            2,
        )
    ).all
    assert acts.nodes("delete_instances") == {"c1-gx-0", "c1-gx-1"}


CHECK = "slurm-flex:health: gpu-count: 7 of 8 GPUs answer (prolog)"
OTHER = "slurm-flex:health: xid: Xid 79 on 0000:5b:00 (epilog)"
MINUTES = timedelta(minutes=1)


def falling_ill(*when: tuple[str, int], reason: str = CHECK, **more: str) -> Played:
    """c1-gx-N drained by a check of its own so many minutes after noon, in a pool of twenty."""
    snapshots = []
    for minute in range(max(after for _, after in when) + 1):
        ill = [
            node(f"c1-gx-{number}", "drain", reason=more.get(number, reason), since=f"+{after}m")
            for number, after in when
            if after == minute
        ]
        others = node("c1-gx-[0-19]", "idle")
        vms = instance("c1-gx-[0-19]", created="-1d")
        waits = (node("c1-gx-20", "alloc#"), job(60, nodes="c1-gx-20", starts="-10s"))
        snapshots.append(
            world(pool("gx", size=21), others, *ill, vms, *waits, now=f"+{minute}m10s")
        )
    return passes(*snapshots)


def is_open(played: Played) -> bool:
    told = [one for one in played.all.of(Event) if one.event == "BREAKER_OPEN"]
    assert len(told) == ("gx" in played.memory.breakers)
    return bool(told)


def test_the_same_check_on_three_nodes_within_ten_minutes_opens_the_pools_breaker() -> None:
    """The cause is probably the image or the check: no new VM is asked for. The sick ones go."""
    played = falling_ill(("1", 0), ("2", 4), ("3", 8))
    assert is_open(played)
    breaker = played.memory.breakers["gx"]
    assert breaker.failure == "health"
    assert "check gpu-count failed on 3 nodes" in breaker.why
    assert played.all.nodes("delete_instances") == {"c1-gx-1", "c1-gx-2", "c1-gx-3"}


def test_over_more_than_ten_minutes_it_doesnt() -> None:
    assert not is_open(falling_ill(("1", 0), ("2", 6), ("3", 12)))


def test_nor_on_one_node_however_often() -> None:
    assert not is_open(falling_ill(("1", 0), ("1", 2), ("1", 4), ("1", 6)))


def test_nor_do_different_checks() -> None:
    assert not is_open(falling_ill(("1", 0), ("2", 2), ("3", 4), **{"3": OTHER}))


def test_a_person_who_opens_the_pool_again_isnt_overruled_by_the_same_failures() -> None:
    ill = falling_ill(("1", 0), ("2", 1), ("3", 2))
    opened = close_breaker(ill.memory, "gx", NOON + 3 * MINUTES)
    fine = world(pool("gx", size=21), node("c1-gx-[0-19]", "idle"),
                 instance("c1-gx-[0-19]", created="-1d"), now="+4m")  # fmt: skip
    played = passes(fine, later(fine, "1m"), memory=opened)
    assert not played.memory.breakers


def test_nothing_is_replaced_on_half_a_picture() -> None:
    acts = decide(
        world(
            node("c1-gx-0", "drain", reason=BROKEN, since="-5m"),
            instance("c1-gx-0", created="-2h"),
            half_seen("gx"),
        )
    )
    assert not acts.changes
