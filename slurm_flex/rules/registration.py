"""A VM came, and its node did not register: too late, or the VM died or ended before it could.

A launch is good only when its nodes have registered: a job that ran nowhere is no success.
"""

from __future__ import annotations

from collections.abc import Iterator

from slurm_flex.actions import Action, DeleteInstances, Event, NodePowerDown, SaveConsole
from slurm_flex.cluster.model import Pool
from slurm_flex.failures import Failure
from slurm_flex.member import RISING, Member, Phase
from slurm_flex.rules import maintenance
from slurm_flex.rules.failure import capacity_back_off
from slurm_flex.rules.release import delay_job, release_job, release_nodes, say_goodbye
from slurm_flex.world import World

WHY = "boot failed"
PREEMPTED = "the Spot VM was taken back before its node registered"


def plan(world: World) -> Iterator[Action]:
    for pool in world.pools:
        failed = [
            member
            for member in world.undecided()
            if member.pool.id == pool.id and _has_failed_to_boot(world, member)
        ]
        preempted = [member for member in failed if _was_taken_back(member)]
        yield from _give_up_preempted(world, preempted)
        failed = [member for member in failed if member not in preempted]
        if failed:
            yield from _give_up(world, pool, failed)
        _count_good_launches(world, pool)


def _has_failed_to_boot(world: World, member: Member) -> bool:
    if any(job.is_running for job in member.jobs):
        return False  # a restarted slurmctld shows mix~ for a node whose job runs on
    is_rising = member.node is not None and member.node.is_powering_up
    if member.phase is Phase.BOOTING:
        return is_rising and _is_overdue(world, member)
    if member.phase in (Phase.ASKED, Phase.QUEUED):
        return _has_died_young(world, member)
    return _gave_up_resuming(world, member)


def _is_overdue(world: World, member: Member) -> bool:
    created = member.instance.created if member.instance else None
    if created is None:
        created = world.recall.see(f"booting/{member.pool.id}/{member.name}").first
    return world.now - created > world.settings.boot_timeout


def _has_died_young(world: World, member: Member) -> bool:
    """The VM made for this power-up is dead or gone; a dead namesake from before is not it."""
    instance = member.instance
    if instance is not None:
        is_over = instance.is_dead or _ended_itself(world, member)
        return is_over and _was_made_for_this(world, member)
    known = world.recall.instances.get(member.name)
    booted_here = (
        known is not None
        and member.request is None
        and member.node is not None
        and not member.node.is_powered_down
        and world.recall.last.sightings.get(f"power-up/{member.pool.id}/{member.name}") is not None
        and f"died/{member.name}/{known.id}" not in world.recall.told
        and f"deleted/{member.name}/{known.id}" not in world.recall.told
    )
    if not booted_here:
        return False
    seen = world.recall.see(f"vanished-booting/{member.pool.id}/{member.name}")
    if seen.passes < 2:
        world.settle([member])  # a list may lag: look again before anything is asked for anew
        return False
    return True


def _was_made_for_this(world: World, member: Member) -> bool:
    """Made since its node was given to the job (or since we saw it power up); else a namesake.

    Where neither time is known: the request tells whose it was, and at last its age.
    """
    created = member.instance.created if member.instance else None
    if created is None:
        return False
    starts = [job.start_time for job in member.jobs if job.start_time is not None]
    seen = world.recall.last.sightings.get(f"power-up/{member.pool.id}/{member.name}")
    since = min(starts, default=seen.first if seen else None)
    if since is not None:
        return created >= since - world.settings.clock_skew
    request = world.request_behind(member)
    if request is not None and request.job_id is not None:
        return any(job.group == request.job_id for job in member.jobs)
    return world.now - created <= world.settings.boot_timeout


def _ended_itself(world: World, member: Member) -> bool:
    """Stopping by itself, not by a deletion of ours that an earlier power-down asked for."""
    if member.instance is None or member.instance.action == "DELETING":
        ends = member.instance.terminates if member.instance else None
        return ends is not None and world.now >= ends - world.settings.clock_skew
    return member.instance.is_dying


def _gave_up_resuming(world: World, member: Member) -> bool:
    """ResumeTimeout came, and the VM is there and had its time to boot (scenario 18)."""
    node = member.node
    return (
        node is not None
        and node.is_down
        and node.is_powered_down
        and node.timed_out_resuming
        and not node.is_held
        and not node.is_powering_down
        and member.has_live_instance
        and _is_overdue(world, member)
    )


def _was_taken_back(member: Member) -> bool:
    """A Spot VM that ends by itself before its node registers: Compute Engine wants it back."""
    return member.pool.is_spot and member.phase in (Phase.ASKED, Phase.QUEUED)


