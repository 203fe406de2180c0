"""Contents cut into chunks that are stored once, compressed and named by their hash.

Chunks end at line ends that only the lines before them decide, and hold a marker in place of the
session's id: so a fork, which copies lines under another id, and a file that grew share all chunks
but the last one.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import msgspec

from . import file_operations as files

AVERAGE_CHUNK_BYTES: Final = 256 * 1024
"""Larger ones compress better (1 MiB: a twentieth), smaller ones share more of a fork."""

MIN_CHUNK_BYTES: Final = AVERAGE_CHUNK_BYTES // 4
MAX_CHUNK_BYTES: Final = AVERAGE_CHUNK_BYTES * 4  # a longer line is cut

MAX_UNPACKED_BYTES: Final = 64 * MAX_CHUNK_BYTES
"""A chunk that unpacks to more is refused. Ours have at most two `MAX_CHUNK_BYTES`; the archive of
summaries once kept a line as one chunk."""

MAX_PACKED_BYTES: Final = MAX_UNPACKED_BYTES + (1 << 20)  # what cannot be compressed grows a little
MAX_CONTENT_BYTES: Final = 1 << 50  # SQLite holds the sum of some thousands of them

ID_MARKER: Final = b"\0session id, which the manifest has\0"
"""As long as an id, so that no offset moves; JSON has no NUL."""

ORPHAN_AGE_MS: Final = 24 * 3600 * 1000  # of an unnamed blob: its change will never come about
LOCK_WAIT_S: Final = 10.0  # for one who removes chunks, which takes less than a second

BLOB_SUFFIX: Final = ".z"
_BLOB_NAME: Final = re.compile(rf"[0-9a-f]{{64}}{re.escape(BLOB_SUFFIX)}")


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


DIGEST_BYTES: Final = hashlib.sha256().digest_size
_ContentBytes = Annotated[int, msgspec.Meta(ge=0, le=MAX_CONTENT_BYTES)]


class Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a content; sizes are bytes."""

    digest: bytes  # SHA-256 of what is stored; empty for a gap
    size: Annotated[int, msgspec.Meta(ge=0, le=MAX_UNPACKED_BYTES)]
    stored: Annotated[int, msgspec.Meta(ge=0, le=MAX_PACKED_BYTES)] = 0  # compressed
    has_marker: bool = False  # whether a marker stands for the session's id

    @property
    def is_gap(self) -> bool:
        """Whether it stands for lines that were left out: a blank line of their size."""
        return not self.digest


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """What a content is made of; its name is the hash of the whole."""

    session_id: str  # in place of the markers
    size: _ContentBytes
    chunks: tuple[Chunk, ...]

    def __post_init__(self) -> None:
        """Raise ValueError if the chunks do not make up the content."""
        if sum(chunk.size for chunk in self.chunks) != self.size:
            raise ValueError("its parts have another size than the whole")
        if not all(len(each.digest) == DIGEST_BYTES or each.is_gap for each in self.chunks):
            raise ValueError("a part has no name")
        if any(each.is_gap and each.size == 0 for each in self.chunks):
            raise ValueError("a gap is empty")


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
    marked = _with_markers(data, session_id)
    if marked.replace(ID_MARKER, session_id) != data:
        # It has a marker of its own, or a part of one before an id.
        return data, False
    return marked, marked != data


def blank_line(size: int) -> bytes:
    """Return the line that fills a gap of so many bytes."""
    return b" " * (size - 1) + b"\n"


