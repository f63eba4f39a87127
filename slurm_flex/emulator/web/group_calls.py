"""Templates, groups and resize requests over HTTP, zonal and regional."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from slurm_flex.emulator.core import (
    group_changes,
    group_verbs,
    group_view,
    groups,
    members,
    requests,
    templates,
)
from slurm_flex.emulator.core.lists import Query, page
from slurm_flex.emulator.core.records import Group
from slurm_flex.emulator.core.scopes import GLOBAL, region_scope, zone_scope
from slurm_flex.emulator.web.calls import Call, integer, serve, serve_both

Json = dict[str, Any]
_NAME = attrgetter("name")
_MIG = "instanceGroupManagers"
_ONE = _MIG + "/{instanceGroupManager}"
_ZONAL = "instanceGroupManagers"
_REGIONAL = "regionInstanceGroupManagers"
_RR_ZONAL = "instanceGroupManagerResizeRequests"
_RR_REGIONAL = "regionInstanceGroupManagerResizeRequests"


@serve("POST", "global/instanceTemplates", "instanceTemplates.insert", schema="InstanceTemplate")
@serve("POST", "regions/{region}/instanceTemplates", "regionInstanceTemplates.insert",
       schema="InstanceTemplate")  # fmt: skip
def _insert_template(call: Call) -> Json:
    return call.operation(
        templates.insert(call.world, call.project, call.scope, call.body, call.request_id)
    )


@serve("GET", "global/instanceTemplates/{instanceTemplate}", "instanceTemplates.get")
@serve(
    "GET", "regions/{region}/instanceTemplates/{instanceTemplate}", "regionInstanceTemplates.get"
)
def _get_template(call: Call) -> Json:
    name = call.path["instanceTemplate"]
    return templates.body(templates.get(call.world, call.project, call.scope, name), call.wire)


@serve("GET", "global/instanceTemplates", "instanceTemplates.list")
@serve("GET", "regions/{region}/instanceTemplates", "regionInstanceTemplates.list")
def _list_templates(call: Call) -> Json:
    scope = call.scope
    found = call.world.templates.under(f"{call.project}/{scope.path}")
    return call.listing(
        "compute#instanceTemplateList",
        found,
        _NAME,
        lambda item: templates.body(item, call.wire),
        collection=f"{scope.path}/instanceTemplates",
    )


@serve("DELETE", "global/instanceTemplates/{instanceTemplate}", "instanceTemplates.delete")
@serve("DELETE", "regions/{region}/instanceTemplates/{instanceTemplate}",
       "regionInstanceTemplates.delete")  # fmt: skip
def _delete_template(call: Call) -> Json:
    name = call.path["instanceTemplate"]
    return call.operation(
        templates.delete(call.world, call.project, call.scope, name, call.request_id)
    )


@serve_both("POST", _MIG, f"{_ZONAL}.insert", f"{_REGIONAL}.insert",
            schemas=("InstanceGroupManager", "InstanceGroupManager"))  # fmt: skip
def _insert_group(call: Call) -> Json:
    return call.operation(
        groups.insert(call.world, call.project, call.scope, call.body, call.request_id)
    )


@serve_both("GET", _ONE, f"{_ZONAL}.get", f"{_REGIONAL}.get")
def _get_group(call: Call) -> Json:
    return group_view.body(call.world, call.group, call.wire)


@serve_both("GET", _MIG, f"{_ZONAL}.list", f"{_REGIONAL}.list")
def _list_groups(call: Call) -> Json:
    scope = call.scope
    kind = "regionI" if scope.is_regional else "i"
    return call.listing(
        f"compute#{kind}nstanceGroupManagerList",
        call.world.groups.under(f"{call.project}/{scope.path}"),
        _NAME,
        lambda item: group_view.body(call.world, item, call.wire),
        collection=f"{scope.path}/{_MIG}",
    )


@serve_both("PATCH", _ONE, f"{_ZONAL}.patch", f"{_REGIONAL}.patch",
            schemas=("InstanceGroupManager", "InstanceGroupManager"))  # fmt: skip
def _patch_group(call: Call) -> Json:
    return call.operation(groups.patch(call.world, call.group, call.body, call.request_id))


@serve_both("DELETE", _ONE, f"{_ZONAL}.delete", f"{_REGIONAL}.delete")
def _delete_group(call: Call) -> Json:
    return call.operation(groups.delete(call.world, call.group, call.request_id))


@serve_both("POST", _ONE + "/resize", f"{_ZONAL}.resize", f"{_REGIONAL}.resize")
def _resize(call: Call) -> Json:
    size = integer(call, "size")
    return call.operation(group_verbs.resize(call.world, call.group, size, call.request_id))


@serve_both("POST", _ONE + "/deleteInstances", f"{_ZONAL}.deleteInstances",
            f"{_REGIONAL}.deleteInstances",
            schemas=("InstanceGroupManagersDeleteInstancesRequest",
                     "RegionInstanceGroupManagersDeleteInstancesRequest"))  # fmt: skip
def _delete_instances(call: Call) -> Json:
    return call.operation(
        group_verbs.delete_instances(call.world, call.group, call.body, call.request_id)
    )


@serve_both("POST", _ONE + "/createInstances", f"{_ZONAL}.createInstances",
            f"{_REGIONAL}.createInstances",
            schemas=("InstanceGroupManagersCreateInstancesRequest",
                     "RegionInstanceGroupManagersCreateInstancesRequest"))  # fmt: skip
def _create_instances(call: Call) -> Json:
    return call.operation(
        group_verbs.create_instances(call.world, call.group, call.body, call.request_id)
    )


@serve_both("POST", _ONE + "/recreateInstances", f"{_ZONAL}.recreateInstances",
            f"{_REGIONAL}.recreateInstances",
            schemas=("InstanceGroupManagersRecreateInstancesRequest",
                     "RegionInstanceGroupManagersRecreateRequest"))  # fmt: skip
def _recreate_instances(call: Call) -> Json:
    return call.operation(
        group_changes.recreate(call.world, call.group, call.body, call.request_id)
    )


@serve_both("POST", _ONE + "/abandonInstances", f"{_ZONAL}.abandonInstances",
            f"{_REGIONAL}.abandonInstances",
            schemas=("InstanceGroupManagersAbandonInstancesRequest",
                     "RegionInstanceGroupManagersAbandonInstancesRequest"))  # fmt: skip
def _abandon_instances(call: Call) -> Json:
    return call.operation(group_changes.abandon(call.world, call.group, call.body, call.request_id))


@serve_both("POST", _ONE + "/applyUpdatesToInstances", f"{_ZONAL}.applyUpdatesToInstances",
            f"{_REGIONAL}.applyUpdatesToInstances",
            schemas=("InstanceGroupManagersApplyUpdatesRequest",
                     "RegionInstanceGroupManagersApplyUpdatesRequest"))  # fmt: skip
def _apply_updates(call: Call) -> Json:
    return call.operation(group_changes.apply_updates(call.world, call.group, call.body))


@serve_both("POST", _ONE + "/listManagedInstances", f"{_ZONAL}.listManagedInstances",
            f"{_REGIONAL}.listManagedInstances")  # fmt: skip
def _list_managed(call: Call) -> Json:
    """Pages only where the group says PAGINATED; no order (documented)."""
    group = call.group
    params = {
        key: value for key, value in call.params.items() if key not in ("orderBy", "order_by")
    }
    paginated = group.body.get("listManagedInstancesResults") == "PAGINATED"
    if not paginated:
        params = {key: value for key, value in params.items() if key == "filter"}
    query = Query.read(params)
    if not paginated:
        query = Query(query.filter, most=10**6)
    found = page(
        call.world.members.under(group.path),
        query,
        _NAME,
        lambda member: members.body(call.world, member, call.wire),
    )
    answer: Json = {"managedInstances": found.items} if found.items else {}
    if found.next_token:
        answer["nextPageToken"] = found.next_token
    return answer


@serve_both("GET", _ONE + "/listErrors", f"{_ZONAL}.listErrors", f"{_REGIONAL}.listErrors",
            bucket="write")  # fmt: skip
def _list_errors(call: Call) -> Json:
    errors = group_verbs.listed_errors(call.group, call.wire)
    return {"items": errors} if errors else {}


@serve_both("POST", _ONE + "/resizeRequests", f"{_RR_ZONAL}.insert", f"{_RR_REGIONAL}.insert",
            schemas=("InstanceGroupManagerResizeRequest",
                     "InstanceGroupManagerResizeRequest"))  # fmt: skip
def _insert_request(call: Call) -> Json:
    return call.operation(requests.insert(call.world, call.group, call.body, call.request_id))


@serve_both("GET", _ONE + "/resizeRequests/{resizeRequest}", f"{_RR_ZONAL}.get",
            f"{_RR_REGIONAL}.get")  # fmt: skip
def _get_request(call: Call) -> Json:
    return requests.body(
        requests.get(call.world, call.group, call.path["resizeRequest"]), call.wire
    )


@serve_both("GET", _ONE + "/resizeRequests", f"{_RR_ZONAL}.list", f"{_RR_REGIONAL}.list")
def _list_requests(call: Call) -> Json:
    group = call.group
    kind = "regionI" if group.scope.is_regional else "i"
    return call.listing(
        f"compute#{kind}nstanceGroupManagerResizeRequestList",
        call.world.requests.under(group.path),
        _NAME,
        lambda item: requests.body(item, call.wire),
        collection=f"{group.path.split('/', 2)[2]}/resizeRequests",
    )


@serve_both("POST", _ONE + "/resizeRequests/{resizeRequest}/cancel", f"{_RR_ZONAL}.cancel",
            f"{_RR_REGIONAL}.cancel")  # fmt: skip
def _cancel_request(call: Call) -> Json:
    name = call.path["resizeRequest"]
    return call.operation(requests.cancel(call.world, call.group, name, call.request_id))


@serve_both("DELETE", _ONE + "/resizeRequests/{resizeRequest}", f"{_RR_ZONAL}.delete",
            f"{_RR_REGIONAL}.delete")  # fmt: skip
def _delete_request(call: Call) -> Json:
    name = call.path["resizeRequest"]
    return call.operation(requests.delete(call.world, call.group, name, call.request_id))


@serve("GET", "aggregated/instanceGroupManagers", f"{_ZONAL}.aggregatedList", bucket="heavy")
def _aggregated_groups(call: Call) -> Json:
    by_scope: dict[str, list[Group]] = {}
    for zone in call.world.catalog.zones:
        by_scope[zone_scope(zone).path] = []
    for region in call.world.catalog.regions:
        by_scope[region_scope(region).path] = []
    by_scope.pop(GLOBAL.path, None)
    for group in call.world.groups:
        if group.project == call.project:
            by_scope.setdefault(group.scope.path, []).append(group)
    return call.aggregated(
        "compute#instanceGroupManagerAggregatedList",
        _MIG,
        by_scope,
        _NAME,
        lambda item: group_view.body(call.world, item, call.wire),
    )
