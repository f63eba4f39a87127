"""Any world: every flag, status and state, known or unknown, in any company."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from slurm_flex.model import Instance, Job, Node, Request, Reservation, Snapshot
from tests.builders import (
    NO_PERMISSION,
    OWN_FLAGS,
    QUOTA,
    STOCKOUT,
    InPool,
    Thing,
    half_seen,
    instance,
    job,
    no_group,
    node,
    pool,
    request,
    reservation,
    world,
)

BASES = ["IDLE", "ALLOCATED", "MIXED", "DOWN", "UNKNOWN", "FUTURE", "ERROR", "NEW_IN_2031"]
FLAGS = """
    DRAIN COMPLETING NOT_RESPONDING INVALID_REG POWERING_UP POWERED_DOWN POWERING_DOWN POWER_DOWN
    MAINT RESERVED PLANNED REBOOT_REQUESTED REBOOT_ISSUED BLOCKED SPARKLING
""".split()
REASONS = [
    None,
    "",
    "bad fan",
    "Not responding",
    "ResumeTimeout reached",
    "bad fan : ResumeTimeout reached",
    "slurm-flex: expired",
    "slurm-flex: lost",
    "slurm-flex: boot failed",
    "slurm-flex: release: j51-1",
    "slurm-flex: capacity: no room",
    "slurm-flex: health: GPU 3 fell off the bus",
    "slurm-flex: no longer in the cluster file",
]
STATUSES = [
    None, "PROVISIONING", "STAGING", "RUNNING", "RUNNING", "STOPPING", "TERMINATED", "STOPPED",
    "SUSPENDED", "SUSPENDING", "PENDING_STOP", "DEPROVISIONING", "REPAIRING", "PENDING",
    "NEW_IN_2031",
]  # fmt: skip
MIG_ACTIONS = ["NONE", "NONE", "NONE", "CREATING", "DELETING", "VERIFYING", "RECREATING", "NEW"]
REQUEST_STATES = [
    "CREATING", "ACCEPTED", "ACCEPTED", "PROVISIONING", "SUCCEEDED", "FAILED", "CANCELLED",
    "DELETING", "NEW_IN_2031",
]  # fmt: skip
JOB_STATES = [
    "PENDING", "CONFIGURING", "CONFIGURING", "RUNNING", "RUNNING", "COMPLETING", "SUSPENDED",
    "REQUEUED", "RUNNING+CONFIGURING", "NEW_IN_2031",
]  # fmt: skip
WAITS = [
    "None", "Resources", "Priority", "BeginTime", "Dependency", "JobHeldUser", "JobHeldAdmin",
    "ReqNodeNotAvail, May be reserved for other job", "QOSMaxGRESPerUser", "NewReason",
]  # fmt: skip
ERRORS = [None, STOCKOUT, QUOTA, NO_PERMISSION, ("", ""), ("NEW_CODE", "something\nnew")]
COMMENTS = [None, "", "flex: off", "flex: waiting for capacity", "somebody's own words"]
PAST = ["-8d", "-7d", "-6h", "-20m", "-2m", "-95s", "-80s", "-10s", "now"]
FUTURE = ["+10s", "+80s", "+100s", "+4m", "+9m", "+14m", "+3h", "+6d"]
NAMES = [f"c1-gx-{n}" for n in range(4)] + ["c1-gy-0", "c1-gy-1"]
SHORT_FLAGS = ["POWERED_DOWN", "POWERING_UP", "POWERING_DOWN", "DRAIN", "NOT_RESPONDING"]

times = st.sampled_from(PAST + FUTURE)
maybe_times = st.none() | times


@st.composite
def states(draw: st.DrawFn) -> str:
    base = draw(st.sampled_from(BASES))
    few = st.lists(st.sampled_from(SHORT_FLAGS), max_size=2, unique=True)
    many = st.lists(st.sampled_from(FLAGS), max_size=len(FLAGS), unique=True)
    return "+".join([base, "CLOUD", *draw(few | many)])


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    return node(
        name,
        draw(states()),
        reason=draw(st.sampled_from(REASONS)),
        since=draw(st.none() | st.sampled_from(PAST)),
        user=draw(st.sampled_from([None, "root", "slurm"])),
        instance_id=draw(st.sampled_from([None, "11"])),
        boot_time=draw(st.none() | st.sampled_from(PAST)),
        comment=draw(st.sampled_from(COMMENTS)),
    )[0]


@st.composite
def instances(draw: st.DrawFn) -> InPool:
    name = draw(st.sampled_from([*NAMES, "c1-gx-77", "visitor-1"]))
    return instance(
        name,
        draw(st.sampled_from(STATUSES)),
        action=draw(st.sampled_from(MIG_ACTIONS)),
        created=draw(st.none() | st.sampled_from(PAST)),
        ends=draw(maybe_times),
        number=draw(st.sampled_from([None, "11", "12"])),
        cluster=draw(st.sampled_from(["c1", "c1", "c1", "c1", "c2", ""])),
        pool="gy" if "gy" in name else "gx",
        error=draw(st.sampled_from(ERRORS)),
        maintenance=draw(st.none() | maybe_times),
    )[0]


@st.composite
def requests(draw: st.DrawFn, number: int) -> InPool:
    pool_id = draw(st.sampled_from(["gx", "gx", "gx", "gy"]))
    mine = [name for name in NAMES if pool_id in name] + ["c1-gx-77"]
    wanted = draw(st.lists(st.sampled_from(mine), min_size=1, max_size=4, unique=True))
    stem = draw(st.sampled_from(["j51", "j52", "j53", "s0", "s1", "m-0123abcd", "theirs"]))
    return request(
        f"{stem}-{number}",
        ",".join(wanted),
        draw(st.sampled_from(REQUEST_STATES)),
        created=draw(st.none() | st.sampled_from(PAST)),
        duration=draw(st.sampled_from([None, "10m", "7d"])),
        error=draw(st.sampled_from(ERRORS)),
        last=draw(st.sampled_from(ERRORS)),
        pool=pool_id,
    )


@st.composite
def jobs(draw: st.DrawFn, number: int) -> Job:
    state = draw(st.sampled_from(JOB_STATES))
    held = draw(st.lists(st.sampled_from(NAMES), max_size=4, unique=True))
    return job(
        number,
        state,
        nodes="" if state == "PENDING" else ",".join(held),
        needs=",".join(held) if draw(st.booleans()) else "",
        size=draw(st.integers(1, 4)),
        reason=draw(st.sampled_from(WAITS)),
        partition=draw(st.sampled_from(["gx", "gy", "elsewhere"])),
        limit=draw(st.sampled_from([None, "1m", "1h", "9d"])),
        submitted=draw(st.sampled_from(PAST)),
        starts=draw(maybe_times),
        ends=draw(maybe_times),
        priority=draw(st.sampled_from([0, 1, 1000])),
        batch=draw(st.booleans()),
        requeue=draw(st.booleans()),
        exclusive=draw(st.booleans()),
        restarts=draw(st.integers(0, 7)),
        het_job_id=draw(st.sampled_from([None, None, 51])),
        array_tasks=draw(st.sampled_from([None, None, "1-4"])),
        comment=draw(st.sampled_from([None, "flex-signal=USR1@600", "flex-signal=@@"])),
        admin_comment=draw(st.sampled_from(COMMENTS)),
    )


@st.composite
def reservations(draw: st.DrawFn, number: int) -> Reservation:
    kind = draw(
        st.sampled_from(["slurm-flex-j51-", "slurm-flex-c1-gx-0-", "maint_x", "slurm-flexi"])
    )
    held = draw(st.lists(st.sampled_from([*NAMES, "c1-gx-77"]), max_size=4, unique=True))
    return reservation(
        f"{kind}{number}",
        ",".join(held),
        start=draw(times),
        end=draw(times),
        flags=draw(st.sampled_from([OWN_FLAGS, ("MAINT",), ()])),
    )


@st.composite
def worlds(draw: st.DrawFn, /, **fixed: Any) -> Snapshot:
    """A snapshot of two pools (gx: 4 Flex-start nodes, gy: 2 of any kind)."""
    listed = draw(st.lists(st.sampled_from(NAMES), max_size=6, unique=True))
    vms = draw(st.lists(instances(), max_size=6, unique_by=lambda one: one.value.name))
    things: list[Thing] = [
        pool(
            "gx",
            size=4,
            static=draw(st.integers(0, 2)),
            duration=draw(st.sampled_from(["30s", "20m", "7d"])),
        ),
        pool("gy", size=2, model=draw(st.sampled_from(["FLEX_START", "SPOT", "ON_DEMAND"]))),
        *[draw(nodes(name)) for name in listed],
        *vms,
        *[draw(requests(n)) for n in range(draw(st.integers(0, 4)))],
        *[draw(jobs(n)) for n in range(51, 51 + draw(st.integers(0, 4)))],
        *[draw(reservations(n)) for n in range(draw(st.integers(0, 2)))],
    ]
    if draw(st.integers(0, 9)) == 0:
        things.append(draw(st.sampled_from([half_seen("gx"), no_group("gx"), half_seen("gy")])))
    usual: dict[str, Any] = {
        "settings": draw(
            st.sampled_from(
                [
                    {},
                    {"refresh_static": True, "expiry_requeue": True, "max_expiries": 2},
                    {"active_requests": 1, "partial_wait": "1m", "max_queue_wait": "1h"},
                    {
                        "run_duration": "job",
                        "expiry_signal": {"gx": "USR1"},
                        "renew_on_demand": False,
                    },
                ]
            )
        ),
        "config": draw(
            st.sampled_from(
                [
                    {},
                    {
                        "suspend_exc_nodes": "(null)",
                        "suspend_timeout": None,
                        "resume_timeout": None,
                    },
                    {
                        "suspend_exc_nodes": "c1-gx-[0-3]:2,c1-gy-0",
                        "suspend_exc_states": "DRAIN,IDLE",
                    },
                    {"suspend_exc_parts": "gx"},
                ]
            )
        ),
        "version": draw(st.sampled_from(["22.05.8", "24.11.5", "26.05.5", "99.99"])),
        "paused": draw(st.sampled_from([(), (), ("gx",)])),
        "fill": draw(st.booleans()),
    }
    return world(*things, **{**usual, **fixed})


def of(snapshot: Snapshot, name: str) -> tuple[Node | None, list[Instance], list[Request]]:
    """A node as Slurm lists it, its listed instances and the live requests that name it."""
    listed = {one.name: one for one in snapshot.slurm.nodes}
    groups = snapshot.cloud.values()
    vms = [vm for group in groups for vm in group.instances if vm.name == name]
    asked = [one for group in groups for one in group.requests if name in one.nodes and one.is_live]
    return listed.get(name), vms, asked


def brief(snapshot: Snapshot) -> str:
    """The world in a few lines, for a failing test: what isn't as usual."""
    lines = [f"now={snapshot.now:%d %H:%M:%S} settings={snapshot.settings.differing()}"]
    pools = snapshot.cluster.compute_pools
    lines.append(
        " ".join(
            f"pool({one.id} static={one.min_node_count} {one.run_duration} "
            f"{one.provisioning_model.value} complete={snapshot.cloud[one.id].complete})"
            for one in pools
        )
    )
    for kind, items in (
        ("node", snapshot.slurm.nodes),
        ("job", snapshot.slurm.jobs),
        ("reservation", snapshot.slurm.reservations),
        *((f"instance in {name}", one.instances) for name, one in snapshot.cloud.items()),
        *((f"request in {name}", one.requests) for name, one in snapshot.cloud.items()),
    ):
        lines.extend(f"{kind} {_told(item)}" for item in items)
    return "\n".join(lines)


def _told(item: Any) -> str:
    usual = {"flags", "labels", "user", "partition", "comment", "features", "extra"}
    shown = []
    for name in item.__dataclass_fields__:
        value = getattr(item, name)
        if name in usual or value in (None, (), "", 0, False, "None"):
            continue
        shown.append(f"{name}={f'{value:%d %H:%M:%S}' if hasattr(value, 'tzinfo') else value}")
    return " ".join(shown)
