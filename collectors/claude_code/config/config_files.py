"""Reads configuration that others may write to; no link is followed out of its folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from ....core.files.safe_open import NOT_REGULAR_FILE, open_regular
from ....core.store.config_records import FileMark

if TYPE_CHECKING:
    from ....core.model.problem import ProblemReporter
    from ....core.store.queries.config_queries import SeenFile


_INODE_BITS: Final = (1 << 63) - 1
"""As many as SQLite's integer holds; some network mounts use one more."""

LINK_PROBLEM: Final = "is a link"
OUTSIDE_LINK_PROBLEM: Final = "is a link out of its folder"
NOT_UTF8_PROBLEM: Final = "has a name that is not UTF-8"


MAX_FOLDER_ENTRIES: Final = 10_000
"""Of one folder, or of one tree that is searched for definitions: a link inside a project may lead
to its root, and a repository may hold any number of files."""


class FileTooLargeError(OSError):
    """A file is larger than what is read of its kind."""


class ConfigPath(msgspec.Struct, frozen=True):
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


def resolve_folder(path: Path) -> ConfigPath | None:
    """Look at a folder whose own links are followed; None where there is none.

    Raises OSError where it cannot be looked at.
    """
    try:
        real = path.resolve(strict=True)
        return ConfigPath(path, real, real.stat())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except RuntimeError as error:  # a loop of links, before Python 3.13
        raise OSError(0, "is a loop of links", str(path)) from error


def find_unlinked_folder(path: Path) -> ConfigPath | None:
    """Look at a folder that is to be no link; raises OSError where it cannot be looked at."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return ConfigPath(path, path, status, LINK_PROBLEM if stat.S_ISLNK(status.st_mode) else None)


def find_child(parent: ConfigPath, name: str, root: Path) -> ConfigPath | None:
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
    return _check_link(parent.path / name, real, status, root)


def list_children(
    parent: ConfigPath, root: Path, at_most: int = MAX_FOLDER_ENTRIES
) -> list[ConfigPath]:
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
                0, f"holds more than {MAX_FOLDER_ENTRIES:,} files and folders", str(parent.path)
            )
        for entry in sorted(listed, key=lambda each: each.name):
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            shown = os.fsencode(entry.name).decode("utf-8", "replace")
            if shown != entry.name:
                # The store takes only text.
                found.append(ConfigPath(parent.path / shown, parent.real, status, NOT_UTF8_PROBLEM))
            elif each := _check_link(parent.path / shown, parent.real / shown, status, root):
                found.append(each)
    return found


def read_config_file(found: ConfigPath, largest: int) -> bytes:
    """Read a file whole; raises FileTooLargeError, or OSError where it cannot be read."""
    if found.problem:
        raise OSError(0, found.problem, str(found.path))
    if not stat.S_ISREG(found.status.st_mode):
        # Before it is opened: opening alone wakes some devices.
        raise OSError(0, NOT_REGULAR_FILE, str(found.path))
    with open_regular(found.real) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise FileTooLargeError(0, f"is larger than {largest >> 10} KiB", str(found.path))
    return data


def read_problem(found: ConfigPath) -> str | None:
    """Explain why a path that was found is not read; None if it is a regular file."""
    if found.problem:
        return found.problem
    return None if stat.S_ISREG(found.status.st_mode) else NOT_REGULAR_FILE


def _check_link(path: Path, real: Path, status: os.stat_result, root: Path) -> ConfigPath | None:
    if not stat.S_ISLNK(status.st_mode):
        return ConfigPath(path, real, status)
    try:
        target = real.resolve(strict=True)
        if target.is_relative_to(root):
            return ConfigPath(path, target, target.stat())
    except FileNotFoundError:
        return None
    except (OSError, RuntimeError):
        # A loop, or a way that is closed to us: it leads nowhere that we may go.
        return ConfigPath(path, real, status, OUTSIDE_LINK_PROBLEM)
    return ConfigPath(path, real, status, OUTSIDE_LINK_PROBLEM)


ConfigFactT = TypeVar("ConfigFactT")


def read_changed_files(
    present: Mapping[str, ConfigPath],
    known: Mapping[str, SeenFile],
    read: Callable[[ConfigPath], ConfigFactT],
    problems: ProblemReporter,
) -> list[ConfigFactT]:
    """Read the files, by path, that are not as they are known; one that cannot be read is told."""
    changed = []
    for path, found in present.items():
        seen = known.get(path)
        if seen and seen.mark == found.mark:
            continue
        try:
            changed.append(read(found))
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.report_unreadable(path, error)
        else:
            problems.resolve(path)
    return changed
