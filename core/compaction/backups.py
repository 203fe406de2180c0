"""Copies of transcripts as they were: by content, compressed, in our own folder.

A copy is named by the hash of what it holds, so that one content is kept once. Source of the
limits: compaction 7.5 ("backups").
"""

from __future__ import annotations

import hashlib
import os
import zlib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .files import first_bytes, make_folder, reading, sha256_of, sync_folder, unlink, write_beside
from .receipts import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from .receipts import Receipt

PER_SESSION: Final = 5
"""The newest of a session stay, whatever their age."""

KEPT_MS: Final = 30 * 24 * 3600 * 1000
"""Milliseconds for which every copy stays."""

ROOM_BYTES: Final = 2 << 30
"""Of all copies together, compressed: above it old ones go, and no new transcript is replaced."""

LEVEL: Final = 3
"""Of zlib: transcripts shrink to a fifth at 100 MB/s."""


class BackupError(OSError):
    """A copy that is not there, or that does not hold what its name says."""


class Backups:
    """The folder of the copies. Its methods raise OSError where it cannot be used."""

    def __init__(self, state: Path) -> None:
        self.folder: Final = state / "backups"

    def keep(self, path: Path, size: int) -> str:
        """Copy a file's first bytes, read the copy back, and give its name."""
        make_folder(self.folder)
        digest = hashlib.sha256()
        temporary = write_beside(self.folder / "new", _compressed(path, size, digest))
        name = digest.hexdigest()
        try:
            if _content_hash(temporary) != name:
                raise BackupError(0, "the copy does not hold what was copied", str(temporary))
            temporary.replace(self.path(name))
        except BaseException:
            unlink(temporary)
            raise
        sync_folder(self.folder)
        return name

    def path(self, name: str) -> Path:
        """Say where a copy stands."""
        return self.folder / f"{name}.z"

    def is_whole(self, name: str) -> bool:
        """Say whether a copy is there and holds what its name says."""
        try:
            return _content_hash(self.path(name)) == name
        except OSError:
            return False

    @contextmanager
    def lines(self, name: str) -> Iterator[Iterator[bytes]]:
        """Give a copy's lines, checked first. Raises BackupError."""
        if not self.is_whole(name):
            raise BackupError(0, "the copy is gone or damaged", str(self.path(name)))
        with reading(self.path(name)) as file:
            yield _lines(_decompressed(first_bytes(file)))

    def total_bytes(self) -> int:
        """Add up what the copies take on the disk."""
        if not self.folder.is_dir():
            return 0
        return sum(each.lstat().st_size for each in self.folder.glob("*.z"))

    def remove_old(self, receipts: Sequence[Receipt], pinned: Collection[str], now: int) -> None:
        """Remove copies beyond the limits, never one that a change still needs to be undone.

        Such are the copies of what was changed in place and not taken back whole, and of a
        fork whose origin is gone or is no longer what it was.
        """
        kept = set(pinned) | {each.backup for each in receipts if is_only_way_back(each)}
        if self.total_bytes() <= ROOM_BYTES:
            for session in {each.session_id for each in receipts}:
                own = [each for each in receipts if each.session_id == session]
                newest = sorted(own, key=lambda each: -each.at)[:PER_SESSION]
                kept |= {each.backup for each in newest}
        for each in receipts:
            if now - each.at <= KEPT_MS:
                kept.add(each.backup)
        for name in {each.backup for each in receipts} - kept:
            if name is not None:
                unlink(self.path(name))


def is_only_way_back(receipt: Receipt) -> bool:
    """Say whether a receipt cannot be taken back without its copy.

    A fork's can: from the session that it came from, while that still begins as it did.
    """
    if not receipt.needs_backup:
        return False
    if receipt.mode is not Mode.FORK:
        return True
    plan = receipt.plan
    try:
        return sha256_of(Path(receipt.transcript), plan.base_bytes)[0] != plan.base_sha256
    except OSError:
        return True


def _compressed(path: Path, size: int, digest: hashlib._Hash) -> Iterator[bytes]:
    packer = zlib.compressobj(LEVEL)
    with reading(path) as file:
        for block in first_bytes(file, size):
            digest.update(block)
            yield packer.compress(block)
    yield packer.flush()


def _decompressed(blocks: Iterator[bytes]) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    try:
        for block in blocks:
            yield unpacker.decompress(block)
    except zlib.error as error:
        raise BackupError(0, f"the copy is damaged: {error}") from error
    yield unpacker.flush()


def _content_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with reading(path) as file:
        for block in _decompressed(first_bytes(file)):
            digest.update(block)
    return digest.hexdigest()


def _lines(blocks: Iterator[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    for block in blocks:
        *whole, last = block.split(b"\n")
        for line in whole:
            rest.append(line)
            yield b"".join((*rest, b"\n"))
            rest = []
        rest.append(last)
    if any(rest):
        yield b"".join(rest)
