import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from slurm_flex.health.catalogue import BUILTINS, OPTIONS, judge_command
from slurm_flex.health.checkfile import SHIPPED_CHECKS, load_checks, read_check
from slurm_flex.health.run import Output

GOOD = {"name": "site", "contexts": ["prolog"], "command": ["/usr/bin/true"]}


def problems(data: object) -> list[str]:
    check, found = read_check(data, "x.json", OPTIONS)
    assert (check is None) == bool(found)
    return [str(problem) for problem in found]


def write(folder: Path, name: str, data: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    path.chmod(0o644)
    return path


def test_the_shipped_files_are_all_good_and_use_every_built_in_check():
    checks, wrong = load_checks([SHIPPED_CHECKS], OPTIONS)
    assert wrong == ()
    assert {check.builtin for check in checks} == set(BUILTINS)
    assert all(check.name == check.builtin for check in checks)


def test_the_shipped_options_are_the_defaults():
    """A file that says what holds anyway must not disagree with the code."""
    for check in load_checks([SHIPPED_CHECKS], OPTIONS)[0]:
        defaults = {key: field.default for key, field in OPTIONS[check.builtin].items()}
        assert dict(check.options) == defaults, check.name


def test_only_what_disturbs_others_is_exclusive_and_only_load_is_a_warning():
    checks = load_checks([SHIPPED_CHECKS], OPTIONS)[0]
    assert [check.name for check in checks if check.exclusive] == ["dcgm"]
    assert [check.name for check in checks if check.on_fail == "warn"] == ["load"]


def test_every_error_is_told_at_once_with_file_path_and_suggestion():
    told = problems(
        {
            "name": "Bad Name",
            "contexts": ["prolog", "epilogue"],
            "comand": ["x"],
            "command": ["true"],
            "timeout": "10 parsecs",
            "on_fail": "drian",
            "verdict": {"bad_exit": [1, 999], "bad_output": "(", "ok_exti": [0]},
            "exclusive": "yes",
        }
    )
    assert told == [
        'x.json: comand: unknown key (did you mean "command"?)',
        "x.json: name: 'Bad Name' is not a name: a-z, 0-9 and -, at most 40 long"
        " (write a name: a-z, 0-9 and -, at most 40 long)",
        'x.json: contexts: \'epilogue\' is not one of "prolog", "epilog", "periodic"'
        ' (did you mean "epilog"?)',
        "x.json: timeout: '10 parsecs' is not a duration"
        ' (write "10s", "2m" or a number of seconds, at most "1h")',
        'x.json: on_fail: \'drian\' is not one of "drain", "warn" (did you mean "drain"?)',
        "x.json: exclusive: 'yes' is not true or false (write true or false)",
        'x.json: verdict.ok_exti: unknown key (did you mean "ok_exit"?)',
        "x.json: verdict.bad_exit: 999 is not a whole number from 0 to 255 (write a number)",
        "x.json: verdict.bad_output: '(' is not a regular expression: "
        "missing ), unterminated subpattern at position 0",
        "x.json: command[0]: 'true' is not an absolute path"
        " (slurmd gives no PATH: write the absolute path)",
    ]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"command": None}, "command: None is not a list"),
        ({"builtin": "disk"}, "builtin: both of builtin and command given"),
        ({"options": {"x": 1}}, "options: only a built-in check has options"),
        ({"verdict": {"ok_exit": [0, 1]}}, "verdict: exit 1 is both healthy and unfit"),
        ({"verdict": []}, "verdict: this is not a JSON object"),
        ({"contexts": []}, "contexts: the list is empty"),
        ({"command": []}, "command: the list is empty"),
        ({"command": ["/bin/x", 3]}, "command: 3 is not an argument"),
        ({"command": ["/bin/x\0"]}, "is not an argument"),
        ({"timeout": 0}, "timeout: 0 is not a duration"),
        ({"timeout": "2h"}, "timeout: '2h' is not a duration"),
        ({"timeout": True}, "timeout: True is not a duration"),
        ({"machine_types": "a3-*"}, "machine_types: 'a3-*' is not a list"),
        ({"enabled": 1}, "enabled: 1 is not true or false"),
    ],
)
def test_a_wrong_value_is_named(change, text):
    assert any(text in line for line in problems({**GOOD, **change})), problems({**GOOD, **change})


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([], "this is not a JSON object"),
        ({}, "name: missing"),
        ({"name": "x", "contexts": ["prolog"]}, "builtin: neither of builtin and command given"),
        (
            {"name": "x", "contexts": ["prolog"], "builtin": "gpu-cuont"},
            'no built-in check "gpu-cuont" (did you mean "gpu-count"?)',
        ),
        (
            {
                "name": "x",
                "contexts": ["prolog"],
                "builtin": "disk",
                "options": {"max_pct": 9, "paths": ["tmp"]},
            },
            "options.paths: 'tmp' is not an absolute path",
        ),
        (
            {
                "name": "x",
                "contexts": ["prolog"],
                "builtin": "disk",
                "verdict": {"bad_exit": [1]},
            },
            "verdict: a built-in check reads its own output",
        ),
    ],
)
def test_a_wrong_file_is_named(data, text):
    assert any(text in line for line in problems(data)), problems(data)


