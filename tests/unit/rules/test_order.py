"""One decision a node, in one order, whatever the input's order (DESIGN: the rules)."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

from slurm_flex.actions import JobStart, MakeRequest
from slurm_flex.model import Memory, Snapshot
from slurm_flex.plan import plan
from tests.builders import (
    STOCKOUT,
    Acts,
    decide,
    instance,
    job,
    later,
    node,
    passes,
    pool,
    repeat,
    request,
    reservation,
    world,
)


def a_busy_world() -> Snapshot:
    """Something of everything."""
    return world(
        pool("gx", size=12, static=1),
        node("c1-gx-0", "idle~"),
        node("c1-gx-[1-2]", "alloc#"),
        job(51, nodes="c1-gx-[1-2]", starts="-1h", batch=False),
        request("j51-1", "c1-gx-[1-2]", "FAILED", created="-1h", error=STOCKOUT),
        node("c1-gx-3", "alloc#"),
        job(52, nodes="c1-gx-3", starts="-1m"),
        node("c1-gx-4", "alloc"),
        job(53, "R", nodes="c1-gx-4", starts="-1h", ends="+5h"),
        reservation("slurm-flex-j53-1", "c1-gx-4", start="-6m", end="+1h"),
        node("c1-gx-5", "idle%"),
        instance("c1-gx-5"),
        node("c1-gx-6", "idle"),
        instance("c1-gx-6", ends="+3m"),
        node("c1-gx-7", "drain", reason="slurm-flex: health: x", since="-1m"),
        instance("c1-gx-7"),
        node("c1-gx-[8-9]", "idle#"),
        request("j40-1", "c1-gx-[8-9]", created="-2h"),
        node("c1-gx-10", "down~", reason="slurm-flex: lost", since="-2h"),
        instance("c1-gx-11", created="-2h"),
        instance("c1-gx-77", created="-2h", pool="gx"),
    )


ORDER = """
    cancel_request job_signal job_notify save_console node_down node_drain node_power_down
    unreserve delete_instances delete_request node_undrain node_resume job_start node_power_up
    request create_instances reserve node_comment job_comment event
