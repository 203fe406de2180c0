"""Changing files that other processes use: locks among a user's ctxtops, extended attributes.

The locks stand in the user's state folder and are named after what they protect, so that nothing
is left in Claude Code's folder. The system releases them when a process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


LOCK_FOLDER_MODE: Final = 0o700
LOCK_FILE_MODE: Final = 0o600

RETRY_INTERVAL_S: Final = 0.05
"""Between two tries."""

_OPEN: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class LockHeldError(Exception):
    """Another process, or another thread of this one, holds the lock."""


def locks_folder() -> Path:
    """Name the folder of the user's locks."""
    from platformdirs import user_state_path

    return user_state_path("ctxtop") / "locks"


@contextmanager
def user_lock(kind: str, path: Path, name: str = "", wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock of a file or folder, however it is named; `name` is of what in it.

    Raises HeldError where somebody holds it for longer than `wait_s` seconds, OSError where the
    lock's file cannot be used.
    """
    of = f"{path.resolve()}\0{name}".encode("utf-8", "surrogateescape")
    mark = hashlib.blake2b(of, digest_size=12).hexdigest()
    folder = locks_folder()
    folder.mkdir(LOCK_FOLDER_MODE, parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{kind}-{mark}.lock", _OPEN, LOCK_FILE_MODE)
    try:
        _acquire(descriptor, time.monotonic() + wait_s)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, until: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise LockHeldError from None
            time.sleep(RETRY_INTERVAL_S)
        else:
            return


def copy_extended_attributes(origin: Path, descriptor: int) -> None:
    """Copy a file's extended attributes, access lists included, to an open file.

    Those that the system keeps for its administrator are left out, as is everything where the
    file system has none. Python has no call for them outside of Linux: there they are lost.
    """
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        for name in os.listxattr(origin, follow_symlinks=False):
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(origin, name, follow_symlinks=False))