def list_blobs(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the names of a folder's blobs, without suffix, and their stat results."""
    for path, status in list_files(folder, _BLOB_NAME):
        yield path.name.removesuffix(BLOB_SUFFIX), status


def list_files(folder: Path, name: re.Pattern[str]) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield a folder's regular files of names that ctxtop gives, and their stat results.

    Others may be anyone's: they are neither counted, read nor removed.
    """
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if name.fullmatch(path.name):
            with suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield path, status


class ChunkStore:
    """The folder of all chunks. Its methods raise OSError."""

    def __init__(self, folder: Path, packing: Packing = Packing.FAST) -> None:
        self.folder: Final = folder
        self._packing: Final = packing

    def path(self, digest: bytes) -> Path:
        return self.folder / f"{digest.hex()}{BLOB_SUFFIX}"

    def put(self, data: bytes, temporary_name: str, *, has_marker: bool) -> tuple[Chunk, bytes]:
        """Store a chunk that is not there yet; return it, and what its file was read back as."""
        digest = hashlib.sha256(data).digest()
        path = self.path(digest)
        reused = self._reuse(path, digest)
        if reused is not None:
            stored, read_back = reused
        else:
            packed = self._packing.compress(data)
            stored = len(packed)
            temporary = files.write_temporary(self.folder / temporary_name, [packed])
            with files.removed_on_error(temporary):
                read_back = _read_file(temporary, digest)
                temporary.replace(path)
        return Chunk(digest, len(data), stored, has_marker), read_back

    def _reuse(self, path: Path, digest: bytes) -> tuple[int, bytes] | None:
        """Return the size and content of a chunk that is there and intact.

        It counts as new from now on.
        """
        try:
            stored = path.lstat().st_size
            content = _read_file(path, digest)
            os.utime(path)
        except OSError:
            return None
        return stored, content

    def read(self, chunk: Chunk, session_id: bytes) -> bytes:
        """Return a chunk's content after checking its hash. Raises BlobError."""
        if chunk.is_gap:
            return blank_line(chunk.size)
        return self.restore(chunk, _read_file(self.path(chunk.digest), chunk.digest), session_id)

    def restore(self, chunk: Chunk, stored: bytes, session_id: bytes) -> bytes:
        """Return a chunk's content, with the session's id in place of the markers."""
        data = stored.replace(ID_MARKER, session_id) if chunk.has_marker else stored
        if len(data) != chunk.size:
            why = "a part of the copy is damaged: its size is another"
            raise BlobError(0, why, str(self.path(chunk.digest)))
        return data

    def has(self, chunk: Chunk) -> bool:
        """Whether a chunk is there; its content is not read."""
        return chunk.is_gap or self.path(chunk.digest).is_file()

    def remove_unreferenced(self, referenced: Collection[bytes], now_ms: int) -> int:
        """Remove chunks that no manifest names; return the bytes that this frees.

        The caller holds the store's lock alone.
        """
        freed = 0
        for name, status in list_blobs(self.folder):
            is_old = now_ms - status.st_mtime_ns // 1_000_000 > ORPHAN_AGE_MS
            digest = bytes.fromhex(name)
            if is_old and digest not in referenced:
                files.remove_if_present(self.path(digest))
                freed += status.st_size
        return freed


def _read_file(path: Path, digest: bytes) -> bytes:
    """Read a chunk and check its hash. Raises BlobError."""
    data = _unpack_file(path)
    if hashlib.sha256(data).digest() != digest:
        raise BlobError(0, "a part of the copy is damaged: its hash is another", str(path))
    return data


def _unpack_file(path: Path) -> bytes:
    try:
        with files.open_regular_file(path) as file:
            packed = file.read(MAX_PACKED_BYTES + 1)
    except FileNotFoundError as error:
        raise BlobError(0, "a part of the copy is gone", str(path)) from error
    try:
        if len(packed) > MAX_PACKED_BYTES:
            raise ValueError(f"it has more than {MAX_PACKED_BYTES:,} bytes")
        return unpack(packed, MAX_UNPACKED_BYTES)
    except ValueError as error:
        raise BlobError(0, f"a part of the copy is damaged: {error}", str(path)) from error


_LZMA_START: Final = b"\xfd7zXZ"
MAX_UNPACKER_BYTES: Final = 64 << 20  # of memory, which a file may ask for; ours need 3 MiB


def unpack(packed: bytes, limit: int) -> bytes:
    """Decompress at most `limit` bytes. Raises ValueError if there are more, or fewer than said."""
    try:
        if packed.startswith(_LZMA_START):
            data, is_whole = _unpack_lzma(packed, limit + 1)
        else:
            unpacker = zlib.decompressobj()
            data, is_whole = unpacker.decompress(packed, limit + 1), unpacker.eof
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if len(data) > limit:
        raise ValueError(f"it unpacks to more than {limit:,} bytes")
    if not is_whole:
        raise ValueError("its end is missing")
    return data


def _unpack_lzma(packed: bytes, limit: int) -> tuple[bytes, bool]:
    import lzma

    try:
        unpacker = lzma.LZMADecompressor(memlimit=MAX_UNPACKER_BYTES)
        data = unpacker.decompress(packed, limit)
    except lzma.LZMAError as error:
        raise ValueError(str(error)) from error
    return data, unpacker.eof