def _give_up_preempted(world: World, members: list[Member]) -> Iterator[Action]:
    """Lost like any that was up: no failure of the pool, and its jobs wait as for capacity."""
    if not members:
        return
    for member in members:
        world.recall.once(f"died/{member.name}/{_incarnation(world, member)}")
    names = tuple(member.name for member in members)
    yield Event(event="VM_LOST", nodes=names, text=PREEMPTED, why="lost")
    for group in sorted({job.group for member in members for job in member.jobs}):
        back_off = capacity_back_off(world, f"j{group}", PREEMPTED)
        yield from release_job(world, group, PREEMPTED)
        yield from delay_job(world, group, back_off.until - world.now, PREEMPTED)
    yield from release_nodes(world, members, PREEMPTED)
    world.settle(members)


def _give_up(world: World, pool: Pool, failed: list[Member]) -> Iterator[Action]:
    settings, recall = world.settings, world.recall
    ours = [m for m in failed if m.node is None or not m.node.is_held]
    present = tuple(m.name for m in failed if m.instance is not None)
    deletable = tuple(
        m.name for m in ours if m.instance is not None and m.instance.action != "DELETING"
    )
    for member in failed:
        if not _is_its_hosts_fault(world, member):
            recall.count_launch(pool.id, _launch_of(world, member), Failure.BOOT.value)
        recall.once(f"died/{member.name}/{_incarnation(world, member)}")
    if present:
        yield SaveConsole(pool=pool.id, nodes=present, why="its node did not register")
    if deletable:
        yield DeleteInstances(pool=pool.id, nodes=deletable, why="its node did not register")
    yield Event(
        event="BOOT_FAILED",
        nodes=tuple(member.name for member in failed),
        text="the VM came, its slurmd did not register",
        why=WHY,
    )
    for group in sorted({job.group for member in failed for job in member.jobs}):
        jobs = world.components(group)
        back_off = recall.back_off(
            f"j{group}/{Failure.BOOT}", settings.boot_backoff, settings.boot_backoff_max, WHY
        )
        if len(jobs) > 1:
            yield from release_job(world, group, WHY)
        else:
            yield from say_goodbye(world, jobs, WHY)
        yield from delay_job(world, group, back_off.until - world.now, WHY)
    yield from release_nodes(world, [m for m in failed if not _is_down(m)], WHY)
    given_up = tuple(m.name for m in failed if _is_down(m))
    if given_up:
        reason = f"slurm-flex: {WHY}"
        yield NodePowerDown(nodes=given_up, how="force", reason=reason, why="back to idle")
    world.settle(failed)


def _is_its_hosts_fault(world: World, member: Member) -> bool:
    """That says nothing about the pool's image."""
    in_repair = member.instance is not None and member.instance.is_in_repair
    return in_repair or maintenance.has_begun(world, member)


def _is_down(member: Member) -> bool:
    return member.node is not None and member.node.is_powered_down and member.node.is_down


def _count_good_launches(world: World, pool: Pool) -> None:
    """A launch is good when all its nodes have registered; what came up long ago says nothing."""
    for member in world.members_of(pool):
        if member.phase is not Phase.UP or member.instance is None:
            continue
        created = member.instance.created
        recently = created is not None and (world.now - created <= 2 * world.settings.boot_timeout)
        was_booting = f"power-up/{pool.id}/{member.name}" in world.recall.last.sightings
        if not (recently and was_booting and _all_registered(world, member)):
            continue
        if world.recall.count_launch(pool.id, _launch_of(world, member), "good"):
            _end_rows_of_failures(world, member)


def _end_rows_of_failures(world: World, member: Member) -> None:
    """The next failure is a first one again; a wait that runs is no row that this launch ends.

    A job that waits for more than this pool gives has no end of its row before it runs.
    """
    request = world.request_behind(member)
    made = member.instance.created if member.instance else None
    asked = (request.created if request is not None else None) or made or world.now
    keys = [f"{member.pool.id}/{failure}" for failure in Failure]
    for job in member.jobs:
        classes = list(Failure) if job.is_running else [Failure.BOOT]
        keys += [f"j{job.group}/{failure}" for failure in classes]
    for key in keys:
        known = world.recall.back_offs.get(key)
        if known is not None and known.until <= asked:
            del world.recall.back_offs[key]


def _all_registered(world: World, member: Member) -> bool:
    """No node of the same request is still on its way."""
    request = world.request_behind(member)
    if request is None:
        return not any(other.phase in RISING for other in world.members_held_by(member.jobs))
    others = (world.members.get(name) for name in request.nodes)
    return not any(other is not None and other.phase in RISING for other in others)


def _launch_of(world: World, member: Member) -> str:
    """One request is one launch, however many nodes it is for; so is what a job gets by name."""
    if not member.pool.is_flex_start and member.jobs:
        first = min(member.jobs, key=lambda job: job.id)
        return f"{member.pool.id}/j{first.group}r{first.restarts}"
    known = world.recall.instances.get(member.name)
    if member.instance is not None:
        request = world.request_behind(member)
        name = request.name if request is not None else None
    else:
        name = known.request if known is not None else None
    return f"{member.pool.id}/{name}" if name else f"{member.name}/{_incarnation(world, member)}"


def _incarnation(world: World, member: Member) -> str | None:
    known = world.recall.instances.get(member.name)
    return member.instance.id if member.instance else (known.id if known else None)
