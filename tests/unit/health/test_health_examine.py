import sys
import time
from datetime import timedelta

import pytest
from health_builders import program

from slurm_flex.health.checkfile import Check
from slurm_flex.health.examine import examine
from slurm_flex.health.node import Node, Occasion
from slurm_flex.health.state import Cursor

ALL = ("prolog", "epilog", "periodic")
WHOLE = Occasion("prolog", job_id="7", job_gpus=8)
PART = Occasion("prolog", job_id="7", job_gpus=2)


@pytest.fixture
def site(tmp_path):
    """Check builder: a site's command that exits as told and writes down that it ran."""

    def build(name: str, exit_code: int = 0, **more) -> Check:
        text = f"#!/bin/sh\necho {name} >> {tmp_path}/ran\necho said by {name}\nexit {exit_code}\n"
        path = program(tmp_path / name, text)
        return Check(name=name, contexts=ALL, command=(str(path),), **more)

    build.ran = lambda: (
        (tmp_path / "ran").read_text().split() if (tmp_path / "ran").exists() else []
    )
    return build


def look(checks, occasion=WHOLE, node=None, seconds=30.0):
    return examine(
        node or Node("n", gpus=8),
        occasion,
        checks,
        Cursor(),
        environ={},
        until=time.monotonic() + seconds,
    )


def words(examination) -> dict[str, str]:
    return {r.check.name: r.finding.verdict.value for r in examination.results}


def test_results_come_in_the_order_of_the_files(site):
    checks = [site("c", exclusive=True), site("a"), site("b", 1)]
    assert list(words(look(checks))) == ["c", "a", "b"]


def test_only_checks_of_this_occasion_are_made(site):
    checks = [site("a"), Check("b", ("epilog",), command=("/bin/false",)), site("c", enabled=False)]
    assert words(look(checks)) == {"a": "ok"}


def test_a_bad_check_fails_the_node_and_a_warning_does_not(site):
    found = look([site("a", 1), site("b", 1, on_fail="warn"), site("c", 7)])
    assert words(found) == {"a": "bad", "b": "bad", "c": "unknown"}
    assert [result.check.name for result in found.failures()] == ["a"]


def test_unknown_is_not_bad_unless_the_site_says_so(site):
    assert look([site("a", 7)]).failures() == ()
    assert look([site("a", 7, on_unknown="drain")]).failures() != ()


def test_machine_types_choose_their_checks(site):
    checks = [site("a3", machine_types=("a3-*",)), site("a4", machine_types=("a4-*", "a2-*"))]
    found = look(checks, node=Node("n", gpus=8, machine_type="a3-ultragpu-8g"))
    assert words(found) == {"a3": "ok", "a4": "skipped"}
    assert words(look(checks)) == {"a3": "skipped", "a4": "skipped"}, "unknown machine type"


def test_an_exclusive_check_runs_only_when_the_job_has_the_whole_node(site):
    checks = [site("burn", exclusive=True)]
    assert words(look(checks, PART)) == {"burn": "skipped"}
    assert words(look(checks, Occasion("periodic"))) == {"burn": "skipped"}
    assert site.ran() == []
    assert words(look(checks, WHOLE)) == {"burn": "ok"}


def test_exclusive_checks_run_one_by_one_after_the_others(tmp_path):
    """Each fails if it finds another one running."""
    text = (
        f"#!{sys.executable} -IS\nimport os, sys, time\n"
        f"lock = {str(tmp_path)!r} + '/lock'\n"
        "try: os.mkdir(lock)\nexcept OSError: sys.exit(1)\n"
        "time.sleep(0.1)\nos.rmdir(lock)\n"
    )
    path = program(tmp_path / "alone", text)
    checks = [Check(f"x{n}", ALL, command=(str(path), str(n)), exclusive=n > 0) for n in range(3)]
    assert set(words(look(checks)).values()) == {"ok"}


def test_a_node_that_has_failed_is_spared_the_exclusive_checks(site):
    found = look([site("a", 1), site("burn", exclusive=True)])
    assert words(found) == {"a": "bad", "burn": "skipped"}
    assert site.ran() == ["a"]


def test_a_command_that_hangs_is_unknown_and_the_others_are_made(site, tmp_path):
    hung = program(tmp_path / "hung", "#!/bin/sh\nsleep 600\n")
    checks = [
        Check("hung", ALL, command=(str(hung),), timeout=timedelta(seconds=0.3)),
        site("a"),
    ]
    began = time.monotonic()
    assert words(look(checks)) == {"hung": "unknown", "a": "ok"}
    assert time.monotonic() - began < 5


def test_what_the_budget_has_no_time_for_is_unknown(site, tmp_path):
    hung = program(tmp_path / "hung", "#!/bin/sh\nsleep 600\n")
    checks = [
        Check("hung", ALL, command=(str(hung),), timeout=timedelta(minutes=10)),
        site("late", exclusive=True),
    ]
    began = time.monotonic()
    found = look(checks, seconds=3)
    assert time.monotonic() - began < 4
    assert words(found) == {"hung": "unknown", "late": "unknown"}
    assert found.failures() == ()


def test_the_tool_is_run_once_for_all_the_checks_that_read_it(tmp_path):
    smi = program(tmp_path / "smi", f"#!/bin/sh\necho x >> {tmp_path}/ran\n")
    names = ("nvidia-smi", "gpu-count", "gpu-ecc")
    options = {"missing": "bad", "hangs": 2, "expect": None, "most": 0}
    checks = [Check(name, ALL, builtin=name, options=options) for name in names]
    look(checks, node=Node("n", gpus=8, tools={"nvidia-smi": str(smi)}))
    assert (tmp_path / "ran").read_text() == "x\n"
