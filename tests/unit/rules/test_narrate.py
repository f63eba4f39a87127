"""No wait unexplained: the job's AdminComment, the node's Comment (DESIGN: rule `narrate`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slurm_flex.actions import JobComment, NodeComment
from slurm_flex.model import Snapshot
from tests.builders import (
    STOCKOUT,
    Thing,
    decide,
    half_seen,
    instance,
    job,
    later,
    node,
    passes,
    repeat,
    request,
    world,
)


def waiting(*more: Thing, comment: str | None = None, mark: str | None = None) -> Snapshot:
    return world(
        node("c1-gx-[0-1]", "alloc#", comment=mark),
        job(51, nodes="c1-gx-[0-1]", starts="-2h", admin_comment=comment),
        request("j51-1", "c1-gx-[0-1]", created="-2h", last=STOCKOUT),
        *more,
    )


def test_a_job_in_the_queue_is_told_why_since_when_and_what_was_answered_last() -> None:
    """Scenario 79."""
    text = decide(waiting()).one(JobComment).text
    assert text.startswith("flex: ")
    assert "j51-1" in text
    assert "10:00" in text


def test_nothing_is_said_twice() -> None:
    text = decide(waiting()).one(JobComment).text
    mark = decide(waiting()).of(NodeComment)[0].text
    told = waiting(comment=text, mark=mark)
    assert not passes(*(later(told, f"{n * 30}s") for n in range(5))).all.of_kinds(
        "job_comment", "node_comment"
    )


def test_a_comment_that_somebody_else_wrote_stays() -> None:
    acts = passes(*repeat(waiting(comment="budget 42", mark="loose cable"), 3)).all
    assert not acts.of_kinds("job_comment", "node_comment")


def test_comments_may_be_turned_off() -> None:
    from slurm_flex.cluster.settings import Settings

    quiet = replace(waiting(), settings=Settings(comments=False))
    assert not passes(*repeat(quiet, 3)).all.of_kinds("job_comment", "node_comment")


def test_a_job_in_line_is_told_so() -> None:
    """Scenario 83: 50 shown "in line"."""
    snapshot = world(
        node("c1-gx-[0-2]", "alloc#"),
        job(51, nodes="c1-gx-0", priority=900),
        job(52, nodes="c1-gx-1", priority=800),
        job(53, nodes="c1-gx-2", priority=700),
        settings={"active_requests": 1},
    )
    played = passes(*(later(snapshot, f"{n * 30}s") for n in range(5)))
    last = {one.job: one.text for one in played.all.of(JobComment)}
    assert "in line" in last[52]
    assert "in line" in last[53]
    assert "in line" not in last[51]


def test_a_boot_of_more_than_a_minute_is_told_where_nothing_else_was() -> None:
    snapshot = world(
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-[0-1]", starts="-20s"),
        request("j51-1", "c1-gx-[0-1]", "SUCCEEDED", created="-20s"),
        instance("c1-gx-[0-1]", created="-10s"),
    )
    played = passes(*(later(snapshot, f"{n * 20}s") for n in range(5)))
    texts = [[one.text for one in acts.of(JobComment)] for acts in played.passes]
    assert texts == [[], [], [], ["flex: its VMs boot"], ["flex: its VMs boot"]]

    up = world(
        node("c1-gx-[0-1]", "alloc"),
        job(51, "R", nodes="c1-gx-[0-1]", starts="-1m", admin_comment="flex: its VMs boot"),
        request("j51-1", "c1-gx-[0-1]", "SUCCEEDED", created="-3m"),
        instance("c1-gx-[0-1]", created="-2m"),
    )
    assert decide(up).one(JobComment).text.startswith("flex: running, its nodes end at")


def test_a_paused_pool_says_so() -> None:
    snapshot = world(node("c1-gx-0", "alloc#"), job(51, nodes="c1-gx-0"), paused=["gx"])
    texts = [one.text for one in passes(*repeat(snapshot, 2)).all.of(JobComment)]
    assert any("paused" in text for text in texts)


@pytest.mark.parametrize(
    "evil",
    [
        "quotes \" and ' and `id`",
        "newline\nand\ttab\r and \x1b[31m",
        "$(reboot) %s %n {0}",
        "용량이 부족합니다" * 20,
        "x" * 4096,
    ],
)
def test_an_error_text_becomes_one_short_line(evil: str) -> None:
    """Scenario 88: at most 200 characters."""
    snapshot = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts="-2h"),
        request("j51-1", "c1-gx-0", created="-2h", last=("STRANGE", evil)),
    )
    failed = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts="-2h"),
        request("j51-1", "c1-gx-0", "FAILED", created="-2h", error=("STRANGE", evil)),
    )
    for acts in (decide(snapshot), decide(failed)):
        texts = [
            getattr(one, field)
            for one in acts
            for field in ("text", "reason")
            if isinstance(getattr(one, field, None), str) and one.KIND != "event"
        ]
        assert texts
        for text in texts:
            assert len(text) <= 200
            assert text.isprintable()


@pytest.mark.parametrize("error", [("", ""), ("", "no code"), ("NO_TEXT", "")])
def test_an_error_with_missing_parts_is_told_too(error: tuple[str, str]) -> None:
    snapshot = world(
        node("c1-gx-0", "alloc#"),
        job(51, nodes="c1-gx-0", starts="-2h"),
        request("j51-1", "c1-gx-0", "FAILED", created="-2h", error=error),
    )
    acts = decide(snapshot)
    assert acts.of_kinds("node_power_down")
    assert all(
        getattr(one, "reason", "").startswith("slurm-flex: ") for one in acts.kind("node_down")
    )


def test_five_hundred_jobs_share_their_nodes_comments() -> None:
    """Grouped, so that they cost a handful of calls: nodes of which the same is said are one."""
    from tests.builders import pool

    snapshot = world(
        pool("gx", size=300),
        node("c1-gx-[0-299]", "idle#"),
        *(request(f"m-{n:08x}-1", f"c1-gx-{n}", created="-2h") for n in range(300)),
        settings={"active_requests": 300},
    )
    texts = decide(snapshot).of(NodeComment)
    assert sum(len(one.nodes) for one in texts) in (0, 300)
    same = {one.text for one in texts}
    assert len(texts) == len(same)


def test_a_pool_that_cant_be_seen_is_not_told_about() -> None:
    """A story must be true: with half a listing nobody knows whether VMs boot."""
    whole = waiting()
    blind = world(
        node("c1-gx-[0-1]", "alloc#"),
        job(51, nodes="c1-gx-[0-1]", starts="-2h", admin_comment=decide(whole)[-1].why),
        half_seen("gx"),
        now="+30s",
    )
    text = decide(whole).one(JobComment).text
    blind = replace(
        blind,
        slurm=replace(blind.slurm, jobs=(replace(blind.slurm.jobs[0], admin_comment=text),)),
    )
    played = passes(whole, blind, later(blind, "30s"))
    assert not played[1].of_kinds("job_comment", "node_comment")
    assert not played[2].of_kinds("job_comment", "node_comment")


def test_a_node_that_is_up_isnt_called_off() -> None:
    snapshot = world(
        node("c1-gx-0", "idle", comment="flex: off"),
        instance("c1-gx-0", created="-10m"),
        request("j51-1", "c1-gx-0", "SUCCEEDED", created="-11m"),
    )
    (told,) = passes(*repeat(snapshot, 2)).all.of(NodeComment)[-1:]
    assert "off" not in told.text


def test_a_job_that_runs_isnt_said_to_wait() -> None:
    snapshot = world(
        node("c1-gx-[0-1]", "alloc"),
        instance("c1-gx-[0-1]", created="-10m"),
        job(
            51, "R", nodes="c1-gx-[0-1]", starts="-1m",
            admin_comment="flex: waiting for capacity since 10:00, request j51-1 accepted",
        ),
        request("j51-1", "c1-gx-[0-1]", "SUCCEEDED", created="-2h"),
    )  # fmt: skip
    texts = [one.text for one in passes(*repeat(snapshot, 2)).all.of(JobComment)]
    assert texts
    assert "waiting" not in texts[-1]


UNTRUE_ONCE_IT_IS_PLACED = [
    "flex: retry at 12-01 11:59 UTC: capacity: no room",
    "flex: tried again as soon as Slurm places it",
    "flex: its node lost its VM, restarts after Slurm's two minutes",
    "flex: held after 3 restarts, last: c1-gx-7 slurm-flex: health: x",
    "flex: running, its nodes end at 2026-11-30 12:00 UTC",
]


@pytest.mark.parametrize("shown", UNTRUE_ONCE_IT_IS_PLACED)
class TestWordsThatAreNoLongerTrue:
    """What a job was told of one wait doesn't stay over the next one, nor over its run."""

    def placed(self, shown: str, *more: Thing) -> Snapshot:
        mine = job(51, nodes="c1-gx-[0-1]", starts="-5s", admin_comment=shown)
        return world(node("c1-gx-[0-1]", "alloc#"), mine, *more)

    def test_give_way_to_the_wait_for_capacity_at_once(self, shown: str) -> None:
        asked = self.placed(shown, request("j51-2", "c1-gx-[0-1]", created="-3s"))
        told = "flex: waiting for capacity since 12-01 11:59 UTC, request j51-2 accepted"
        assert decide(asked).one(JobComment).text == told

    def test_are_not_replaced_by_words_of_a_boot_before_there_is_a_vm(self, shown: str) -> None:
        played = passes(self.placed(shown))
        assert played.last.kind("request")
        assert not played.last.of(JobComment)

    def test_give_way_to_the_boot(self, shown: str) -> None:
        boots = self.placed(shown, instance("c1-gx-[0-1]", created="-2s"))
        assert decide(boots).one(JobComment).text == "flex: its VMs boot"

    @pytest.mark.parametrize("state", ["alloc", "drng"])
    def test_give_way_to_the_run(self, shown: str, state: str) -> None:
        mine = job(51, "R", nodes="c1-gx-0", starts="-1m", admin_comment=shown)
        vm = instance("c1-gx-0", created="-1h", ends="+6d")
        runs = world(
            node("c1-gx-0", state, reason="bad fan" if state == "drng" else None), mine, vm
        )
        told = "flex: running, its nodes end at 2026-12-07 12:00 UTC"
        assert decide(runs).one(JobComment).text == told

    def test_stay_while_its_nodes_go_down_under_it(self, shown: str) -> None:
        mine = job(51, "R", nodes="c1-gx-0", starts="-1m", admin_comment=shown)
        down = node("c1-gx-0", "down", reason="slurm-flex: expired", since="-5s")
        assert not decide(world(down, mine, instance("c1-gx-0", "STOPPING"))).of(JobComment)


