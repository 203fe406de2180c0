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
    """Settings that are left alone; the message says what, where and what to do."""


class ChangedError(NotSafeError):
    """Something else was written since the plan was made: a new plan may do."""


TEMPORARY_NAME: Final = re.compile(r"\..+\.[0-9a-f]{12}\.ctxtop")
"""How a file is named while it is written; one that stays is what a crash left."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file as it was when it was read."""

    path: Path  # as it was named
    real: Path  # the same without links: this one is written
    data: bytes | None  # none where there is none
    is_link: bool = False  # it stands somewhere else than its name says
    status: os.stat_result | None = None  # who may read and write it; None where there is none


def read_settings_file(path: Path, roots: Sequence[Path]) -> SettingsFile:
    """Read a file that may be a link into one of the folders `roots`.

    People keep their settings in a folder of dotfiles and link them: such a file is written
    where it stands, the link stays. Raises NotSafeError where the file is no regular one, a
    link out of the roots, larger than settings are, or somebody else's; OSError where it
    cannot be read.
    """
    real = resolve_links(path)
    link = path.is_symlink() or _is_below_link(path, roots)
    if link and not any(real.is_relative_to(root.resolve()) for root in roots):
        raise NotSafeError(f"{path} is a link to {real}, outside of your folders: name that file")
    try:
        status = real.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise NotSafeError(f"{path} is a link to nothing: remove it") from None
        return SettingsFile(path, real, None, is_link=link)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotSafeError(f"{path} is a loop of links: remove it") from error
        raise
    _check_file(path, status)
    with open_regular(real) as file:
        data = file.read(MAX_SETTINGS_BYTES + 1)
    if len(data) > MAX_SETTINGS_BYTES:
        raise NotSafeError(f"{path} is larger than {MAX_SETTINGS_BYTES >> 10} KiB: no settings are")
    return SettingsFile(path, real, data, link, status)


def write_settings_file(file: SettingsFile, data: bytes | None) -> None:
    """Write these bytes to the file, or delete it for None; mode and attributes are kept.

    Raises NotSafeError where it is no longer as it was read, OSError where it cannot be
    written; then nothing has changed.
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
    """Name a file that was not there; unlike a rename this fails where somebody was faster."""
    try:
        target.hardlink_to(temporary)
    except FileExistsError:
        raise ChangedError(f"{target} was made meanwhile: run it again") from None
    except OSError:
        # A file system without hard links.
        temporary.replace(target)


def resolve_links(path: Path) -> Path:
    """Follow a path's links; raises NotSafeError where they lead in a circle."""
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
    if not stat.S_ISREG(status.st_mode):
        raise NotSafeError(f"{path} is not a regular file: remove it")
    if status.st_uid != os.geteuid():
        raise NotSafeError(f"{path} belongs to another user: let them do it")
    if not status.st_mode & stat.S_IWUSR:
        raise NotSafeError(f"{path} is read-only: chmod u+w it first")
    if status.st_nlink > 1:
        raise NotSafeError(f"{path} has another name too (a hard link): make it a file of its own")


def _check_unchanged(file: SettingsFile) -> None:
    try:
        with open_regular(file.real) as now:
            data: bytes | None = now.read(MAX_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        data = None
    if data != file.data:
        raise ChangedError(f"{file.path} was changed meanwhile: run it again")
