"""Instances and operations over HTTP."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from slurm_flex.emulator.core import instance_verbs, instance_view, instances, operations
from slurm_flex.emulator.core.records import Instance, Operation
from slurm_flex.emulator.core.scopes import GLOBAL, region_scope, zone_scope
from slurm_flex.emulator.web.calls import Call, serve

Json = dict[str, Any]
_NAME = attrgetter("name")
_ONE = "zones/{zone}/instances/{instance}"


def _instance(call: Call) -> Instance:
    return instances.get(call.world, call.project, call.scope.name, call.path["instance"])


@serve("GET", _ONE, "instances.get")
def _get_instance(call: Call) -> Json:
    return instance_view.body(call.world, _instance(call), call.wire)


@serve("GET", "zones/{zone}/instances", "instances.list")
def _list_instances(call: Call) -> Json:
    scope = call.scope
    return call.listing(
        "compute#instanceList",
        call.world.instances.under(f"{call.project}/{scope.name}"),
        _NAME,
        lambda item: instance_view.body(call.world, item, call.wire),
        collection=f"{scope.path}/instances",
    )


@serve("GET", "aggregated/instances", "instances.aggregatedList", bucket="heavy")
def _aggregated_instances(call: Call) -> Json:
    world = call.world
    return call.aggregated(
        "compute#instanceAggregatedList",
        "instances",
        {
            zone_scope(zone).path: world.instances.under(f"{call.project}/{zone}")
            for zone in world.catalog.zones
        },
        _NAME,
        lambda item: instance_view.body(world, item, call.wire),
    )


@serve("GET", _ONE + "/serialPort", "instances.getSerialPortOutput")
def _serial_port(call: Call) -> Json:
    instance = _instance(call)
    text: str = call.outside.console(instance)
    start = int(call.params.get("start") or 0)
    raw = text.encode()
    return {
        "kind": "compute#serialPortOutput",
        "selfLink": call.wire.link(f"{instance.path}/serialPort"),
        "contents": raw[start:].decode(errors="replace"),
        "start": str(start),
        "next": str(len(raw)),
    }


@serve("POST", "zones/{zone}/instances", "instances.insert", schema="Instance")
def _insert_instance(call: Call) -> Json:
    template = call.params.get("sourceInstanceTemplate", "")
    return call.operation(
        instance_verbs.insert(
            call.world, call.project, call.scope, call.body, template, call.request_id
        )
    )


@serve("DELETE", _ONE, "instances.delete")
def _delete_instance(call: Call) -> Json:
    return call.operation(instance_verbs.delete(call.world, _instance(call), call.request_id))


@serve("POST", _ONE + "/setLabels", "instances.setLabels", schema="InstancesSetLabelsRequest")
def _set_labels(call: Call) -> Json:
    return call.operation(
        instance_verbs.set_labels(call.world, _instance(call), call.body, call.request_id)
    )


@serve("POST", _ONE + "/setMetadata", "instances.setMetadata", schema="Metadata")
def _set_metadata(call: Call) -> Json:
    return call.operation(
        instance_verbs.set_metadata(call.world, _instance(call), call.body, call.request_id)
    )


@serve("POST", _ONE + "/reportHostAsFaulty", "instances.reportHostAsFaulty",
       schema="InstancesReportHostAsFaultyRequest")  # fmt: skip
def _report_faulty(call: Call) -> Json:
    return call.operation(
        instance_verbs.report_faulty(call.world, _instance(call), call.body, call.request_id)
    )


@serve("POST", _ONE + "/simulateMaintenanceEvent", "instances.simulateMaintenanceEvent")
def _simulate_maintenance(call: Call) -> Json:
    return call.operation(
        instance_verbs.simulate_maintenance(call.world, _instance(call), call.request_id)
    )


@serve("POST", _ONE + "/performMaintenance", "instances.performMaintenance")
def _perform_maintenance(call: Call) -> Json:
    return call.operation(
        instance_verbs.perform_maintenance(call.world, _instance(call), call.request_id)
    )


def _operation(call: Call) -> Operation:
    return operations.get(call.world, call.project, call.scope, call.path["operation"])


@serve("GET", "zones/{zone}/operations/{operation}", "zoneOperations.get", bucket="operation_read")
@serve("GET", "regions/{region}/operations/{operation}", "regionOperations.get",
       bucket="operation_read")  # fmt: skip
@serve("GET", "global/operations/{operation}", "globalOperations.get", bucket="operation_read")
def _get_operation(call: Call) -> Json:
    return call.operation(_operation(call))


@serve("POST", "zones/{zone}/operations/{operation}/wait", "zoneOperations.wait", bucket="heavy")
@serve("POST", "regions/{region}/operations/{operation}/wait", "regionOperations.wait",
       bucket="heavy")  # fmt: skip
@serve("POST", "global/operations/{operation}/wait", "globalOperations.wait", bucket="heavy")
def _wait_operation(call: Call) -> Json:
    """Its state now; the server asks again until it is DONE or two minutes are over."""
    return call.operation(_operation(call))


@serve("GET", "zones/{zone}/operations", "zoneOperations.list")
@serve("GET", "regions/{region}/operations", "regionOperations.list")
@serve("GET", "global/operations", "globalOperations.list")
def _list_operations(call: Call) -> Json:
    scope = call.scope
    return call.listing(
        "compute#operationList",
        call.world.operations.under(f"{call.project}/{scope.path}"),
        _NAME,
        lambda item: operations.body(item, call.wire),
        collection=f"{scope.path}/operations",
    )


@serve("GET", "aggregated/operations", "globalOperations.aggregatedList", bucket="heavy")
def _aggregated_operations(call: Call) -> Json:
    catalog = call.world.catalog
    scopes = [GLOBAL, *map(region_scope, catalog.regions), *map(zone_scope, catalog.zones)]
    by_scope = {
        scope.path: call.world.operations.under(f"{call.project}/{scope.path}") for scope in scopes
    }
    return call.aggregated(
        "compute#operationAggregatedList",
        "operations",
        by_scope,
        _NAME,
        lambda item: operations.body(item, call.wire),
    )
