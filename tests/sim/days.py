"""Random days: jobs of all kinds, capacity that comes and goes, people and machines that fail.

`chaos` steers a simulation by a seed; `calm_down` ends the faults and lets everything settle, after
which nothing may be left over and every job must have had its turn.
"""

from __future__ import annotations

import random

from tests.builders import pool
from tests.sim.ledger import Bounds
from tests.sim.parts import SimJob, SimReservation
from tests.sim.simulation import STEP, Faults, Simulation

LOOSE = Bounds(
    requests_per_node_hour=10,
    unwanted=900,
    half_ready=2700,
    static_away=6 * 3600,
    dead=3600,
    unexplained=1800,
    down=4 * 3600,
)
"""With actions lost and breakers open things take longer, but not for ever."""


def a_random_site(seed: int, faults: Faults | None = None) -> Simulation:
    dice = random.Random(seed)
    pools = [
        pool(
            "gx",
            size=dice.choice([2, 4, 6]),
            static=dice.choice([0, 0, 1, 2]),
            duration=dice.choice(["1h", "6h", "1d"]),
        )
    ]
    if dice.random() < 0.4:
        pools.append(
            pool(
                "gy", size=3, static=dice.choice([0, 1]), model=dice.choice(["FLEX_START", "SPOT"])
            )
        )
    partitions = {"gx": ",".join(one.id for one in pools)}
    sim = Simulation(
        tuple(pools),
        settings={"health_partial_node": "replace", "max_health_restarts": 1000},
        partitions=partitions,
        bounds=LOOSE,
        faults=faults or Faults(seed=seed),
    )
    knobs = sim.slurm.knobs
    knobs.resume_timeout = dice.choice([1800.0, 3600.0, 21600.0])
    knobs.suspend_timeout = dice.choice([60.0, 60.0, 300.0])
    knobs.resume_rate = dice.choice([0, 0, 2])
    knobs.version = dice.choice(["22.05.8", "24.11.5", "26.05.5"])
    for one in sim.compute.knobs.values():
        one.provision_delay = dice.choice([30.0, 90.0, 300.0])
        one.boot_delay = dice.choice([60.0, 240.0])
        one.end_leaves_terminated = dice.random() < 0.3
        one.list_lag = dice.choice([0.0, 0.0, 0.0, 60.0])
        one.delete_delay = dice.choice([30.0, 45.0, 240.0])
    if dice.random() < 0.2:
        sim.compute.groups["gx"] = False
    return sim


