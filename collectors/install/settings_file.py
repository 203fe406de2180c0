"""Read a settings file whole, and replace it atomically unless somebody changed it meanwhile."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...core.files.file_operations import (
    make_private_folder,
    remove_if_present,
    sync_folder,
    write_temporary,
)
from ...core.files.safe_open import open_regular
from ..claude_code.config.client_settings import MAX_SETTINGS_BYTES


class NotSafeError(Exception):
    """The settings cannot be changed safely; the message says why and what to do."""


class ChangedError(NotSafeError):
    """Something was written since the plan was made: a new plan may work."""


TEMPORARY_NAME: Final = re.compile(r"\..+\.[0-9a-f]{12}\.ctxtop")
"""The name of a file while it is written; a crash leaves one."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file as it was when it was read."""

    path: Path  # as it was named
    real: Path  # the same without links: this one is written
    data: bytes | None  # None if there is no file
    is_link: bool = False  # a link is part of `path`
    status: os.stat_result | None = None  # owner and mode


def read_settings_file(path: Path, roots: Sequence[Path]) -> SettingsFile:
    """Read a file that may be a link into one of the folders `roots`.

    Some people link their settings to a folder of dotfiles: the link stays, and its target is
    written. Raises NotSafeError if the file is not a regular one, a link out of the roots,
    larger than settings are, or somebody else's; OSError if it cannot be read.
    """
    real = resolve_links(path)
    is_link = path.is_symlink() or _is_below_link(path, roots)
    if is_link and not any(real.is_relative_to(root.resolve()) for root in roots):
        raise NotSafeError(f"{path} is a link to {real}, outside of your folders: name that file")
    try:
        status = real.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise NotSafeError(f"{path} is a link to nothing: remove it") from None
        return SettingsFile(path, real, None, is_link)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotSafeError(f"{path} is a loop of links: remove it") from error
        raise
    _check_file(path, status)
    with open_regular(real) as file:
        data = file.read(MAX_SETTINGS_BYTES + 1)
    if len(data) > MAX_SETTINGS_BYTES:
        raise NotSafeError(f"{path} is larger than {MAX_SETTINGS_BYTES >> 10} KiB: no settings are")
    return SettingsFile(path, real, data, is_link, status)


def write_settings_file(file: SettingsFile, data: bytes | None) -> None:
    """Write these bytes to the file, or delete it for None; mode and attributes are kept.

    Raises NotSafeError if it was changed since it was read, OSError if it cannot be written;
    then nothing has changed.
    """
    if data is None:
        _check_unchanged(file)
        file.real.unlink()
        return
    make_private_folder(file.real.parent)
    temporary = write_temporary(file.real, [data], file.status)
    try:
        _check_unchanged(file)
        if file.data is None:
            _link_new(temporary, file.real)
        else:
            temporary.replace(file.real)
        sync_folder(file.real.parent)
    finally:
        remove_if_present(temporary)


def _link_new(temporary: Path, target: Path) -> None:
    """Give a new file its name; unlike a rename this fails if somebody was faster."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise ChangedError(f"{target} was made meanwhile: run it again") from None
    except OSError:
        # A file system without hard links.
        temporary.replace(target)


def resolve_links(path: Path) -> Path:
    """Follow a path's links; raises NotSafeError for a loop of links."""
    try:
        return path.resolve()
    except RuntimeError as error:  # before Python 3.13
        raise NotSafeError(f"{path} is a loop of links: remove it") from error


def _is_below_link(path: Path, roots: Sequence[Path]) -> bool:
    """Whether a folder between the file and the nearest root is a symlink."""
    for parent in path.parents:
        if parent in roots:
            return False
        if parent.is_symlink():
            return True
    return False


def _check_file(path: Path, status: os.stat_result) -> None:
    problem = ""
    if not stat.S_ISREG(status.st_mode):
        problem = "is not a regular file: remove it"
    elif status.st_uid != os.geteuid():
        problem = "belongs to another user: let them do it"
    elif not status.st_mode & stat.S_IWUSR:
        problem = "is read-only: chmod u+w it first"
    elif status.st_nlink > 1:
        problem = "has another name too (a hard link): make it a file of its own"
    if problem:
        raise NotSafeError(f"{path} {problem}")


def _check_unchanged(file: SettingsFile) -> None:
    try:
        with open_regular(file.real) as now:
            data: bytes | None = now.read(MAX_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        data = None
    if data != file.data:
        raise ChangedError(f"{file.path} was changed meanwhile: run it again")
