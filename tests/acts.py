"""What a pass decided, with words to ask about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TypeVar

from slurm_flex.actions import Action, Event, JobComment, NodeComment
from slurm_flex.model import Memory, Snapshot

A = TypeVar("A", bound=Action)


class Acts(tuple[Action, ...]):
    """The actions of one pass, in order, with words to ask about them."""

    __slots__ = ()

    def of(self, kind: type[A]) -> list[A]:
        return [action for action in self if isinstance(action, kind)]

    def one(self, kind: type[A]) -> A:
        found = self.of(kind)
        assert len(found) == 1, f"expected one {kind.__name__}, got {len(found)} in:\n{self}"
        return found[0]

    def kind(self, word: str) -> list[Action]:
        return [action for action in self if word == action.KIND]

    def kinds(self) -> set[str]:
        """What is done, apart from what is only said."""
        return {action.KIND for action in self.changes}

    def nodes(self, word: str | type[Action]) -> set[str]:
        """All nodes that actions of a kind name: acts.nodes("delete_instances")."""
        chosen = self.kind(word) if isinstance(word, str) else self.of(word)
        return {name for action in chosen for name in getattr(action, "nodes", ())}

    @property
    def changes(self) -> Acts:
        """Everything but comments and events."""
        told = (Event, JobComment, NodeComment)
        return Acts(action for action in self if not isinstance(action, told))

    def beside(self, *kinds: str) -> Acts:
        """The changes that are not of these kinds."""
        return Acts(action for action in self.changes if action.KIND not in kinds)

    def of_kinds(self, *kinds: str) -> Acts:
        return Acts(action for action in self if action.KIND in kinds)

    def touching(self, name: str) -> Acts:
        """What is done to a node or its VM, apart from what is only said."""
        return Acts(action for action in self.changes if name in getattr(action, "nodes", ()))

    def __str__(self) -> str:
        return "\n".join(f"  {describe(action)}" for action in self) or "  (nothing)"


def describe(action: Action) -> str:
    """kind key=value ... : why, for people who read a failing test."""
    shown = {each.name: getattr(action, each.name) for each in fields(action)}
    why = shown.pop("why")
    text = " ".join(f"{key}={_plain(value)}" for key, value in shown.items())
    return f"{action.KIND} {text}: {why}"


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


@dataclass(frozen=True)
class Played:
    """Several passes in a row: the actions of each, and the memory after the last."""

    passes: tuple[Acts, ...]
    memory: Memory

    def __iter__(self) -> Iterator[Acts]:
        return iter(self.passes)

    def __getitem__(self, number: int) -> Acts:
        return self.passes[number]

    @property
    def last(self) -> Acts:
        return self.passes[-1]

    @property
    def all(self) -> Acts:
        return Acts(action for acts in self.passes for action in acts)


def passes(*snapshots: Snapshot, memory: Memory | None = None) -> Played:
    """Plan each snapshot in turn; each plan's memory is fed to the next."""
    from slurm_flex.plan import plan

    kept = memory or Memory()
    played = []
    for snapshot in snapshots:
        actions, kept = plan(snapshot, kept)
        played.append(Acts(actions))
    return Played(tuple(played), kept)


def decide(snapshot: Snapshot, memory: Memory | None = None) -> Acts:
    """The actions of a single pass."""
    return passes(snapshot, memory=memory).last
