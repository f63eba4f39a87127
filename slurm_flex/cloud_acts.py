"""Actions on Compute Engine: sent side by side, never waited for, safe to send again.

What makes a call unrepeatable (its nonce) is on the disk before the call: after a crash or a lost
answer the same call is sent with the same requestId, and Google does it once.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from slurm_flex.actions import (
    Action,
    CancelRequest,
    CreateGroup,
    CreateInstances,
    DeleteInstances,
    DeleteRequest,
    MakeRequest,
    PoolAction,
    ReportHost,
    SaveConsole,
)
from slurm_flex.cluster import Pool
from slurm_flex.compute.errors import BadConfiguration, ComputeError, RateLimited, Unreachable
from slurm_flex.compute.fleet import Fleet, Operation, Outcome, Verdict
from slurm_flex.compute.gather import gather
from slurm_flex.consoles import save_console
from slurm_flex.errors import FlexError
from slurm_flex.memory import MemoryFileError, Pending, Store
from slurm_flex.model import CloudError, Group, Snapshot
from slurm_flex.model.memory import Answer
from slurm_flex.results import Result
from slurm_flex.text import one_line

T = TypeVar("T")

LAUNCHES: Final = (MakeRequest, CreateInstances, CreateGroup)
"""Actions whose failure the next plan judges: it gives the nodes back, and backs off."""
_REMOVALS: Final = (DeleteInstances, CancelRequest, DeleteRequest)
"""Actions that a list may still ask for when they are done: as the same call, which does nothing.
One that failed is sent again as a new call: the same would only be told of the failure again."""
_MAY_HAVE_WORKED: Final = frozenset(
    ("unreachable", "timeout", "unreadable", "backendError", "internalError", "rateLimitExceeded")
)
"""Codes of calls that may be sent again as they are: nothing is known, or nothing was done."""

Call = Callable[[], tuple[Operation, ...]]


def apply_cloud(
    actions: Sequence[Action], snapshot: Snapshot, fleet: Fleet, store: Store
) -> list[Result]:
    """Send these actions, all of one stage. Results come in the order of the actions."""
    now = snapshot.now
    wanted = {at: key for at, action in enumerate(actions) if (key := _nonce_key(action, snapshot))}
    try:
        nonces: Mapping[str, str] = store.nonces(wanted.values(), now) if wanted else {}
        unsaved = ""
    except MemoryFileError as error:
        nonces, unsaved = {}, f"not sent, since it could not be written down: {error}"
    under_way = _groups_under_way(store)
    sender = _Sender(snapshot, fleet, store.path.parent)
    results: dict[int, Result] = {}
    calls: dict[int, Call] = {}
    for at, action in enumerate(actions):
        pool = snapshot.cluster.pool(action.pool) if isinstance(action, PoolAction) else None
        if pool is None:
            results[at] = Result(action, "this pool is no longer in the cluster file")
        elif at in wanted and unsaved and not isinstance(action, _REMOVALS):
            results[at] = Result(action, unsaved)
        elif isinstance(action, CreateGroup) and pool.id in under_way:
            results[at] = Result(action)
        else:
            nonce = nonces.get(wanted.get(at, ""), "")
            calls[at] = partial(sender.send, action, pool, nonce)
    # Each call has its own deadline; theirs all together is a net under them.
    within = snapshot.settings.cloud_timeout * (2 + len(calls) // 8)
    for at, found in gather(calls, within=within).items():
        results[at] = _result(actions[at], found, snapshot, wanted.get(at), now)
    return [results[at] for at in range(len(actions))]


def judge_outcomes(
    looked_at: Sequence[Pending], outcomes: Sequence[Outcome], now: datetime
) -> tuple[list[Pending], list[Answer], list[str]]:
    """What polling found: operations that are over, answers for the next plan, failures to tell."""
    over: list[Pending] = []
    answers: list[Answer] = []
    failures: list[str] = []
    for pending, outcome in zip(looked_at, outcomes, strict=True):
        if not outcome.is_over:
            continue
        over.append(_with_its_nonce(pending, outcome))
        if outcome.verdict is Verdict.FAILED:
            error = outcome.error or CloudError("UNKNOWN", "the operation gave no reason")
            operation = pending.operation
            failures.append(f"{operation.kind} in {operation.pool}: {_words(error)}")
            answer = _answer(operation.kind, operation, pending.nodes, error, now)
            if answer is not None:
                answers.append(answer)
    return over, answers, failures


def _with_its_nonce(pending: Pending, outcome: Outcome) -> Pending:
    """A removal that is done keeps its nonce; a cancel that came too late may come again."""
    kind = pending.operation.kind
    is_removal = kind in {removal.KIND for removal in _REMOVALS}
    was_in_vain = outcome.verdict is Verdict.FAILED or (
        kind == CancelRequest.KIND and outcome.verdict is Verdict.ALREADY
    )
    return replace(pending, nonce_key=None) if is_removal and not was_in_vain else pending


@dataclass(frozen=True)
class _Sender:
    """Sends one action's calls; what raises ComputeError wasn't sent, or nobody knows."""

    snapshot: Snapshot
    fleet: Fleet
    state_dir: Path

    def send(self, action: Action, pool: Pool, nonce: str) -> tuple[Operation, ...]:
        group = self.snapshot.cloud.get(pool.id, Group())
        fleet = self.fleet
        match action:
            case MakeRequest(name=name, nodes=nodes, run_duration=duration, why=why):
                made = fleet.request(pool, name, nodes, duration, nonce=nonce, description=why)
                return (made,)
            case CreateInstances(nodes=nodes):
                return fleet.create_instances(pool, nodes, nonce=nonce)
            case CancelRequest(name=name):
                which = f"{_request_made(group, name)}/{nonce}"
                return (fleet.cancel_request(pool, name, nonce=which),)
            case DeleteRequest(name=name):
                which = f"{_request_made(group, name)}/{nonce}"
                return (fleet.delete_request(pool, name, nonce=which),)
            case DeleteInstances(nodes=nodes):
                which = f"{_incarnations(group, nodes)}/{nonce}"
                return fleet.delete_instances(pool, nodes, nonce=which, group=group)
            case CreateGroup():
                return (self._ensure_group(pool),)
            case ReportHost(nodes=nodes, why=why):
                return self._report_hosts(pool, nodes, why)
            case SaveConsole(nodes=nodes):
                self._save_consoles(pool, nodes)
                return ()
            case _:
                raise TypeError(f"{action.KIND} is no action on Compute Engine")

    def _report_hosts(self, pool: Pool, nodes: Sequence[str], why: str) -> tuple[Operation, ...]:
        group = self.snapshot.cloud.get(pool.id, Group())
        report = partial(self.fleet.report_host, pool, reason=why)
        found = self._each(
            {node: partial(report, node, nonce=_incarnations(group, [node])) for node in nodes}
        )
        return tuple(_values(found))

    def _save_consoles(self, pool: Pool, nodes: Sequence[str]) -> None:
        found = self._each({node: partial(self.fleet.console, pool, node) for node in nodes})
        for node, text in found.items():
            if isinstance(text, str):
                save_console(self.state_dir, node, self.snapshot.now, text)
        _values(found)

    def _each(self, calls: Mapping[str, Callable[[], T]]) -> dict[str, T | ComputeError]:
        """One call a node, side by side: one that fails keeps no other from being made."""
        return gather(calls, within=self.snapshot.settings.cloud_timeout)

    def _ensure_group(self, pool: Pool) -> Operation:
        """A template that can't be written at all is a bad configuration like any other."""
        try:
            return self.fleet.ensure_group(pool)
        except ComputeError:
            raise
        except FlexError as error:
            raise BadConfiguration(CloudError("CONFIG", str(error))) from error


