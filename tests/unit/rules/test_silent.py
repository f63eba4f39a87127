"""The VM runs, and Slurm says that its slurmd doesn't answer (DESIGN: rule `silent`)."""

from __future__ import annotations

import pytest

from slurm_flex.actions import JobComment, NodeDown
from slurm_flex.model import Snapshot
from tests.builders import Thing, decide, instance, job, later, node, passes, repeat, world

SILENT = {"save_console", "node_down", "node_power_down", "delete_instances"}


def silent(state: str = "down*", since: str = "-20m", *more: Thing, reason: str | None) -> Snapshot:
    return world(
        node("c1-gx-0", state, reason=reason, since=since, user="slurm"),
        instance("c1-gx-0", created="-3h"),
        *more,
    )


def test_a_node_silent_for_longer_than_a_boot_is_replaced() -> None:
    """Scenario 29: console kept, down, power_down, delete."""
    snapshot = silent(reason="Not responding")
    played = passes(*repeat(snapshot, 2))
    assert SILENT - {"node_down"} <= played.all.kinds()
    assert played.all.nodes("delete_instances") == {"c1-gx-0"}
    assert played.all.nodes("save_console") == {"c1-gx-0"}


def test_a_node_silent_for_a_moment_is_waited_for() -> None:
    snapshot = silent(since="-3m", reason="Not responding")
    played = passes(*repeat(snapshot, 3))
    assert not played.all.beside("reserve", "unreserve")


def test_silence_is_timed_though_slurm_gives_no_reason() -> None:
    """ALLOCATED and not responding: the clock starts when it is first seen."""
    quiet = world(
        node("c1-gx-0", "alloc*"),
        instance("c1-gx-0", created="-3h"),
        job(51, "R", nodes="c1-gx-0", starts="-2h"),
    )
    early = [later(quiet, f"{n * 60}s") for n in range(14)]
    late = [later(quiet, f"{n * 60}s") for n in range(14, 20)]
    played = passes(*early)
    assert not played.all.beside("reserve")
    replaced = passes(*late, memory=played.memory).all
    assert replaced.kinds() >= SILENT


def test_a_silence_that_breaks_off_is_forgotten() -> None:
    quiet = world(node("c1-gx-0", "idle*"), instance("c1-gx-0", created="-3h"))
    fine = world(node("c1-gx-0", "idle"), instance("c1-gx-0", created="-3h"))
    played = passes(
        *(later(quiet, f"{n * 60}s") for n in range(12)),
        later(fine, "12m"),
        *(later(quiet, f"{n * 60}s") for n in range(13, 25)),
    )
    assert not played.all.of_kinds("node_down", "node_power_down", "delete_instances")


def test_a_registration_that_slurm_refuses_is_a_boot_failure() -> None:
    """Scenario 21: INVALID_REG; counted once over many passes."""
    wrong = world(
        node("c1-gx-0", "DRAIN+IDLE+CLOUD+INVALID_REG", reason="Low RealMemory", since="-20m"),
        instance("c1-gx-0", created="-25m"),
    )
    played = passes(*repeat(wrong, 4))
    assert "delete_instances" in played.all.kinds()
    assert "node_power_down" in played.all.kinds()
    launches = [one for one in played.memory.launches.get("gx", ()) if one.outcome != "good"]
    assert len(launches) <= 1


@pytest.mark.parametrize("flag", ["REBOOT_ISSUED", "REBOOT_REQUESTED"])
def test_a_reboot_under_way_is_waited_for(flag: str) -> None:
    """Scenario 34."""
    rebooting = world(
        node("c1-gx-0", f"DOWN+CLOUD+NOT_RESPONDING+{flag}", reason="Reboot ASAP", since="-20m"),
        instance("c1-gx-0", created="-3h"),
    )
    played = passes(*(later(rebooting, f"{n * 60}s") for n in range(20)))
    assert not played.all.beside("reserve", "unreserve")


def test_a_node_that_an_admin_downed_is_not_silent() -> None:
    snapshot = silent(state="down*", reason="broken cable")
    played = passes(*(later(snapshot, f"{n * 60}s") for n in range(30)))
    assert not played.all.beside("reserve")


def test_a_vm_that_isnt_there_is_not_silent_but_gone() -> None:
    assert not decide(world(node("c1-gx-0", "idle*"))).kinds() & {"save_console"}


@pytest.mark.parametrize(
    "reason",
    [
        "Not responding",
        "Not responding : ResumeTimeout reached",
        "ResumeTimeout reached",
        "slurm-flex: lost : ResumeTimeout reached",
        "slurm-flex: silent: its slurmd does not answer",
    ],
)
@pytest.mark.parametrize("state", ["alloc*", "idle*", "mix*"])
def test_an_old_reason_doesnt_say_since_when_it_is_silent(state: str, reason: str) -> None:
    """Reason texts stay on a node (R): only DOWN's own reason tells when it went down."""
    fine = world(
        node("c1-gx-0", state.rstrip("*"), reason=reason, since="-80m", user="slurm"),
        instance("c1-gx-0", created="-90m"),
        job(51, "R", nodes="c1-gx-0", starts="-1h"),
        now="-30s",
    )
    quiet = world(
        node("c1-gx-0", state, reason=reason, since="-80m", user="slurm"),
        instance("c1-gx-0", created="-90m"),
        job(51, "R", nodes="c1-gx-0", starts="-1h"),
    )
    played = passes(fine, *(later(quiet, f"{n * 60}s") for n in range(14)))
    assert not played.all.beside("reserve"), f"\n{played.all}"