@pytest.mark.parametrize(
    ("shown", "reason", "starts", "told"),
    [
        ("waiting for capacity since 10:00, request j51-1 accepted", "Resources", None, True),
        ("running, its nodes end at 2026-12-07 12:00 UTC", "BeginTime", "+2m", True),
        ("running, its nodes end at 2026-12-07 12:00 UTC", "Resources", None, True),
        ("its VMs boot", "BeginTime", "+2m", True),
        ("held after 3 restarts, last: c1-gx-7 slurm-flex: health: x", "Priority", None, True),
        ("held after 3 restarts, last: c1-gx-7 slurm-flex: health: x", "JobHeldAdmin", None, False),
        ("retry at 12-01 11:59 UTC: capacity: no room", "Priority", None, True),
        ("retry at 12-01 12:30 UTC: capacity: no room", "BeginTime", "+30m", False),
        ("host maintenance at 12-01 11:59 UTC, restarts on a new VM", "BeginTime", "+2m", False),
    ],
)
def test_a_job_that_was_sent_back_isnt_said_to_wait_for_its_vms_or_to_run(
    shown: str, reason: str, starts: str | None, told: bool
) -> None:
    back = job(51, reason=reason, starts=starts, admin_comment=f"flex: {shown}", restarts=1)
    texts = [one.text for one in passes(*repeat(world(back), 2))[0].of(JobComment)]
    assert texts == ["flex: tried again as soon as Slurm places it"] * told