class Chaos:
    """One thing that happens to a site, at random; each is something that does happen."""

    def __init__(self, sim: Simulation, seed: int) -> None:
        self.sim = sim
        self.dice = random.Random(seed)
        self.numbers = iter(range(100, 100_000))
        self.drained: list[str] = []

    def live(self, hours: float, rate: float = 0.03) -> None:
        for _ in range(int(hours * 3600 / STEP)):
            if self.dice.random() < rate:
                self.something()
            self.sim.step()

    def something(self) -> None:
        self.dice.choice(
            [
                self.submit,
                self.submit,
                self.submit,
                self.submit,
                self.cancel,
                self.scarcity,
                self.plenty,
                self.lose_vm,
                self.kill_vm,
                self.break_host,
                self.silence,
                self.fail_requests,
                self.mend,
                self.bad_health,
                self.admin_drains,
                self.admin_is_done,
                self.admin_reserves,
                self.partial,
                self.slurmctld_away,
            ]
        )()

    def submit(self) -> SimJob:
        dice = self.dice
        life = self.sim.pools[0].run_duration.total_seconds()
        limit = dice.choice([None, 1800.0, 0.5 * life])
        longest = min(limit or 3 * 3600.0, 3 * 3600.0, 0.6 * life)
        members = self.sim.slurm.members["gx"]
        size = dice.randint(1, max(1, len(members) // 2))
        number = next(self.numbers)
        if dice.random() < 0.1:
            parts = {"het": number, "runtime": 600.0, "limit": 1800.0, "priority": 2000}
            self.sim.submit(number, size=1, **parts)
            return self.sim.submit(next(self.numbers), size=size, **parts)
        return self.sim.submit(
            number,
            size=size,
            needs=tuple(dice.sample(members, size)) if limit and dice.random() < 0.15 else (),
            user_begin=self.sim.now + 3600 if dice.random() < 0.05 else None,
            runtime=dice.uniform(60, 0.8 * longest),
            limit=limit,
            priority=dice.choice([100, 1000, 1000, 5000]),
            batch=dice.random() < 0.8,
            share=dice.choice([1.0, 1.0, 1.0, 0.5]),
        )

    def cancel(self) -> None:
        jobs = [job for job in self.sim.slurm.jobs.values() if not job.over]
        if jobs:
            self.sim.scontrol.cancel(self.dice.choice(jobs).id, self.sim.now)

    def scarcity(self) -> None:
        room = self.dice.choice([0, 1, 2])
        for knobs in self.sim.compute.knobs.values():
            knobs.capacity = lambda now: room

    def plenty(self) -> None:
        for knobs in self.sim.compute.knobs.values():
            knobs.capacity = lambda now: 10_000

    def _vm(self) -> str | None:
        names = sorted(n for n, vm in self.sim.compute.vms.items() if vm.status == "RUNNING")
        return self.dice.choice(names) if names else None

    def lose_vm(self) -> None:
        name = self._vm()
        if name:
            self.sim.compute.lose(name, self.sim.now)

    def kill_vm(self) -> None:
        name = self._vm()
        if name:
            status = self.dice.choice(["TERMINATED", "TERMINATED", "SUSPENDED"])
            self.sim.compute.kill(name, self.sim.now, status)

    def break_host(self) -> None:
        name = self._vm()
        if name:
            back_in = self.dice.choice([120.0, 600.0, None])
            self.sim.compute.break_host(name, self.sim.now, back_in)

    def silence(self) -> None:
        name = self._vm()
        if name:
            self.sim.compute.silence(name, self.sim.now)

    def fail_requests(self) -> None:
        error = self.dice.choice(
            [
                ("QUOTA_EXCEEDED", "Quota 'PREEMPTIBLE_NVIDIA_H200_GPUS' exceeded.  Limit: 8.0"),
                ("ZONE_RESOURCE_POOL_EXHAUSTED", "does not have enough resources"),
                ("INTERNAL_ERROR", "Internal error. Please try again."),
            ]
        )
        until = self.sim.now + self.dice.choice([600.0, 3600.0])
        for knobs in self.sim.compute.knobs.values():
            if self.dice.random() < 0.5:
                knobs.failing = lambda now: error if now < until else None
            else:
                knobs.refusing = lambda now: error if now < until else None

    def mend(self) -> None:
        for knobs in self.sim.compute.knobs.values():
            knobs.failing = knobs.refusing = lambda now: None

    def bad_health(self) -> None:
        up = sorted(name for name, node in self.sim.slurm.nodes.items() if node.power == "up")
        sick = sum(node.drain for node in self.sim.slurm.nodes.values())
        if up and sick < 2:  # a fifth of a pool, and at least three, is not believed
            self.sim.drain_for_health(self.dice.choice(up))

    def admin_drains(self) -> None:
        name = self.dice.choice(sorted(self.sim.slurm.nodes))
        if not self.sim.node(name).drain and not self.sim.node(name).down:
            self.sim.scontrol.drain((name,), "bad fan", self.sim.now, user="root")
            self.drained.append(name)

    def admin_is_done(self) -> None:
        for name in self.drained:
            node = self.sim.node(name)
            if node.is_held():
                self.sim.scontrol.resume((name,), self.sim.now)
                node.reason = None
        self.drained.clear()
        self.sim.slurm.reservations.pop("fan_repair", None)

    def admin_reserves(self) -> None:
        name = self.dice.choice(sorted(self.sim.slurm.nodes))
        begin = self.sim.now + self.dice.choice([0.0, 3600.0])
        self.sim.scontrol.reserve(
            SimReservation("fan_repair", (name,), begin, begin + 7200.0), self.sim.now
        )

    def partial(self) -> None:
        self.sim.blind_until = self.sim.now + self.dice.choice([120.0, 1800.0])

    def slurmctld_away(self) -> None:
        self.sim.deaf_until = self.sim.now + self.dice.choice([120.0, 1800.0])

    def calm_down(self) -> None:
        """Everything works again."""
        self.plenty()
        self.mend()
        self.admin_is_done()
        self.sim.deaf_until = self.sim.blind_until = self.sim.now
        self.sim.faults = Faults()


def settle(chaos: Chaos, hours: float = 72) -> None:
    """After the faults: every job has its turn, and then nothing is left over."""
    sim = chaos.sim
    chaos.calm_down()
    jobs = sim.slurm.jobs

    def all_over() -> bool:
        for job in jobs.values():
            if job.held and not job.over:
                assert job.admin_comment, sim.story(f"job {job.id} is held and nothing says why")
                sim.scontrol.release(job.id)
        return all(job.over for job in jobs.values())

    done = sim.run(f"{int(hours)}h", until=all_over)
    waiting = [job for job in jobs.values() if not job.over]
    assert done, sim.story(f"still there: {[(job.id, job.state, job.reason) for job in waiting]}")
    sim.run("4h")
    static = {name for name, node in sim.slurm.nodes.items() if node.static}
    back = sim.run("1h", until=lambda: all(sim.node(name).power == "up" for name in static))
    assert back or not static, sim.story("the static nodes aren't up together once in an hour")
    left = [name for name in sim.busy_vms() if name not in static]
    assert not left, sim.story(f"VMs that nobody wants: {left}")
    off = [
        (node.name, node.text(False), node.reason)
        for node in sim.slurm.nodes.values()
        if node.down or node.drain or (not node.static and node.power != "off")
    ]
    assert not off, sim.story(f"nodes that aren't as they should be: {off}")
    dynamic = [name for name, one in sim.slurm.reservations.items() if not static & {*one.nodes}]
    assert not dynamic, sim.story(f"reservations are left over: {dynamic}")
    assert not set(sim.compute.places) - static, sim.story(f"places: {sim.compute.places}")
    assert not sim.live_requests(), sim.story(f"live requests: {sim.live_requests()}")
