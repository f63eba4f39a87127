"""Folders and files that several users have to do with: their modes, and whose they are.

slurmctld, its hooks and the daemon are SlurmUser; an admin is root, and what root leaves must not
lock the others out. stdlib only, Python 3.9 and later: the hooks use it.
"""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(folder: Path, mode: int = 0o755) -> None:
    """Make a folder, with those above it, of this mode whatever the umask. One that is there stays.

    Below a folder of somebody else's, root's is theirs. Raises OSError.
    """
    if folder.is_dir():
        return
    if not folder.parent.is_dir():
        make_folder(folder.parent)
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:  # somebody else was quicker; a file says so at its first use
        return
    folder.chmod(mode)
    give_to_owner(folder)


def give_to_owner(path: Path) -> None:
    """Give what root has made to whoever owns the folder that it lies in. Raises OSError.

    A symbolic link isn't followed: whoever owns the folder could have put it there.
    """
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.lchown(path, owner.st_uid, owner.st_gid)


def how_to_get(folder: Path, user: str) -> str:
    """What root does to let a user write into a folder, and all that is in it."""
    try:
        folder.stat()
    except OSError:
        return f"as root: install -d -o {user} {folder}"
    return f"as root: chown -R {user}: {folder}"


def user_name(number: int) -> str:
    """The name of a user id, or the id itself."""
    import pwd  # noqa: PLC0415  # for error messages alone

    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
