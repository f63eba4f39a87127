"""The table of phases: one word for a node, from Slurm's flags x instance x request (DESIGN)."""

from __future__ import annotations

import itertools

import pytest

from slurm_flex.member import Phase
from slurm_flex.model import Memory, Snapshot
from slurm_flex.recall import Recall
from slurm_flex.world import World
from tests.builders import Thing, half_seen, instance, job, node, request, world

NAME = "c1-gx-0"
OWN = "slurm-flex: health: GPU 3 fell off the bus"
FOREIGN = "bad fan"
VMS: dict[str, tuple[Thing, ...]] = {
    "none": (),
    "place": (instance(NAME, None),),
    "coming": (instance(NAME, "STAGING", created="-1m", ends=None),),
    "runs": (instance(NAME),),
    "dying": (instance(NAME, "STOPPING"),),
    "deleting": (instance(NAME, action="DELETING"),),
    "dead": (instance(NAME, "TERMINATED"),),
}
REQUESTS: dict[str, tuple[Thing, ...]] = {
    "none": (),
    "live": (request("j51-1", NAME, "ACCEPTED"),),
    "over": (request("j51-1", NAME, "SUCCEEDED"),),
}
# state, reason -> by VM: none, place, coming, runs, dying, deleting, dead (no live request)
TABLE = {
    ("idle~", None): "off off off off off off off",
    ("IDLE+CLOUD+POWERED_DOWN+PLANNED", None): "off off off off off off off",
    ("IDLE+CLOUD+POWERED_DOWN+NOT_RESPONDING", None): "off off off off off off off",
    ("IDLE+CLOUD+POWERED_DOWN+NEW_IN_2031", None): "off off off off off off off",
    ("down~", "ResumeTimeout reached"): "off off off off off off off",
    ("down~", "slurm-flex: lost"): "off off off off off off off",
    ("idle%", None): "leaving leaving leaving leaving leaving leaving leaving",
    ("down%", "slurm-flex: lost"): "leaving leaving leaving leaving leaving leaving leaving",
    ("idle#", None): "asked queued booting booting asked asked asked",
    ("IDLE+CLOUD+POWER_UP+POWERED_DOWN", None): "asked queued booting booting asked asked asked",
    ("IDLE+CLOUD+POWERING_DOWN+POWER_UP", None): (
        "leaving leaving leaving leaving leaving leaving leaving"
    ),
    # A request that was repeated just before the node registered stays on it (R 24.11.5, 26.05).
    ("IDLE+CLOUD+POWER_UP", None): "ending ending up up ending ending ending",
    ("MIXED+CLOUD+POWER_UP", None): "ending ending up up ending ending ending",
    ("alloc#", None): "asked queued booting booting asked asked asked",
    ("alloc~", None): "asked queued booting booting asked asked asked",
    ("mix~", None): "asked queued booting booting asked asked asked",
    ("idle", None): "ending ending up up ending ending ending",
    ("alloc", None): "ending ending up up ending ending ending",
    ("mix", None): "ending ending up up ending ending ending",
    ("alloc!", None): "ending ending up up ending ending ending",
    ("idle$", None): "ending ending up up ending ending ending",
    ("comp", None): "ending ending up up ending ending ending",
    ("drain", FOREIGN): "held held held held held held held",
    ("drng", FOREIGN): "held held held held held held held",
    ("down", FOREIGN): "held held held held held held held",
    ("down", None): "held held held held held held held",
    ("IDLE+CLOUD+DRAIN+POWERED_DOWN", FOREIGN): "held held held held held held held",
    ("DOWN+CLOUD+POWERED_DOWN", FOREIGN): "held held held held held held held",
    ("DOWN+DRAIN+CLOUD+POWERED_DOWN", "bad fan : ResumeTimeout reached"): (
        "held held held held held held held"
    ),
    ("FUTURE+CLOUD", None): "unknown unknown unknown unknown unknown unknown unknown",
    ("UNKNOWN+CLOUD", None): "unknown unknown unknown unknown unknown unknown unknown",
    ("", None): "unknown unknown unknown unknown unknown unknown unknown",
}
ROWS = [
    (state, reason, vm, phase)
    for (state, reason), phases in TABLE.items()
    for vm, phase in zip(VMS, phases.split(), strict=True)
]


