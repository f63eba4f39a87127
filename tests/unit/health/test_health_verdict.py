import pytest

from slurm_flex.health.verdict import REASON_PREFIX, drain_reason, one_line


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
    reason = drain_reason("gpu-count", text)
    assert reason.startswith("slurm-flex:health: gpu-count: ")
    assert len(reason) <= 200
    assert reason.isprintable()
    assert reason.encode("utf-8")


def test_a_reason_reads_like_no_other_field_of_scontrols():
    reason = drain_reason("site", 'State=IDLE "x" [root@2020-01-01T00:00:00]')
    assert reason == REASON_PREFIX + "site: State:IDLE 'x' (root@2020-01-01T00:00:00)"


def test_a_long_line_gives_way_to_the_names_of_what_failed_as_well():
    reason = drain_reason("gpu-count", "y" * 500, ("xid", "nvlink"))
    assert reason.endswith("(also xid, nvlink)")
    assert len(reason) <= 200


def test_very_many_failures_still_fit():
    reason = drain_reason("a" * 40, "z" * 500, tuple(f"check-{n}" for n in range(60)))
    assert len(reason) <= 200


def test_a_shortened_line_says_so():
    assert one_line("abc def", 5) == "abc…"
    assert one_line("abcde", 5) == "abcde"