""".split()


def test_actions_come_in_the_order_of_the_design() -> None:
    acts = passes(*repeat(a_busy_world(), 3)).last
    stages = [one.stage for one in acts]
    assert stages == sorted(stages)
    assert len(acts.kinds()) >= 7
    plain = [one.KIND for one in acts if not getattr(one, "last_words", False)]
    firsts = [plain.index(kind) for kind in ORDER if kind in plain]
    pairs = [("node_down", "node_power_down"), ("node_power_down", "unreserve"),
             ("unreserve", "delete_instances"), ("delete_instances", "request")]  # fmt: skip
    assert firsts
    for before, after in pairs:
        if before in plain and after in plain:
            last = len(plain) - 1 - plain[::-1].index(before)
            assert last < plain.index(after), (before, after)


def test_no_node_gets_two_contradicting_actions() -> None:
    for acts in passes(*repeat(a_busy_world(), 4)):
        for index in range(12):
            mine = acts.touching(f"c1-gx-{index}").beside("reserve")
            kinds = Counter(one.KIND for one in mine)
            assert all(count == 1 for count in kinds.values()), f"\n{mine}"
            off = {"node_power_down", "node_down"} & set(kinds)
            on = {"node_power_up", "request", "node_resume", "node_undrain"} & set(kinds)
            assert not (off and on), f"\n{mine}"


def test_the_order_of_the_input_doesnt_matter() -> None:
    one = a_busy_world()
    other = backwards(one)
    memory, backward = Memory(), Memory()
    for step in range(3):
        first = passes(later(one, f"{step * 30}s"), memory=memory)
        second = passes(later(other, f"{step * 30}s"), memory=backward)
        assert list(first.last) == list(second.last)
        memory, backward = first.memory, second.memory


def backwards(snapshot: Snapshot) -> Snapshot:
    slurm = snapshot.slurm
    return replace(
        snapshot,
        slurm=replace(
            slurm,
            nodes=slurm.nodes[::-1],
            jobs=slurm.jobs[::-1],
            partitions=slurm.partitions[::-1],
            reservations=slurm.reservations[::-1],
        ),
        cloud={
            name: replace(group, instances=group.instances[::-1], requests=group.requests[::-1])
            for name, group in reversed(list(snapshot.cloud.items()))
        },
    )


def test_a_node_that_is_released_isnt_asked_for_in_the_same_pass() -> None:
    """A job over two pools shares a node with a job whose insert isn't listed yet."""
    first = world(
        pool("gx", size=2),
        pool("gy", size=2),
        node("c1-gx-0", "alloc#"),
        node("c1-gy-0", "mix#"),
        job(115, nodes="c1-gx-0,c1-gy-0", partition="all", starts="-1m", exclusive=False),
        job(118, nodes="c1-gy-0", partition="all", starts="-1m", exclusive=False),
        partitions={"all": "gx,gy"},
    )
    sent = passes(first)
    names = {one.pool: one.name for one in sent.all.of(MakeRequest)}
    failed = world(
        pool("gx", size=2),
        pool("gy", size=2),
        node("c1-gx-0", "alloc#"),
        node("c1-gy-0", "mix#"),
        job(115, nodes="c1-gx-0,c1-gy-0", partition="all", starts="-1m", exclusive=False),
        job(118, nodes="c1-gy-0", partition="all", starts="-1m", exclusive=False),
        request(names["gx"], "c1-gx-0", "FAILED", created="now", error=STOCKOUT),
        partitions={"all": "gx,gy"},
        now="+150s",
    )
    acts = passes(failed, memory=sent.memory).last
    gone = acts.nodes("node_power_down") | acts.nodes("node_down")
    assert "c1-gx-0" in gone
    assert not gone & acts.nodes("request")


@pytest.mark.parametrize("why", ["slurmctld is away", "another controller is primary"])
def test_without_an_answer_from_a_primary_slurmctld_nothing_is_decided(why: str) -> None:
    """Scenarios 63 and 64."""
    away = why == "slurmctld is away"
    blind = replace(
        a_busy_world(),
        slurm=replace(a_busy_world().slurm, responding=not away, primary=away),
    )
    assert not decide(blind)
    assert not decide(world(instance("c1-gx-0"), responding=False, fill=False))


def test_a_flag_that_nobody_knows_is_ignored_and_said_once() -> None:
    """Scenario 65."""
    snapshot = world(node("c1-gx-0", "IDLE+CLOUD+POWERED_DOWN+SPARKLING"))
    played = passes(*repeat(snapshot, 5))
    assert not played.all.changes
    told = [one for one in played.all.kind("event") if "SPARKLING" in getattr(one, "text", "")]
    assert len(told) == 1


def test_five_thousand_quiet_nodes_cost_little_and_say_nothing() -> None:
    """Scenario 66."""
    snapshot = world(
        pool("gx", size=5000),
        *(node(f"c1-gx-{n}", "idle~") for n in range(2500)),
        *(node(f"c1-gx-{n}", "idle") for n in range(2500, 5000)),
        instance("c1-gx-[2500-4999]", created="-1h"),
        request("j51-1", "c1-gx-[2500-4999]", "SUCCEEDED", created="-1h"),
        reservation("slurm-flex-j51-1", "c1-gx-[2500-4999]", start="+6d22h55m", end="+7d",
                    flags=("MAINT", "IGNORE_JOBS", "SPEC_NODES")),
    )  # fmt: skip
    played = passes(snapshot)
    assert not played.all.changes
    began = time.perf_counter()
    again = passes(later(snapshot, "30s"), memory=played.memory)
    spent = time.perf_counter() - began
    assert not again.all
    assert spent < 3, f"{spent:.1f} s for one pass"


