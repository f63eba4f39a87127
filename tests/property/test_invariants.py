"""What must never happen (DESIGN), for any world whatever."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from hypothesis import assume, given
from hypothesis import strategies as st

from slurm_flex import actions as act
from slurm_flex.actions import Action
from slurm_flex.model import Memory, Snapshot
from tests.builders import Acts, decide, later, passes
from tests.property.worlds import brief, of, worlds

T = TypeVar("T")
UP_AGAIN = {"node_power_up", "request", "create_instances", "node_resume", "node_undrain"}
AWAY = {"node_down", "node_power_down", "node_drain"}
SKEW = timedelta(seconds=90)


def several(snapshot: Snapshot, count: int = 3, every: str = "40s") -> list[Acts]:
    """The same world seen a few times, memory fed through."""
    seconds = int(every[:-1])
    return list(passes(*(later(snapshot, f"{n * seconds}s") for n in range(count))))


def by_node(acts: Acts) -> dict[str, list[Action]]:
    found: dict[str, list[Action]] = defaultdict(list)
    for action in acts.beside("reserve", "save_console", "report_host"):
        for name in getattr(action, "nodes", ()):
            found[name].append(action)
    return found


@given(worlds())
def test_a_pass_never_raises_and_never_contradicts_itself(snapshot: Snapshot) -> None:
    """Invariant 1, scenario 70."""
    for acts in several(snapshot, 5):
        for name, mine in by_node(acts).items():
            kinds = [one.KIND for one in mine]
            told = f"\n{Acts(mine)}\n{brief(snapshot)}"
            assert len(set(kinds)) == len(kinds), f"{name} twice:{told}"
            assert not (set(kinds) & UP_AGAIN and set(kinds) & AWAY), f"{name} both ways:{told}"
            assert not (
                set(kinds) & {"request", "create_instances"} and "delete_instances" in kinds
            ), f"{name} asked for while it is deleted:{told}"
        for kind in ("job_start", "job_requeue", "job_hold", "job_release", "job_comment"):
            jobs = [getattr(one, "job", 0) for one in acts.kind(kind)]
            assert len(set(jobs)) == len(jobs), f"{kind} twice:\n{acts}\n{brief(snapshot)}"
        assert all(one.after >= timedelta(0) for one in acts.of(act.JobStart)), f"\n{acts}"
        held = {one.job for one in acts.of(act.JobHold)}
        assert not held & {one.job for one in acts.of(act.JobRelease)}
        assert not held & {one.job for one in acts.of(act.JobStart)}
        names = [(one.pool, one.name) for one in acts.of(act.MakeRequest)]
        assert len(set(names)) == len(names)
        gone = acts.nodes("node_down")
        cut = {one.group for one in snapshot.slurm.jobs if one.holds_nodes and gone & {*one.nodes}}
        for one in acts.of(act.MakeRequest):
            assert one.job not in cut, f"asked for though cut:\n{acts}\n{brief(snapshot)}"


@given(worlds())
def test_actions_are_sorted_and_each_says_why(snapshot: Snapshot) -> None:
    for acts in several(snapshot):
        stages = [one.stage for one in acts]
        assert stages == sorted(stages)
        for action in acts:
            assert action.why
            assert action.why.isprintable()
            if not isinstance(action, act.Event):
                assert getattr(action, "nodes", ("some",)), f"for no node at all: {action}"


@given(worlds())
def test_nothing_is_asked_for_that_slurm_didnt_ask_for(snapshot: Snapshot) -> None:
    """Invariant 2: dynamic or static, the node powers up, or is handed to a job and still off."""
    listed = {one.name: one for one in snapshot.slurm.nodes}
    handed = {
        name
        for one in snapshot.slurm.jobs
        for name in one.nodes
        if any(other in listed and listed[other].is_powering_up for other in one.nodes)
    }
    for acts in several(snapshot):
        for name in acts.nodes("request") | acts.nodes("create_instances"):
            node, _, _ = of(snapshot, name)
            assert node is not None, f"{name} isn't in Slurm's list"
            waits = node.is_powering_up or node.is_about_to_power_up or name in handed
            assert waits, f"{name} is {node.state}"
            assert not node.is_powering_down


@given(worlds(paused=()))
def test_a_static_node_that_nobody_holds_is_brought_up(snapshot: Snapshot) -> None:
    """Invariant 2, its other half."""
    acts = Acts(one for each in several(snapshot, 4) for one in each)
    barred = {
        name
        for one in snapshot.slurm.reservations
        if not one.is_own
        for name in one.nodes
    }  # fmt: skip
    for name in ("c1-gx-0", "c1-gx-1"):
        place = snapshot.cluster.locate(name)
        node, vms, asked = of(snapshot, name)
        if node is None or place is None or not place.static or asked or name in barred:
            continue
        if any(not vm.is_labelled("c1") for vm in vms):
            continue  # somebody else's VM has the name
        plainly_off = node.flags == {"IDLE", "CLOUD", "POWERED_DOWN"}
        if plainly_off and snapshot.cloud["gx"].complete:
            told = f"{name} stays off:\n{acts}\n{brief(snapshot)}"
            assert name in acts.nodes("node_power_up"), told


@given(worlds())
def test_a_running_job_keeps_its_node_until_the_end_of_its_life(snapshot: Snapshot) -> None:
    """Invariant 3."""
    ending = {"delete_instances", "node_down", "node_power_down", "job_requeue"}
    for step, acts in enumerate(several(snapshot)):
        now = snapshot.now + timedelta(seconds=40 * step)
        for job in snapshot.slurm.jobs:
            if not job.is_running:
                continue
            for name in job.nodes:
                node, vms, _ = of(snapshot, name)
                if node is None or len(vms) != 1 or node.flags - {"ALLOCATED", "MIXED", "CLOUD"}:
                    continue
                vm, pool = vms[0], snapshot.cluster.pool_of(name)
                if not vm.is_running or vm.terminates is None or pool is None:
                    continue
                short = pool.is_flex_start and pool.run_duration < timedelta(seconds=600)
                # With expiry_requeue the site wants its jobs cut a minute before the end.
                margin = SKEW + timedelta(seconds=60)
                if short or now >= vm.terminates - margin or node.is_held:
                    continue
                if vm.created is not None and vm.created + pool.run_duration <= now + margin:
                    continue
                cut = acts.touching(name).of_kinds(*ending)
                others = [
                    other
                    for one in snapshot.slurm.jobs
                    for other in one.nodes
                    if name in one.nodes and other != name
                ]
                if others:
                    continue  # another node of a job of its may drag it along
                assert not cut, f"{name}:\n{cut}\n{brief(snapshot)}"


@given(worlds(paused=(), fill=True))
def test_a_vm_that_nobody_wants_is_deleted(snapshot: Snapshot) -> None:
    """Invariant 4: off, dynamic, ours, old enough, and no job keeps the place."""
    quiet = replace(snapshot, slurm=replace(snapshot.slurm, jobs=()))
    acts = Acts(one for each in several(quiet, 8) for one in each)
    for name in ("c1-gx-2", "c1-gx-3"):
        node, vms, _ = of(quiet, name)
        if node is None or node.flags != {"IDLE", "CLOUD", "POWERED_DOWN"} or len(vms) != 1:
            continue
        vm = vms[0]
        ours = vm.is_labelled("c1") and vm.is_real and not vm.is_dying
        old = vm.created is None or vm.created <= quiet.now
        if ours and old and quiet.cloud["gx"].complete and quiet.cloud["gx"].exists:
            assert name in acts.nodes("delete_instances"), (
                f"{name} is billed:\n{acts}\n{brief(snapshot)}"
            )


@given(worlds())
def test_no_node_gets_a_second_request_or_instance(snapshot: Snapshot) -> None:
    """Invariant 5."""
    sent: set[str] = set()
    for acts in several(snapshot):
        fresh = acts.nodes("request") | acts.nodes("create_instances")
        for name in fresh:
            _, vms, asked = of(snapshot, name)
            cancelled = {one.name for one in acts.of(act.CancelRequest)}
            assert not asked, f"{name} is in {[one.name for one in asked]} ({cancelled})"
            assert not [vm for vm in vms if vm.is_real], f"{name} has a VM"
        again = fresh & sent
        assert not again, f"asked for twice in {40 * 3} s: {again}"
        sent |= fresh
        both = acts.nodes("request") & acts.nodes("create_instances")
        assert not both
        twice = [name for one in acts.of(act.MakeRequest) for name in one.nodes]
        assert len(twice) == len(set(twice))


@given(worlds())
def test_a_job_is_told_everything_once_a_pass(snapshot: Snapshot) -> None:
    for acts in several(snapshot):
        told = [
            (one.KIND, one.job)
            for one in acts
            if isinstance(one, act.JobAction) and one.KIND != "job_notify"
        ]
        assert len(told) == len(set(told)), f"{acts}\n{brief(snapshot)}"


@given(worlds())
def test_a_jobs_comment_tells_the_time_that_slurm_is_told(snapshot: Snapshot) -> None:
    for step, acts in enumerate(several(snapshot)):
        now = snapshot.now + timedelta(seconds=40 * step)
        starts = {one.job: now + one.after for one in acts.of(act.JobStart)}
        for one in acts.of(act.JobComment):
            if "retry at" in one.text and one.job in starts:
                assert f"{starts[one.job]:%m-%d %H:%M} UTC" in one.text, f"{acts}"


@given(worlds())
def test_nothing_foreign_is_changed(snapshot: Snapshot) -> None:
    """Invariant 6."""
    foreign_requests = {
        (pool, one.name)
        for pool, group in snapshot.cloud.items()
        for one in group.requests
        if not one.is_own
    }
    foreign_vms = {
        (pool, vm.name)
        for pool, group in snapshot.cloud.items()
        for vm in group.instances
        if vm.labels is not None and not vm.is_labelled("c1")
    }
    comments = {one.id: one.admin_comment or "" for one in snapshot.slurm.jobs}
    marks = {one.name: one.comment or "" for one in snapshot.slurm.nodes}
    # Slurm adds its words to a reason that is there; without DRAIN they may be all that is new.
    held = {
        one.name: one.reason
        for one in snapshot.slurm.nodes
        if (one.is_drained or (one.is_down and one.reason == "bad fan"))
        and (one.reason or "").startswith("bad fan")
    }
    for acts in several(snapshot, 6):
        for one in acts.of(act.CancelRequest) + acts.of(act.DeleteRequest):
            assert (one.pool, one.name) not in foreign_requests
        for gone in acts.of(act.DeleteInstances):
            assert not {(gone.pool, name) for name in gone.nodes} & foreign_vms
        for names in acts.of(act.Reserve) + acts.of(act.Unreserve):
            assert names.name.startswith("slurm-flex-")
        for text in acts.of(act.JobComment):
            assert not comments[text.job] or comments[text.job].startswith("flex: ")
            assert text.text == "" or text.text.startswith("flex: ")
        for mark in acts.of(act.NodeComment):
            for name in mark.nodes:
                assert not marks.get(name) or marks[name].startswith("flex: ")
        for name, reason in held.items():
            touched = acts.touching(name).of_kinds(
                "node_power_down", "node_undrain", "node_resume", "node_drain", "node_down"
            )
            kept = [one for one in touched if getattr(one, "reason", None) != reason]
            assert not kept, f"{name} is held by somebody:\n{Acts(kept)}"
            assert not [one for one in touched if isinstance(one, act.NodePowerDown)]


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_the_input_doesnt_matter(snapshot: Snapshot, dice: random.Random) -> None:
    """Invariant 8."""

    def mixed(items: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(dice.sample(items, len(items)))

    slurm = snapshot.slurm
    other = replace(
        snapshot,
        slurm=replace(
            slurm,
            nodes=mixed(slurm.nodes),
            jobs=mixed(slurm.jobs),
            reservations=mixed(slurm.reservations),
            partitions=mixed(slurm.partitions),
        ),
        cloud={
            name: replace(
                snapshot.cloud[name],
                instances=mixed(snapshot.cloud[name].instances),
                requests=mixed(snapshot.cloud[name].requests),
            )
            for name in mixed(tuple(snapshot.cloud))
        },
    )
    one = passes(*(later(snapshot, f"{n * 40}s") for n in range(3)))
    two = passes(*(later(other, f"{n * 40}s") for n in range(3)))
    for first, second in zip(one, two, strict=True):
        assert list(first) == list(second)
    assert one.memory == two.memory


@given(worlds())
def test_a_pass_is_pure(snapshot: Snapshot) -> None:
    """Same in, same out, and the input stays as it was."""
    before = copy.deepcopy(snapshot)
    first = passes(snapshot)
    kept = copy.deepcopy(first.memory)
    second = passes(snapshot)
    assert list(first.last) == list(second.last)
    assert first.memory == second.memory
    passes(later(snapshot, "30s"), memory=first.memory)
    assert first.memory == kept
    assert snapshot == before


@given(worlds())
def test_a_second_look_at_the_same_moment_asks_and_signals_for_nothing_new(
    snapshot: Snapshot,
) -> None:
    """Idempotence where it applies: what can't be taken back is sent once."""
    first = passes(snapshot)
    again = passes(snapshot, memory=first.memory).last
    once = ("request", "create_instances", "job_signal")
    repeated = [one for one in again.of_kinds(*once) if one in first.last]
    assert not repeated, f"\n{Acts(repeated)}\n{brief(snapshot)}"


