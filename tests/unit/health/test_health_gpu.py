"""Good, bad and unknown answers of nvidia-smi, as drivers 535 to 570 print them."""

import pytest
from health_builders import finding, judged

from slurm_flex.health.gpu import parse_query, parse_row_remapper
from slurm_flex.health.node import Node
from slurm_flex.health.run import Output
from slurm_flex.health.state import Cursor

BUSES = ("0F", "2D", "44", "5B", "89", "A8", "C0", "D8")


def row(index: int, ecc: str = "0", name: str = "NVIDIA H100 80GB HBM3") -> str:
    uuid = f"GPU-ac896b35-5782-c478-4b2a-a661de0777{index:02x}"
    return f"{index}, 00000000:{BUSES[index]}:00.0, {uuid}, {ecc}, {name}"


def rows(*indexes: int, **ecc: str) -> str:
    return "".join(row(i, ecc.get(f"gpu{i}", "0")) + "\n" for i in indexes)


ALL = rows(*range(8))
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
NO_FIELD = 'Field "ecc.errors.uncorrected.volatile.total" is not a valid field to query.\n\n'
LOST = {
    "newer drivers, among the others": (
        "Unable to determine the device handle for GPU3: 0000:5B:00.0: Unknown Error\n"
        + rows(0, 1, 2, 4, 5, 6, 7),
        0,
    ),
    "older drivers, alone": (
        "Unable to determine the device handle for GPU0000:5B:00.0: Unknown Error\n",
        255,
    ),
    "older still": (
        "Unable to determine the device handle for GPU 0000:5B:00.0: GPU is lost.  "
        "Reboot the system to recover this GPU\n",
        15,
    ),
    "in its values": (
        rows(0, 1, 2)
        + "3, 00000000:5B:00.0, [GPU is lost], [GPU is lost], [GPU is lost]\n"
        + rows(4, 5, 6, 7),
        15,
    ),
    "wants a reset": (rows(*range(8), gpu3="[GPU requires reset]"), 0),
    "silently": (rows(0, 1, 2, 4, 5, 6, 7), 0),
}


def test_eight_of_eight_gpus_are_well():
    assert finding("gpu-count", Output(stdout=ALL)) == ("ok", "8 of 8 GPUs answer")


@pytest.mark.parametrize("how", LOST)
def test_a_lost_gpu_is_bad_however_nvidia_smi_says_so(how):
    stdout, status = LOST[how]
    verdict, text = finding("gpu-count", Output(status, stdout))
    assert verdict == "bad"
    assert "of 8 GPUs answer" in text
    assert ("5B:00.0" in text) == (how != "silently")


def test_one_lost_gpu_of_eight_leaves_seven():
    stdout, status = LOST["newer drivers, among the others"]
    _, text = finding("gpu-count", Output(status, stdout))
    assert text == "7 of 8 GPUs answer, but not 0000:5B:00.0 (Unknown Error)"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (Output(2, NO_FIELD), "is not a valid field"),
        (Output(0, ""), "nothing said"),
        (Output(0, "segmentation fault? who knows\n"), "who knows"),
        (Output(9, NO_DRIVER), "the NVIDIA driver is not loaded"),
        (Output(None, hung=True, seconds=15), "no answer within 15 s"),
        (Output(-11), "ended by signal 11"),
        (Output(None, failure="can't be run: Exec format error"), "Exec format error"),
        (None, "nvidia-smi is missing"),
    ],
)
@pytest.mark.parametrize("check", ["gpu-count", "gpu-ecc", "gpu-row-remap"])
def test_no_readable_answer_is_unknown_and_not_bad(check, output, text):
    verdict, said = finding(check, output)
    assert (verdict, text in said) == ("unknown", True), said


def test_no_devices_at_all_is_bad_where_there_should_be_some():
    output = Output(6, "No devices were found\n")
    assert finding("gpu-count", output) == ("bad", "0 of 8 GPUs answer")


def test_a_node_without_gpus_is_asked_for_none():
    for check in ("nvidia-smi", "gpu-count", "gpu-ecc", "gpu-row-remap", "nvlink", "xid", "dcgm"):
        assert finding(check, node=Node("n", gpus=0))[0] == "skipped"


def test_more_gpus_than_expected_is_a_note():
    found = judged("gpu-count", Output(stdout=ALL), node=Node("n", gpus=4)).finding
    assert found.verdict.value == "ok"
    assert found.notes == ("8 GPUs answer, only 4 are expected",)


def test_the_check_file_may_say_how_many():
    assert finding("gpu-count", Output(stdout=ALL), expect=9) == ("bad", "8 of 9 GPUs answer")


def test_a_comma_in_the_name_shifts_no_column():
    gpus, _ = parse_query(row(2, ecc="5", name="Graphics, Special, Edition"))
    assert [(gpu.index, gpu.ecc) for gpu in gpus] == [("2", "5")]


def test_no_ecc_errors_is_well():
    assert finding("gpu-ecc", Output(stdout=ALL)) == ("ok", "no uncorrectable ECC errors")


def test_an_uncorrectable_error_on_any_gpu_is_bad():
    """A peer's check summed the second column of a one-column table: always 0."""
    for index in range(8):
        output = Output(stdout=rows(*range(8), **{f"gpu{index}": "2"}))
        verdict, text = finding("gpu-ecc", output)
        assert verdict == "bad"
        assert text.startswith(f"GPU {index} (00000000:{BUSES[index]}:00.0) has 2 uncorrectable")


