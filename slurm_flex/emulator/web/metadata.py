"""The metadata server, as a VM sees it: ``/vm/NAME/computeMetadata/v1/...``; without ``/vm/NAME``
there is the project's part only. Give a guest ``GCE_METADATA_HOST=127.0.0.1:PORT/vm/NAME``."""

from __future__ import annotations

import json
from typing import Any, Final

from slurm_flex.emulator.core import instances
from slurm_flex.emulator.core.records import Instance
from slurm_flex.emulator.core.world import World
from slurm_flex.emulator.web.catalog_calls import number_of
from slurm_flex.emulator.web.exchange import Answer

FLAVOR: Final = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
Tree = dict[str, Any]
# JSON by itself, and no folder: what every client reads at .../default/token.
_TOKEN: Final = {"access_token": "emulated", "expires_in": 3599, "token_type": "Bearer"}


def metadata(world: World, vm: str, path: str, *, flavored: bool, recursive: bool) -> Answer:
    """One value as text, a folder as its names, or a folder recursively as JSON."""
    if not flavored:
        return _text("Missing Metadata-Flavor:Google header.", 403)
    instance = next((item for item in world.instances if item.name == vm), None) if vm else None
    if vm and instance is None:
        return _text("Not Found", 404)
    found: Any = _tree(instance)
    for part in [part for part in path.split("/") if part]:
        if not isinstance(found, dict) or part not in found:
            return _text("Not Found", 404)
        found = found[part]
    if recursive or found is _TOKEN:
        answer = _text(json.dumps(found))
        answer.content_type = "application/json"
        return answer
    if isinstance(found, dict):
        names = [
            name + ("/" if isinstance(item, dict) and item is not _TOKEN else "")
            for name, item in found.items()
        ]
        return _text("\n".join(names) + "\n")
    return _text(found if isinstance(found, str) else json.dumps(found))


def _tree(instance: Instance | None) -> Tree:
    project = instance.project if instance else "emulated"
    tree: Tree = {
        "project": {
            "project-id": project,
            "numeric-project-id": number_of(project),
            "attributes": {},
        }
    }
    if instance is None:
        tree["instance"] = {"service-accounts": {"default": _account(project)}}
        return tree
    number = number_of(project)
    places = instances.places(instance)
    tree["instance"] = {
        "id": instance.id,
        "name": instance.name,
        "hostname": f"{instance.name}.{instance.zone}.c.{project}.internal",
        "zone": f"projects/{number}/zones/{instance.zone}",
        "machine-type": f"projects/{number}/machineTypes/{places['machine_type']}",
        "attributes": {
            item["key"]: item.get("value", "")
            for item in instance.body.get("metadata", {}).get("items", ())
        },
        "network-interfaces": {"0": {"ip": instance.address}},
        "service-accounts": {"default": _account(project)},
        "preempted": "FALSE",
        "maintenance-event": "NONE",
        "scheduling": {"automatic-restart": "FALSE", "preemptible": "FALSE"},
    }
    return tree


def _account(project: str) -> Tree:
    return {
        "email": f"{number_of(project)}-compute@developer.gserviceaccount.com",
        "scopes": "https://www.googleapis.com/auth/cloud-platform",
        "token": _TOKEN,
    }


def _text(text: str, code: int = 200) -> Answer:
    return Answer(code, text.encode(), "application/text", headers=dict(FLAVOR))
