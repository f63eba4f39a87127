"""The doctor's look at the cloud, against the emulator: never a false alarm as an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_flex.cluster.site import Site
from slurm_flex.doctor import groups, host, iam, offers, storage
from slurm_flex.doctor.check import Check, Status, guarded
from slurm_flex.doctor.rest import Rest
from slurm_flex.startup_scripts import StartupScripts
from tests.contract.site import PROJECT, Cloud, cloud, cluster_of, cpu_pool, pool

EDITOR = "roles/editor"
ADMIN = "roles/compute.instanceAdmin.v1"
USER = "roles/iam.serviceAccountUser"
AGENT = "serviceAccount:{number}@cloudservices.gserviceaccount.com"


@pytest.fixture(scope="module")
def shared() -> Iterator[Cloud]:
    with cloud(cluster_of(pool("gx"), cpu_pool("cpu"))) as found:
        yield found


@pytest.fixture
def site(shared: Cloud) -> Iterator[Cloud]:
    yield shared
    shared.emulator.knobs.set(
        iam_bindings={EDITOR: [AGENT]},
        service_account_bindings={},
        policy_readable=True,
        denied_permissions="",
        disabled_apis="",
        filestores={"*": {"address": "10.0.0.2", "share": "nfsshare"}},
        quotas={},
        projects="*",
    )
    shared.emulator.faults.clear()


def one(checks: Iterable[Check]) -> Check:
    (found,) = checks
    return found


def agent(site: Cloud, **knobs: object) -> Check:
    site.emulator.knobs.set(**knobs)
    rest = Rest(site.settings)
    return one(guarded(iam.SERVICE_AGENT, lambda: iam.service_agent(rest, site.cluster)))


@pytest.mark.parametrize(
    "bindings",
    [
        {EDITOR: [AGENT]},
        {"roles/owner": ["user:x@y", AGENT]},
        {ADMIN: [AGENT], USER: [AGENT]},
        {"roles/compute.admin": [AGENT], USER: [AGENT]},
    ],
)
def test_a_service_agent_with_its_roles_is_fine(site: Cloud, bindings: dict[str, object]) -> None:
    found = agent(site, iam_bindings=bindings)

    assert found.status is Status.OK
    assert "@cloudservices.gserviceaccount.com" in found.text


def test_the_right_to_act_as_the_nodes_account_alone_is_enough(site: Cloud) -> None:
    number = iam.find_project(Rest(site.settings), site.cluster).number
    there = {USER: [f"serviceAccount:{number}@cloudservices.gserviceaccount.com"]}
    assert agent(site, iam_bindings={ADMIN: [AGENT]}).status is Status.WARN

    found = agent(site, service_account_bindings={"*": there})

    assert found.status is Status.OK


@pytest.mark.parametrize(
    ("bindings", "lacking"),
    [
        ({}, [ADMIN, USER]),
        ({ADMIN: [AGENT]}, [USER]),
        ({USER: [AGENT]}, [ADMIN]),
        ({EDITOR: ["serviceAccount:1@cloudservices.gserviceaccount.com"]}, [ADMIN, USER]),
    ],
)
def test_roles_that_arent_found_are_a_warning_with_the_command(
    site: Cloud, bindings: dict[str, object], lacking: list[str]
) -> None:
    found = agent(site, iam_bindings=bindings)

    assert found.status is Status.WARN
    assert [role for role in (ADMIN, USER) if f"--role={role}" in found.fix] == lacking
    assert f"gcloud projects add-iam-policy-binding {PROJECT}" in found.fix


def test_a_condition_is_said(site: Cloud) -> None:
    binding = {"members": [AGENT], "condition": {"title": "t", "expression": "false"}}
    found = agent(site, iam_bindings={EDITOR: binding})

    assert found.status is Status.WARN
    assert "under a condition" in found.text


def test_a_policy_that_cant_be_read_is_no_alarm(site: Cloud) -> None:
    found = agent(site, policy_readable=False)

    assert found.status is Status.SKIPPED
    assert "resourcemanager.projects.getIamPolicy" in found.text


def test_a_disabled_api_is_no_alarm_and_says_how_to_enable_it(site: Cloud) -> None:
    found = agent(site, disabled_apis="cloudresourcemanager.*")

    assert found.status is Status.SKIPPED
    assert found.fix == "gcloud services enable cloudresourcemanager.googleapis.com"


def test_permissions_that_we_lack_are_named(site: Cloud) -> None:
    rest = Rest(site.settings)
    assert one(iam.own_permissions(rest, site.cluster)).status is Status.OK
    site.emulator.knobs.set(denied_permissions="compute.instanceTemplates.*")

    found = one(iam.own_permissions(rest, site.cluster))

    assert found.status is Status.ERROR
    assert "compute.instanceTemplates.create" in found.text
    assert "compute.instances.create" not in found.text


def test_acting_as_the_nodes_account_is_looked_at(site: Cloud) -> None:
    rest = Rest(site.settings)
    assert one(iam.acting_as(rest, site.cluster)).status is Status.OK
    site.emulator.knobs.set(denied_permissions="iam.serviceAccounts.actAs")

    assert one(iam.acting_as(rest, site.cluster)).status is Status.ERROR


def test_a_machine_that_the_zone_hasnt_is_an_error(site: Cloud) -> None:
    rest = Rest(site.settings)
    unheard_of = replace(site.pool("gx"), machine_type="a3-ultragpu-9g")

    bad = one(offers.machine_type(rest, site.cluster, unheard_of))
    good = one(offers.machine_type(rest, site.cluster, site.pool("gx")))

    assert (bad.status, good.status) == (Status.ERROR, Status.OK)
    assert "us-central1-a has no a3-ultragpu-9g" in bad.text


@pytest.mark.parametrize(
    ("quotas", "status"),
    [
        ({}, Status.OK),
        ({"PREEMPTIBLE_NVIDIA_H200_GPUS": 32}, Status.OK),
        ({"PREEMPTIBLE_NVIDIA_H200_GPUS": 8}, Status.WARN),
        ({"PREEMPTIBLE_NVIDIA_H200_GPUS": 7}, Status.ERROR),
        ({"PREEMPTIBLE_NVIDIA_H200_GPUS": 0, "NVIDIA_H200_GPUS": 32}, Status.OK),
        ({"PREEMPTIBLE_NVIDIA_H200_GPUS": 0, "NVIDIA_H200_GPUS": 0}, Status.ERROR),
    ],
)
def test_the_quota_is_held_against_the_largest_size(
    site: Cloud, quotas: dict[str, int], status: Status
) -> None:
    site.emulator.knobs.set(quotas=quotas)

    found = one(offers.quota(Rest(site.settings), site.cluster))

    assert found.status is status
    assert "32" in found.text


def test_an_api_that_answers_and_one_that_doesnt(site: Cloud) -> None:
    assert one(offers.compute_api(Rest(site.settings), site.cluster)).status is Status.OK
    site.emulator.faults.set("permission_denied")

    found = one(offers.compute_api(Rest(site.settings), site.cluster))

    assert found.status is Status.ERROR


def test_groups_are_as_they_should_be_or_apply_mends_them() -> None:
    with cloud(cluster_of(pool("gx"))) as site:
        workshop = site.fleet.workshop
        before = list(groups.templates_and_groups(site.cluster, workshop))
        workshop.carry_out(workshop.plan(), lambda _: None)
        after = one(groups.templates_and_groups(site.cluster, workshop))

    assert {check.fix for check in before} == {"slurm-flex apply"}
    assert [check.name for check in before] == ["group c1-login", "group c1-gx"]
    assert after.status is Status.OK


def storage_of(site: Cloud) -> list[Check]:
    scripts = StartupScripts(site.cluster, site.settings)
    return list(guarded(storage.NAME, lambda: storage.storage(scripts.shares)))


def test_storage_is_told_with_its_address(site: Cloud) -> None:
    found = one(storage_of(site))

    assert (found.status, found.text) == (Status.OK, "h is 10.0.0.2:/nfsshare")


@pytest.mark.parametrize(
    ("knobs", "words", "fix"),
    [
        ({"filestores": {}}, "HTTP 404", "gcloud filestore instances list --project=p1"),
        (
            {"filestores": {"*": {"state": "CREATING", "address": "", "share": ""}}},
            "no share yet (state CREATING)",
            "wait until it is READY",
        ),
        (
            {"disabled_apis": "file.*"},
            "file.googleapis.com has not been used",
            "gcloud services enable file.googleapis.com --project=p1",
        ),
    ],
)
def test_storage_that_cant_be_found_is_an_error(
    site: Cloud, knobs: dict[str, object], words: str, fix: str
) -> None:
    site.emulator.knobs.set(**knobs)

    found = one(storage_of(site))

    assert found.status is Status.ERROR
    assert words in found.text
    assert found.text.startswith("projects/p1/locations/us-central1-a/instances/h: ")
    assert fix in found.fix


def test_what_the_templates_lack_for_it_is_said_once() -> None:
    missing = Check(storage.NAME, Status.ERROR, "h: gone")
    same = Check(groups.NAME, Status.ERROR, "h: gone")
    other = Check(groups.NAME, Status.ERROR, "not ours")

    assert list(storage.said_once([missing, same, other])) == [missing, other]


def test_the_clock_is_held_against_googles(site: Cloud) -> None:
    rest = Rest(site.settings)
    here = Site(site.cluster, site.settings, Path("cluster_config.json"), None)
    assert one(host.clock(here, rest)).status is Status.SKIPPED
    list(offers.compute_api(rest, site.cluster))

    assert one(host.clock(here, rest)).status is Status.OK
