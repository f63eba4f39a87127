"""A managed instance group as the API writes it."""

from __future__ import annotations

import base64
import hashlib
from typing import Any, Final

from slurm_flex.emulator.core.records import Group
from slurm_flex.emulator.core.wire import Wire
from slurm_flex.emulator.core.world import World

Json = dict[str, Any]
_STATUSES: Final = (
    "deprovisioning", "nonExistent", "pending", "pendingStop", "provisioning", "repairing",
    "running", "staging", "stopped", "stopping", "suspended", "suspending", "terminated",
)  # fmt: skip


def fingerprint(group: Group) -> str:
    """Changes with every patch."""
    digest = hashlib.sha256(f"{group.id}/{group.revision}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def body(world: World, group: Group, wire: Wire) -> Json:
    """The group as the API writes it."""
    actions = dict.fromkeys(
        ("abandoning", "creating", "creatingWithoutRetries", "deleting", "none", "recreating",
         "refreshing", "restarting", "resuming", "starting", "stopping", "suspending",
         "verifying"), 0,
    )  # fmt: skip
    for member in world.members.under(group.path):
        actions[_camel(member.action)] += 1
    versions = group.body.get("versions") or [
        {"instanceTemplate": group.body.get("instanceTemplate", "")}
    ]
    shown = [
        {"targetSize": {"calculated": group.target_size}, **version}
        if index == 0
        else dict(version)
        for index, version in enumerate(versions)
    ]
    statuses = dict.fromkeys(_STATUSES, 0)
    for member in world.members.under(group.path):
        instance = world.instances.get(member.instance) if member.instance else None
        statuses[_camel(instance.status) if instance else "nonExistent"] += 1
    busy = sum(count for name, count in actions.items() if name != "none")
    answer: Json = {
        **group.body,
        "kind": "compute#instanceGroupManager",
        "id": group.id,
        "creationTimestamp": wire.time(group.created),
        "name": group.name,
        "instanceTemplate": versions[0].get("instanceTemplate", ""),
        "versions": shown,
        "baseInstanceName": group.body.get("baseInstanceName") or group.name,
        "instanceGroup": wire.link(group.path.replace("GroupManagers/", "Groups/")),
        "fingerprint": fingerprint(group),
        "currentActions": actions,
        "targetSize": group.target_size,
        "selfLink": wire.link(group.path),
        "status": {"isStable": busy == 0, "versionTarget": {"isReached": True},
                   "stateful": {"hasStatefulConfig": False,
                                "perInstanceConfigs": {"allEffective": True}},
                   "allInstancesConfig": {"effective": True},
                   "currentInstanceStatuses": statuses},
        group.scope.kind: wire.link(f"projects/{group.project}/{group.scope.path}"),
        "updatePolicy": _update_policy(group),
        "instanceLifecyclePolicy": {"defaultActionOnFailure": "REPAIR",
                                    "forceUpdateOnRepair": "NO",
                                    **group.body.get("instanceLifecyclePolicy", {})},
        "listManagedInstancesResults": group.body.get("listManagedInstancesResults", "PAGELESS"),
    }  # fmt: skip
    return answer


def _update_policy(group: Group) -> Json:
    size = {"fixed": 1, "calculated": 1}
    defaults: Json = {
        "type": "OPPORTUNISTIC",
        "minimalAction": "REPLACE",
        "replacementMethod": "SUBSTITUTE",
        "maxSurge": size,
        "maxUnavailable": size,
    }
    if group.scope.is_regional:
        defaults["instanceRedistributionType"] = "PROACTIVE"
    return {**defaults, **group.body.get("updatePolicy", {})}


def _camel(action: str) -> str:
    head, *tail = action.lower().split("_")
    return head + "".join(word.capitalize() for word in tail)
