"""Actions on Slurm: one command for all jobs or reservations of which the same is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from itertools import groupby
from typing import Final

from slurm_flex.actions import (
    Action,
    JobAction,
    JobComment,
    JobHold,
    JobNotify,
    JobRelease,
    JobRequeue,
    JobSignal,
    JobStart,
    NodeAction,
    NodeComment,
    NodeDown,
    NodeDrain,
    NodeIdle,
    NodePowerDown,
    NodePowerUp,
    NodeResume,
    NodeUndrain,
    Reserve,
    SuspendExclude,
    Unreserve,
)
from slurm_flex.results import Result
from slurm_flex.slurm.controller import Failures, SlurmController
from slurm_flex.text import one_line

NOT_DONE: Final = "not done: slurm-flex was told to end"


def apply_slurm(
    actions: Sequence[Action],
    controller: SlurmController,
    clock: Callable[[], datetime],
    told_to_end: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """Tell slurmctld, in order. Results come in the order of the actions."""
    results: list[Result] = []
    for _, alike in groupby(actions, key=_what_is_said):
        group = list(alike)
        if told_to_end():
            results += [Result(action, NOT_DONE) for action in group]
            continue
        first = group[0]
        if isinstance(first, JobAction):
            jobs = [one.job for one in group if isinstance(one, JobAction)]
            failed = _tell_jobs(first, jobs, controller)
        elif isinstance(first, Unreserve):
            failed = controller.unreserve(one.name for one in group if isinstance(one, Unreserve))
        elif isinstance(first, NodeAction):
            failed = _tell_nodes(first, controller, clock)
        else:
            raise TypeError(f"{first.KIND} is no action on Slurm")
        results += _shared_out(group, failed)
    return results


def _what_is_said(action: Action) -> tuple[object, ...]:
    """Equal for neighbours that go into one command: all but whom it is about and why."""
    if isinstance(action, NodeAction):
        return (id(action),)  # plan has put nodes together already
    whom = ("why", "job", "name", "last_words")
    return (action.KIND, *(getattr(action, f.name) for f in fields(action) if f.name not in whom))


def _tell_jobs(first: JobAction, jobs: Sequence[int], controller: SlurmController) -> Failures:
    match first:
        case JobComment(text=text):
            return controller.job_comment(jobs, text)
        case JobStart(after=after):
            return controller.job_start(jobs, after)
        case JobRequeue():
            return controller.job_requeue(jobs)
        case JobHold():
            return controller.job_hold(jobs)
        case JobRelease():
            return controller.job_release(jobs)
        case JobSignal(signal=signal):
            return controller.job_signal(jobs, signal)
        case JobNotify(text=text):
            return controller.job_notify(jobs, text)
        case _:
            raise TypeError(f"{first.KIND} is no action on jobs")


def _tell_nodes(
    action: NodeAction, controller: SlurmController, clock: Callable[[], datetime]
) -> Failures:
    nodes = action.nodes
    match action:
        case NodeDown(reason=reason):
            return controller.node_down(nodes, reason)
        case NodeDrain(reason=reason):
            return controller.node_drain(nodes, reason)
        case NodeUndrain():
            return controller.node_undrain(nodes)
        case NodeResume():
            return controller.node_resume(nodes)
        case NodeIdle():
            return controller.node_idle(nodes)
        case NodePowerUp():
            return controller.node_power_up(nodes)
        case NodePowerDown(how=how, reason=reason):
            return controller.node_power_down(nodes, how, reason)
        case NodeComment(text=text):
            return controller.node_comment(nodes, text)
        case SuspendExclude():
            return controller.suspend_exclude(nodes)
        case Reserve(name=name, start=start, end=end):
            return controller.reserve(name, nodes, start, end, clock())
        case _:
            raise TypeError(f"{action.KIND} is no action on nodes")


def _shared_out(group: Sequence[Action], failed: Failures) -> Iterator[Result]:
    """To each action its own failures; what names none of them failed for all."""
    own = {_target(action) for action in group}
    for action in group:
        target = _target(action)
        mine = [one for one in failed if one.target == target or one.target not in own]
        if not mine:
            yield Result(action)
            continue
        more = f" (and {len(mine) - 1} more)" if len(mine) > 1 else ""
        whose = "" if mine[0].target == target else f"{mine[0].target}: "
        yield Result(action, one_line(f"{whose}{mine[0].error}{more}", 300))


def _target(action: Action) -> str:
    if isinstance(action, JobAction):
        return str(action.job)
    return str(getattr(action, "name", ""))
