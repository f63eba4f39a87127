"""Own only what we named: anything else is reported and never touched (invariant 6)."""

from __future__ import annotations

import pytest

from slurm_flex.actions import NodeDown
from slurm_flex.model import Snapshot
from tests.builders import (
    STOCKOUT,
    Acts,
    Thing,
    instance,
    job,
    later,
    node,
    passes,
    repeat,
    request,
    world,
)

HELD_AND_UP = [
    "drain",
    "drng",
    "down",
    "down*",
    "IDLE+CLOUD+DRAIN+NOT_RESPONDING",
    "DOWN+CLOUD+DRAIN",
    "IDLE+CLOUD+DRAIN+MAINT",
]
HELD_AND_OFF = [
    "IDLE+CLOUD+DRAIN+POWERED_DOWN",
    "DOWN+CLOUD+POWERED_DOWN",
    "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING",
    "DOWN+CLOUD+DRAIN+POWERED_DOWN",
]


def hour(snapshot: Snapshot) -> Acts:
    return passes(*(later(snapshot, f"{n * 120}s") for n in range(30))).all


@pytest.mark.parametrize("state", [*HELD_AND_UP, *HELD_AND_OFF])
@pytest.mark.parametrize("vm", ["runs", "gone", "ending"])
def test_a_node_that_somebody_holds_is_never_powered_down(state: str, vm: str) -> None:
    vms: dict[str, tuple[Thing, ...]] = {
        "runs": (instance("c1-gx-0", created="-3h"),),
        "gone": (),
        "ending": (instance("c1-gx-0", "STOPPING", created="-7d", ends="-10s"),),
    }
    snapshot = world(node("c1-gx-0", state, reason="bad fan", since="-2h", user="root"), *vms[vm])
    touched = hour(snapshot).touching("c1-gx-0").beside("reserve", "delete_instances")
    # Set down with its own reason, where a job hangs on it, is all that is allowed.
    kept = Acts(one for one in touched if getattr(one, "reason", "") != "bad fan")
    assert not kept, f"\n{kept}"
    assert not touched.beside("node_down"), f"\n{touched}"


@pytest.mark.parametrize("state", HELD_AND_UP)
def test_the_vm_of_a_node_that_somebody_holds_is_never_deleted(state: str) -> None:
    """Neither wanted nor ours to end."""
    snapshot = world(
        node("c1-gx-0", state, reason="bad fan", since="-2h", user="root"),
        instance("c1-gx-0", created="-3h"),
    )
    assert not hour(snapshot).kind("delete_instances")


@pytest.mark.parametrize("vm", [(), instance("c1-gx-0", created="-50m")])
def test_slurms_words_after_an_admins_reason_dont_make_it_ours(vm: tuple[Thing, ...]) -> None:
    """From 23.02 "ResumeTimeout reached" is appended to the reason that is there."""
    snapshot = world(
        node(
            "c1-gx-0",
            "DOWN+CLOUD+DRAIN+POWERED_DOWN+NOT_RESPONDING",
            reason="bad fan : ResumeTimeout reached",
            since="-10m",
            user="root",
        ),
        *vm,
    )
    acts = hour(snapshot)
    assert not acts.touching("c1-gx-0").beside("delete_instances", "save_console", "reserve")
    assert vm or not acts.changes


def test_a_failed_request_takes_a_held_node_down_with_its_own_reason() -> None:
    snapshot = world(
        node("c1-gx-0", "alloc#"),
        node("c1-gx-1", "ALLOCATED+CLOUD+DRAIN+POWERING_UP", reason="bad fan", user="root"),
        job(51, nodes="c1-gx-[0-1]", starts="-1h"),
        request("j51-1", "c1-gx-[0-1]", "FAILED", created="-1h", error=STOCKOUT),
    )
    acts = passes(*repeat(snapshot, 2)).all
    assert not acts.touching("c1-gx-1").of_kinds("node_power_down", "node_undrain", "node_resume")
    downs = {one.reason for one in acts.of(NodeDown) if "c1-gx-1" in one.nodes}
    assert downs <= {"bad fan"}


def test_a_reason_that_only_looks_like_ours_is_somebody_elses() -> None:
    for reason in ("slurm-flexible", "not slurm-flex: x", "SLURM-FLEX: x", "slurm-flex"):
        snapshot = world(
            node("c1-gx-0", "drain", reason=reason, since="-2h", user="root"),
            instance("c1-gx-0", created="-3h"),
        )
        assert not hour(snapshot).beside("reserve"), reason


def test_a_node_drained_without_a_reason_is_somebody_elses() -> None:
    snapshot = world(node("c1-gx-0", "drain"), instance("c1-gx-0", created="-3h"))
    assert not hour(snapshot).beside("reserve")


def test_the_vm_of_a_held_node_that_never_boots_is_left_for_who_holds_it() -> None:
    """The job is set free; the VM is neither wanted nor ours to end."""
    snapshot = world(
        node("c1-gx-0", "ALLOCATED+CLOUD+DRAIN+POWERING_UP", reason="bad fan", user="root"),
        job(51, nodes="c1-gx-0", starts="-30m"),
        request("j51-1", "c1-gx-0", "SUCCEEDED", created="-30m"),
        instance("c1-gx-0", created="-25m"),
    )
    acts = hour(snapshot)
    assert not acts.kind("delete_instances")
    assert not acts.of_kinds("node_power_down", "node_undrain", "node_resume")
    assert {one.reason for one in acts.of(NodeDown)} <= {"bad fan"}
