import json
import sys

import pytest
from health_builders import program

from slurm_flex.health.cli import main
from slurm_flex.health.node import NODE_FOLDER

NODE = "c1-gx-1"


@pytest.fixture
def cli(install, monkeypatch, capsys):
    """The command line on the installed node: exit code, stdout, stderr."""
    monkeypatch.setenv("SLURMD_NODENAME", NODE)
    monkeypatch.setenv("SLURM_CONF", str(install.conf))
    checks = str(install.folder / "etc/health.d")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["--checks", checks, *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_healthy_node_is_told_check_by_check(cli):
    code, out, err = cli()
    assert (code, err) == (0, "")
    assert "ok      gpu-count: 8 of 8 GPUs answer\n" in out


def test_a_dry_run_changes_nothing(cli, install):
    install.gpus.fell_off_the_bus(NODE, 3)
    code, out, _ = cli("--dry-run")
    assert code == 1
    assert "bad     gpu-count: 7 of 8" in out
    assert install.scontrol.calls() == []
    assert not install.state.exists()


def test_periodic_drains(cli, install):
    install.gpus.fell_off_the_bus(NODE, 3)
    code, out, _ = cli("--context", "periodic")
    assert code == 1
    assert len(install.scontrol.reasons()) == 1
    assert "drained: slurm-flex:health: gpu-count" in out


def test_an_epilog_by_hand_exits_0_too(cli, install):
    install.gpus.fell_off_the_bus(NODE, 3)
    assert cli("--context", "epilog")[0] == 0


def test_json_is_one_object(cli, install):
    install.gpus.ecc_error(NODE, 2)
    code, out, _ = cli("--json")
    told = json.loads(out)
    assert code == 1
    assert (told["node"], told["context"], told["healthy"]) == (NODE, "periodic", False)
    by_name = {result["check"]: result for result in told["results"]}
    assert by_name["gpu-ecc"]["verdict"] == "bad"
    assert by_name["gpu-ecc"]["fails_the_node"] is True
    assert told["drained"]["how"] == "done"
    assert told["problems"] == []


def test_the_list_names_each_check_and_its_file(cli):
    code, out, err = cli("--list")
    assert (code, err) == (0, "")
    assert "gpu-count: as many GPUs answer" in out
    assert "10-nvidia-smi.json" in out


def test_the_list_tells_every_problem_and_exits_1(cli, install):
    install.add_check("05.json", {"name": "x", "contexts": ["nightly"], "builtin": "disk"})
    code, _, err = cli("--list")
    assert code == 1
    assert "05.json: contexts: 'nightly' is not one of" in err
    code, out, _ = cli("--list", "--json")
    assert code == 1
    assert len(json.loads(out)["problems"]) == 1


def test_one_check_may_be_chosen(cli):
    code, out, _ = cli("--only", "disk", "--only", "nic")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines()] == ["disk:", "nic:"]
    assert cli("--only", "dsik")[0] == 2


def test_a_caller_who_vouches_gets_the_exclusive_checks(cli, install):
    tool = program(install.folder / "burn", "#!/bin/sh\necho burnt\n")
    install.add_check(
        "60.json",
        {"name": "burn", "contexts": ["periodic"], "command": [str(tool)], "exclusive": True},
    )
    assert "skipped burn" in cli("--only", "burn")[1]
    assert "ok      burn: burnt" in cli("--only", "burn", "--whole-node")[1]


@pytest.mark.parametrize(
    "arguments", [["--context", "nightly"], ["--budget", "soon"], ["--nonsense"]]
)
def test_usage_is_exit_2(cli, arguments):
    with pytest.raises(SystemExit) as stopped:
        cli(*arguments)
    assert stopped.value.code == 2


def test_the_module_is_a_program(install):
    import subprocess

    done = subprocess.run(
        [sys.executable, "-m", "slurm_flex.health", "--dry-run", "--json"],
        cwd=install.folder,
        env={"SLURMD_NODENAME": NODE, "SLURM_CONF": str(install.conf)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["node"] == NODE
    assert str(NODE_FOLDER) == "/etc/slurm-flex"
