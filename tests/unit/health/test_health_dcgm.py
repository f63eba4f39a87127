"""dcgmi diag -r 1 -j over its releases."""

import json

import pytest
from health_builders import finding, judged

from slurm_flex.health.run import Output


def third(status: str = "Pass", warnings: object = None, **more: object) -> str:
    """DCGM 3, with the text before the brace and the nulls that real output has."""
    result: dict[str, object] = {"gpu_ids": "3", "status": status}
    if warnings is not None:
        result["warnings"] = warnings
    tests = [
        {"name": "Denylist", "results": [{"gpu_ids": "0,1,2,3,4,5,6,7", "status": "Pass"}]},
        None,
        {"name": "GPU Memory", "results": [result]},
        None,
    ]
    root = {
        "test_categories": [{"category": "Deployment", "tests": tests}],
        "version": "3.1.0",
        **more,
    }
    return "WARNING: this build is old\n" + json.dumps({"DCGM GPU Diagnostic": root}, indent=1)


def second(status: str) -> str:
    """DCGM 2: capitals, numbers for ids, warnings as one text."""
    tests = [{"name": "Inforom", "results": [{"gpu_ids": 3, "status": status}]}]
    if status == "FAIL":
        tests[0]["results"][0]["warnings"] = "A corrupt InfoROM has been detected in GPU 3."
    root = {"test_categories": [{"category": "Deployment", "tests": tests}], "version": "2.4.5"}
    return json.dumps({"DCGM GPU Diagnostic": root})


def fourth(
    status: str = "Pass", severity: int = 2, text: str = "", summary: str | None = None
) -> str:
    """DCGM 4: entities, and a summary for each test."""
    results = [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Pass"}
        for gpu in range(8)
    ]
    results[3]["status"] = status
    if text:
        results[3]["warnings"] = [
            {
                "error_category": 8,
                "error_id": 29,
                "error_severity": severity,
                "warning": text,
            }
        ]
    test = {
        "name": "software",
        "results": results,
        "test_summary": {"status": summary or status},
    }
    return json.dumps(
        {
            "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [test]}]},
            "entity_groups": [],
            "metadata": {"Driver Version Detected": "580.82.09", "version": "4.2.3"},
        }
    )


@pytest.mark.parametrize("document", [second("PASS"), third(), fourth()], ids=["2", "3", "4"])
def test_a_diagnostic_that_passes_is_well(document):
    assert finding("dcgm", Output(stdout=document)) == ("ok", "the quick diagnostic passes")


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (second("FAIL"), "Inforom on GPU 3: A corrupt InfoROM has been detected in GPU 3."),
        (third("Fail", ["Row remap failed."]), "GPU Memory on GPU 3: Row remap failed."),
        (
            third("Fail", [{"warning": "DBE", "error_id": 5, "error_severity": 2}]),
            "GPU Memory on GPU 3: DBE",
        ),
        (third("FAIL"), "GPU Memory on GPU 3"),
        (fourth("Fail", 2, "A GPU fell off."), "software on GPU 3: A GPU fell off."),
        (fourth("Fail", 6, "Reset it."), "software on GPU 3: Reset it."),
        (fourth("Fail"), "software on GPU 3"),
        (fourth(summary="Fail"), "software"),
    ],
)
def test_a_diagnostic_that_fails_is_bad_and_says_where(document, text):
    assert finding("dcgm", Output(226, document)) == ("bad", text)


@pytest.mark.parametrize("severity", [1, 5])
def test_a_setting_of_the_node_is_a_note_and_no_failure(severity):
    document = fourth("Fail", severity, "Persistence Mode: it is off for GPU 3.")
    found = judged("dcgm", Output(226, document)).finding
    assert found.verdict.value == "ok"
    assert found.notes == ("software on GPU 3: Persistence Mode: it is off for GPU 3. (fail)",)


def test_a_warning_is_a_note():
    found = judged("dcgm", Output(stdout=third("Warn", ["PCIe replays"]))).finding
    assert (found.verdict.value, len(found.notes)) == ("ok", 1)


@pytest.mark.parametrize(
    "output",
    [
        Output(1, "Error: unable to establish a connection to the specified host: localhost\n"),
        Output(0, ""),
        Output(0, "{"),
        Output(0, "[1, 2]"),
        Output(0, '{"DCGM Diagnostic": 3}'),
        Output(0, '{"something": {"else": 1}}'),
        Output(0, '{"DCGM Diagnostic": {"test_categories": []}}'),
        Output(0, third("Skip").replace('"Pass"', '"Skip"')),
        Output(3, fourth()),
        Output(0, third(runtime_error="NVVS crashed")),
        Output(0, "{" * 100_000),
        Output(0, '{"DCGM Diagnostic": ' + "[" * 100_000),
        Output(0, fourth(), truncated=True),
        Output(None, hung=True, seconds=25),
        Output(-9),
    ],
)
def test_what_says_nothing_of_the_gpus_is_unknown(output):
    assert finding("dcgm", output)[0] == "unknown"


@pytest.mark.parametrize(
    "error", ["Diagnostic is already running", "Cannot run diag: MIG is enabled", "GPU in use"]
)
def test_a_diagnostic_that_cannot_be_had_now_is_skipped(error):
    assert finding("dcgm", Output(1, third(runtime_error=error)))[0] == "skipped"


def test_without_dcgmi_there_is_no_diagnostic():
    assert finding("dcgm") == ("skipped", "dcgmi is not installed")
