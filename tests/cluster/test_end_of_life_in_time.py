"""The known end of VMs, on a real slurmctld that lives in another time zone than Compute Engine.

Each story has a pool of its own. Wherever a story waits for the end of a VM it would wait for
hours, or in vain, if somebody took the local time for UTC.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import partial

import pytest

from slurm_flex.demo.site_files import DemoPool, DemoSite
from slurm_flex.demo.world import World
from tests.cluster.side_by_side import Stage
from tests.cluster.truth import slurm_time
from tests.cluster.watch import TICK, Watch, moment, names

pytestmark = pytest.mark.cluster

MARGIN = timedelta(minutes=1)
WARNING = timedelta(seconds=25)
LAPSES = timedelta(hours=1)  # after the end, whatever becomes of slurm-flex
SITE = DemoSite(
    name="c1",
    pools=[
        DemoPool("fit", dynamic=2),
        DemoPool("renew", dynamic=1),
        DemoPool("saves", dynamic=1),
        DemoPool("tired", dynamic=1),
        DemoPool("far", dynamic=2),
        DemoPool("kept", static=1),
        DemoPool("moved", dynamic=1),
    ],
    settings={
        "end_margin": MARGIN,
        "expiry_warning": WARNING,
        "min_useful_life": timedelta(minutes=15),
        "refresh_static": True,
        # Nobody but slurm-flex sends an idle node home.
        "suspend_time": timedelta(minutes=10),
    },
)
IN_KOREA = "KST-9"


def before_a_change() -> tuple[str, datetime]:
    """A zone whose clocks go back the day after tomorrow, and the instant at which they do."""
    day = datetime.now(timezone.utc).date() + timedelta(days=2)
    number = day.timetuple().tm_yday - 1
    # One hour ahead of UTC, two in summer: 03:00 there is 01:00 in UTC, and becomes 02:00.
    change = datetime(day.year, day.month, day.day, 1, tzinfo=timezone.utc)
    return f"AAT-1AAS,{(number + 180) % 365}/2,{number}/3", change


def world_elsewhere(release: str) -> World:
    """slurmctld and slurm-flex live in another time zone than this test."""
    with pytest.MonkeyPatch.context() as env:
        env.setenv("TZ", IN_KOREA if release == "22.05" else before_a_change()[0])
        return World(SITE, release=release)


STAGE = Stage(world_elsewhere)


# --- what these stories do and see


def power_up(watch: Watch, *nodes: str) -> None:
    """As an admin would, with no job in sight; returns once they are up."""
    for node in nodes:
        watch.slurm.scontrol("update", f"nodename={node}", "state=power_up")
    watch.until(lambda: watch.is_up(*nodes), f"{nodes} are up")


def send_home(watch: Watch, pool: str) -> None:
    """What a story leaves up is nobody's; then nothing of it may be left."""
    nodes = [node for node in watch.vms(pool) if watch.is_up(node)]
    if nodes:
        watch.slurm.scontrol(
            "update", f"nodename={','.join(nodes)}", "state=power_down_asap", "reason=over"
        )
    watch.nothing_is_left_of(pool)


def ends_in(watch: Watch, node: str, left: timedelta) -> None:
    watch.world.emulator.faults.set(
        "end_of_life", instance=node, within=f"{left.total_seconds():.0f}s"
    )


def end_of(watch: Watch, node: str) -> datetime:
    """The end of the node's VM, as Compute Engine tells it."""
    (vm,) = [one for one in watch.world.emulator.world()["instances"] if one["name"] == node]
    return moment(vm["terminates"])


def reserved(watch: Watch) -> dict[str, tuple[str, datetime, datetime]]:
    """Our reservation, its start and end, by node."""
    return {
        node: (name, slurm_time(record["StartTime"]), slurm_time(record["EndTime"]))
        for name, record in watch.look().reservations.items()
        if name.startswith("slurm-flex-")
        for node in names(record["Nodes"])
    }


def is_reserved(watch: Watch, node: str) -> bool:
    """Slurm keeps jobs away from the margin before the very instant at which the VM ends."""
    ends = end_of(watch, node)
    _, start, end = reserved(watch).get(node, ("", ends, ends))
    second = timedelta(seconds=1)
    return abs(start - (ends - MARGIN)) <= second and abs(end - (ends + LAPSES)) <= second


def events(watch: Watch, kind: str, node: str) -> list[str]:
    lines = watch.world.flex("events").splitlines()
    return [line for line in lines if kind in line and node in line]


# --- the stories


