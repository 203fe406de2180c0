"""What we keep for ourselves, named by the hash of what it holds, compressed, for the user alone.

One content is kept once, and whoever reads it knows that it is what was kept.
"""

from __future__ import annotations

import hashlib
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .files import (
    LEFTOVER,
    first_bytes,
    make_folder,
    reading,
    sync_folder,
    unlink,
    write_beside,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

LEVEL: Final = 3
"""Of zlib: transcripts shrink to a fifth at 100 MB/s."""

UNNAMED_MS: Final = 24 * 3600 * 1000
"""Milliseconds after which what no receipt names is one of a change that never came about."""


class ContentError(OSError):
    """A content that is not there, or that is not what its name says."""


class Contents:
    """A folder of contents. Its methods raise OSError where it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def put(self, blocks: Iterable[bytes], session_id: str) -> str:
        """Keep a content, read back what was kept, and give its name.

        `session_id` is of the session whose lock is held: what is left of a process that ended
        is cleared up by its name.
        """
        make_folder(self.folder)
        digest = hashlib.sha256()
        temporary = write_beside(self.folder / session_id, _compressed(blocks, digest))
        name = digest.hexdigest()
        try:
            if _hash_of(temporary) != name:
                raise ContentError(0, "the copy does not hold what was copied", str(temporary))
            temporary.replace(self.path(name))
        except BaseException:
            unlink(temporary)
            raise
        sync_folder(self.folder)
        return name

    def path(self, name: str) -> Path:
        """Say where a content stands."""
        return self.folder / f"{name}.z"

    def is_intact(self, name: str) -> bool:
        """Say whether a content is there and is what its name says."""
        try:
            return _hash_of(self.path(name)) == name
        except OSError:
            return False

    @contextmanager
    def open_blocks(self, name: str) -> Iterator[Iterator[bytes]]:
        """Give a content, checked first. Raises ContentError."""
        if not self.is_intact(name):
            raise ContentError(0, "the copy is gone or damaged", str(self.path(name)))
        with reading(self.path(name)) as file:
            yield _decompressed(first_bytes(file))

    def total_bytes(self) -> int:
        """Add up what all of them take on the disk."""
        return sum(each.lstat().st_size for each in self._files())

    def remove(self, names: Iterable[str]) -> None:
        """Remove contents, as far as they are there."""
        for name in sorted(names):
            unlink(self.path(name))

    def remove_unreferenced(self, referenced: Collection[str], now_ms: int) -> None:
        """Remove what nothing names and no process is about to name; `now` in ms since 1970."""
        for path in self._files():
            age = now_ms - path.lstat().st_mtime_ns // 1_000_000
            if path.name.removesuffix(".z") not in referenced and age > UNNAMED_MS:
                unlink(path)

    def _files(self) -> Iterator[Path]:
        return self.folder.glob("*.z")


def clear_leftovers(folder: Path, session_id: str) -> None:
    """Remove what a process left of a session that ended while it wrote; its lock must be held."""
    for path in folder.glob(f".{session_id}.*{LEFTOVER}"):
        unlink(path)


def _compressed(blocks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    packer = zlib.compressobj(LEVEL)
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
        raise ContentError(0, f"the copy is damaged: {error}") from error
    yield unpacker.flush()


def _hash_of(path: Path) -> str:
    digest = hashlib.sha256()
    with reading(path) as file:
        for block in _decompressed(first_bytes(file)):
            digest.update(block)
    return digest.hexdigest()
