import pytest
from health_builders import finding

from slurm_flex.health.node import Node
from slurm_flex.health.run import Output

A3 = Node("n", gpus=8, machine_type="a3-megagpu-8g")
OTHER = Node("n", gpus=8, machine_type="n1-standard-8")


def gpu(index: int, states: list[str], name: str = "NVIDIA H100 80GB HBM3") -> str:
    uuid = f"GPU-ac896b35-5782-c478-4b2a-a661de0777{index:02x}"
    links = "".join(f"\t Link {number}: {state}\n" for number, state in enumerate(states))
    return f"GPU {index}: {name} (UUID: {uuid})\n{links}"


UP = ["26.562 GB/s"] * 18
EIGHT = "".join(gpu(index, UP) for index in range(8))


def test_all_links_of_all_gpus_up_is_well():
    assert finding("nvlink", Output(stdout=EIGHT), node=A3) == (
        "ok",
        "18 links up on each of 8 GPUs",
    )


@pytest.mark.parametrize("broken", range(8))
def test_one_inactive_link_on_any_gpu_is_bad(broken):
    """A peer's check asked GPU 0 only."""
    states = [*UP[:17], "<inactive>"]
    text = "".join(gpu(i, states if i == broken else UP) for i in range(8))
    assert finding("nvlink", Output(stdout=text), node=A3) == (
        "bad",
        f"GPU {broken} link 17 inactive",
    )


def test_a_gpu_with_fewer_links_than_its_kind_has_is_bad():
    text = "".join(gpu(i, UP[:12]) for i in range(8))
    verdict, said = finding("nvlink", Output(stdout=text), node=A3)
    assert verdict == "bad"
    assert said.startswith("GPU 0 has 12 of 18 links; GPU 1 has 12 of 18 links")


def test_a_gpu_without_links_among_others_is_bad_on_an_unknown_machine():
    text = gpu(0, UP[:4]) + gpu(1, [])
    assert finding("nvlink", Output(stdout=text), node=OTHER) == ("bad", "GPU 1 has 0 of 4 links")


@pytest.mark.parametrize(
    "text",
    [
        "",
        gpu(0, [], "Tesla T4") + gpu(1, [], "Tesla T4"),
        gpu(0, ["<inactive>"] * 4, "NVIDIA A100-PCIE-40GB") + gpu(1, ["<inactive>"] * 4),
        "GPU 0: NVIDIA L4 (UUID: GPU-aa) Device does not have or support Nvlink\n",
    ],
)
def test_gpus_without_nvlink_are_skipped_where_none_is_expected(text):
    assert finding("nvlink", Output(stdout=text), node=OTHER)[0] == "skipped"


def test_links_that_should_be_there_and_are_all_inactive_are_bad():
    text = "".join(gpu(i, ["<inactive>"] * 18) for i in range(8))
    assert finding("nvlink", Output(stdout=text), node=A3)[0] == "bad"


@pytest.mark.parametrize(
    "output",
    [
        Output(0, ""),
        Output(255, "Unable to retrieve NVLink information\n"),
        Output(0, gpu(0, ["some future state"])),
        Output(None, hung=True, seconds=15),
        Output(None, failure="can't be run: Permission denied"),
        None,
    ],
)
def test_what_cannot_be_read_is_unknown_on_a_machine_that_has_links(output):
    assert finding("nvlink", output, node=A3)[0] == "unknown"


def test_a_single_gpu_is_linked_to_nothing():
    assert finding("nvlink", node=Node("n", gpus=1, machine_type="a3-highgpu-1g"))[0] == "skipped"
