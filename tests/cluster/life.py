"""Words for the tests of the whole life: what is waited for, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from slurm_flex.demo.cloud_view import Ask, Vm
from slurm_flex.demo.commands import NotInTime
from slurm_flex.demo.site_files import DemoPool, DemoSite
from slurm_flex.demo.world import World

SITE = DemoSite(
    name="c1",
    pools=[
        DemoPool("gx", dynamic=4),
        DemoPool("st", static=1),
        DemoPool("brief", dynamic=1, run_duration=timedelta(seconds=30)),
    ],
    settings={
        "suspend_time": timedelta(seconds=6),
        "launches_per_node_hour": 100,  # all stories of a folder play on the same few nodes
        "slurm_timeout": timedelta(seconds=4),
        "cloud_timeout": timedelta(seconds=4),
    },
)
STATIC = frozenset(["c1-st-0"])

SOON = timedelta(seconds=20)
# Slurm sees that a job's nodes are up on a tick of 30 s; a boot and a pass come on top.
TICK = timedelta(seconds=60)
# The idle time, the tick of the job before, and SuspendTimeout.
GIVEN_BACK = timedelta(seconds=90)


class Life:
    """A world, in the words of these tests."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.slurm = world.slurm

    def until(self, predicate: Callable[[], object], what: str, limit: timedelta = SOON) -> None:
        self.world.wait_for(lambda: bool(predicate()), limit, what)

    def asked(self) -> int:
        """Resize requests sent so far."""
        return self.world.cloud().asked

    def vms(self) -> dict[str, Vm]:
        return dict(self.world.cloud().vms)

    def requests(self) -> dict[str, Ask]:
        return dict(self.world.cloud().requests)

    def power_up(self, *nodes: str) -> None:
        """As an admin would, with no job in sight; returns once they are up."""
        for name in nodes:
            self.slurm.scontrol("update", f"nodename={name}", "state=power_up")
        for name in nodes:
            self.until(lambda name=name: self.is_up(name), f"{name} is up")  # type: ignore[misc]

    def is_up(self, name: str) -> bool:
        flags = self.slurm.flags(name)
        return not flags & {"POWERED_DOWN", "POWERING_UP", "POWERING_DOWN", "DOWN"}

    def is_off(self, name: str) -> bool:
        flags = self.slurm.flags(name)
        return flags >= {"IDLE", "POWERED_DOWN"} and "POWERING_DOWN" not in flags

    def expire(self, *nodes: str, within: str = "4s") -> None:
        """Let Compute Engine end these VMs, as listed, so soon."""
        for name in nodes:
            self.world.emulator.faults.set("end_of_life", instance=name, within=within)

    def runs(self, *jobs: int, limit: timedelta = TICK) -> None:
        for job in jobs:
            self.slurm.wait_for_job(job, "RUNNING", limit)

    def ends(self, *jobs: int, limit: timedelta = TICK) -> None:
        for job in jobs:
            self.slurm.wait_for_job(job, "COMPLETED", limit)

    def knows_the_end(self, name: str) -> bool:
        """Whether slurm-flex knows when this VM ends: there is a reservation for it."""
        shown = self.slurm.scontrol("show", "reservation", "-o")
        return any(f" Nodes={name} " in line for line in shown.splitlines())

    def restarts(self, job: int) -> int:
        return int(self.slurm.job(job)["Restarts"])

    def comment(self, job: int) -> str:
        """What the user reads: AdminComment."""
        return self.slurm.job(job).get("AdminComment", "")

    def all_is_given_back(self) -> None:
        """Wait until nothing is left that nobody wants, and no node is DOWN."""
        left: list[str] = []

        def nothing() -> bool:
            left[:] = self.world.leftovers(up=STATIC)
            left.extend(f"job {line}" for line in self.slurm.squeue("-h").splitlines())
            return not left

        try:
            self.until(nothing, "nothing is left", GIVEN_BACK)
        except NotInTime as error:
            raise AssertionError(f"left over: {left}") from error

    def start_afresh(self) -> None:
        """Mend what a test that failed has left broken."""
        if not self.world.emulator.pid:
            self.world.emulator.start()
        self.world.emulator.faults.clear()
        if self.slurm.pid is None:
            self.slurm.start()
        if self.world.daemon.pid is None:
            self.world.daemon.start()
        self.slurm.scancel("--user=root")
        self.all_is_given_back()

    @contextmanager
    def settings(self, **changed: object) -> Iterator[None]:
        """Other settings for a while; the daemon reads them at once."""
        self._reload(changed)
        try:
            yield
        finally:
            self._reload({})

    def _reload(self, changed: dict[str, object]) -> None:
        log = self.world.daemon.log
        before = log.read_text().count("files read again")
        self.world.write_settings(**changed)
        self.world.daemon.reload()
        self.until(lambda: log.read_text().count("files read again") > before, "a reload")