def test_the_end_of_the_nodes_that_a_job_runs_on_now_is_told() -> None:
    """It was requeued by hand, and runs on others."""
    shown = "flex: running, its nodes end at 2026-12-02 12:00 UTC"
    mine = job(51, "R", nodes="c1-gx-0", starts="-1m", admin_comment=shown)
    runs = world(node("c1-gx-0", "alloc"), mine, instance("c1-gx-0", ends="+6d"))
    told = decide(runs).one(JobComment).text
    assert told == "flex: running, its nodes end at 2026-12-07 12:00 UTC"
    again = replace(mine, admin_comment=told)
    same = replace(runs, slurm=replace(runs.slurm, jobs=(again,)))
    assert not passes(*repeat(same, 3)).all.of(JobComment)


def test_a_node_whose_vm_boots_isnt_said_to_wait_for_capacity() -> None:
    boots = world(
        node("c1-gx-[0-1]", "alloc#", comment="flex: waiting for capacity since 12-01 10:00 UTC"),
        job(51, nodes="c1-gx-[0-1]", starts="-2h"),
        instance("c1-gx-[0-1]", created="-1m"),
    )
    assert decide(boots).one(NodeComment).text == "flex: its VM boots"
    up = world(
        node("c1-gx-[0-1]", "alloc", comment="flex: its VM boots"),
        instance("c1-gx-[0-1]", created="-2m", ends="+6d"),
    )
    assert decide(up).one(NodeComment).text == "flex: ends at 2026-12-07 12:00 UTC"


def test_all_components_of_a_heterogeneous_job_are_told() -> None:
    """Its user looks at the leader, whose own (static) node is up while the others queue."""
    from tests.builders import pool

    snapshot = world(
        pool("gx", static=1),
        node("c1-gx-0", "alloc"),
        instance("c1-gx-0"),
        node("c1-gx-[1-2]", "alloc#"),
        request("j60-1", "c1-gx-[1-2]", created="-2h", last=STOCKOUT),
        job(60, nodes="c1-gx-0", het_job_id=60, starts="-2h"),
        job(61, nodes="c1-gx-[1-2]", het_job_id=60, starts="-2h"),
    )
    told = {one.job for one in passes(*repeat(snapshot, 3)).all.of(JobComment)}
    assert told == {60, 61}


def test_a_story_doesnt_go_to_and_fro() -> None:
    """A static node that is off and waits out a back-off: one story, told once."""
    from tests.builders import pool

    failed = world(
        pool("gx", static=1, size=1),
        node("c1-gx-0", "idle#"),
        request("s0-1", "c1-gx-0", "FAILED", created="-1h", error=STOCKOUT),
    )
    played = passes(failed)
    comment = None
    told = 0
    memory = played.memory
    for step in range(1, 20):
        off = world(
            pool("gx", static=1, size=1),
            node("c1-gx-0", "idle~", comment=comment),
            now=f"+{step * 5}s",
        )
        played = passes(off, memory=memory)
        memory = played.memory
        for one in played.last.of(NodeComment):
            comment, told = one.text, told + 1
    assert told <= 2