def phase_of(snapshot: Snapshot) -> Phase:
    return World(snapshot, Recall(Memory(), snapshot.now)).members[NAME].phase


def seen(state: str, reason: str | None, vm: str, asked: str = "none") -> Snapshot:
    things: list[Thing] = [node(NAME, state, reason=reason, since="-1m"), *VMS[vm]]
    if "alloc" in state or "mix" in state:
        things.append(job(51, nodes=NAME, starts="-2m"))
    return world(*things, *REQUESTS[asked])


@pytest.mark.parametrize(("state", "reason", "vm", "phase"), ROWS)
def test_the_table_of_phases(state: str, reason: str | None, vm: str, phase: str) -> None:
    # A place in the queue without its request listed: asked or queued, both wait.
    found = str(phase_of(seen(state, reason, vm)))
    assert found == phase or (vm == "place" and {found, phase} <= {"asked", "queued"})


@pytest.mark.parametrize(
    ("state", "vm", "asked", "phase"),
    [
        ("alloc#", "none", "live", Phase.QUEUED),
        ("idle#", "none", "live", Phase.QUEUED),
        ("alloc~", "none", "live", Phase.QUEUED),
        ("alloc#", "place", "live", Phase.QUEUED),
        ("alloc#", "runs", "live", Phase.BOOTING),
        ("alloc#", "runs", "over", Phase.BOOTING),
        ("alloc#", "none", "over", Phase.ASKED),
        ("idle~", "none", "live", Phase.OFF),
        ("idle%", "none", "live", Phase.LEAVING),
        ("idle", "runs", "live", Phase.UP),
        ("idle", "none", "live", Phase.ENDING),
    ],
)
def test_a_live_request_makes_a_waiting_node_queued(
    state: str, vm: str, asked: str, phase: Phase
) -> None:
    assert phase_of(seen(state, None, vm, asked)) is phase


@pytest.mark.parametrize("state", ["drain", "drng", "MIXED+CLOUD+DRAIN"])
def test_a_drain_of_our_health_check_is_sick(state: str) -> None:
    assert phase_of(seen(state, OWN, "runs")) is Phase.SICK


def test_a_node_that_slurm_doesnt_list_is_unknown() -> None:
    assert phase_of(world(instance(NAME), fill=False)) is Phase.UNKNOWN


def test_a_pool_that_couldnt_be_read_has_no_members() -> None:
    """Nothing can be decided for a node that no rule sees."""
    snapshot = world(node(NAME, "idle"), half_seen("gx"))
    assert NAME not in World(snapshot, Recall(Memory(), snapshot.now)).members


FLAGS = (
    "DRAIN COMPLETING NOT_RESPONDING INVALID_REG POWERING_UP POWERED_DOWN POWERING_DOWN "
    "POWER_DOWN MAINT"
).split()


def test_every_combination_of_flags_has_exactly_one_phase() -> None:
    """512 sets of flags x five bases x VM x request, with and without a reason: never a raise."""
    found: set[tuple[str, Phase]] = set()
    for base in ("IDLE", "ALLOCATED", "MIXED", "DOWN", "NEW_IN_2031"):
        for chosen in itertools.product((False, True), repeat=len(FLAGS)):
            flags = [flag for flag, is_set in zip(FLAGS, chosen, strict=True) if is_set]
            state = "+".join([base, "CLOUD", *flags])
            reason = (None, OWN, FOREIGN)[sum(chosen) % 3]
            vm = list(VMS)[len(found) % len(VMS)]
            phase = phase_of(seen(state, reason, vm))
            assert isinstance(phase, Phase)
            found.add((state, phase))
    assert len(found) == 5 * 512
    assert len({phase for _, phase in found}) >= 8


def test_a_node_in_a_reservation_of_ours_has_no_word_that_nobody_knows() -> None:
    """Slurm writes MAINTENANCE, on every release (its libslurmfull)."""
    (reserved,) = node(NAME, "IDLE+CLOUD+MAINTENANCE")
    assert not reserved.unknown_flags
    assert reserved.flags == {"IDLE", "CLOUD", "MAINT"}
