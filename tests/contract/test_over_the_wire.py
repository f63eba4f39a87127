"""The emulator as a process: sockets, signals, a disk, and a stranger's command line."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import requests

from slurm_flex.emulator.drivers import processes
from slurm_flex.emulator.launcher import Emulator
from slurm_flex.errors import FlexError
from tests.contract.definition import problems
from tests.contract.inside import FAST

BASE = "/compute/v1/projects/p"
ZONE = f"{BASE}/zones/us-central1-a"
GROUP = f"{ZONE}/instanceGroupManagers/g"
SLEEPER = ["sh", "-c", "echo up {name}; sleep 4001 & wait"]


def make_group(url: str) -> None:
    """A template and a group g."""
    properties = {
        "machineType": "a3-ultragpu-8g",
        "scheduling": {"provisioningModel": "FLEX_START"},
    }
    template = {"name": "t", "properties": properties}
    _post(url, f"{BASE}/global/instanceTemplates", template)
    body = {
        "name": "g", "targetSize": 0, "instanceTemplate": "global/instanceTemplates/t",
        "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
    }  # fmt: skip
    _post(url, f"{ZONE}/instanceGroupManagers", body)


def _post(url: str, path: str, body: Any) -> Any:
    answer = requests.post(url + path, json=body, timeout=30)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _ask(url: str, name: str, *nodes: str, seconds: int = 600) -> Any:
    body = {"name": name, "instances": [{"name": node} for node in nodes],
            "requestedRunDuration": {"seconds": seconds}}  # fmt: skip
    return _post(url, f"{GROUP}/resizeRequests", body)


def _until(condition: Any, what: str, limit: float = 20) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _statuses(emulator: Emulator) -> dict[str, str]:
    return {item["name"]: item["status"] for item in emulator.world()["instances"]}


def test_nothing_that_a_client_was_told_is_lost_by_a_kill(tmp_path: Path) -> None:
    with Emulator(state=tmp_path / "state", knobs={**FAST, "capacity": "never"}) as emulator:
        make_group(emulator.url)
        told: list[str] = []
        stop = threading.Event()

        def keep_asking() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                try:
                    _ask(emulator.url, f"j{number}", f"n-{number}")
                except (requests.RequestException, AssertionError):
                    return
                told.append(f"j{number}")

        for _ in range(3):
            told.clear()
            stop.clear()
            thread = threading.Thread(target=keep_asking)
            emulator.knobs.set(active_resize_requests=10000, writes_per_minute=0)
            thread.start()
            _until(lambda: len(told) >= 15, "it answers")
            emulator.kill()
            stop.set()
            thread.join(30)
            emulator.start()
            listed = {item["name"] for item in emulator.world()["requests"]}
            assert set(told) <= listed
            size = requests.get(emulator.url + GROUP, timeout=30).json()["targetSize"]
            assert size == len(emulator.world()["members"]) == len(listed)
            for name in listed:
                path = f"{GROUP}/resizeRequests/{name}"
                _until(
                    lambda p=path: (
                        requests.get(emulator.url + p, timeout=30).json()["state"] == "ACCEPTED"
                    ),
                    "it goes on where it was",
                )
                requests.post(f"{emulator.url}{path}/cancel", timeout=30)
                requests.delete(f"{emulator.url}{path}", timeout=30)
        world = emulator.world()
        assert (world["requests"], world["members"]) == ([], [])


def test_guests_outlive_the_emulator_and_end_with_their_vm(tmp_path: Path) -> None:
    with Emulator(
        driver="slurmd", slurmd_argv=SLEEPER, state=tmp_path / "state", vm_folder=tmp_path / "vms",
        knobs=FAST,
    ) as emulator:  # fmt: skip
        make_group(emulator.url)
        _ask(emulator.url, "j1", "n-0", "n-1")
        _until(lambda: list(_statuses(emulator).values()) == ["RUNNING"] * 2, "both run")
        ids = {item["name"]: item["id"] for item in emulator.world()["instances"]}
        _until(lambda: len(processes.find({ids["n-0"], ids["n-1"]})) == 4, "both have guests")
        emulator.kill()
        assert len(processes.find({ids["n-0"], ids["n-1"]})) == 4
        processes.kill({ids["n-1"]})
        emulator.start()
        _until(lambda: len(processes.find({ids["n-1"]})) == 2, "the lost guest is back")
        assert len(processes.find({ids["n-0"]})) == 2
        emulator.faults.set("instance_lost", instance="n-0")
        assert processes.find({ids["n-0"]}) == {}
        assert _statuses(emulator) == {"n-1": "RUNNING"}
    assert processes.find({ids["n-1"]}) == {}


def test_guests_of_a_killed_emulator_are_ended_when_the_launcher_is_left(tmp_path: Path) -> None:
    with Emulator(driver="slurmd", slurmd_argv=SLEEPER, knobs=FAST) as emulator:
        make_group(emulator.url)
        _ask(emulator.url, "j1", "n-0")
        _until(lambda: list(_statuses(emulator).values()) == ["RUNNING"], "it runs")
        (id_,) = [item["id"] for item in emulator.world()["instances"]]
        _until(lambda: len(processes.find({id_})) == 2, "it has a guest")
        emulator.kill()
        assert len(processes.find({id_})) == 2
    assert processes.find({id_}) == {}


def test_an_operation_is_waited_for_in_one_call(tmp_path: Path) -> None:
    with Emulator(knobs={**FAST, "accept_delay": 1.5}) as emulator:
        make_group(emulator.url)
        operation = _ask(emulator.url, "j1", "n-0")
        begun = time.monotonic()
        found = _post(emulator.url, f"{ZONE}/operations/{operation['name']}/wait", {})
        assert found["status"] == "DONE"
        assert 1.0 < time.monotonic() - begun < 10


def test_a_broken_connection_is_a_reset_and_the_same_request_id_finds_what_was_done() -> None:
    with Emulator(knobs=FAST) as emulator:
        make_group(emulator.url)
        path = f"{GROUP}/resizeRequests?requestId=5b1a54f6-6a53-4a0c-9b29-0d40d1f1c4d1"
        body = {"name": "j1", "instances": [{"name": "n-0"}]}
        emulator.faults.set("reset_before", method="*Requests.insert", times=1)
        with pytest.raises(requests.ConnectionError):
            requests.post(emulator.url + path, json=body, timeout=30)
        assert emulator.world()["requests"] == []
        emulator.faults.set("reset_after", method="*Requests.insert", times=1)
        with pytest.raises(requests.ConnectionError):
            requests.post(emulator.url + path, json=body, timeout=30)
        assert [item["name"] for item in emulator.world()["requests"]] == ["j1"]
        again = _post(emulator.url, path, body)
        assert again["operationType"].endswith("ResizeRequests.insert")
        assert len(emulator.world()["members"]) == 1


def test_an_hour_passes_in_a_moment() -> None:
    with Emulator(time_scale=3600, knobs=FAST) as emulator:
        make_group(emulator.url)
        _ask(emulator.url, "j1", "n-0", seconds=3600)
        _until(lambda: _statuses(emulator) == {"n-0": "RUNNING"}, "it runs", 5)
        _until(lambda: _statuses(emulator) == {}, "its hour is over", 10)
        (bill,) = emulator.billing()["instances"]
        assert 3600 <= bill["seconds"] <= 3600 + 3600 * 2


def test_time_can_be_moved_on_by_hand() -> None:
    with Emulator(knobs=FAST) as emulator:
        make_group(emulator.url)
        _ask(emulator.url, "j1", "n-0", seconds=604800)
        _until(lambda: _statuses(emulator) == {"n-0": "RUNNING"}, "it runs")
        emulator.advance("7d")
        _until(lambda: _statuses(emulator) == {}, "its week is over")
        assert emulator.billing()["seconds"] >= 604800


def test_the_launcher_says_what_is_wrong() -> None:
    with pytest.raises(FlexError, match="no such knob"):
        Emulator(knobs={"gremlins": 1}).start()
    with Emulator() as emulator:
        with pytest.raises(FlexError, match="no such knob"):
            emulator.knobs.set(gremlins=1)
        with pytest.raises(FlexError, match="there is no fault 'gremlins'"):
            emulator.faults.set("gremlins")
        assert emulator.knobs["capacity"] == {"*": "now"}
        id_ = emulator.faults.set("stockout", lasting="1h")
        assert [fault["id"] for fault in emulator.faults] == [id_]
        assert emulator.faults.clear(id_) == 1
        with pytest.raises(FlexError, match="nothing here"):
            emulator.ask("GET", "moon")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "slurm_flex.emulator", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_help_tells_a_stranger_enough() -> None:
    told = _run("--help").stdout
    for word in ("--port", "--knob", "--state", "--driver", "--time-scale", "api_endpoint"):
        assert word in told
    knobs = _run("--list-knobs").stdout
    assert "boot_delay = " in knobs and "capacity = " in knobs


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--host", "0.0.0.0"], 1, "not loopback"),
        (["--knob", "boot_delay"], 2, "not NAME=VALUE"),
        (["--knob", "bot_delay=2s"], 1, "no such knob"),
        (["--slurmd-argv", "slurmd -D"], 2, "JSON list"),
        (["--time-scale", "0"], 1, "more than 0"),
        (["--state", "/proc/none/state"], 1, "can't use the state file"),
        (["--driver", "moon"], 2, "invalid choice"),
    ],
)
def test_a_bad_command_line_is_one_clear_line(arguments: list[str], code: int, words: str) -> None:
    found = _run(*arguments)
    assert found.returncode == code
    assert words in found.stderr
    assert "Traceback" not in found.stderr


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = _run("--port", str(port))
    assert found.returncode == 1
    assert f"can't listen on 127.0.0.1:{port}" in found.stderr


def test_the_neighbours_answer_as_their_definitions_say() -> None:
    with Emulator(knobs={"secrets": {"munge": "x"}}) as emulator:
        calls = [
            ("cloudresourcemanager", "v3", "GET", "/v3/projects/p", None),
            ("cloudresourcemanager", "v3", "POST", "/v3/projects/p:getIamPolicy",
             {"options": {"requestedPolicyVersion": 3}}),
            ("cloudresourcemanager", "v3", "POST", "/v3/projects/p:testIamPermissions",
             {"permissions": ["compute.instances.list"]}),
            ("file", "v1", "GET", "/v1/projects/p/locations/us-central1-a/instances/home", None),
            ("secretmanager", "v1", "GET", "/v1/projects/p/secrets/munge/versions/latest:access",
             None),
            ("serviceusage", "v1", "GET", "/v1/projects/p/services:batchGet?"
             "names=projects/p/services/compute.googleapis.com", None),
            ("serviceusage", "v1", "GET", "/v1/projects/p/services?filter=state:ENABLED", None),
            ("serviceusage", "v1", "GET", "/v1/projects/p/services/file.googleapis.com", None),
        ]  # fmt: skip
        for api, version, verb, path, body in calls:
            answer = requests.request(verb, emulator.url + path, json=body, timeout=30)
            assert answer.status_code == 200, answer.text
            sent = json.dumps(body).encode() if body else b""
            address, _, query = path.partition("?")
            params = dict(parse_qsl(query))
            wrong = problems(
                verb, address, params, sent, 200, answer.content, version=version, api=api
            )
            assert wrong == []


def test_the_metadata_server_and_the_discovery_documents_are_served() -> None:
    with Emulator() as emulator:
        url = f"{emulator.url}/computeMetadata/v1/instance/service-accounts/default/token"
        request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.headers["Metadata-Flavor"] == "Google"
            assert json.load(answer)["access_token"] == "emulated"
        for api, version in (
            ("compute", "v1"),
            ("compute", "beta"),
            ("cloudresourcemanager", "v3"),
        ):
            found = requests.get(
                f"{emulator.url}/discovery/v1/apis/{api}/{version}/rest", timeout=30
            )
            assert found.json()["rootUrl"] == f"{emulator.url}/"
        missing = requests.get(f"{emulator.url}/discovery/v1/apis/moon/v1/rest", timeout=30)
        assert missing.status_code == 404