def test_errors_up_to_the_sites_limit_are_put_up_with():
    assert finding("gpu-ecc", Output(stdout=rows(0, gpu0="2")), most=2)[0] == "ok"


@pytest.mark.parametrize("value", ["[N/A]", "N/A", "[Not Supported]"])
def test_ecc_that_is_off_everywhere_is_skipped(value):
    assert finding("gpu-ecc", Output(stdout=row(0, ecc=value)))[0] == "skipped"


def test_an_ecc_count_that_is_no_number_is_unknown():
    verdict, text = finding("gpu-ecc", Output(stdout=rows(0, 1, gpu1="[Insufficient Permissions]")))
    assert verdict == "unknown"
    assert "Insufficient Permissions" in text


REMAPPER = """
==============NVSMI LOG==============

Timestamp                                 : Mon Dec  1 12:00:00 2026
Driver Version                            : 535.183.01
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:0F:00.0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 640 bank(s)
            High                          : 0 bank(s)
            Partial                       : 0 bank(s)
            Low                           : 0 bank(s)
            None                          : 0 bank(s)

GPU 00000000:2D:00.0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 4
        Pending                           : {pending}
        Remapping Failure Occurred        : {failed}
        Bank Remap Availability Histogram
            Max                           : 639 bank(s)
            High                          : 1 bank(s)
            Partial                       : 0 bank(s)
            Low                           : 0 bank(s)
            None                          : 0 bank(s)

"""
NO_REMAP = "GPU 00000000:00:04.0\n    Remapped Rows                         : N/A\n"


@pytest.mark.parametrize(
    ("pending", "failed", "option", "verdict", "text"),
    [
        ("No", "No", "fail", "ok", "no row remap is pending or failed"),
        ("Yes", "No", "fail", "bad", "a row remap is pending on GPU 00000000:2D:00.0"),
        ("Yes", "No", "note", "ok", "no row remap is pending or failed"),
        ("No", "Yes", "fail", "bad", "row remapping failed on GPU 00000000:2D:00.0"),
        ("Yes", "Yes", "note", "bad", "row remapping failed on GPU 00000000:2D:00.0"),
        ("1", "0", "fail", "bad", "a row remap is pending on GPU 00000000:2D:00.0"),
        ("N/A", "N/A", "fail", "ok", "no row remap is pending or failed"),
        ("Perhaps", "No", "fail", "unknown", "GPU 00000000:2D:00.0: its row remap state"),
        ("[Unknown Error]", "[Unknown Error]", "fail", "unknown", "GPU 00000000:2D:00.0"),
    ],
)
def test_row_remaps_of_every_gpu_are_read(pending, failed, option, verdict, text):
    output = Output(stdout=REMAPPER.format(pending=pending, failed=failed))
    found = finding("gpu-row-remap", output, pending=option)
    assert found[0] == verdict
    assert found[1].startswith(text)


def test_gpus_that_remap_no_rows_are_skipped():
    assert finding("gpu-row-remap", Output(stdout=NO_REMAP))[0] == "skipped"


def test_each_gpus_block_is_its_own():
    blocks = parse_row_remapper(REMAPPER.format(pending="Yes", failed="No"))
    assert blocks["00000000:0F:00.0"]["pending"] == "No"
    assert blocks["00000000:2D:00.0"]["pending"] == "Yes"


def test_nvidia_smi_that_answers_is_well():
    assert finding("nvidia-smi", Output(stdout=ALL, seconds=0.42)) == (
        "ok",
        "nvidia-smi answers in 0.4 s",
    )


def test_nvidia_smi_that_is_missing_is_bad_where_gpus_should_be():
    assert finding("nvidia-smi")[0] == "bad"
    assert finding("nvidia-smi", missing="unknown")[0] == "unknown"
    assert finding("nvidia-smi", node=Node("n", gpus=0))[0] == "skipped"


@pytest.mark.parametrize(("status", "why"), [(9, "driver is not loaded"), (12, "NVML library")])
def test_a_driver_that_is_gone_is_bad(status, why):
    verdict, text = finding("nvidia-smi", Output(status, NO_DRIVER))
    assert verdict == "bad"
    assert why in text


def test_one_hang_is_unknown_and_the_second_in_a_row_is_bad():
    hung = Output(None, hung=True, seconds=15)
    first = judged("nvidia-smi", hung)
    assert first.finding.verdict.value == "unknown"
    second = judged("nvidia-smi", hung, cursor=first.cursor)
    assert second.finding.verdict.value == "bad"
    assert second.finding.text.endswith("2 looks in a row")


def test_an_answer_in_between_ends_the_row_of_hangs():
    hung = Output(None, hung=True, seconds=15)
    cursor = judged("nvidia-smi", hung).cursor
    cursor = judged("nvidia-smi", Output(stdout=ALL), cursor=cursor).cursor
    assert judged("nvidia-smi", hung, cursor=cursor).finding.verdict.value == "unknown"


def test_a_site_may_leave_hangs_unknown_for_ever():
    hung, cursor = Output(None, hung=True, seconds=15), Cursor()
    for _ in range(5):
        found = judged("nvidia-smi", hung, cursor=cursor, hangs=0)
        cursor = found.cursor
        assert found.finding.verdict.value == "unknown"
