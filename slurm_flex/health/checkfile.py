"""The checks as data: the JSON files of `etc/health.d`, read with every error at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Optional

from slurm_flex.health import schema
from slurm_flex.health.schema import Field, Problem, WrongValueError

SHIPPED_CHECKS: Final = Path(__file__).resolve().parents[2] / "etc/health.d"
SITE_CHECKS: Final = Path("/etc/slurm-flex/health.d")


def _regex(value: object) -> re.Pattern[str]:
    if not isinstance(value, str):
        raise WrongValueError(f"{value!r:.80} is not a regular expression", "write a text")
    try:
        return re.compile(value)
    except re.error as error:
        raise WrongValueError(f"{value!r:.80} is not a regular expression: {error}", "") from error


_exit_codes = schema.list_of(schema.integer(0, 255))

VERDICT_FIELDS: Final = {
    "ok_exit": Field(_exit_codes, "exit codes that mean healthy", (0,)),
    "bad_exit": Field(
        _exit_codes, "exit codes that mean unfit; any other, or a signal, is unknown", (1,)
    ),
    "bad_output": Field(_regex, "a line that matches means unfit, whatever the exit code"),
    "ok_output": Field(_regex, "healthy only if a line matches; unknown otherwise"),
}

CHECK_FIELDS: Final = {
    "name": Field(
        schema.text(r"[a-z][a-z0-9-]{0,39}", "a name: a-z, 0-9 and -, at most 40 long"),
        "what the drain reason calls it; a later folder's check of this name replaces this one",
        required=True,
    ),
    "description": Field(schema.text(), "one sentence for `--list`", ""),
    "contexts": Field(
        schema.list_of(schema.choice("prolog", "epilog", "periodic"), least=1),
        "when it runs: prolog, epilog, periodic",
        (),
        required=True,
    ),
    "builtin": Field(
        schema.text(r"[a-z0-9-]+", "the name of a built-in check"), "a built-in check"
    ),
    "options": Field(schema.anything, "settings of the built-in check", {}),
    "command": Field(
        schema.list_of(schema.text(says="an argument"), least=1),
        "program (absolute path) and arguments; no shell",
    ),
    "verdict": Field(schema.anything, "how a command's exit code and output are read", {}),
    "timeout": Field(
        schema.duration, "after this the command is killed: unknown", timedelta(seconds=10)
    ),
    "on_fail": Field(schema.choice("drain", "warn"), "what a failure does", "drain"),
    "on_unknown": Field(
        schema.choice("event", "drain"), "what a check that can't be made does", "event"
    ),
    "machine_types": Field(
        schema.list_of(schema.text(r"\S+", "a machine type or a pattern like a3-*"), least=1),
        "only on these machine types (patterns with * and ?)",
        (),
    ),
    "exclusive": Field(
        schema.boolean, "uses the GPUs: only when the job has the whole node, and alone", False
    ),
    "enabled": Field(schema.boolean, "false turns it off", True),
}


@dataclass(frozen=True)
class Rules:
    """How the exit code and the output of a site's own command are read."""

    ok_exit: tuple[int, ...] = (0,)
    bad_exit: tuple[int, ...] = (1,)
    bad_output: Optional[re.Pattern[str]] = None
    ok_output: Optional[re.Pattern[str]] = None


@dataclass(frozen=True)
class Check:
    """One check, as its file describes it; either builtin or command is set."""

    name: str
    contexts: tuple[str, ...]
    file: str = ""
    description: str = ""
    builtin: Optional[str] = None
    options: Mapping[str, Any] = field(default_factory=dict)
    command: Optional[tuple[str, ...]] = None
    verdict: Rules = Rules()
    timeout: timedelta = timedelta(seconds=10)
    on_fail: str = "drain"
    on_unknown: str = "event"
    machine_types: tuple[str, ...] = ()
    exclusive: bool = False
    enabled: bool = True


def read_check(
    data: object, file: str, builtins: Mapping[str, Mapping[str, Field]]
) -> tuple[Optional[Check], list[Problem]]:
    """One check file's object. builtins: the built-in checks with the options each takes."""
    values, problems = schema.read_object(data, CHECK_FIELDS, file)
    if not values:
        return None, problems
    rules, more = schema.read_object(values["verdict"], VERDICT_FIELDS, file, "verdict")
    problems += more + _which_kind(values, file, builtins)
    if values["builtin"] in builtins:
        options = builtins[values["builtin"]]
        values["options"], more = schema.read_object(values["options"], options, file, "options")
        problems += more
    both = sorted(set(rules.get("ok_exit", ())) & set(rules.get("bad_exit", ())))
    if both:
        fix = "write ok_exit and bad_exit, each without the other's codes"
        problems.append(Problem(file, "verdict", f"exit {both[0]} is both healthy and unfit", fix))
    if problems:
        return None, problems
    values["verdict"] = Rules(**rules)
    return Check(file=file, **values), []


def _which_kind(
    values: Mapping[str, Any], file: str, builtins: Mapping[str, Mapping[str, Field]]
) -> list[Problem]:
    builtin, command = values["builtin"], values["command"]
    if (builtin is None) == (command is None):
        what = "neither" if builtin is None else "both"
        return [Problem(file, "builtin", f"{what} of builtin and command given", "give one")]
    if builtin is not None and builtin not in builtins:
        hint = schema.suggestion(builtin, builtins) or f"known ones: {', '.join(builtins)}"
        return [Problem(file, "builtin", f'no built-in check "{builtin}"', hint)]
    if builtin is not None and values["verdict"]:
        return [Problem(file, "verdict", "a built-in check reads its own output", "leave it out")]
    if command is not None and not command[0].startswith("/"):
        fix = "slurmd gives no PATH: write the absolute path"
        return [Problem(file, "command[0]", f"{command[0]!r} is not an absolute path", fix)]
    if command is not None and values["options"]:
        return [Problem(file, "options", "only a built-in check has options", "use arguments")]
    return []


def load_checks(
    folders: Iterable[Path], builtins: Mapping[str, Mapping[str, Field]]
) -> tuple[tuple[Check, ...], tuple[Problem, ...]]:
    """Every usable check of the folders, in the order of their files, and every problem.

    A file that is wrong is left out and told of; the others run. A folder that isn't there holds
    no checks; that there are none at all is a problem.
    """
    found: dict[str, Check] = {}
    problems: list[Problem] = []
    folders = tuple(folders)
    for folder in folders:
        names_here: dict[str, str] = {}
        for path in sorted(folder.glob("*.json")):
            data, problem = schema.load_json(path)
            if problem is not None:
                problems.append(problem)
                continue
            check, wrong = read_check(data, str(path), builtins)
            problems += wrong
            if check is None:
                continue
            if check.name in names_here:
                first = f'"{check.name}" is already in {names_here[check.name]}'
                problems.append(Problem(str(path), "name", first, "choose another name"))
                continue
            names_here[check.name] = path.name
            found[check.name] = check
    if not found and not problems:
        listed = ", ".join(str(folder) for folder in folders)
        problems.append(Problem(listed, "", "there are no check files", "copy etc/health.d here"))
    return tuple(found.values()), tuple(problems)