@given(worlds())
def test_half_a_picture_decides_nothing_for_its_pool(snapshot: Snapshot) -> None:
    blind = replace(
        snapshot,
        cloud={**snapshot.cloud, "gx": replace(snapshot.cloud["gx"], complete=False)},
    )
    for acts in several(blind):
        for action in acts.changes:
            assert getattr(action, "pool", "") != "gx", f"{action}"
            names = getattr(action, "nodes", ())
            mine = [name for name in names if name.startswith("c1-gx")]
            assert not mine, f"{action}"


@given(worlds(responding=False))
def test_without_slurmctld_nothing_is_decided(snapshot: Snapshot) -> None:
    assert not decide(snapshot)


@given(worlds())
def test_memory_of_another_life_never_makes_a_pass_raise(snapshot: Snapshot) -> None:
    """Whatever was remembered of one world may meet any other."""
    assume(snapshot.slurm.nodes)
    first = passes(*(later(snapshot, f"{n * 40}s") for n in range(2)))
    empty = replace(
        snapshot,
        slurm=replace(snapshot.slurm, nodes=(), jobs=(), reservations=()),
        cloud={
            name: replace(one, instances=(), requests=()) for name, one in snapshot.cloud.items()
        },
    )
    assert isinstance(passes(later(empty, "90s"), memory=first.memory).memory, Memory)
    assert isinstance(passes(later(snapshot, "-7d"[1:]), memory=first.memory).memory, Memory)
