"""Whatever is done to the emulated cloud, in whatever order, its books stay right."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_flex.emulator.core.faults import FAULTS
from slurm_flex.emulator.core.instances import need_of
from slurm_flex.emulator.core.queue import own_members
from tests.unit.emulator.here import ZONE, Here

NODES = [f"n-{number}" for number in range(5)]
REQUESTS = [f"j{number}" for number in range(4)]
EVENTS = [kind.name for kind in FAULTS.values() if kind.event]
CORE = [
    "stockout", "quota_on_insert", "quota_last_attempt", "insert_error", "request_fails",
    "partial_provisioning", "slow_boot", "slow_operations", "cancel_race", "late_end_of_life",
    "no_guest", "active_requests_quota",
]  # fmt: skip
TURNS = [
    {"capacity": 2}, {"capacity": "never"}, {"capacity": "now"}, {"capacity": "30s"},
    {"terminated_member": "leave"}, {"target_size_drops_when_lost": True},
    {"target_size_drops_at_end_of_life": False}, {"delete_queued_member": "allow"},
    {"failed_insert": "absent"}, {"succeeded_when": "created"}, {"group_delete_waits": False},
    {"guest_while_stopping": "lives"}, {"cancel_race": "operation"},
    {"run_duration_starts": "created"}, {"end_of_life_lateness": "20s"},
]  # fmt: skip

names = st.sampled_from(NODES)
some = st.lists(names, min_size=1, max_size=4, unique=True)
steps = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(REQUESTS), some, st.sampled_from([600, 3600, 5])),
    st.tuples(st.just("cancel"), st.sampled_from(REQUESTS)),
    st.tuples(st.just("forget"), st.sampled_from(REQUESTS)),
    st.tuples(st.just("delete"), some, st.booleans()),
    st.tuples(st.just("create"), some),
    st.tuples(st.just("abandon"), some),
    st.tuples(st.just("recreate"), some),
    st.tuples(st.just("resize"), st.integers(0, 4)),
    st.tuples(st.just("kill"), names),
    st.tuples(st.just("event"), st.sampled_from(EVENTS), names),
    st.tuples(st.just("fault"), st.sampled_from(CORE)),
    st.tuples(st.just("clear")),
    st.tuples(st.just("turn"), st.sampled_from(TURNS)),
    st.tuples(st.just("repair"), st.sampled_from(["REPAIR", "DO_NOTHING"])),
    st.tuples(st.just("wait"), st.sampled_from([1, 5, 20, 45, 600, 4000])),
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=3, max_size=25), st.booleans())
def test_the_books_are_right_after_anything(story: list[Any], taken_down: bool) -> None:
    here = Here(strict_groups=False)
    group = here.group()
    for step in story:
        _do(here, group, step)
        _check(here, group)
    if taken_down:
        here.call("DELETE", group)
        here.service.cloud.clear_fault()
        here.wait(20_000)
        assert here.call("GET", group)[0] == 404
        assert here.world.members.under(f"projects/p/{group}") == []
        assert not [item for item in here.world.instances if item.group]


def _do(here: Here, group: str, step: Any) -> None:
    kind, *words = step
    match kind:
        case "ask":
            name, nodes, seconds = words
            body = {
                "name": name,
                "instances": [{"name": node} for node in nodes],
                "requestedRunDuration": {"seconds": seconds},
            }
            _answered(here, "POST", f"{group}/resizeRequests", body)
        case "cancel":
            _answered(here, "POST", f"{group}/resizeRequests/{words[0]}/cancel")
        case "forget":
            _answered(here, "DELETE", f"{group}/resizeRequests/{words[0]}")
        case "delete" | "abandon" | "recreate":
            body = {"instances": [f"{ZONE}/instances/{node}" for node in words[0]]}
            if len(words) > 1:
                body["skipInstancesOnValidationError"] = words[1]
            _answered(here, "POST", f"{group}/{kind}Instances", body)
        case "create":
            body = {"instances": [{"name": node} for node in words[0]]}
            _answered(here, "POST", f"{group}/createInstances", body)
        case "resize":
            _answered(here, "POST", f"{group}/resize", size=str(words[0]))
        case "kill":
            _answered(here, "DELETE", f"{ZONE}/instances/{words[0]}")
        case "event":
            here.fault(words[0], instance=words[1])
        case "fault":
            here.fault(words[0], times=2)
        case "clear":
            here.service.cloud.clear_fault()
        case "turn":
            here.knob(**words[0])
        case "repair":
            policy = {"instanceLifecyclePolicy": {"defaultActionOnFailure": words[0]}}
            _answered(here, "PATCH", group, policy)
        case "wait":
            here.wait(words[0])


def _answered(here: Here, verb: str, path: str, body: object = None, **params: str) -> None:
    code, _ = here.call(verb, path, body, **params)
    assert code in (200, 400, 404, 409, 412)


def _check(here: Here, group: str) -> None:
    world = here.world
    members = world.members.under(f"projects/p/{group}")
    for member in members:
        instance = world.instances.get(member.instance) if member.instance else None
        if instance and instance.id == member.id:
            assert instance.group == member.group
    for instance in world.instances:
        if instance.group:
            place = world.members.get(f"{instance.group}/members/{instance.name}")
            assert place and place.id == instance.id, "an instance without its place"
        assert instance.guest <= (instance.status in ("RUNNING", "STOPPING"))
    _check_requests(here, group)
    used: Counter[tuple[str, str]] = Counter()
    for instance in world.instances:
        if instance.stopped is None:
            used[(instance.zone, need_of(instance).machine_type)] += 1
    counted: Counter[tuple[str, str]] = Counter()
    for (_, zone, kind), count in world.in_use.items():
        counted[(zone, kind.partition("|")[0])] += count
    assert used == +counted
    alive = {item.id for item in world.instances}
    for bill in world.bills:
        assert bill.since is None or bill.id in alive, "billed after its end"
        assert bill.seconds >= 0


def _check_requests(here: Here, group: str) -> None:
    world = here.world
    size = here.size(group)
    living = [m for m in world.members.under(f"projects/p/{group}") if m.action != "DELETING"]
    assert size >= len(living)
    for request in world.requests.under(f"projects/p/{group}"):
        shown = here.request(group, request.name)
        assert shown["state"] in ("CREATING", "ACCEPTED", "SUCCEEDED", "FAILED", "CANCELLED")
        waiting = own_members(world, request)
        if request.state in ("FAILED", "CANCELLED"):
            assert all(m.action == "DELETING" for m in waiting)
        if request.state in ("CREATING", "ACCEPTED") and not request.provisioning:
            assert all(not m.instance for m in waiting)
        assert ("error" in shown["status"]) <= (request.state == "FAILED")
        assert ("lastAttempt" in shown["status"]) <= (request.state == "ACCEPTED")
