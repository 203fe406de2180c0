"""Read a settings file whole, and replace it atomically unless somebody changed it meanwhile."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from ...core.files.safe_open import open_regular
from ...core.files.shared_files import copy_extended_attributes
from ..claude_code.config.client_settings import MAX_SETTINGS_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class NotSafeError(Exception):
    """Settings that are left alone; the message says what, where and what to do."""


class ChangedError(NotSafeError):
    """Something else was written since the plan was made: a new plan may do."""


FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
"""Of what is made new: settings may hold keys."""


@dataclass(frozen=True, slots=True)
class FileAccess:
    """Who may read and write a file."""

    mode: int = FILE_MODE
    group: int | None = None
    """None for that of whoever makes it."""


PRIVATE_ACCESS: Final = FileAccess()

TEMPORARY_NAME: Final = re.compile(r"\..+\.[0-9a-f]{12}\.ctxtop")
"""How a file is named while it is written; one that stays is what a crash left."""


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A file as it was when it was read."""

    path: Path
    """As it was named."""
    real: Path
    """The same without links: this one is written."""
    data: bytes | None
    """None where there is none."""
    is_link: bool = False
    """It stands somewhere else than its name says."""
    access: FileAccess = PRIVATE_ACCESS


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
    access = FileAccess(stat.S_IMODE(status.st_mode), status.st_gid)
    return SettingsFile(path, real, data, link, access)


def write_settings_file(file: SettingsFile, data: bytes | None) -> None:
    """Write these bytes to the file, or delete it for None; mode and attributes are kept.

    Raises NotSafeError where it is no longer as it was read, OSError where it cannot be
    written; then nothing has changed.
    """
    if data is None:
        _check_unchanged(file)
        file.real.unlink()
        return
    make_folder(file.real.parent)
    with _write_beside(file.real, data, file.access) as temporary:
        _check_unchanged(file)
        if file.data is None:
            # Unlike a rename this fails where somebody was faster.
            temporary.link()
        else:
            temporary.rename()


def write_private_file(path: Path, data: bytes) -> None:
    """Write a file of ours, whole or not at all; its folders are made.

    Raises OSError where it cannot be written.
    """
    make_folder(path.parent)
    with _write_beside(path, data, PRIVATE_ACCESS) as temporary:
        temporary.rename()


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for the user alone."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(FOLDER_MODE, exist_ok=True)


class _TemporaryFile:
    def __init__(self, path: Path, target: Path) -> None:
        self.path = path
        self._target = target

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(FileNotFoundError):
            self.path.unlink()

    def rename(self) -> None:
        self.path.replace(self._target)
        _sync_folder(self._target.parent)

    def link(self) -> None:
        try:
            self._target.hardlink_to(self.path)
        except FileExistsError:
            raise ChangedError(f"{self._target} was made meanwhile: run it again") from None
        except OSError:
            # A file system without hard links.
            self.path.replace(self._target)
        _sync_folder(self._target.parent)


def _write_beside(target: Path, data: bytes, access: FileAccess) -> _TemporaryFile:
    """Write the bytes beside the file that they are for."""
    path = target.with_name(f".{target.name}.{secrets.token_hex(6)}.ctxtop")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, FILE_MODE)
    temporary = _TemporaryFile(path, target)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor
            file.write(data)
            file.flush()
            copy_extended_attributes(target, descriptor)
            _set_access(descriptor, access)
            os.fsync(descriptor)
    except BaseException:
        temporary.__exit__()
        raise
    return temporary


def _set_access(descriptor: int, access: FileAccess) -> None:
    mode = access.mode
    if access.group is not None:
        try:
            os.fchown(descriptor, -1, access.group)
        except PermissionError:
            # Not one of ours: then what its members might do nobody may.
            mode &= ~stat.S_IRWXG
    os.fchmod(descriptor, mode)


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


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        # Some file systems cannot; the rename is done all the same.
        return
    finally:
        os.close(descriptor)
