"""Opens, hashes, writes and locks files: no link is followed, and a write reaches the disk."""

import hashlib
import io
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import BinaryIO, Final

from .safe_open import open_regular
from .user_folders import user_state_folder

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600

TEMPORARY_SUFFIX: Final = ".ctxtop"
"""Ends the names of our own files beside a transcript, so that nothing reads them as one."""

TEMPORARY_NAME: Final = re.compile(rf"\..+\.[0-9a-f]{{12}}{re.escape(TEMPORARY_SUFFIX)}")

REPLACED_SUFFIX: Final = f".old{TEMPORARY_SUFFIX}"  # of a transcript while it is being replaced

BLOCK_BYTES: Final = 1 << 20  # bytes at a time
_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)


def open_regular_file(path: Path) -> AbstractContextManager[BinaryIO]:
    """Open a file as `open_regular` does, buffered, to read it line by line."""
    return open_regular(path, io.DEFAULT_BUFFER_SIZE)


def read_blocks(file: BinaryIO, size: int | None = None) -> Iterator[bytes]:
    """Read up to `size` bytes from the current position, block by block; None for all."""
    left = sys.maxsize if size is None else size
    while left > 0 and (block := file.read(min(BLOCK_BYTES, left))):
        left -= len(block)
        yield block


def read_lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Read the lines of a file's first `size` bytes; only a newline ends a line."""
    left = size
    while left > 0 and (line := file.readline(left)):
        left -= len(line)
        yield line


def hash_file(path: Path, size: int | None = None) -> tuple[str, int]:
    """Hash a file's first bytes; return the hash in hex and the number of bytes."""
    with open_regular_file(path) as file:
        return hash_blocks(read_blocks(file, size))


def hash_blocks(blocks: Iterable[bytes]) -> tuple[str, int]:
    """Return the SHA-256 of a content in hex and the number of its bytes."""
    digest, seen = hashlib.sha256(), 0
    for block in blocks:
        digest.update(block)
        seen += len(block)
    return digest.hexdigest(), seen


def make_private_folder(folder: Path) -> None:
    """Create a folder, and missing ones above it, for the user alone."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            each.mkdir(FOLDER_MODE)


def temporary_path(target: Path, suffix: str = TEMPORARY_SUFFIX) -> Path:
    return target.with_name(f".{target.name}.{os.urandom(6).hex()}{suffix}")


def write_temporary(
    target: Path, chunks: Iterable[bytes], origin: os.stat_result | None = None
) -> Path:
    """Write a file beside `target`, sync it to the disk, and return its path.

    It is private, unless `origin` is given (the stat result of `target`): then it gets the mode,
    the owner and the extended attributes of `target`.
    """
    path = temporary_path(target)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, FILE_MODE)
    with removed_on_error(path):
        try:
            write_all(descriptor, chunks)
            if origin is not None:
                copy_extended_attributes(target, descriptor)
                _copy_ownership(descriptor, origin)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return path


def _copy_ownership(descriptor: int, origin: os.stat_result) -> None:
    own, mode = os.fstat(descriptor), stat.S_IMODE(origin.st_mode)
    # Only members set a file's group, and only root its owner; then check V23 fails.
    try:
        os.fchown(descriptor, -1, origin.st_gid)
    except PermissionError:
        # Another group must not get the permissions of the original one.
        mode &= ~stat.S_IRWXG
    if own.st_uid != origin.st_uid:
        with suppress(PermissionError):
            os.fchown(descriptor, origin.st_uid, -1)
    os.fchmod(descriptor, mode)


@contextmanager
def open_to_append(path: Path) -> Iterator[int]:
    """Open a file to append to it; it is synced to the disk at the end."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | _NO_FOLLOW)
    try:
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, chunks: Iterable[bytes]) -> None:
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


def write_file_atomically(path: Path, data: bytes, temporary_name: str | None = None) -> None:
    """Write a file of ours, whole or not at all; its folders are created. Raises OSError.

    The temporary file is named after `temporary_name`, or after the file itself.
    """
    make_private_folder(path.parent)
    temporary = write_temporary(path.with_name(temporary_name or path.name), [data])
    with removed_on_error(temporary):
        temporary.replace(path)
    sync_folder(path.parent)


def remove_if_present(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


@contextmanager
def removed_on_error(path: Path) -> Iterator[None]:
    """Remove a file if the block raises anything, also KeyboardInterrupt."""
    try:
        yield
    except BaseException:
        remove_if_present(path)
        raise


def sync_folder(folder: Path) -> None:
    """Sync a folder's names to the disk, if the file system can."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # Some file systems cannot; the name is there anyway.
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


LOCK_RETRY_S: Final = 0.05  # between two tries to take a lock


class LockHeldError(Exception):
    """Another process, or another thread of this one, holds the lock."""


class LockMode(Enum):
    ALONE = auto()
    SHARED = auto()  # with all others who hold it so


@contextmanager
def user_lock(
    kind: str, path: Path, name: str = "", wait_s: float = 0.0, mode: LockMode = LockMode.ALONE
) -> Iterator[None]:
    """Hold the lock of a file or folder, or of the part of it that `name` names.

    The lock is in a folder of the user's, so that nothing is left in Claude Code's.
    Raises LockHeldError after `wait_s` seconds, OSError if the lock's file cannot be used.
    """
    key = f"{path.resolve()}\0{name}".encode("utf-8", "surrogateescape")
    digest = hashlib.blake2b(key, digest_size=12).hexdigest()
    with file_lock(user_state_folder() / "locks" / f"{kind}-{digest}.lock", wait_s, mode):
        yield


@contextmanager
def file_lock(path: Path, wait_s: float = 0.0, mode: LockMode = LockMode.ALONE) -> Iterator[None]:
    """Hold a lock on a file of ours; the system releases it when the process ends.

    Raises LockHeldError after `wait_s` seconds, OSError if the file cannot be used. On a system
    without such locks (Windows) it excludes nobody.
    """
    make_private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW, FILE_MODE)
    try:
        _acquire(descriptor, time.monotonic() + wait_s, mode)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, until: float, mode: LockMode) -> None:
    try:
        import fcntl
    except ImportError:
        return
    while True:
        try:
            how = fcntl.LOCK_EX if mode is LockMode.ALONE else fcntl.LOCK_SH
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise LockHeldError from None
            time.sleep(LOCK_RETRY_S)
        else:
            return


def copy_extended_attributes(origin: Path, descriptor: int) -> None:
    """Copy a file's extended attributes, access lists included, to an open file.

    Those that only an administrator may set are left out. Python has no call for them outside
    of Linux: there they are lost.
    """
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        for name in os.listxattr(origin, follow_symlinks=False):
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(origin, name, follow_symlinks=False))
