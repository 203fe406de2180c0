"""A folder of compressed files, each named by the hash of its content."""

from __future__ import annotations

import hashlib
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .file_operations import (
    TEMPORARY_SUFFIX,
    make_private_folder,
    open_regular_file,
    read_blocks,
    remove_if_present,
    sync_folder,
    write_temporary,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path


COMPRESSION_LEVEL: Final = 3
"""Of zlib: transcripts shrink to a fifth at 100 MB/s."""

ORPHAN_AGE_MS: Final = 24 * 3600 * 1000
"""Milliseconds after which what no receipt names is one of a change that never came about."""


class BlobError(OSError):
    """A content that is not there, or that is not what its name says."""


class BlobStore:
    """A folder of contents. Its methods raise OSError where it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def put(self, blocks: Iterable[bytes], session_id: str) -> str:
        """Keep a content, read back what was kept, and give its name.

        `session_id` is of the session whose lock is held: what is left of a process that ended
        is cleared up by its name.
        """
        make_private_folder(self.folder)
        digest = hashlib.sha256()
        temporary = write_temporary(self.folder / session_id, _compressed(blocks, digest))
        name = digest.hexdigest()
        try:
            if _hash_of_blob(temporary) != name:
                raise BlobError(0, "the copy does not hold what was copied", str(temporary))
            temporary.replace(self.path(name))
        except BaseException:
            remove_if_present(temporary)
            raise
        sync_folder(self.folder)
        return name

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.z"

    def is_intact(self, name: str) -> bool:
        """Whether a blob exists and its content matches its name."""
        try:
            return _hash_of_blob(self.path(name)) == name
        except OSError:
            return False

    @contextmanager
    def open_blocks(self, name: str) -> Iterator[Iterator[bytes]]:
        """Read a blob's content after checking its hash. Raises BlobError."""
        if not self.is_intact(name):
            raise BlobError(0, "the copy is gone or damaged", str(self.path(name)))
        with open_regular_file(self.path(name)) as file:
            yield _decompressed(read_blocks(file))

    def total_bytes(self) -> int:
        """Add up what all of them take on the disk."""
        return sum(each.lstat().st_size for each in self._files())

    def remove(self, names: Iterable[str]) -> None:
        """Remove contents, as far as they are there."""
        for name in sorted(names):
            remove_if_present(self.path(name))

    def remove_unreferenced(self, referenced: Collection[str], now_ms: int) -> None:
        """Remove what nothing names and no process is about to name; `now` in ms since 1970."""
        for path in self._files():
            age = now_ms - path.lstat().st_mtime_ns // 1_000_000
            if path.name.removesuffix(".z") not in referenced and age > ORPHAN_AGE_MS:
                remove_if_present(path)

    def _files(self) -> Iterator[Path]:
        return self.folder.glob("*.z")


def remove_leftovers(folder: Path, session_id: str) -> None:
    """Remove what a process left of a session that ended while it wrote; its lock must be held."""
    for path in folder.glob(f".{session_id}.*{TEMPORARY_SUFFIX}"):
        remove_if_present(path)


def _compressed(blocks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    packer = zlib.compressobj(COMPRESSION_LEVEL)
    for block in blocks:
        digest.update(block)
        yield packer.compress(block)
    yield packer.flush()


def _decompressed(blocks: Iterable[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    try:
        for block in blocks:
            yield unpacker.decompress(block)
    except zlib.error as error:
        raise BlobError(0, f"the copy is damaged: {error}") from error
    yield unpacker.flush()


def _hash_of_blob(path: Path) -> str:
    digest = hashlib.sha256()
    with open_regular_file(path) as file:
        for block in _decompressed(read_blocks(file)):
            digest.update(block)
    return digest.hexdigest()
