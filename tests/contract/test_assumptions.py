"""What nobody outside Google knows is a knob of the emulator; slurm-flex's fleet comes through the
same story whichever way it is turned, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from slurm_flex.compute.fleet import Verdict
from slurm_flex.emulator.core.knobs import describe
from tests.contract.site import Cloud, cloud, cluster_of, pool

TURNED: list[tuple[str, object]] = [
    ("failed_insert", "absent"),
    ("succeeded_when", "created"),
    ("run_duration_starts", "created"),
    ("termination_timestamp", "never"),
    ("target_size_drops_at_end_of_life", False),
    ("target_size_drops_when_lost", True),
    ("terminated_member", "leave"),
    ("delete_queued_member", "allow"),
    ("guest_while_stopping", "lives"),
    ("cancel_race", "operation"),
    ("operation_http_status", False),
    ("operation_retention", "0s"),
    ("request_id_window", "0s"),
    ("group_delete_waits", False),
    ("timestamp_offset_minutes", 330),
    ("self_link_root", ""),
    ("end_of_life_lateness", "0.3s"),
    ("capacity_retry", "30s"),
    ("regional_group_size_paginated", 10),
    ("not_offered", "us-central1-b/*"),
    ("stopping_delay", "0s"),
    ("op_delay", "0s"),
    ("accept_delay", "0s"),
    ("provision_delay", "0s"),
    ("boot_delay", "0s"),
    ("repair_delay", "0s"),
    ("capacity", 2),
]


def test_every_assumed_knob_is_turned() -> None:
    assumed = {knob["name"] for knob in describe() if knob["known"] == "assumed"}
    assert assumed <= {name for name, _ in TURNED}


@pytest.mark.parametrize(("knob", "value"), [("none", None), *TURNED])
def test_the_fleet_comes_through_whichever_way_it_is(knob: str, value: object) -> None:
    knobs = {} if knob == "none" else {knob: value}
    with cloud(cluster_of(pool("gx", count=2)), knobs=knobs) as site:
        site.make_groups()
        _two_nodes_run_and_end(site)
        _a_waiting_request_is_cancelled(site)
        _a_refused_request_leaves_nothing(site)
        world = site.emulator.world()
        assert [item for item in world["members"] if item["group"] == "c1-gx"] == []
        assert world["instances"] == []


def _two_nodes_run_and_end(site: Cloud) -> None:
    assert site.ask("gx", "j51-1").verdict in (Verdict.DONE, Verdict.UNKNOWN)
    site.running("gx", 2)
    site.emulator.faults.set("end_of_life", instance="c1-gx-0")
    site.read_until("gx", lambda group: [i.name for i in group.instances] == ["c1-gx-1"])
    site.emulator.faults.set("host_error", instance="c1-gx-1")
    site.read_until("gx", lambda group: all(i.is_dead for i in group.instances))
    _delete(site, ["c1-gx-1"], "1")
    _delete(site, ["c1-gx-1"], "2")
    site.read_until("gx", lambda group: not group.instances)


def _a_waiting_request_is_cancelled(site: Cloud) -> None:
    site.emulator.faults.set("stockout")
    site.ask("gx", "j52-1")
    site.read_until("gx", lambda group: any(r.last_attempt for r in group.requests))
    wanted = site.pool("gx")
    site.finish(site.fleet.cancel_request(wanted, "j52-1", nonce="1"))
    site.read_until("gx", lambda group: not any(r.is_live for r in group.requests))
    late = site.finish(site.fleet.cancel_request(wanted, "j52-1", nonce="2"))[0]
    assert late.verdict in (Verdict.ALREADY, Verdict.UNKNOWN)
    site.finish(site.fleet.delete_request(wanted, "j52-1", nonce="1"))
    site.read_until("gx", lambda group: "j52-1" not in [r.name for r in group.requests])
    site.emulator.faults.clear()


def _a_refused_request_leaves_nothing(site: Cloud) -> None:
    site.emulator.faults.set("quota_on_insert", times=1)
    outcome = site.ask("gx", "j53-1")
    assert outcome.verdict in (Verdict.FAILED, Verdict.UNKNOWN)
    group = site.read_until("gx", lambda found: not any(r.is_live for r in found.requests))
    assert group.instances == ()


def _delete(site: Cloud, nodes: Sequence[str], nonce: str) -> None:
    operations = site.fleet.delete_instances(site.pool("gx"), nodes, nonce=nonce)
    for outcome in site.finish(*operations):
        assert outcome.verdict in (Verdict.DONE, Verdict.ALREADY, Verdict.UNKNOWN), outcome
