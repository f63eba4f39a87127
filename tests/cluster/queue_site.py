"""The world in which the stories of the queue are told: each has a pool of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

from slurm_flex.demo.site_files import DemoPool, DemoSite
from slurm_flex.demo.world import World
from tests.cluster.side_by_side import Stage

RESUME_TIMEOUT = timedelta(seconds=15)
MAX_QUEUE_WAIT = timedelta(seconds=55)
PARTIAL_WAIT = timedelta(seconds=15)
QUOTA_BACKOFF = timedelta(seconds=8)
LAUNCHES = 3
NO_CAPACITY = "ZONE_RESOURCE_POOL_EXHAUSTED"


@dataclass(frozen=True)
class Site(DemoSite):
    """With a partition `two` over the pools first and second, in this order."""

    def cluster_text(self) -> str:
        cluster = json.loads(super().cluster_text())
        spec = cluster["orchestrator_spec"]["slurm_spec"]
        spec["partitions"] = [one for one in spec["partitions"] if one["id"] not in _BOTH]
        spec["partitions"].append({"id": "two", "node_pool_ids": list(_BOTH)})
        return json.dumps(cluster)


_BOTH = ("first", "second")
SITE = Site(
    name="c1",
    pools=[
        DemoPool("dry", dynamic=3),
        DemoPool("quota", dynamic=2),
        DemoPool("failing", dynamic=1),
        DemoPool("part", dynamic=2),
        DemoPool("talk", dynamic=1),
        DemoPool("late", dynamic=2),
        DemoPool("both", dynamic=2),
        DemoPool("half", dynamic=2),
        DemoPool("shut", dynamic=1),
        DemoPool("again", dynamic=1),
        DemoPool("tasks", dynamic=2),
        DemoPool("hand", dynamic=1),
        *(DemoPool(name, dynamic=1) for name in _BOTH),
    ],
    settings={
        "resume_timeout": RESUME_TIMEOUT,
        "max_queue_wait": MAX_QUEUE_WAIT,
        "partial_wait": PARTIAL_WAIT,
        "capacity_backoff": timedelta(seconds=10),
        "quota_backoff": QUOTA_BACKOFF,
        "launches_per_node_hour": LAUNCHES,
        "suspend_time": timedelta(seconds=6),
    },
)
STAGE = Stage(lambda release: World(SITE, release=release))
