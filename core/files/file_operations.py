"""Opens, hashes and writes files: no symbolic link is followed, and a write reaches the disk."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from .shared_files import copy_extended_attributes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

TEMPORARY_SUFFIX: Final = ".ctxtop"
"""How our own files beside a transcript end: no client and no ctxtop takes them for one."""

REPLACED_SUFFIX: Final = f".old{TEMPORARY_SUFFIX}"
"""The second name of a transcript while it is being replaced."""

BLOCK_BYTES: Final = 1 << 20
"""Bytes at a time."""

_OPEN_FLAGS: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def open_regular_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file to read. Raises OSError, also where it is none."""
    descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file", str(path))
        yield file


def read_blocks(file: BinaryIO, size: int | None = None) -> Iterator[bytes]:
    """Read up to `size` bytes from where the file stands, block by block; None for all."""
    left = size
    while left is None or left > 0:
        block = file.read(BLOCK_BYTES if left is None else min(BLOCK_BYTES, left))
        if not block:
            return
        if left is not None:
            left -= len(block)
        yield block


def read_lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Read the lines of a file's first `size` bytes; they end at a newline and nowhere else."""
    left = size
    while left > 0 and (line := file.readline(left)):
        left -= len(line)
        yield line


def hash_file(path: Path, size: int | None = None) -> tuple[str, int]:
    """Hash a file's first bytes; gives the hash in hex and how many bytes there were."""
    digest, seen = hashlib.sha256(), 0
    with open_regular_file(path) as file:
        for block in read_blocks(file, size):
            digest.update(block)
            seen += len(block)
    return digest.hexdigest(), seen


def make_private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, for the user alone."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(FOLDER_MODE)


def temporary_path(target: Path, suffix: str = TEMPORARY_SUFFIX) -> Path:
    """Name a file of ours beside another one."""
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}{suffix}")


def write_temporary(
    target: Path, chunks: Iterable[bytes], origin: os.stat_result | None = None
) -> Path:
    """Write a file beside the one that it is for, and let it reach the disk; gives its path.

    It is for the user alone; where `origin` is what the system says of `target`, for whom that
    is for, with its extended attributes.
    """
    path = temporary_path(target)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FLAGS, FILE_MODE)
    try:
        try:
            write_all(descriptor, chunks)
            if origin is not None:
                copy_extended_attributes(target, descriptor)
                _copy_ownership(descriptor, origin)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except BaseException:
        remove_if_present(path)
        raise
    return path


def _copy_ownership(descriptor: int, origin: os.stat_result) -> None:
    own = os.fstat(descriptor)
    # Not everyone is of the group, and none but root gives a file away; then V23 says no.
    if own.st_gid != origin.st_gid:
        with suppress(PermissionError):
            os.fchown(descriptor, -1, origin.st_gid)
    if own.st_uid != origin.st_uid:
        with suppress(PermissionError):
            os.fchown(descriptor, origin.st_uid, -1)
    os.fchmod(descriptor, stat.S_IMODE(origin.st_mode))


def write_all(descriptor: int, chunks: Iterable[bytes]) -> None:
    """Write everything, however little the system takes at once."""
    gathered = bytearray()
    for chunk in chunks:
        gathered += chunk
        if len(gathered) >= BLOCK_BYTES:
            _write_fully(descriptor, gathered)
            gathered = bytearray()
    _write_fully(descriptor, gathered)


def _write_fully(descriptor: int, data: bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_file_atomically(path: Path, data: bytes, temporary_name: str) -> None:
    """Write a file of ours, whole or not at all; its folders are made.

    Until it is whole its name begins with `until_then`.
    """
    make_private_folder(path.parent)
    temporary = write_temporary(path.with_name(temporary_name), [data])
    try:
        temporary.replace(path)
    except BaseException:
        remove_if_present(temporary)
        raise
    sync_folder(path.parent)


def remove_if_present(path: Path) -> None:
    """Remove a file of ours that may be gone already."""
    with suppress(FileNotFoundError):
        path.unlink()


def sync_folder(folder: Path) -> None:
    """Flush a folder's names to the disk, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # Some file systems cannot; the name is there all the same.
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
