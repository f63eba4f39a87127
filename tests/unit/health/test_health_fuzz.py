"""Whatever a tool prints, a check answers: no judge raises, and nothing it says breaks a line."""

import json

from health_builders import judged
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_flex.health.catalogue import BUILTINS, judge_command
from slurm_flex.health.checkfile import Rules, read_check
from slurm_flex.health.kernel_log import parse_kmsg, parse_stamped
from slurm_flex.health.run import Output
from slurm_flex.health.verdict import drain_reason
from slurm_flex.health.xid import find_xids

TOOL_CHECKS = [name for name in BUILTINS if name not in {"disk", "nic", "mounts", "load"}]
WORDS = st.sampled_from(
    [
        "GPU 0: NVIDIA",
        "\t Link 0: ",
        "26.562 GB/s",
        "<inactive>",
        "GPU 00000000:0F:00.0",
        "    Pending : Yes",
        "    Remapping Failure Occurred : N/A",
        "0, 00000000:0F:00.0, GPU-1, 0, H100",
        "Unable to determine the device handle for GPU",
        "[ 12.5] NVRM: Xid (PCI:0000:5b:00): 79, x",
        '{"DCGM Diagnostic": {"test_categories": [{"tests": [{"results": [3]}]}]}}',
        '{"DCGM GPU Diagnostic": ',
        "\n",
        ",",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(WORDS, st.text(max_size=9))).map("".join))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.sampled_from(
                    [
                        "test_categories", "tests", "results", "status", "warnings", "name",
                        "error_severity", "test_summary", "runtime_error", "gpu_ids", "warning",
                    ]
                ),
                st.text(max_size=5),
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)  # fmt: skip
OUTPUTS = st.builds(
    Output,
    status=st.one_of(st.none(), st.integers(-15, 255)),
    stdout=TEXTS,
    stderr=TEXTS,
    hung=st.booleans(),
    truncated=st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(TOOL_CHECKS), st.one_of(st.none(), OUTPUTS))
def test_every_check_answers_to_any_output(name, output):
    found = judged(name, output).finding
    assert drain_reason(name, found.text, "epilog").isprintable()


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(["DCGM Diagnostic", "DCGM GPU Diagnostic"]), JSON, st.integers(0, 255))
def test_any_json_of_dcgms_is_answered(root, value, status):
    output = Output(status, json.dumps({root: value}))
    assert len(drain_reason("dcgm", judged("dcgm", output).finding.text, "prolog")) <= 200


@settings(max_examples=200, deadline=None)
@given(OUTPUTS)
def test_a_sites_command_is_answered(output):
    judge_command(output, Rules())


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_any_kernel_log_is_read(text):
    find_xids(parse_kmsg(text) + parse_stamped(text))


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_check_file_is_read_or_refused(data):
    check, problems = read_check(data, "x.json", {})
    assert (check is None) == bool(problems)
