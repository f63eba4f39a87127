import pytest

from slurm_flex.health.verdict import (
    REASON_PREFIX,
    drain_reason,
    is_of_a_part,
    kind_of_reason,
    one_line,
)


@pytest.mark.parametrize(
    "text",
    [
        "7 of 8 GPUs answer\nand a second line",
        "quotes \" and ' and ` and $(reboot) and %s and ; rm -rf /",
        "\x00\x1b[31mred\x1b[0m\x07\u202egnirts\u2028next\x85line",
        "한국어 오류 메시지 " * 100,
        "x" * 4096,
        "\ud800 lone surrogate",
        "",
    ],
)
def test_a_reason_is_one_printable_line_of_at_most_200_characters(text):
    reason = drain_reason("gpu-count", text, "prolog")
    assert reason.startswith("slurm-flex:health: gpu-count: ")
    assert len(reason) <= 200
    assert reason.isprintable()
    assert reason.encode("utf-8")


def test_a_reason_reads_like_no_other_field_of_scontrols():
    reason = drain_reason("site", 'State=IDLE "x" [root@2020-01-01T00:00:00]', "epilog")
    said = "site: State:IDLE 'x' (root@2020-01-01T00:00:00)"
    assert reason == f"{REASON_PREFIX}{said} (epilog)"


def test_a_long_line_gives_way_to_the_names_of_what_failed_as_well():
    reason = drain_reason("gpu-count", "y" * 500, "prolog", ("xid", "nvlink"))
    assert reason.endswith("(prolog; also xid, nvlink)")
    assert len(reason) <= 200


def test_very_many_failures_still_fit():
    reason = drain_reason("a" * 40, "z" * 500, "periodic", tuple(f"check-{n}" for n in range(60)))
    assert len(reason) <= 200
    assert kind_of_reason(reason) == "VM_SCAN_ERROR"


@pytest.mark.parametrize(
    ("context", "check", "kind"),
    [
        ("prolog", "gpu-count", "VM_PROLOG_ERROR"),
        ("epilog", "disk", "VM_EPILOG_ERROR"),
        ("periodic", "disk", "VM_SCAN_ERROR"),
        ("periodic", "a-site-s-own", "VM_SCAN_ERROR"),
        *(
            ("periodic", check, "VM_CONTINUOUS_GPU_ERROR")
            for check in ("nvidia-smi", "gpu-count", "gpu-ecc", "gpu-row-remap", "xid", "nvlink")
        ),
    ],
)
@pytest.mark.parametrize("others", [(), ("load",), tuple("abcdefghijklmnopqrstuvwxyz")])
@pytest.mark.parametrize("text", ["x", "y" * 500, "GPU 3 (epilog) was (prolog", "(", "(prolog)"])
@pytest.mark.parametrize("is_part", [False, True])
def test_a_reason_tells_which_event_it_was(context, check, kind, others, text, is_part):
    """Slurm may add its own words to it later (facts: slurm.md)."""
    reason = drain_reason(check, text, context, others, is_part=is_part)
    assert len(reason) <= 200
    for seen in (reason, f"{reason} : ResumeTimeout reached"):
        assert (kind_of_reason(seen), is_of_a_part(seen)) == (kind, is_part)


@pytest.mark.parametrize(
    "reason", ["bad fan (prolog)", "slurm-flex: lost", "slurm-flex:health: x: y", "Prolog error"]
)
def test_no_other_reason_does(reason):
    assert kind_of_reason(reason) is None


def test_a_shortened_line_says_so():
    assert one_line("abc def", 5) == "abc…"
    assert one_line("abcde", 5) == "abcde"
