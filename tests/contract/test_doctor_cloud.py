"""The doctor's look at the cloud, against the emulator: never a false alarm as an error."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slurm_flex.cluster import Cluster
from slurm_flex.cluster.site import Site
from slurm_flex.compute.errors import ApiDisabled
from slurm_flex.doctor import apis, groups, host, iam, offers, storage
from slurm_flex.doctor.check import Check, Status, guarded
from slurm_flex.doctor.examine import examine
from slurm_flex.doctor.rest import Rest
from slurm_flex.failures import Failure
from slurm_flex.rules.failure import describe
from slurm_flex.startup_scripts import StartupScripts
from tests.contract.site import PROJECT, WEEK, Cloud, cloud, cluster_of, cpu_pool, pool

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
    number = iam.find_project(Rest(site.settings), site.cluster).number
    assert found.fix == (
        f"gcloud services enable cloudresourcemanager.googleapis.com --project={number}"
    )


def enabled(site: Cloud, cluster: Cluster | None = None, **settings: object) -> list[Check]:
    changed = site.settings.model_copy(update=settings)
    rest = Rest(changed)
    return list(guarded(apis.NAME, lambda: apis.apis(rest, cluster or site.cluster, changed)))


def told(checks: Iterable[Check]) -> list[tuple[Status, str]]:
    return [(check.status, check.text) for check in checks]


ALL_ON = "enabled in project p1: cloudresourcemanager, compute, file, iam, lustre, serviceusage"
SECRET = "secret:projects/p1/secrets/munge-key"


def test_apis_that_are_all_enabled_are_one_line(site: Cloud) -> None:
    assert told(enabled(site)) == [(Status.OK, ALL_ON)]


def home_is(name: str) -> Cluster:
    """A cluster whose home lies there."""
    made = cluster_of(pool("gx"))
    slurm = replace(made.slurm, home_directory_storage=name)
    return replace(made, slurm=slurm)


HOME = "projects/p1/locations/us-central1-a/instances/h"
FILESTORE = f"https://file.googleapis.com/v1/{HOME}"
LUSTRE = f"https://lustre.googleapis.com/v1/{HOME}"


@pytest.mark.parametrize(
    ("off", "home", "settings", "text"),
    [
        ("compute.*", HOME, {}, "compute.googleapis.com is not enabled in project p1: it makes"),
        ("file.*", FILESTORE, {}, "file.googleapis.com is not enabled in project p1: it tells"),
        ("lustre.*", LUSTRE, {}, "lustre.googleapis.com is not enabled in project p1: it tells"),
        ("file.*, lustre.*", HOME, {}, "file.googleapis.com or lustre.googleapis.com is not"),
        ("secretmanager.*", HOME, {"key_source": SECRET},
         "secretmanager.googleapis.com is not enabled in project p1: nodes read munge-key from it"),
    ],
)  # fmt: skip
def test_an_api_that_is_needed_and_off_is_an_error_with_the_command(
    site: Cloud, off: str, home: str, settings: dict[str, object], text: str
) -> None:
    site.emulator.knobs.set(disabled_apis=off)

    found = one(enabled(site, home_is(home), **settings))

    service = f"{off.partition('.')[0]}.googleapis.com"
    assert found.status is Status.ERROR
    assert found.text.startswith(text)
    assert found.fix == f"gcloud services enable {service} --project=p1"


@pytest.mark.parametrize(
    ("off", "home", "settings"),
    [
        ("secretmanager.*", HOME, {}),
        ("secretmanager.*", HOME, {"key_source": "nfs:/home/munge.key"}),
        ("secretmanager.*", HOME, {"key_source": SECRET.replace("p1", "other")}),
        ("lustre.*", FILESTORE, {}),
        ("file.*", LUSTRE, {}),
        ("file.*", HOME, {}),
        ("lustre.*", HOME, {}),
        ("file.*, lustre.*", HOME.replace("p1", "shared"), {}),
    ],
)  # fmt: skip
def test_an_api_that_isnt_called_may_be_off(
    site: Cloud, off: str, home: str, settings: dict[str, object]
) -> None:
    """A home may be of either kind; what lies in another project is enabled or not there."""
    site.emulator.knobs.set(disabled_apis=off)

    assert one(enabled(site, home_is(home), **settings)).status is Status.OK


def test_what_only_the_doctor_asks_is_a_warning(site: Cloud) -> None:
    site.emulator.knobs.set(disabled_apis="iam.*, cloudresourcemanager.*")

    found = enabled(site)

    assert [check.status for check in found] == [Status.WARN, Status.WARN]
    assert [check.fix for check in found] == [
        f"gcloud services enable {one}.googleapis.com --project=p1"
        for one in ("cloudresourcemanager", "iam")
    ]


@pytest.mark.parametrize(
    ("knobs", "fix"),
    [
        ({"disabled_apis": "serviceusage.*"},
         "gcloud services enable serviceusage.googleapis.com --project="),
        ({"denied_permissions": "serviceusage.services.get"},
         "grant us serviceusage.services.get, which roles/serviceusage.serviceUsageViewer has; or "
         "look: gcloud services list --enabled --project=p1"),
    ],
)  # fmt: skip
def test_whoever_cant_ask_which_apis_are_enabled_knows_nothing(
    site: Cloud, knobs: dict[str, object], fix: str
) -> None:
    site.emulator.knobs.set(**knobs)

    found = one(enabled(site))

    assert found.status is Status.SKIPPED
    assert found.text.startswith("unknown which are enabled: ")
    assert found.fix.startswith(fix)


def test_whoever_isnt_signed_in_is_told_to(
    site: Cloud, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))

    found = one(enabled(site, credentials="default"))

    assert found.status is Status.SKIPPED
    assert "gcloud auth application-default login" in found.fix


def test_a_compute_api_that_is_off_is_explained_wherever_it_is_called(site: Cloud) -> None:
    number = iam.find_project(Rest(site.settings), site.cluster).number
    site.emulator.knobs.set(disabled_apis="compute.*")
    command = f"gcloud services enable compute.googleapis.com --project={number}"
    words = f"SERVICE_DISABLED: compute.googleapis.com is not enabled in project {number}"

    checked = one(offers.compute_api(Rest(site.settings), site.cluster))
    read = site.fleet.read(site.cluster.compute_pools).errors["gx"]
    with pytest.raises(ApiDisabled) as refused:
        site.fleet.request(site.pool("gx"), "j1-1", ["c1-gx-0"], WEEK, nonce="1", description="")

    assert (checked.status, checked.text, checked.fix) == (Status.ERROR, words, command)
    assert f"{words} ({command})" in str(read)
    assert f"{words} ({command})" in str(refused.value)
    assert refused.value.failure is Failure.PERMISSION
    line = describe(refused.value.failure, refused.value.error)
    assert line.endswith(command), "a job's comment and the breaker have the whole command"


def test_the_doctor_says_which_api_is_off_though_compute_engine_answers_nothing(
    site: Cloud, tmp_path: Path
) -> None:
    here = Site(site.cluster, site.settings, tmp_path / "cluster_config.json", None)
    scripts = StartupScripts(site.cluster, site.settings)
    site.emulator.knobs.set(disabled_apis="compute.*")

    found = examine(here, scripts, {}, datetime(2026, 12, 1, tzinfo=timezone.utc))

    errors = {check.name: check.fix for check in found if check.status is Status.ERROR}
    assert errors[apis.NAME] == "gcloud services enable compute.googleapis.com --project=p1"
    assert offers.COMPUTE in errors


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
            "couldn't be looked up: file.googleapis.com is not enabled in project 1",
            "gcloud services enable file.googleapis.com --project=1",
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


class TheirTime(BaseHTTPRequestHandler):
    """Answers {} at a time that is `off` ours."""

    off = timedelta(0)

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def date_time_string(self, timestamp: float | None = None) -> str:
        return format_datetime(datetime.now(timezone.utc) - self.off, usegmt=True)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("off", "status", "words"),
    [
        (timedelta(0), Status.OK, "agrees with Google's"),
        (timedelta(seconds=12), Status.WARN, "ahead of Google's"),
        (timedelta(seconds=-12), Status.WARN, "behind Google's"),
        (timedelta(minutes=-5), Status.ERROR, "ends of life would be missed"),
        (timedelta(minutes=5), Status.ERROR, "ends of life would be missed"),
    ],
)
def test_a_clock_that_is_off_is_told_with_what_sets_it(
    site: Cloud, off: timedelta, status: Status, words: str
) -> None:
    handler = type("Handler", (TheirTime,), {"off": off})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    settings = site.settings.model_copy(
        update={"endpoint": f"http://127.0.0.1:{server.server_port}"}
    )
    rest = Rest(settings)
    try:
        rest.get("compute", "projects/p1", where="project")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

    found = one(host.clock(Site(site.cluster, settings, Path("cluster_config.json"), None), rest))

    assert found.status is status
    assert words in found.text
    assert bool(found.fix) == (status is not Status.OK)