@pytest.mark.parametrize(
    "reason", ["Not responding", "Low RealMemory", "Node unexpectedly rebooted", "gres/gpu count"]
)
def test_nor_does_it_when_the_node_goes_down_the_next_time(reason: str) -> None:
    """The text that was there may stay, with its time: it was about another silence."""
    marks = {"reason": reason, "since": "-80m", "user": "slurm"}
    vm = instance("c1-gx-0", created="-90m")
    fine = world(node("c1-gx-0", "idle", **marks), vm, now="-30s")
    quiet = world(node("c1-gx-0", "down*", **marks), vm)
    played = passes(fine, *(later(quiet, f"{n * 60}s") for n in range(17)))
    assert not any(acts.beside("reserve") for acts in played.passes[:16])
    assert played.last.kinds() >= SILENT


def test_a_reason_that_slurm_wrote_anew_counts_from_then() -> None:
    vm = instance("c1-gx-0", created="-90m")
    fine = world(node("c1-gx-0", "idle", reason="Not responding", since="-80m"), vm, now="-17m")
    out = world(node("c1-gx-0", "down*", reason="Not responding", since="-16m"), vm)
    assert passes(fine, out).last.kinds() >= SILENT


@pytest.mark.parametrize("status", ["PROVISIONING", "STAGING", "NEW_IN_2027"])
def test_a_silent_node_is_replaced_whatever_its_vm_is_said_to_do(status: str) -> None:
    """Slurm had it up: a VM that is on its way for longer than a boot takes isn't coming."""
    quiet = world(
        node("c1-gx-0", "down*", reason="Not responding", since="-20m", user="slurm"),
        instance("c1-gx-0", created="-3h", status=status),
    )
    assert passes(*repeat(quiet, 2)).all.nodes("delete_instances") == {"c1-gx-0"}


def in_repair(*more: Thing, state: str = "alloc*", name: str = "c1-gx-0") -> Snapshot:
    return world(
        node(name, state), instance(name, created="-3h", status="REPAIRING", ends="+6d"), *more
    )


REPAIR = "slurm-flex: repair: its VM does not come back from it"


def test_a_vm_that_stays_in_repair_is_replaced() -> None:
    """Its host broke, and it should have been RUNNING again (facts: compute-engine.md)."""
    running = job(51, "R", nodes="c1-gx-0", starts="-2h")
    broken = in_repair(running)
    played = passes(*(later(broken, f"{n * 60}s") for n in range(18)))
    assert played.all.kinds() >= SILENT
    assert {down.reason for down in played.all.of(NodeDown)} == {REPAIR}
    assert "flex: node c1-gx-0 lost its host, restarts after Slurm's two minutes" in {
        comment.text for comment in played.all.of(JobComment)
    }
    assert not played.memory.launches.get("gx"), "a host is no fault of the pool's image"


@pytest.mark.parametrize("state", ["idle", "idle*"])
def test_it_is_replaced_whatever_slurm_believes_of_it(state: str) -> None:
    broken = in_repair(state=state)
    played = passes(*(later(broken, f"{n * 60}s") for n in range(18)))
    assert played.all.nodes("delete_instances") == {"c1-gx-0"}


def test_a_repair_that_takes_no_longer_than_a_boot_is_waited_for() -> None:
    broken = in_repair(job(51, "R", nodes="c1-gx-0", starts="-2h"))
    played = passes(*(later(broken, f"{n * 60}s") for n in range(14)))
    assert not played.all.beside("reserve", "unreserve")


def test_two_short_repairs_are_no_long_one() -> None:
    broken = in_repair(state="idle*")
    mended = world(node("c1-gx-0", "idle"), instance("c1-gx-0", created="-3h", ends="+6d"))
    played = passes(
        *(later(broken, f"{n * 60}s") for n in range(12)),
        later(mended, "12m"),
        *(later(broken, f"{n * 60}s") for n in range(13, 26)),
    )
    assert not played.all.of_kinds("node_down", "node_power_down", "delete_instances")


def test_a_vm_back_from_repair_has_the_time_of_a_boot() -> None:
    """Slurm has called the node silent since its host broke; the VM is up for a moment."""
    down = node("c1-gx-0", "down*", reason="Not responding", since="+5m", user="slurm")
    broken = world(down, instance("c1-gx-0", created="-3h", status="REPAIRING"))
    boots = world(down, instance("c1-gx-0", created="-3h"))
    played = passes(
        *(later(broken, f"{n}m") for n in range(6, 15)),
        *(later(boots, f"{n}m") for n in range(15, 34)),
    )
    gone = [bool(acts.nodes("delete_instances")) for acts in played]
    assert gone.index(True) == len(range(6, 15)) + 16


def test_what_an_admin_holds_stays_held_in_repair() -> None:
    broken = world(
        node("c1-gx-0", "drain", reason="broken cable", user="alice"),
        instance("c1-gx-0", created="-3h", status="REPAIRING"),
    )
    played = passes(*(later(broken, f"{n * 60}s") for n in range(18)))
    assert not played.all.of_kinds("node_down", "node_power_down", "delete_instances")
