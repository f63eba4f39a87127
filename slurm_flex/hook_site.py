"""What a hook must know of the site: where the run and state folders are, and where to complain.

Hooks read slurm-flex.toml by themselves, and only two keys of it: a mistake anywhere in that file
must not lose a call. stdlib only, Python 3.9 and later (tomllib is there from 3.11).
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from slurm_flex.folders import give_to_owner, make_folder

FILE_NAME = "slurm-flex.toml"
SYSTEM_FILE = Path("/etc/slurm-flex") / FILE_NAME
DEFAULTS = {"run_dir": "/run/slurm-flex", "state_dir": "/var/lib/slurm-flex"}
LOG_NAME = "hooks.log"
_SYSLOG_SOCKET = "/dev/log"
_SYSLOG_DAEMON_NOTICE = 3 * 8 + 5  # RFC 3164: facility daemon, severity notice
_LARGEST_LOG = 1_000_000
_PLAIN_KEY = re.compile(r"""^\s*(run_dir|state_dir)\s*=\s*(["'])([^"'\\]*)\2\s*(?:#.*)?$""", re.M)


class HookSite:
    """The folders, the settings file they came from (or None), and what was wrong with it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.settings_file = find_settings_file(env)
        self.complaint = ""
        found = {} if self.settings_file is None else self._read(self.settings_file)
        self.run_dir = self._folder("run_dir", found)
        self.state_dir = self._folder("state_dir", found)

    def _read(self, file: Path) -> Mapping[str, object]:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self.complaint = f"cannot read {file} ({error}): default folders are used"
            return {}
        try:
            import tomllib  # noqa: PLC0415  # not there before Python 3.11
        except ModuleNotFoundError:
            return _plain_keys(text)
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # ValueError: a number of 5000 digits, too
            self.complaint = f"{file} is not TOML ({error}): only its folders are read"
            return _plain_keys(text)

    def _folder(self, key: str, found: Mapping[str, object]) -> Path:
        value = found.get(key, DEFAULTS[key])
        if isinstance(value, str) and value.startswith("/") and "\0" not in value:
            return Path(value)
        self.complaint = f"{self.settings_file}: {key} = {value!r} is no absolute path: default"
        return Path(DEFAULTS[key])


def find_settings_file(env: Mapping[str, str]) -> Path | None:
    """The same three places as slurm_flex.cluster.settings, which a hook can't afford to import."""
    named = env.get("SLURM_FLEX_CONFIG")
    if named:
        return Path(named)
    slurm_conf = env.get("SLURM_CONF")
    places = [Path(slurm_conf).parent / FILE_NAME] if slurm_conf else []
    return next((place for place in (*places, SYSTEM_FILE) if may_be_a_file(place)), None)


def may_be_a_file(place: Path) -> bool:
    """In a folder that may not be entered it counts as there: reading it says what is wrong."""
    try:
        return place.is_file()
    except OSError:
        return True


def _plain_keys(text: str) -> Mapping[str, object]:
    """The two keys where they stand on a line of their own, whatever the rest looks like."""
    return {match[1]: match[3] for match in _PLAIN_KEY.finditer(text)}


class HookLog:
    """Says a line to syslog, to stderr and, once it is known where, to the hooks' log file.

    slurmctld swallows stderr, a container has no syslog and a disk can be full: each is tried, none
    may fail the hook or hold it up.
    """

    def __init__(self, program: str) -> None:
        self._name = f"slurm-flex-{program}[{os.getpid()}]"
        self._file: Path | None = None
        self._kept: list[bytes] = []

    def say(self, text: str) -> None:
        line = "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))[:2000]
        _to_syslog(f"<{_SYSLOG_DAEMON_NOTICE}>{self._name}: {line}".encode())
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        whole = f"{stamp}.{int(now % 1 * 1000):03}Z {self._name}: {line}\n".encode()
        with contextlib.suppress(OSError):
            os.write(2, whole)
        if self._file is None:
            self._kept.append(whole)
        else:
            _append(self._file, whole)

    def write_to(self, state_dir: Path) -> None:
        """From now on into this folder's log file, what was said so far included."""
        self._file = state_dir / LOG_NAME
        _append(self._file, b"".join(self._kept))
        self._kept.clear()


def _to_syslog(message: bytes) -> None:
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
        mouth.setblocking(False)
        mouth.sendto(message, _SYSLOG_SOCKET)


def _append(file: Path, data: bytes) -> None:
    with contextlib.suppress(OSError):
        make_folder(file.parent)
        if file.exists() and file.stat().st_size > _LARGEST_LOG:
            file.replace(file.with_name(LOG_NAME + ".1"))
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, data)
            give_to_owner(file)
        finally:
            os.close(handle)
