"""The startup script on a VM that is a mount namespace: it runs, and its slurmd joins slurmctld.

The VM has what a fresh image has (Slurm, munge, Python), an /etc, /opt, /run and /var of its own
that forget everything, and a metadata server. No NFS here: mounts are tested by their failure.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slurm_flex.cluster import Cluster, parse_cluster
from slurm_flex.cluster.settings import Settings
from slurm_flex.cluster.storage import Share
from slurm_flex.demo.controller import Controller
from slurm_flex.demo.layout import CloudNode, Layout, Partition, Programs, Timeouts
from slurm_flex.render.startup import startup_script

pytestmark = pytest.mark.cluster

NODE = "c1-gx-0"
# Slurm sees that a job's nodes are up on a tick of 30 s.
TICK = timedelta(seconds=60)
PRIVATE_ROOT = """
set -e
hosts=$(cat /etc/hosts)
mount -t tmpfs tmpfs /mnt
for folder in etc opt var; do
    mkdir -p /mnt/$folder/upper /mnt/$folder/work
    mount -t overlay overlay -o \
        lowerdir=/$folder,upperdir=/mnt/$folder/upper,workdir=/mnt/$folder/work /$folder
done
mount -t tmpfs tmpfs /run
printf '%s\\n' "$hosts" >/etc/hosts
exec bash "$1"
"""
DATA = "projects/p/locations/us-central1-a/instances/data"


def a_cluster(**slurm: object) -> Cluster:
    pool = {
        "id": "gx",
        "scaling_spec": {"min_node_count": 0, "max_node_count": 1},
        "startup_script": '#!/bin/sh\necho "pool script on $NODE_NAME" >/opt/pool-script-ran\n',
    }
    data = {
        "display_name": "c1",
        "node_pools": [pool],
        "orchestrator_spec": {"slurm_spec": slurm},
    }
    return parse_cluster(data, lenient=True)


@contextmanager
def metadata_server(values: dict[str, str]) -> Iterator[str]:
    """Answers as Compute Engine's does, for the header that it wants; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            value = values.get(self.path.removeprefix("/computeMetadata/v1/"))
            known = value is not None and self.headers.get("Metadata-Flavor") == "Google"
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write((value or "").encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def controller(release: str) -> Iterator[Controller]:
    nothing = Path("/bin/true")
    layout = Layout(
        nodes=[CloudNode(NODE)],
        partitions=[Partition("gx", NODE, "Default=YES")],
        programs=Programs(resume=nothing, suspend=nothing),
        timeouts=Timeouts(resume=timedelta(minutes=5), idle=timedelta(minutes=5)),
        settings={"SlurmctldParameters": "enable_configless"},
    )
    with Controller(layout, release=release) as running:
        yield running


Boot = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def boot(controller: Controller) -> Iterator[Boot]:
    """Runs a pool's startup script in a VM of its own; gives what it said and how it ended."""
    config = controller.run("scontrol", "show", "config")
    port = next(line.split("=")[1] for line in config.splitlines() if "SlurmctldPort" in line)
    key = base64.b64encode((controller.folder / "munge/key").read_bytes()).decode()
    values = {
        "instance/name": NODE,
        "instance/id": "4242",
        "instance/machine-type": "projects/1/machineTypes/n2-standard-2",
        "instance/attributes/munge-key": key,
    }
    with metadata_server(values) as url:

        def run(
            cluster: Cluster, shares: dict[str, Share] | None = None, **settings: str
        ) -> subprocess.CompletedProcess[str]:
            chosen = {
                "conf_server": f"127.0.0.1:{port.strip()}",
                "key_source": "metadata:munge-key",
                "slurmd_options": "-b",
                **settings,
            }
            script = controller.folder / "startup.sh"
            script.write_text(startup_script(cluster, Settings(**chosen), cluster.pools[0], shares))
            console = controller.folder / "console"
            console.write_text("")
            argv = ["unshare", "--mount", "bash", "-c", PRIVATE_ROOT, "vm", str(script)]
            env = {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "SLURM_FLEX_METADATA": url,
                "SLURM_FLEX_CONSOLE": str(console),
                "SLURM_FLEX_CONTROLLER_PATIENCE": "20",
            }
            output = controller.folder / "startup.out"
            with output.open("w") as out:  # slurmd outlives the script and would hold a pipe
                done = subprocess.run(
                    controller.space.enter(argv),
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=90,
                    check=False,
                )
            return subprocess.CompletedProcess(
                argv, done.returncode, output.read_text(), console.read_text()
            )

        yield run


def slurmd_of(controller: Controller) -> int:
    """The pid of the VM's slurmd."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            ours = b"slurmd" in words[0] and NODE.encode() in words and b"--conf-server" in words
            if ours and controller.space.owns(int(entry.name)):
                return int(entry.name)
    raise AssertionError("no slurmd of the VM runs")


def seen_by_the_vm(controller: Controller, path: str) -> str:
    return (Path(f"/proc/{slurmd_of(controller)}/root") / path.lstrip("/")).read_text()


def test_a_vm_joins_and_runs_the_job_that_waited_for_it(
    controller: Controller, boot: Boot, release: str
) -> None:
    job = controller.sbatch(script="#!/bin/sh\nsrun hostname >/dev/null && echo done\n")
    controller.wait_for_node(NODE, timedelta(seconds=20), has="POWERING_UP")

    done = boot(a_cluster(prolog_bash_scripts=["true"]))

    assert done.returncode == 0, done.stdout
    assert f"slurmd runs as {NODE}" in done.stderr, "the serial console has the story"
    controller.wait_for_node(NODE, TICK, lacks="POWERING_UP")
    controller.wait_for_job(job, "COMPLETED", TICK)
    assert controller.output(job) == "done\n"
    assert "pool script on c1-gx-0" in seen_by_the_vm(controller, "/opt/pool-script-ran")
    facts = json.loads(seen_by_the_vm(controller, "/etc/slurm-flex/node.json"))
    assert facts == {"machine_type": "", "mounts": [], "allow_opt_out": True}
    assert "scripts/prolog.py" in seen_by_the_vm(controller, "/opt/slurm-flex/site/prolog")
    assert "def prolog" in seen_by_the_vm(
        controller, "/opt/slurm-flex/slurm_flex/health/scripts.py"
    )
    command = Path(f"/proc/{slurmd_of(controller)}/cmdline").read_bytes().decode()
    told = "--instance-id=4242" in command and "--instance-type=n2-standard-2" in command
    assert told == (release != "22.05")
    os.kill(slurmd_of(controller), signal.SIGTERM)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"key_source": "metadata:none"}, "FAILED: key: there is no metadata none"),
        ({"key_source": "nfs:/nowhere/key"}, "FAILED: key: /nowhere/key can't be read"),
        ({"conf_server": "127.0.0.1:1"}, "FAILED: slurmd: no configuration from 127.0.0.1:1"),
    ],
)
def test_a_failure_leaves_its_reason_on_the_console(
    controller: Controller, boot: Boot, change: dict[str, str], reason: str
) -> None:
    done = boot(a_cluster(), **change)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "slurmd runs" not in done.stderr


def test_a_share_that_cannot_be_mounted_keeps_the_node_away(
    controller: Controller, boot: Boot
) -> None:
    """Scenario 22: slurmd starts last, when all else is in order."""
    data = {"display_name": "c1", "node_pools": [{"id": "gx", "filestores": [DATA]}]}
    done = boot(parse_cluster(data, lenient=True), {DATA: Share("nfs", "127.0.0.1:/data")})
    assert done.returncode == 1
    assert "FAILED: mounts: 127.0.0.1:/data" in done.stderr


def test_a_vm_of_another_pool_is_refused(controller: Controller, boot: Boot) -> None:
    data = {"display_name": "c2", "node_pools": [{"id": "gx"}]}
    done = boot(parse_cluster(data, lenient=True))
    assert f"FAILED: name: the VM is called {NODE}, which is no node of c2-gx" in done.stderr