@STAGE.story
def test_a_job_that_fits_starts_on_the_old_node_and_one_that_doesnt_gets_a_fresh_one(
    life: Watch,
) -> None:
    old, other = "c1-fit-0", "c1-fit-1"
    power_up(life, old)
    ends_in(life, old, timedelta(minutes=10))
    life.until(lambda: is_reserved(life, old), "the end is reserved")
    vm = life.vms("fit")[old]

    long = life.script("--time=30", pool="fit", text="srun hostname")
    life.until(lambda: life.nodes_of(long) == (other,), "the long one gets a fresh node")
    short = life.script("--time=5", pool="fit", text="sleep 25; hostname")
    life.until(lambda: life.state(short) == "RUNNING", "the short one starts at once")
    assert life.nodes_of(short) == (old,)
    assert life.vms("fit")[old] == vm

    # This one insists on the node, and waits for it to be renewed; not while somebody runs there.
    late = life.script("--time=30", f"--nodelist={old}", pool="fit", text="srun hostname")
    life.until(lambda: life.state(late) == "PENDING", "the late one is seen")
    life.stays(
        lambda: life.state(late) == "PENDING" and life.vms("fit").get(old) == vm,
        "it waits",
        timedelta(seconds=8),
    )
    life.until(lambda: life.state(short) == "COMPLETED", "the short one is done", TICK)
    assert life.slurm.output(short).split() == [old]
    life.until(lambda: life.state(late) == "COMPLETED", "the late one runs", 2 * TICK)
    assert life.vms("fit")[old] != vm
    life.until(lambda: life.state(long) == "COMPLETED", "and so does the long one", TICK)
    assert [life.restarts(job) for job in (long, short, late)] == [0, 0, 0]
    assert life.slurm.output(long).split() == [other]
    send_home(life, "fit")


@STAGE.story
def test_a_job_without_a_time_limit_gets_the_only_node_renewed_once(life: Watch) -> None:
    node = "c1-renew-0"
    power_up(life, node)
    vm = life.vms("renew")[node]
    ends_in(life, node, timedelta(days=6))
    life.until(lambda: is_reserved(life, node), "the end is reserved")
    job = life.script(pool="renew")
    life.until(lambda: life.vms("renew").get(node) not in (None, vm), "a new VM", TICK)
    life.until(lambda: life.state(job) == "RUNNING", "the job runs", TICK)
    assert len(life.asked("renew")) == 2, "the first VM and its successor"
    assert life.restarts(job) == 0
    life.cancel(job)
    send_home(life, "renew")


# Works in units of a second. At the signal it saves how many it has done and then does nothing
# more: whatever came after that would be lost, or done twice.
SAVES = """
folder={folder}
count=$(cat $folder/saved 2>/dev/null || echo 0)
echo "start at $count" >>$folder/story
save() {{
    echo "signal at $count" >>$folder/story
    echo $count >$folder/saved
    saved=yes
}}
trap save USR1
while [ $count -lt {units} ]; do
    sleep 1
    [ -z "$saved" ] || continue
    count=$((count + 1))
    echo $count >>$folder/work
done
echo "end at $count" >>$folder/story
"""
UNITS = 25


@STAGE.story
def test_a_job_that_saves_at_the_signal_finishes_on_a_second_vm_with_nothing_lost(
    life: Watch,
) -> None:
    folder, node = life.world.folder / "saves", "c1-saves-0"
    folder.mkdir()
    job = life.script(
        "--comment=part of my thesis flex-signal=USR1@20",
        "--open-mode=append",
        pool="saves",
        text=SAVES.format(folder=folder, units=UNITS),
    )
    life.until((folder / "work").exists, "it works", TICK)
    vm = life.vms("saves")[node]
    ends_in(life, node, timedelta(seconds=32))
    ends = end_of(life, node)
    life.until((folder / "saved").exists, "it saves")
    assert timedelta(seconds=10) < ends - datetime.now(timezone.utc) < timedelta(seconds=20)
    life.world.daemon.kill()
    life.world.daemon.start()

    life.until(lambda: life.restarts(job) == 1, "its node ends")
    assert datetime.now(timezone.utc) >= ends
    life.until(lambda: life.state(job) == "COMPLETED", "it finishes", 2 * TICK)
    done = [int(line) for line in (folder / "work").read_text().split()]
    assert done == list(range(1, UNITS + 1)), "each unit once, in order"
    saved = int((folder / "saved").read_text())
    assert (folder / "story").read_text().splitlines() == [
        "start at 0",
        f"signal at {saved}",
        f"start at {saved}",
        f"end at {UNITS}",
    ]
    told = life.slurm.output(job)
    assert told.count("this node ends at") == 1
    assert f"{ends:%Y-%m-%d %H:%M} UTC (Flex-start limit); it will be requeued" in told
    assert life.vms("saves")[node] != vm
    assert len(life.asked("saves")) == 2
    assert len(events(life, "NODE_EXPIRED", node)) == 1
    send_home(life, "saves")


