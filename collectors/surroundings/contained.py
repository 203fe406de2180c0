"""Looking at files of a folder that others may write to: no link leads out of it."""

from __future__ import annotations

import os
import stat
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from ...core.store.surroundings_facts import FileMark
from ..regular import NOT_REGULAR, open_regular

if TYPE_CHECKING:
    from pathlib import Path

_INODE_BITS: Final = (1 << 63) - 1
"""As many as SQLite's integer holds; some network mounts use one more."""

LINK: Final = "is a link"
LINK_OUT: Final = "is a link out of its folder"
NOT_TEXT: Final = "has a name that is not UTF-8"


MOST_ENTRIES: Final = 10_000
"""Of one folder, or of one tree that is searched for definitions: a link inside a project may lead
to its root, and a repository may hold any number of files."""


class TooLargeError(OSError):
    """A file is larger than what is read of its kind."""


class Found(msgspec.Struct, frozen=True):
    """What stands at a path; `real` is the same without links."""

    path: Path
    real: Path
    status: os.stat_result
    problem: str | None = None
    """Why it is not looked into."""

    @property
    def is_folder(self) -> bool:
        """It can be looked into."""
        return self.problem is None and stat.S_ISDIR(self.status.st_mode)

    @property
    def mark(self) -> FileMark:
        """How to tell that it did not change."""
        status = self.status
        return FileMark(status.st_size, status.st_mtime_ns, status.st_ino & _INODE_BITS)


def top(path: Path) -> Found | None:
    """Look at a folder whose own links are followed; None where there is none.

    Raises OSError where it cannot be looked at.
    """
    try:
        real = path.resolve(strict=True)
        return Found(path, real, real.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except RuntimeError as error:  # a loop of links, before Python 3.13
        raise OSError(0, "is a loop of links", str(path)) from error


def unlinked(path: Path) -> Found | None:
    """Look at a folder that is to be no link; raises OSError where it cannot be looked at."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Found(path, path, status, LINK if stat.S_ISLNK(status.st_mode) else None)


def child(parent: Found, name: str, root: Path) -> Found | None:
    """Look at what is in a folder; a link out of `root`, which has none itself, is a problem.

    None where there is nothing, or no folder. Raises OSError where it cannot be looked at.
    """
    if not parent.is_folder:
        return None
    real = parent.real / name
    try:
        status = real.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return _found(parent.path / name, real, status, root)


def children(parent: Found, root: Path, at_most: int = MOST_ENTRIES) -> list[Found]:
    """Look at all that is in a folder, by name.

    Raises OSError where that is not possible, and where there is more than `at_most`.
    """
    if not parent.is_folder:
        return []
    found = []
    with os.scandir(parent.real) as entries:
        listed = list(islice(entries, at_most + 1))
        if len(listed) > at_most:
            raise OSError(
                0, f"holds more than {MOST_ENTRIES:,} files and folders", str(parent.path)
            )
        for entry in sorted(listed, key=lambda each: each.name):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            shown = os.fsencode(entry.name).decode("utf-8", "replace")
            if shown != entry.name:
                # The store takes only text.
                found.append(Found(parent.path / shown, parent.real, status, NOT_TEXT))
            elif each := _found(parent.path / shown, parent.real / shown, status, root):
                found.append(each)
    return found


def read_found(found: Found, largest: int) -> bytes:
    """Read a file whole; raises TooLargeError, or OSError where it cannot be read."""
    if found.problem:
        raise OSError(0, found.problem, str(found.path))
    if not stat.S_ISREG(found.status.st_mode):
        # Before it is opened: opening alone wakes some devices.
        raise OSError(0, NOT_REGULAR, str(found.path))
    with open_regular(found.real) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise TooLargeError(0, f"is larger than {largest >> 10} KiB", str(found.path))
    return data


def why_not(found: Found) -> str | None:
    """Say why what was found is no file that is read, if so."""
    if found.problem:
        return found.problem
    return None if stat.S_ISREG(found.status.st_mode) else NOT_REGULAR


def _found(path: Path, real: Path, status: os.stat_result, root: Path) -> Found | None:
    if not stat.S_ISLNK(status.st_mode):
        return Found(path, real, status)
    try:
        target = real.resolve(strict=True)
        if target.is_relative_to(root):
            return Found(path, target, target.stat())
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError):
        # A loop, or a way that is closed to us: it leads nowhere that we may go.
        return Found(path, real, status, LINK_OUT)
    return Found(path, real, status, LINK_OUT)
