"""Contents cut into chunks that are stored once, compressed and named by their hash.

Chunks end at line ends that only the lines before them decide, and hold a marker in place of the
session's id: so a fork, which copies lines under another id, and a file that grew share all chunks
but the last one.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Collection, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from . import file_operations as files

AVERAGE_CHUNK_BYTES: Final = 256 * 1024
"""Larger ones compress better (1 MiB: a twentieth), smaller ones share more of a fork."""

MIN_CHUNK_BYTES: Final = AVERAGE_CHUNK_BYTES // 4
MAX_CHUNK_BYTES: Final = AVERAGE_CHUNK_BYTES * 4  # a longer line is cut

ID_MARKER: Final = b"\0session id, which the manifest has\0"
"""As long as an id, so that no offset moves; JSON has no NUL."""

ORPHAN_AGE_MS: Final = 24 * 3600 * 1000  # of an unnamed blob: its change will never come about
LOCK_WAIT_S: Final = 10.0  # for one who removes chunks, which takes less than a second

BLOB_SUFFIX: Final = ".z"


class BlobError(OSError):
    """A blob is missing, or its content does not match its name."""


class Packing(Enum):
    """How new chunks are compressed; each says so itself by its first bytes."""

    FAST = "fast"  # transcripts shrink to a quarter at 120 MB/s
    SMALL = "small"  # to a fifth at 35 MB/s

    def compress(self, data: bytes) -> bytes:
        if self is Packing.FAST:
            return zlib.compress(data, 3)
        import lzma  # only where something is archived

        return lzma.compress(data, preset=1)


class Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a content; sizes are bytes."""

    digest: bytes  # SHA-256 of what is stored; empty for a gap
    size: int
    stored: int = 0  # compressed
    has_marker: bool = False  # whether a marker stands for the session's id

    @property
    def is_gap(self) -> bool:
        """Whether it stands for lines that were left out: a blank line of their size."""
        return not self.digest


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """What a content is made of; its name is the hash of the whole."""

    session_id: str  # in place of the markers
    size: int  # bytes
    chunks: tuple[Chunk, ...]


def cut_chunks(blocks: Iterable[bytes], session_id: bytes = b"") -> Iterator[tuple[bytes, bool]]:
    """Yield the chunks as they are stored, and whether they have markers for `session_id`."""
    lines: list[bytes] = []
    size = 0
    for line in _split_lines(blocks):
        marked = _with_markers(line, session_id)
        lines.append(line)
        size += len(line)
        # A long line ends a chunk more often: chunks are of one average size, not lines.
        is_end = zlib.crc32(marked) * AVERAGE_CHUNK_BYTES < len(line) << 32
        if size >= MAX_CHUNK_BYTES or (is_end and size >= MIN_CHUNK_BYTES):
            yield _marked_chunk(b"".join(lines), session_id)
            lines, size = [], 0
    if lines:
        yield _marked_chunk(b"".join(lines), session_id)


def _split_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with their ends; a long one in pieces of `MAX_CHUNK_BYTES`."""
    rest = b""
    for block in blocks:
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield from _pieces(line + b"\n")
        if len(rest) >= MAX_CHUNK_BYTES:
            *pieces, rest = _pieces(rest)
            yield from pieces
    if rest:
        yield from _pieces(rest)


def _pieces(line: bytes) -> Iterator[bytes]:
    if len(line) <= MAX_CHUNK_BYTES:
        yield line
        return
    for start in range(0, len(line), MAX_CHUNK_BYTES):
        yield line[start : start + MAX_CHUNK_BYTES]


def _with_markers(data: bytes, session_id: bytes) -> bytes:
    if len(session_id) != len(ID_MARKER):
        return data
    return data.replace(session_id, ID_MARKER)


def _marked_chunk(data: bytes, session_id: bytes) -> tuple[bytes, bool]:
    marked = data if ID_MARKER in data else _with_markers(data, session_id)
    return marked, marked != data


class ChunkStore:
    """The folder of all chunks. Its methods raise OSError."""

    def __init__(self, folder: Path, packing: Packing = Packing.FAST) -> None:
        self.folder: Final = folder
        self._packing: Final = packing

    def path(self, digest: bytes) -> Path:
        return self.folder / f"{digest.hex()}{BLOB_SUFFIX}"

    def put(self, data: bytes, temporary_name: str, *, has_marker: bool) -> Chunk:
        """Store a chunk that is not there yet, read it back, and return it."""
        digest = hashlib.sha256(data).digest()
        path = self.path(digest)
        stored = self._reuse(path, digest)
        if stored is None:
            packed = self._packing.compress(data)
            stored = len(packed)
            temporary = files.write_temporary(self.folder / temporary_name, [packed])
            with files.removed_on_error(temporary):
                _require(_unpack_file(temporary), digest, temporary)
                temporary.replace(path)
        return Chunk(digest, len(data), stored, has_marker)

    def _reuse(self, path: Path, digest: bytes) -> int | None:
        """Return the size of a chunk that is there and intact; it counts as new from now on."""
        try:
            stored = path.lstat().st_size
            _require(_unpack_file(path), digest, path)
            os.utime(path)
        except OSError:
            return None
        return stored

    def read(self, chunk: Chunk, session_id: bytes) -> bytes:
        """Return a chunk's content after checking its hash. Raises BlobError."""
        if chunk.is_gap:
            return b" " * (chunk.size - 1) + b"\n"
        path = self.path(chunk.digest)
        data = _unpack_file(path)
        _require(data, chunk.digest, path)
        return data.replace(ID_MARKER, session_id) if chunk.has_marker else data

    def remove_unreferenced(self, referenced: Collection[bytes], now_ms: int) -> int:
        """Remove chunks that no manifest names; return the bytes that this frees.

        The caller holds the store's lock alone.
        """
        freed = 0
        for path in self.folder.glob(f"*{BLOB_SUFFIX}"):
            status = path.lstat()
            is_old = now_ms - status.st_mtime_ns // 1_000_000 > ORPHAN_AGE_MS
            if is_old and bytes.fromhex(path.name.removesuffix(BLOB_SUFFIX)) not in referenced:
                files.remove_if_present(path)
                freed += status.st_size
        return freed


def _unpack_file(path: Path) -> bytes:
    try:
        with files.open_regular_file(path) as file:
            packed = file.read()
    except FileNotFoundError as error:
        raise BlobError(0, "a part of the copy is gone", str(path)) from error
    try:
        return _unpack_lzma(packed) if packed.startswith(_LZMA_START) else zlib.decompress(packed)
    except (zlib.error, EOFError, ValueError) as error:
        raise BlobError(0, f"a part of the copy is damaged: {error}", str(path)) from error


_LZMA_START: Final = b"\xfd7zXZ"


def _unpack_lzma(packed: bytes) -> bytes:
    import lzma

    try:
        return lzma.decompress(packed)
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from error


def _require(data: bytes, digest: bytes, path: Path) -> None:
    if hashlib.sha256(data).digest() != digest:
        raise BlobError(0, "a part of the copy is damaged: its hash is another", str(path))