def test_a_good_file_has_its_defaults():
    check, wrong = read_check(GOOD, "x.json", OPTIONS)
    assert wrong == []
    assert check is not None
    assert check.timeout == timedelta(seconds=10)
    assert (check.on_fail, check.on_unknown, check.exclusive) == ("drain", "event", False)


def test_a_sites_file_replaces_a_shipped_check_and_others_stay(tmp_path):
    write(tmp_path / "a", "10.json", {**GOOD, "name": "one"})
    write(tmp_path / "a", "20.json", {**GOOD, "name": "two"})
    write(tmp_path / "b", "99.json", {**GOOD, "name": "one", "enabled": False})
    checks, wrong = load_checks([tmp_path / "a", tmp_path / "b"], OPTIONS)
    assert wrong == ()
    assert [(check.name, check.enabled) for check in checks] == [("one", False), ("two", True)]


BROKEN = {
    "not JSON": "{",
    "empty": "",
    "not UTF-8": "\udcff\udcfe",
    "a number of many digits": '{"timeout": ' + "9" * 6000 + "}",
    "deep": "[" * 200_000,
    "large": '"' + "x" * 300_000 + '"',
    "wrong": '{"nmae": "x"}',
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_is_told_of_and_the_others_are_used(tmp_path, how):
    write(tmp_path, "10.json", GOOD)
    (tmp_path / "20.json").write_bytes(BROKEN[how].encode("utf-8", "surrogateescape"))
    write(tmp_path, "30.json", {**GOOD, "name": "third"})
    checks, wrong = load_checks([tmp_path], OPTIONS)
    assert [check.name for check in checks] == ["site", "third"]
    assert wrong
    assert all(problem.file == str(tmp_path / "20.json") for problem in wrong)


def test_a_pipe_or_a_folder_in_the_way_holds_nothing_up(tmp_path):
    os.mkfifo(tmp_path / "10.json")
    (tmp_path / "20.json").mkdir()
    checks, wrong = load_checks([tmp_path], OPTIONS)
    assert checks == ()
    assert [problem.what for problem in wrong] == ["is not a regular file"] * 2


def test_a_file_that_anybody_may_write_is_not_run_as_root(tmp_path):
    write(tmp_path, "10.json", GOOD).chmod(0o666)
    checks, wrong = load_checks([tmp_path], OPTIONS)
    assert checks == ()
    assert wrong[0].what == "anybody may write this file"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_not_run_as_root(tmp_path):
    os.chown(write(tmp_path, "10.json", GOOD), 54321, 54321)
    assert load_checks([tmp_path], OPTIONS)[1][0].what == "belongs to user 54321"


def test_two_files_of_one_name_in_one_folder_are_an_error(tmp_path):
    write(tmp_path, "10.json", GOOD)
    write(tmp_path, "20.json", GOOD)
    _, wrong = load_checks([tmp_path], OPTIONS)
    assert [problem.what for problem in wrong] == ['"site" is already in 10.json']


def test_no_checks_at_all_is_a_problem(tmp_path):
    assert load_checks([tmp_path / "none"], OPTIONS)[1][0].what == "there are no check files"


@pytest.mark.parametrize(
    ("rules", "output", "verdict", "text"),
    [
        ({}, Output(0, "all well\n"), "ok", "all well"),
        ({}, Output(0), "ok", "exit 0"),
        ({}, Output(1, "\n\nno fan\n"), "bad", "no fan"),
        ({}, Output(1, "x", "from stderr\n"), "bad", "from stderr"),
        ({}, Output(2, "usage"), "unknown", "exit 2: usage"),
        ({}, Output(-9), "unknown", "ended by signal 9"),
        ({}, Output(None, hung=True, seconds=10), "unknown", "no answer within 10 s"),
        ({}, Output(None, failure="can't be run: No such file"), "unknown", "No such file"),
        ({"bad_exit": [1, 2]}, Output(2), "bad", "exit 2"),
        ({"bad_output": "ERR"}, Output(0, "fine\nERR 5\n"), "bad", "ERR 5"),
        ({"ok_output": "^PASS"}, Output(0, "no\nPASSED\n"), "ok", "no"),
        ({"ok_output": "^PASS"}, Output(0, "FAILED\n"), "unknown", "no line says '^PASS'"),
    ],
)
def test_a_sites_command_is_read_by_its_rules(rules, output, verdict, text):
    check, wrong = read_check({**GOOD, "verdict": rules}, "x.json", OPTIONS)
    assert wrong == []
    assert check is not None
    found = judge_command(output, check.verdict)
    assert (found.verdict.value, text in found.text) == (verdict, True), found.text
