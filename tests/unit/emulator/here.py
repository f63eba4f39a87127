"""An emulated cloud under a clock that stands still until a test moves it; no HTTP, no process."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

from slurm_flex.emulator.core.clock import ManualClock
from slurm_flex.emulator.core.cloud import Cloud
from slurm_flex.emulator.core.knobs import Knobs, change
from slurm_flex.emulator.core.world import World
from slurm_flex.emulator.drivers.base import Driver
from slurm_flex.emulator.web.exchange import Asked
from slurm_flex.emulator.web.service import Service

Json = dict[str, Any]
T0 = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)
ZONE = "zones/us-central1-a"
REGION = "regions/us-central1"
PACE = {
    "op_delay": "2s",
    "accept_delay": "4s",
    "provision_delay": "10s",
    "boot_delay": "20s",
    "stopping_delay": "30s",
    "capacity_retry": "60s",
}


class Here:
    """The cloud, and words for what tests do to it. Bodies are what the API takes and gives."""

    def __init__(
        self, driver: Driver | None = None, *, seed: int | None = 1, **knobs: object
    ) -> None:
        self.clock = ManualClock(T0)
        self.world = World(T0, knobs=change(Knobs(), {**PACE, **knobs}), seed=seed)
        self.wall = 0.0
        self.service = Service(Cloud(self.world, self.clock), driver, wall=lambda: self.wall)
        self.place = ZONE

    def call(self, verb: str, path: str, body: object = None, **params: str) -> tuple[int, Json]:
        """One call below ``projects/p/``: its code and its JSON."""
        raw = b"" if body is None else json.dumps(body).encode()
        prefix = "" if path.startswith("/") else "/compute/v1/projects/p/"
        answer = self.service.answer(Asked(verb, prefix + path, params, raw))
        try:
            return answer.code, json.loads(answer.body) if answer.body else {}
        except ValueError:
            return answer.code, {"html": answer.body.decode()}

    def ok(self, verb: str, path: str, body: object = None, **params: str) -> Json:
        """The JSON of a call that must succeed."""
        code, found = self.call(verb, path, body, **params)
        assert code == 200, found
        return found

    def refused(self, code: int, verb: str, path: str, body: object = None, **params: str) -> str:
        """The message of a call that must be refused with this code."""
        found_code, found = self.call(verb, path, body, **params)
        assert found_code == code, found
        return str(found["error"]["message"])

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.skip(timedelta(seconds=seconds))
        self.service.settle()

    def done(self, operation: Json) -> Json:
        """The operation, some time later; it must be DONE."""
        self.wait(10)
        found = self.ok("GET", operation["selfLink"].partition("/projects/p/")[2])
        assert found["status"] == "DONE", found
        return found

    def failure(self, operation: Json) -> Json:
        """The first error of an operation that must fail."""
        found = self.done(operation)
        return dict(found["error"]["errors"][0])

    def group(
        self,
        name: str = "g",
        machine: str = "a3-ultragpu-8g",
        model: str = "FLEX_START",
        **more: Any,
    ) -> str:
        """Make a template and a group as Flex-start wants them; its path below the project."""
        template = {
            "name": f"{name}-t",
            "properties": {
                "machineType": machine,
                "labels": {"slurm-flex-cluster": "c1"},
                "scheduling": {
                    "provisioningModel": model,
                    "instanceTerminationAction": "DELETE",
                    "onHostMaintenance": "TERMINATE",
                    "automaticRestart": False,
                },
            },
        }
        self.ok("POST", "global/instanceTemplates", template)
        body = {
            "name": name,
            "targetSize": 0,
            "versions": [{"instanceTemplate": f"projects/p/global/instanceTemplates/{name}-t"}],
            "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
        }
        if self.place.startswith("regions"):
            body["distributionPolicy"] = {"targetShape": "ANY_SINGLE_ZONE"}
            body["updatePolicy"] = {"instanceRedistributionType": "NONE"}
        self.ok("POST", f"{self.place}/instanceGroupManagers", {**body, **more})
        return f"{self.place}/instanceGroupManagers/{name}"

    def ask(self, group: str, name: str, *nodes: str, seconds: int = 3600, **params: str) -> Json:
        """Insert a resize request for named nodes; the operation."""
        body = {
            "name": name,
            "instances": [{"name": node} for node in nodes],
            "requestedRunDuration": {"seconds": str(seconds)},
        }
        return self.ok("POST", f"{group}/resizeRequests", body, **params)

    def request(self, group: str, name: str) -> Json:
        """A resize request."""
        return self.ok("GET", f"{group}/resizeRequests/{name}")

    def up(self, group: str, name: str, *nodes: str, seconds: int = 3600) -> None:
        """Ask for nodes and wait until they run."""
        self.ask(group, name, *nodes, seconds=seconds)
        self.wait(40)
        assert self.request(group, name)["state"] == "SUCCEEDED"

    def members(self, group: str) -> dict[str, Json]:
        """The managed instances of a group by name."""
        found = self.ok("POST", f"{group}/listManagedInstances")
        return {item["name"]: item for item in found.get("managedInstances", [])}

    def size(self, group: str) -> int:
        """The group's target size."""
        return int(self.ok("GET", group)["targetSize"])

    def instances(self) -> dict[str, str]:
        """Status by name of the zone's instances."""
        found = self.ok("GET", f"{ZONE}/instances")
        return {item["name"]: item["status"] for item in found.get("items", [])}

    def fault(self, name: str, **order: Any) -> None:
        """Set a fault; ``lasting`` is ``for``, ``within`` is ``in``."""
        words = {"lasting": "for", "within": "in"}
        self.service.set_fault({"name": name, **{words.get(k, k): v for k, v in order.items()}})
        self.service.settle()

    def knob(self, **values: object) -> None:
        """Turn knobs."""
        self.service.cloud.set_knobs(values)
