"""A random walk through the closed loop: whatever happens in whatever order, it holds."""

from __future__ import annotations

import os

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from slurm_flex.model import Memory
from tests.sim.days import Chaos, a_random_site, settle
from tests.sim.simulation import Faults


class Walk(RuleBasedStateMachine):
    """Each step is something that happens to a site; the ledger watches all the time."""

    @initialize(seed=st.integers(0, 999))
    def begin(self, seed: int) -> None:
        self.sim = a_random_site(seed)
        self.chaos = Chaos(self.sim, seed)
        self.chaos.submit()

    @rule(minutes=st.sampled_from(["1m", "5m", "20m", "70m", "3h"]))
    def time_goes_by(self, minutes: str) -> None:
        self.sim.run(minutes)

    @rule()
    def a_job_comes(self) -> None:
        self.chaos.submit()

    @rule()
    def a_job_is_cancelled(self) -> None:
        self.chaos.cancel()

    @rule(plenty=st.booleans())
    def capacity_changes(self, plenty: bool) -> None:
        (self.chaos.plenty if plenty else self.chaos.scarcity)()

    @rule(what=st.sampled_from(["lose_vm", "kill_vm", "silence"]))
    def a_vm_fails(self, what: str) -> None:
        getattr(self.chaos, what)()

    @rule(mended=st.booleans())
    def requests_fail(self, mended: bool) -> None:
        (self.chaos.mend if mended else self.chaos.fail_requests)()

    @rule()
    def a_check_fails(self) -> None:
        self.chaos.bad_health()

    @rule(what=st.sampled_from(["admin_drains", "admin_is_done", "admin_reserves"]))
    def an_admin_works(self, what: str) -> None:
        getattr(self.chaos, what)()

    @rule(what=st.sampled_from(["partial", "slurmctld_away"]))
    def somebody_doesnt_answer(self, what: str) -> None:
        getattr(self.chaos, what)()

    @rule()
    def memory_is_lost(self) -> None:
        self.sim.memory = Memory()
        self.sim.ledger.forgive()

    @rule(crash=st.sampled_from([0.0, 0.3]), lost=st.sampled_from([0.0, 0.1]))
    def the_daemon_stumbles(self, crash: float, lost: float) -> None:
        self.sim.faults = Faults(crash=crash, lost_action=lost, unsaved=crash / 3)

    @rule(hours=st.sampled_from(["10m", "3h"]))
    def the_daemon_is_away(self, hours: str) -> None:
        self.sim.away = True
        self.sim.run(hours)
        self.sim.away = False

    @invariant()
    def nothing_happened_that_must_never(self) -> None:
        if hasattr(self, "sim"):
            self.sim.check()

    def teardown(self) -> None:
        if hasattr(self, "chaos") and not self.sim.ledger.violations:
            settle(self.chaos)
            self.sim.check()


explore = os.environ.get("HYPOTHESIS_PROFILE") == "explore"
TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=400 if explore else 25, stateful_step_count=30)