@STAGE.story
def test_a_job_whose_host_goes_into_maintenance_is_told_and_starts_again_on_another(
    life: Watch,
) -> None:
    """It asked for its signal in --extra, where this release has that."""
    node = "c1-moved-0"
    where = "--comment" if life.world.release == "22.05" else "--extra"
    text = "trap 'echo saved' USR1\necho begins\nfor i in $(seq 40); do sleep 1; done\necho done"
    asks = f"{where}=flex-signal=USR1@15"
    job = life.script(asks, "--open-mode=append", pool="moved", text=text)
    life.until(lambda: life.state(job) == "RUNNING", "it runs", TICK)
    vm = life.vms("moved")[node]
    life.world.emulator.faults.set("maintenance", instance=node, within="32s")
    announced = f"slurm-flex-j{job}-1-maintenance"
    life.until(lambda: reserved(life).get(node, ("",))[0] == announced, "it is reserved for")

    life.until(lambda: life.restarts(job) == 1, "the host goes into maintenance", 2 * TICK)
    life.until(lambda: life.state(job) == "COMPLETED", "it is done", 3 * TICK)
    told = life.slurm.output(job)
    assert "UTC (host maintenance); it will be requeued" in told
    assert [told.count(word) for word in ("begins", "saved", "done")] == [2, 1, 1]
    assert life.vms("moved")[node] != vm
    (expired,) = events(life, "NODE_EXPIRED", node)
    assert "host maintenance" in expired
    send_home(life, "moved")


@STAGE.story
def test_an_idle_node_near_its_end_goes_home_before_it_and_stays_there(life: Watch) -> None:
    node = "c1-tired-0"
    power_up(life, node)
    ends_in(life, node, timedelta(seconds=70))
    ends = end_of(life, node)
    life.until(lambda: is_reserved(life, node), "the end is reserved")
    life.until(lambda: not life.is_up(node), "it goes home", TICK)
    assert datetime.now(timezone.utc) < ends
    life.nothing_is_left_of("tired")
    assert not events(life, "NODE_EXPIRED", node)
    assert len(life.asked("tired")) == 1


@STAGE.story
def test_an_idle_static_node_is_renewed_before_its_end(life: Watch) -> None:
    node = "c1-kept-0"
    life.until(lambda: life.is_up(node), "it is up", TICK)
    vm = life.vms("kept")[node]
    ends_in(life, node, timedelta(seconds=70))
    life.until(lambda: life.vms("kept").get(node) not in (None, vm), "a new VM", 2 * TICK)
    life.until(lambda: life.is_up(node), "it is up again", TICK)
    life.until(lambda: is_reserved(life, node), "its new end is reserved")
    assert not events(life, "NODE_EXPIRED", node)
    assert len(life.asked("kept")) == 2


@STAGE.story
def test_reservations_stand_at_the_very_instant_in_any_time_zone(life: Watch) -> None:
    """Also in the hour that there is twice; and what an admin reserved stays as it is."""
    nodes = ("c1-far-0", "c1-far-1")
    admins = ("reservation=slurmflex_service", "starttime=now+2hours", "duration=30")
    life.slurm.scontrol("create", *admins, "nodes=c1-far-1", "flags=maint", "users=root")
    service = life.slurm.scontrol("-o", "show", "reservation", "slurmflex_service")
    power_up(life, *nodes)
    _, change = before_a_change()
    half_an_hour = timedelta(minutes=30)
    for node, ends in zip(nodes, (change - half_an_hour, change + half_an_hour), strict=True):
        ends_in(life, node, ends - datetime.now(timezone.utc))
    for node in nodes:
        life.until(partial(is_reserved, life, node), f"the end of {node} is reserved")
    first, second = (reserved(life)[node][1] for node in nodes)
    assert timedelta(minutes=59) < second - first < timedelta(minutes=61)

    ends_in(life, nodes[0], timedelta(hours=9, minutes=30))
    life.until(partial(is_reserved, life, nodes[0]), "the new end is reserved")
    assert life.slurm.scontrol("-o", "show", "reservation", "slurmflex_service") == service
    life.slurm.scontrol("delete", "reservationname=slurmflex_service")
    send_home(life, "far")