def test_the_same_pass_twice_decides_the_same() -> None:
    snapshot = a_busy_world()
    assert list(decide(snapshot)) == list(decide(snapshot))


def test_settled_things_stay_settled() -> None:
    """A world as it should be: nothing is done, however often it is looked at."""
    snapshot = world(
        pool("gx", size=4, static=1),
        node("c1-gx-0", "idle", comment="flex: ends at 2026-12-08 11:00 UTC"),
        instance("c1-gx-0"),
        request("s0-1", "c1-gx-0", "SUCCEEDED", created="-61m"),
        reservation("slurm-flex-s0-1", "c1-gx-0", start="+6d22h55m", end="+7d",
                    flags=("MAINT", "IGNORE_JOBS", "SPEC_NODES")),
    )  # fmt: skip
    played = passes(*(later(snapshot, f"{n * 600}s") for n in range(60)))
    assert not Acts(played.all).changes


def test_a_drained_node_that_hangs_is_not_undrained_while_it_is_forced_down() -> None:
    """POWER_DOWN+POWERING_UP hangs; our old drain goes with the force."""
    snapshot = world(
        node(
            "c1-gx-0",
            "IDLE+CLOUD+DRAIN+POWERING_UP+POWER_DOWN",
            reason="slurm-flex: expired",
            since="-10m",
        )
    )
    for acts in passes(*repeat(snapshot, 3)):
        kinds = {one.KIND for one in acts.touching("c1-gx-0")}
        assert not {"node_power_down", "node_undrain"} <= kinds, f"\n{acts}"


def test_a_job_has_one_last_word_though_two_things_cut_it() -> None:
    """One node expires in the very pass in which the other pool's request turns out cancelled."""
    things = (
        pool("gx", size=1),
        pool("gy", size=1),
        node("c1-gx-0", "alloc"),
        node("c1-gy-0", "alloc#"),
        job(51, nodes="c1-gx-0,c1-gy-0", partition="all", starts="-20m", batch=False),
    )
    before = world(
        *things,
        instance("c1-gx-0", created="-7d", ends="now"),
        request("j51-1", "c1-gy-0", created="-20m"),
        partitions={"all": "gx,gy"},
        now="-30s",
    )
    cut = world(
        *things,
        request("j51-1", "c1-gy-0", "CANCELLED", created="-20m"),
        partitions={"all": "gx,gy"},
        now="+10s",
    )
    acts = passes(before, cut).last
    assert len(acts.kind("job_comment")) <= 1, f"\n{acts}"


def test_a_job_that_two_rules_send_back_starts_when_the_later_lets_it() -> None:
    """One of its nodes didn't boot, the request for the other failed."""
    snapshot = world(
        node("c1-gx-[0-1]", "alloc#"),
        instance("c1-gx-0", created="-40m"),
        request("j51-1", "c1-gx-0", "SUCCEEDED", created="-45m"),
        request("j51-2", "c1-gx-1", "FAILED", created="-10m", error=STOCKOUT),
        job(51, nodes="c1-gx-[0-1]", starts="-45m"),
    )
    acts, memory = plan(snapshot, Memory())
    starts = [one for one in acts if isinstance(one, JobStart)]
    assert len(starts) == 1
    assert memory.delays["51"].until == snapshot.now + starts[0].after


def test_a_job_that_this_pass_cuts_isnt_asked_for_in_it() -> None:
    """One of its nodes goes down, so it is requeued: its other nodes are nobody's by then."""
    snapshot = world(
        node("c1-gx-0", "alloc#"),
        node("c1-gx-3", "alloc#"),
        node("c1-gx-5", "alloc~"),
        instance("c1-gx-3", created="-20m"),
        job(110, nodes="c1-gx-0,c1-gx-3,c1-gx-5", starts="-10s"),
    )
    acts = decide(snapshot)
    if "c1-gx-3" in acts.nodes("node_down") | acts.nodes("node_power_down"):
        assert not acts.of(MakeRequest), f"\n{acts}"
