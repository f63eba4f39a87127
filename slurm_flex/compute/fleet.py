"""The fleet: what the daemon asks of the side that has the machines.

One Protocol, so that the daemon, its tests and a simulator speak to the same thing. No method
waits for what it set off: a mutation returns an :class:`Operation`, which `poll` looks at later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Protocol

from slurm_flex.cluster import Pool
from slurm_flex.compute.errors import ComputeError
from slurm_flex.model.cloud import CloudError, Group


class Verdict(str, Enum):
    """What became of an operation."""

    PENDING = "pending"
    """Still under way."""
    DONE = "done"
    ALREADY = "already"
    """Nothing was left to do: already there, already gone, already final. A success."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It can't be looked up any more (old), so it is over; the next reading tells how."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Operation:
    """Something set off in Compute Engine.

    kind:    the action's KIND, such as "request" or "delete_instances".
    target:  what it is about: the request's name, or the nodes' names.
    name:    the operation's own name; empty if there is nothing to look up.
    scope:   the zone it runs in; empty for a global one.
    verdict: PENDING, or what is known at once.
    error:   Google's words with ALREADY and FAILED.
    """

    pool: str
    kind: str
    target: tuple[str, ...]
    name: str = ""
    scope: str = ""
    verdict: Verdict = Verdict.PENDING
    error: CloudError | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `poll` found. `error` says why with FAILED, in Google's words with ALREADY, and with
    PENDING why it could not be asked after."""

    operation: Operation
    verdict: Verdict
    error: CloudError | None = None

    @property
    def is_over(self) -> bool:
        return self.verdict is not Verdict.PENDING


@dataclass(frozen=True)
class Survey(Mapping[str, Group]):
    """What one reading saw: a group for every pool that was asked for, by pool id.

    errors: why a pool's group is not complete, by pool id.
    calls:  calls over the wire that it took, repetitions included.
    """

    groups: Mapping[str, Group]
    errors: Mapping[str, ComputeError] = field(default_factory=dict)
    calls: int = 0

    def __getitem__(self, pool: str) -> Group:
        return self.groups[pool]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)


class Fleet(Protocol):
    """The machines of one cluster.

    A method that makes one call raises ComputeError if it fails. `nonce` is what makes a call
    unrepeatable (the instance ids to delete, the creation of a request): the same call with the
    same nonce is the same call, however often it is sent.
    """

    def read(self, pools: Iterable[Pool]) -> Survey:
        """All groups at one moment. Never raises ComputeError: a pool that could not be read, or
        not as a whole, is not complete, and the survey says why. It hides no other pool."""
        ...

    def poll(self, operations: Sequence[Operation]) -> tuple[Outcome, ...]:
        """What became of them, in the same order. One that can't be asked after is PENDING."""
        ...

    def request(
        self,
        pool: Pool,
        name: str,
        nodes: Sequence[str],
        run_duration: timedelta,
        *,
        nonce: str,
        description: str = "",
    ) -> Operation:
        """Ask for these nodes, all or none. ALREADY: a request of that name is there."""
        ...

    def cancel_request(self, pool: Pool, name: str, *, nonce: str) -> Operation:
        """Take a waiting request back. ALREADY: it is final, or gone; VMs may be coming up."""
        ...

    def delete_request(self, pool: Pool, name: str, *, nonce: str) -> Operation:
        """Forget a final request. No VM is touched. ALREADY: it is gone."""
        ...

    def create_instances(
        self, pool: Pool, nodes: Sequence[str], *, nonce: str
    ) -> tuple[Operation, ...]:
        """Make VMs of these names, each on its own (ON_DEMAND, SPOT and RESERVATION pools).

        One operation a thousand names; a call that fails is a FAILED operation, and never raises.
        """
        ...

    def delete_instances(
        self, pool: Pool, nodes: Sequence[str], *, nonce: str, group: Group | None = None
    ) -> tuple[Operation, ...]:
        """End the VMs of these nodes. `group` is the reading that the decision was made on: it
        tells which of them wait in a queue (by name) and which are no members any more.

        One operation a thousand names; a call that fails is a FAILED operation, and never raises.
        """
        ...

    def report_host(self, pool: Pool, node: str, *, reason: str, nonce: str) -> Operation:
        """Report the host of a broken GPU. Google takes none for Flex-start VMs unless arranged."""
        ...

    def console(self, pool: Pool, node: str) -> str:
        """The last 64 KB that the VM wrote to its serial console; untrusted text."""
        ...

    def ensure_group(self, pool: Pool) -> Operation:
        """One step towards the pool's template and group; to be repeated until it says ALREADY."""
        ...
