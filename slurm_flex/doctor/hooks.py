"""The programs that slurmctld calls: whether SlurmUser may run them, and whether they find us."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurm_flex.cluster.site import Site
from slurm_flex.doctor.check import Check, error, ok, skipped
from slurm_flex.folders import how_to_get
from slurm_flex.hook_site import HookSite
from slurm_flex.render.installed import Installed

NAME: Final = "hooks"
PROGRAMS: Final = ("ResumeProgram", "SuspendProgram", "ResumeFailProgram")

_USER: Final = re.compile(r"(?P<name>[^()]+)\((?P<uid>\d+)\)")
_LONGEST_LINE: Final = 256


@dataclass(frozen=True)
class Account:
    """Whoever slurmctld runs as: user id and all group ids."""

    name: str
    uid: int
    gids: frozenset[int]


def hooks(site: Site, here: Installed, values: Mapping[str, str]) -> Iterator[Check]:
    """What stands between slurmctld's call and our spool. values: `scontrol show config`."""
    match = _USER.fullmatch(values.get("SlurmUser", ""))
    if match is None:
        yield skipped(NAME, "slurmctld doesn't say who SlurmUser is")
        return
    account = account_of(match["name"], int(match["uid"]))
    programs = dict.fromkeys(values[key] for key in PROGRAMS if values.get(key))
    found = [*_unrunnable(programs, account), *_elsewhere(site, here), *_mute(site, account)]
    yield from found
    if programs and not found:
        yield ok(NAME, f"{account.name} may execute {', '.join(programs)}")


def _unrunnable(programs: Mapping[str, None], account: Account) -> Iterator[Check]:
    for name in programs:
        fault = obstacle(Path(name), account)
        if fault:
            yield error(NAME, f"{name}: {fault}", f"chmod a+rx {name} and the folders above it")
            continue
        missing = missing_interpreter(Path(name))
        if missing:
            fix = "install it there (Debian: python3-minimal), or change the first line"
            yield error(NAME, f"{name} is run by {missing}, which isn't there", fix)


def _elsewhere(site: Site, here: Installed) -> Iterator[Check]:
    """slurmctld hands its programs SLURM_CONF and nothing else: they must find the same folders."""
    theirs = HookSite({"SLURM_CONF": str(here.slurm_conf)})
    for key in ("run_dir", "state_dir"):
        ours = Path(getattr(site.settings, key))
        if getattr(theirs, key) != ours:
            read = theirs.settings_file or "no settings file"
            text = f"they read {read} and so take {key} for {getattr(theirs, key)}, not {ours}"
            fix = f"put slurm-flex.toml beside {here.slurm_conf} or into /etc/slurm-flex"
            yield error(NAME, text, fix)


def _mute(site: Site, account: Account) -> Iterator[Check]:
    """All of it belongs to whoever the daemon runs as, which must be SlurmUser."""
    run_dir, state_dir = Path(site.settings.run_dir), Path(site.settings.state_dir)
    for top, folder in ((state_dir, state_dir), (run_dir, run_dir), (run_dir, run_dir / "spool")):
        found = _stat(folder)
        if isinstance(found, os.stat_result) and not _may(found, account, stat.S_IWUSR):
            text = f"{account.name}, who is SlurmUser, may not write into {folder}"
            fix = f"{how_to_get(top, account.name)}; User= in slurm-flex.service is SlurmUser"
            yield error(NAME, text, fix)
            return


def missing_interpreter(program: Path) -> str:
    """The interpreter of a script's first line where it isn't there; else nothing."""
    try:
        with program.open("rb") as file:
            words = file.readline(_LONGEST_LINE).decode(errors="replace").split()
    except OSError:
        return ""
    if not words or not words[0].startswith("#!"):
        return ""
    interpreter = words[0][2:] or words[1]
    return "" if os.access(interpreter, os.X_OK) else interpreter


def account_of(name: str, uid: int) -> Account:
    """The groups of a user, as this host knows them; none of an unknown one."""
    import pwd  # noqa: PLC0415 - not everywhere; a controller has it

    try:
        found = pwd.getpwuid(uid)
    except KeyError:
        return Account(name, uid, frozenset())
    return Account(name, uid, frozenset(os.getgrouplist(found.pw_name, found.pw_gid)))


def obstacle(program: Path, account: Account) -> str:
    """Why an account can't execute a program, or nothing. Looks at the mode bits alone."""
    if not program.is_absolute():
        return "is no absolute path"
    for folder in reversed(program.parents):
        found = _stat(folder)
        if isinstance(found, str):
            return f"{folder} {found}"
        if not _may(found, account, stat.S_IXUSR):
            return f"{account.name} may not enter {folder}"
    found = _stat(program)
    if isinstance(found, str):
        return found
    if not stat.S_ISREG(found.st_mode):
        return "is no file"
    if not _may(found, account, stat.S_IXUSR) or not _may(found, account, stat.S_IRUSR):
        return f"{account.name} may not read and execute it"
    return ""


def _stat(path: Path) -> os.stat_result | str:
    try:
        return path.stat()
    except OSError as problem:
        return f"can't be looked at: {problem.strerror}"


def _may(found: os.stat_result, account: Account, bit: int) -> bool:
    """`bit` is the owner's; the group's and the others' stand three and six places lower."""
    if account.uid == 0:
        return bit != stat.S_IXUSR or bool(found.st_mode & 0o111) or stat.S_ISDIR(found.st_mode)
    if found.st_uid == account.uid:
        return bool(found.st_mode & bit)
    if found.st_gid in account.gids:
        return bool(found.st_mode & bit >> 3)
    return bool(found.st_mode & bit >> 6)