def _values(found: Mapping[str, T | ComputeError]) -> list[T]:
    """What came, if all of it came. Raises the first ComputeError otherwise."""
    for one in found.values():
        if isinstance(one, ComputeError):
            raise one
    return [one for one in found.values() if not isinstance(one, ComputeError)]


def _result(
    action: Action,
    found: tuple[Operation, ...] | ComputeError,
    snapshot: Snapshot,
    nonce_key: str | None,
    now: datetime,
) -> Result:
    nodes = _nodes_of(action, snapshot)
    keys = (nonce_key,) if nonce_key else ()
    if isinstance(found, ComputeError):
        again = isinstance(found, (Unreachable, RateLimited))
        answer = None if again else _answer(action.KIND, action, nodes, found.error, now)
        return Result(action, one_line(str(found)), answer, finished_nonces=() if again else keys)
    failed = [one for one in found if one.verdict is Verdict.FAILED]
    pending = tuple(
        Pending(one, one.target if isinstance(action, CreateInstances) else nodes, now, nonce_key)
        for one in found
        if one.verdict is Verdict.PENDING and one.name
    )
    if not failed:
        is_done = not pending and not isinstance(action, _REMOVALS)
        return Result(action, pending=pending, finished_nonces=keys if is_done else ())
    error = failed[0].error or CloudError("UNKNOWN", "the call failed without a reason")
    if error.code in _MAY_HAVE_WORKED:
        return Result(action, _words(error), pending=pending)
    hit = tuple(node for one in failed for node in one.target)
    answer = _answer(action.KIND, action, hit, error, now)
    return Result(action, _words(error), answer, pending, () if pending else keys)


