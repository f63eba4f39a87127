"""A world seen by several stories at once: all share each look, and none pays for the others."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from slurm_flex.demo import slurm_text
from slurm_flex.demo.commands import NotInTime, SlurmFailed
from slurm_flex.demo.world import World
from slurm_flex.hostlist import expand

Record = dict[str, str]

SOON: Final = timedelta(seconds=45)
# Slurm sees that a job's nodes are up on a tick of 30 s; a boot and a pass come on top.
TICK: Final = timedelta(seconds=75)
_LOOK_EVERY: Final = 0.7  # seconds
_LOG_TAIL: Final = 300  # lines
_LIVE: Final = ("CREATING", "ACCEPTED")
_OFF: Final = frozenset(("IDLE", "CLOUD", "POWERED_DOWN"))


@dataclass(frozen=True)
class Look:
    """What Slurm and the emulated cloud held at one moment, in their own words."""

    nodes: Mapping[str, Record]
    jobs: Mapping[int, Record]
    reservations: Mapping[str, Record]
    requests: Sequence[Mapping[str, Any]]
    instances: Sequence[Mapping[str, Any]]


class Watch:
    """A world, for stories that run side by side."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.slurm = world.slurm
        self.is_alone = False
        """slurm-flex is kept from its work for now: nobody mends anything."""
        self._lock = threading.Lock()
        self._seen_at = 0.0
        self._look: Look | None = None
        self._ever: set[tuple[str, str, datetime]] = set()
        self._most: dict[str, int] = {}

    # --- looking

    def look(self) -> Look:
        """The world as it is, or was a moment ago."""
        with self._lock:
            if self._look is None or time.monotonic() - self._seen_at > _LOOK_EVERY:
                self.world.daemon.check()
                self._look = self._look_now()
                self._seen_at = time.monotonic()
                self._note(self._look)
            return self._look

    def _look_now(self) -> Look:
        show = self._show
        cloud = self.world.emulator.world()
        return Look(
            nodes=_records(show("node"), "NodeName"),
            jobs={int(key): job for key, job in _records(show("job"), "JobId").items()},
            reservations=_records(show("reservation"), "ReservationName"),
            requests=cloud["requests"],
            instances=[one for one in cloud["instances"] if not one["group"].endswith("-login")],
        )

    def _show(self, what: str) -> str:
        """In UTC, whatever this machine's time is, or the cluster's."""
        done = subprocess.run(
            self.slurm.argv("scontrol", "--all", "-o", "show", what),
            env={**self.slurm.env, "TZ": "UTC"},
            capture_output=True,
            text=True,
            timeout=SOON.total_seconds(),
            check=False,
        )
        if done.returncode != 0:
            raise SlurmFailed(done.stderr.strip(), where=f"scontrol show {what}")
        return done.stdout

    def _note(self, look: Look) -> None:
        for one in look.requests:
            self._ever.add((one["group"], one["name"], moment(one["created"])))
        waiting = Counter(one["group"] for one in look.requests if one["state"] in _LIVE)
        for group, count in waiting.items():
            self._most[group] = max(count, self._most.get(group, 0))

    def until(self, predicate: Callable[[], object], what: str, limit: timedelta = SOON) -> None:
        """Wait until it is so. Raises NotInTime."""
        end = time.monotonic() + limit.total_seconds()
        while not predicate():
            if time.monotonic() > end:
                raise NotInTime(f"not within {limit.total_seconds():.0f} s: {what}")
            time.sleep(_LOOK_EVERY / 2)

    def stays(self, predicate: Callable[[], object], what: str, span: timedelta) -> None:
        """Look again and again for so long; fail as soon as it isn't so."""
        end = time.monotonic() + span.total_seconds()
        while time.monotonic() < end:
            if not predicate():
                raise AssertionError(f"it should have stayed so: {what}")
            time.sleep(_LOOK_EVERY / 2)

    def report(self) -> str:
        """All that helps to see why something didn't come about."""
        lines = []
        for name, text in self.slurm.logs().items():
            lines += [f"--- {name} ---", *text.splitlines()[-_LOG_TAIL:]]
        seen = self._look_now()
        lines.append("--- what Slurm and the cloud hold ---")
        for kind in (seen.jobs, seen.nodes, seen.reservations):
            lines += [_in_short(key, record) for key, record in kind.items()]
        lines += [str(one) for one in (*seen.requests, *seen.instances)]
        return "\n".join([*lines, "--- events ---", self.world.flex("events")])

    # --- Slurm's side

    def flags(self, node: str) -> frozenset[str]:
        return slurm_text.flags(self.look().nodes[node]["State"])

    def is_off(self, *nodes: str) -> bool:
        return all(self.flags(n) >= _OFF and "POWERING_DOWN" not in self.flags(n) for n in nodes)

    def is_up(self, *nodes: str) -> bool:
        away = {"POWERED_DOWN", "POWERING_UP", "POWERING_DOWN", "POWER_DOWN", "DOWN"}
        return all(not self.flags(node) & away for node in nodes)

    def job(self, job: int) -> Record:
        """``scontrol show job``; empty once Slurm has forgotten it, or before it was seen."""
        return self.look().jobs.get(job, {})

    def state(self, job: int) -> str:
        return self.job(job).get("JobState", "")

    def comment(self, job: int) -> str:
        """What the user reads: AdminComment."""
        return self.job(job).get("AdminComment", "")

    def nodes_of(self, job: int) -> tuple[str, ...]:
        """The nodes that the job holds now."""
        return names(self.job(job).get("NodeList", ""))

    def restarts(self, job: int) -> int:
        return int(self.job(job)["Restarts"])

    def is_waiting(self, job: int) -> bool:
        """It holds nodes that aren't there yet."""
        return self.state(job) == "CONFIGURING"

    # --- the cloud's side

    def requests(self, pool: str) -> list[Mapping[str, Any]]:
        """The pool's resize requests, the oldest first."""
        mine = [one for one in self.look().requests if one["group"] == f"c1-{pool}"]
        return sorted(mine, key=lambda one: (one["created"], one["name"]))

    def live(self, pool: str) -> list[str]:
        """Names of the pool's requests that wait for their answer."""
        return [one["name"] for one in self.requests(pool) if one["state"] in _LIVE]

    def request(self, name: str) -> Mapping[str, Any] | None:
        return next((one for one in self.look().requests if one["name"] == name), None)

    def request_is(self, name: str, state: str) -> bool:
        found = self.request(name)
        return found is not None and found["state"] == state

    def vms(self, pool: str) -> dict[str, str]:
        """Instance id by node."""
        group = f"c1-{pool}"
        return {one["name"]: one["id"] for one in self.look().instances if one["group"] == group}

    def asked(self, pool: str) -> list[tuple[str, datetime]]:
        """Every resize request of the pool that was ever seen, with its time, oldest first."""
        self.look()
        mine = [(name, at) for group, name, at in self._ever if group == f"c1-{pool}"]
        return sorted(mine, key=lambda pair: (pair[1], pair[0]))

    def most_live(self, pool: str) -> int:
        """How many requests of the pool were seen waiting at once."""
        return self._most.get(f"c1-{pool}", 0)

    # --- what must hold

    def left_of(self, pool: str) -> list[str]:
        """What there is of the pool, its nodes off: VMs, requests, reservations, odd states."""
        seen = self.look()
        found = [f"VM {name}" for name in self.vms(pool)]
        found += [f"request {one['name']} is {one['state']}" for one in self.requests(pool)]
        found += [
            f"reservation {name}"
            for name, record in seen.reservations.items()
            if any(self._is_of(node, pool) for node in names(record["Nodes"]))
        ]
        for name in seen.nodes:
            flags = self.flags(name)
            if self._is_of(name, pool) and (
                not flags >= _OFF or flags & {"POWERING_DOWN", "DRAIN", "DOWN", "RESERVED"}
            ):
                found.append(f"node {name} is {'+'.join(sorted(flags))}")
        return found

    def nothing_is_left_of(self, pool: str, limit: timedelta = TICK) -> None:
        """Once nobody wants it, all of the pool is given back, and no node is DOWN."""
        left: list[str] = []

        def nothing() -> bool:
            left[:] = self.left_of(pool)
            return not left

        try:
            self.until(nothing, f"nothing is left of {pool}", limit)
        except NotInTime as error:
            raise AssertionError(f"left over: {left}") from error

    def _is_of(self, node: str, pool: str) -> bool:
        return node.rpartition("-")[0] == f"c1-{pool}"

    # --- doing

    def cancel(self, *jobs: int) -> None:
        self.slurm.scancel(*jobs)

    def script(self, *options: str, pool: str, text: str = "exec sleep 600") -> int:
        """Submit a batch job that needs whole nodes."""
        return self.slurm.sbatch(
            "-p", pool, "--exclusive", *options, script=f"#!/bin/bash\n{text}\n"
        )

    def start_afresh(self) -> None:
        """Mend what a story that failed has left broken."""
        self.is_alone = False
        self.world.emulator.faults.clear()
        if self.world.daemon.pid is None:
            self.world.daemon.start()
        self.slurm.scancel("--user=root")


# --- reading


def names(hostlist: str) -> tuple[str, ...]:
    return () if hostlist in ("", "(null)") else expand(hostlist)


def moment(text: str) -> datetime:
    """An RFC 3339 time, aware, in UTC."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc)


def _records(text: str, key: str) -> dict[str, Record]:
    records = (slurm_text.record(line) for line in text.splitlines() if line.startswith(f"{key}="))
    return {record[key]: record for record in records}


_TELLING: Final = re.compile(
    r"State|JobState|Reason|AdminComment|Comment|NodeList|StartTime|EndTime|Restarts|Nodes"
)


def _in_short(key: object, record: Record) -> str:
    told = " ".join(f"{k}={v}" for k, v in record.items() if _TELLING.fullmatch(k))
    return f"{key}: {told}"
