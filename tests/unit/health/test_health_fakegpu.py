"""The stand-ins: the real tools' formats, per node, broken in one line."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from slurm_flex.demo.fakegpu import FakeGpus
from slurm_flex.demo.fakegpu.state import read_nodes
from slurm_flex.health.dcgm import parse_diag
from slurm_flex.health.gpu import parse_query, parse_row_remapper
from slurm_flex.health.kernel_log import read_kmsg
from slurm_flex.health.nvlink import parse_nvlink
from slurm_flex.health.xid import find_xids


@pytest.fixture
def gpus(tmp_path):
    fleet = FakeGpus(tmp_path / "gpus")
    fleet.add_node("n1")
    fleet.add_node("n2", gpus=4, dcgm="3.3.9", links=12)
    return fleet


def ask(gpus: FakeGpus, node: str, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(gpus.folder / "bin" / tool), *arguments],
        env={"SLURMD_NODENAME": node},
        capture_output=True,
        text=True,
        check=False,
    )


QUERY = ("--query-gpu=index,pci.bus_id,uuid,ecc.errors.uncorrected.volatile.total,name",)
CSV = "--format=csv,noheader,nounits"


def test_each_node_has_its_own_gpus(gpus):
    assert len(parse_query(ask(gpus, "n1", "nvidia-smi", *QUERY, CSV).stdout)[0]) == 8
    assert len(parse_query(ask(gpus, "n2", "nvidia-smi", *QUERY, CSV).stdout)[0]) == 4
    assert ask(gpus, "n2", "nvidia-smi", "-L").stdout.count("NVIDIA H100") == 4


def test_gpu_3_fell_off_the_bus_on_n1_now(gpus):
    gpus.fell_off_the_bus("n1", 3)
    found, lost = parse_query(ask(gpus, "n1", "nvidia-smi", *QUERY, CSV).stdout)
    assert [gpu.index for gpu in found] == list("0124567")
    assert lost == ["0000:5B:00.0 (Unknown Error)"]
    assert [xid.number for xid in find_xids(read_kmsg(str(gpus.kernel_log("n1"))))] == [79]
    assert len(parse_query(ask(gpus, "n2", "nvidia-smi", *QUERY, CSV).stdout)[0]) == 4


def test_links_remaps_and_diagnostics_are_printed_in_formats_that_are_read(gpus):
    gpus.link_down("n2", 1, 11)
    gpus.link_down("n2", 1, 4)
    gpus.row_remap_pending("n2", 2)
    links = parse_nvlink(ask(gpus, "n2", "nvidia-smi", "nvlink", "-s").stdout)
    assert (links[1].down, len(links[0].up)) == ([4, 11], 12)
    blocks = parse_row_remapper(ask(gpus, "n2", "nvidia-smi", "-q", "-d", "ROW_REMAPPER").stdout)
    assert [block["pending"] for block in blocks.values()] == ["No", "No", "Yes", "No"]


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_dcgm_3_and_4_fail_in_their_own_shapes(gpus, node):
    assert ask(gpus, node, "dcgmi", "diag", "-r", "1", "-j").returncode == 0
    gpus.dcgm_fails(node, 2, "Broken.")
    done = ask(gpus, node, "dcgmi", "diag", "-r", "1", "-j")
    assert done.returncode == 226
    outcomes, _ = parse_diag(done.stdout) or ([], "")
    assert [(o.where, o.texts) for o in outcomes if o.is_failure()] == [("2", ("Broken.",))]


def test_errors_are_the_real_tools(gpus):
    done = ask(gpus, "n1", "nvidia-smi", "--query-gpu=index,colour", CSV)
    assert (done.returncode, 'Field "colour" is not a valid' in done.stdout) == (2, True)
    assert ask(gpus, "n1", "nvidia-smi", "--what").returncode == 2
    gpus.unload_driver("n1")
    assert ask(gpus, "n1", "nvidia-smi", "-L").returncode == 9


def test_a_new_vm_is_well_again_and_keeps_its_kind(gpus):
    gpus.fell_off_the_bus("n2", 0)
    gpus.replaced("n2")
    node = read_nodes(gpus.folder)["n2"]
    assert (node.lost, node.gpus, node.dcgm) == ((), 4, "3.3.9")
    assert find_xids(read_kmsg(str(gpus.kernel_log("n2")))) == []


def test_faults_at_the_same_time_are_all_kept(gpus):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda gpu: gpus.ecc_error("n1", gpu), range(8)))
    assert len(read_nodes(gpus.folder)["n1"].ecc) == 8


def test_a_fault_by_hand(gpus):
    command = [sys.executable, "-m", "slurm_flex.demo.fakegpu", str(gpus.folder)]
    subprocess.run([*command, "off-the-bus", "n1", "5"], check=True, env=dict(os.environ))
    assert read_nodes(gpus.folder)["n1"].lost == (5,)
    missing = subprocess.run([*command, "ecc", "n9", "5"], capture_output=True, check=False)
    assert missing.returncode == 2