def _answer(
    kind: str,
    what: Action | Operation,
    nodes: tuple[str, ...],
    error: CloudError,
    now: datetime,
) -> Answer | None:
    """What the next plan must judge: a launch that came to nothing, for these nodes."""
    if kind not in {launch.KIND for launch in LAUNCHES} or not nodes:
        return None
    request = None
    if isinstance(what, MakeRequest):
        request = what.name
    elif isinstance(what, Operation) and kind == MakeRequest.KIND:
        request = what.target[0]
    pool = what.pool if isinstance(what, (PoolAction, Operation)) else ""
    return Answer(pool, request, nodes, error.code, one_line(error.message, 1000), now)


def _nodes_of(action: Action, snapshot: Snapshot) -> tuple[str, ...]:
    """The nodes that an action is for; for a group, those that wait for its first VM."""
    if isinstance(action, CreateGroup):
        return tuple(
            node.name
            for node in snapshot.slurm.nodes
            if (node.is_powering_up or node.is_about_to_power_up)
            and (place := snapshot.cluster.locate(node.name)) is not None
            and place.pool_id == action.pool
        )
    nodes: tuple[str, ...] = getattr(action, "nodes", ())
    return nodes


# --- what makes a call unrepeatable


def _nonce_key(action: Action, snapshot: Snapshot) -> str | None:
    """Where the nonce of a call is kept. What is removed is told apart by more than its name: the
    next VM or request of that name is another one."""
    if isinstance(action, MakeRequest):
        return f"{action.pool}/{action.name}"
    if isinstance(action, CreateInstances):
        return f"{action.pool}/{_hashed(*sorted(action.nodes))}"
    if not isinstance(action, _REMOVALS):
        return None
    group = snapshot.cloud.get(action.pool, Group())
    if isinstance(action, DeleteInstances):
        which = _incarnations(group, action.nodes)
    else:
        which = f"{action.name}@{_request_made(group, action.name)}"
    return f"{action.pool}/{action.KIND}/{_hashed(which)}"


def _hashed(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _incarnations(group: Group, nodes: Iterable[str]) -> str:
    """Names with instance ids: another VM of the same name is another deletion.

    A place in the queue has no id; there its request makes the difference.
    """
    ids: dict[str, list[str]] = {}
    for instance in group.instances:
        ids.setdefault(instance.name, []).append(instance.id or "")
    for request in group.requests:
        if request.is_live:
            for name in request.nodes:
                ids.setdefault(name, []).append(request.name)
    return ";".join(f"{node}={','.join(sorted(ids.get(node, [])))}" for node in sorted(nodes))


def _request_made(group: Group, name: str) -> str:
    """When the request of that name was made: a later one of the same name is another."""
    made = (one.created for one in group.requests if one.name == name)
    return next((moment.isoformat() for moment in made if moment is not None), "")


def _groups_under_way(store: Store) -> frozenset[str]:
    """Pools whose group is being made. Unknown, if it can't be read: asking twice is harmless."""
    with contextlib.suppress(MemoryFileError):
        operations = [one.operation for one in store.pending()]
        return frozenset(one.pool for one in operations if one.kind == CreateGroup.KIND)
    return frozenset()


def _words(error: CloudError) -> str:
    return one_line(f"{error.code}: {error.message}" if error.code else error.message)
