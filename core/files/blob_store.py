"""Copies of contents, named by their hash: compressed as a whole, or made of shared chunks."""

from __future__ import annotations

import hashlib
import io
import zlib
from bisect import bisect_right
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from . import file_operations as files
from .chunk_store import (
    BLOB_SUFFIX,
    LOCK_WAIT_S,
    MAX_CHUNK_BYTES,
    ORPHAN_AGE_MS,
    BlobError,
    Chunk,
    ChunkStore,
    Manifest,
    Packing,
    blank_line,
    cut_chunks,
    list_blobs,
    list_files,
    unpack,
)

CHUNKS_FOLDER: Final = "blobs"  # in the state folder
CHUNKS_LOCK_KIND: Final = "blobs"
BACKUPS_FOLDER: Final = "backups"
ARCHIVE_FOLDER: Final = "archive/files"


def chunk_store(state_folder: Path, packing: Packing = Packing.FAST) -> ChunkStore:
    """Return the chunks that the receipts' backups and the archive share."""
    return ChunkStore(state_folder / CHUNKS_FOLDER, packing)


MAX_WHOLE_BYTES: Final = 4 << 30
"""A content that unpacks to more is refused. It is hashed block by block, which takes 10 s."""


class BlobStore:
    """A folder of compressed contents, named by their hash. Its methods raise OSError."""

    def __init__(self, folder: Path, max_bytes: int = MAX_WHOLE_BYTES) -> None:
        self.folder: Final = folder
        self._max_bytes: Final = max_bytes

    def put(self, blocks: Iterable[bytes], session_id: str) -> str:
        """Store a content, read it back, and return its name.

        `session_id` is of the session whose lock is held: leftovers of a process that ended are
        removed by its name.
        """
        files.make_private_folder(self.folder)
        digest = hashlib.sha256()
        temporary = files.write_temporary(self.folder / session_id, _compressed(blocks, digest))
        name = digest.hexdigest()
        with files.removed_on_error(temporary):
            if self._hash_of(temporary) != name:
                raise BlobError(0, "the backup does not match the original", str(temporary))
            temporary.replace(self.path(name))
        files.sync_folder(self.folder)
        return name

    def path(self, name: str) -> Path:
        return self.folder / f"{name}{BLOB_SUFFIX}"

    def is_intact(self, name: str) -> bool:
        try:
            return self._hash_of(self.path(name)) == name
        except OSError:
            return False

    @contextmanager
    def open_blocks(self, name: str) -> Iterator[Iterator[bytes]]:
        """Read a blob's content after checking its hash. Raises BlobError."""
        if not self.is_intact(name):
            raise BlobError(0, "the backup is gone or damaged", str(self.path(name)))
        with files.open_regular_file(self.path(name)) as file:
            yield _decompressed(files.read_blocks(file), self._max_bytes)

    def _hash_of(self, path: Path) -> str:
        with files.open_regular_file(path) as file:
            return files.hash_blocks(_decompressed(files.read_blocks(file), self._max_bytes))[0]

    def total_bytes(self) -> int:
        return sum(status.st_size for _, status in list_blobs(self.folder))

    def names(self) -> set[str]:
        return {name for name, _ in list_blobs(self.folder)}

    def remove(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            files.remove_if_present(self.path(name))

    def remove_unreferenced(self, referenced: Collection[str], now_ms: int) -> None:
        """Remove blobs that no receipt names and no process is about to name."""
        for name, status in list_blobs(self.folder):
            age = now_ms - status.st_mtime_ns // 1_000_000
            if name not in referenced and age > ORPHAN_AGE_MS:
                files.remove_if_present(self.path(name))


def _compressed(blocks: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    packer = zlib.compressobj(3)  # transcripts shrink to a fifth at 100 MB/s
    for block in blocks:
        digest.update(block)
        yield packer.compress(block)
    yield packer.flush()


def _decompressed(blocks: Iterable[bytes], limit: int) -> Iterator[bytes]:
    unpacker, left = zlib.decompressobj(), limit
    try:
        for block in blocks:
            packed = block
            while packed:
                # A block of zeros unpacks to a thousand times its size.
                data = unpacker.decompress(packed, files.BLOCK_BYTES)
                left -= len(data)
                if left < 0:
                    raise BlobError(0, f"the backup unpacks to more than {limit:,} bytes")
                yield data
                packed = unpacker.unconsumed_tail
    except zlib.error as error:
        raise BlobError(0, f"the backup is damaged: {error}") from error
    yield unpacker.flush()


MANIFEST_START: Final = b"ctxtop blob 1\n"
"""The first bytes of a manifest. A file without them is a whole content, as `BlobStore` writes it
and earlier versions of ctxtop wrote all copies."""

MAX_MANIFEST_BYTES: Final = 64 << 20  # unpacked: a million chunks, which are some 250 GB


class ChunkedBlobStore(BlobStore):
    """A folder of manifests, whose chunks others share. Its methods raise OSError."""

    def __init__(self, folder: Path, chunks: ChunkStore) -> None:
        super().__init__(folder)
        self.chunks: Final = chunks

    def put(self, blocks: Iterable[bytes], session_id: str) -> str:
        steps = self.put_in_steps(blocks, session_id)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return str(end.value)

    def put_in_steps(self, blocks: Iterable[bytes], session_id: str) -> Generator[None, None, str]:
        """Store a content, a chunk with each step, read it back, and return its name.

        Whoever gives up leaves chunks without a manifest, which the next try finds again.
        """
        marked_id = session_id.encode()
        digest, read_back = hashlib.sha256(), hashlib.sha256()

        def hashed() -> Iterator[bytes]:
            for block in blocks:
                digest.update(block)
                yield block

        chunks: list[Chunk] = []
        with self._kept_chunks():
            for data, has_marker in cut_chunks(hashed(), marked_id):
                chunk, stored = self.chunks.put(data, session_id, has_marker=has_marker)
                read_back.update(self.chunks.restore(chunk, stored, marked_id))
                chunks.append(chunk)
                yield
            return self._write_manifest(digest, read_back, session_id, chunks)

    def put_sparse(self, pieces: Iterable[bytes | int], session_id: str) -> str:
        """Store the lines that are kept, and gaps of so many bytes; return the content's name.

        What was stored is read back.
        """
        digest, read_back = hashlib.sha256(), hashlib.sha256()
        chunks: list[Chunk] = []
        with self._kept_chunks():
            for piece in pieces:
                if isinstance(piece, int):
                    added = [(Chunk(b"", piece), blank_line(piece))]
                else:
                    added = [*self._put_line(piece, session_id)]
                digest.update(piece if isinstance(piece, bytes) else blank_line(piece))
                for chunk, stored in added:
                    read_back.update(self.chunks.restore(chunk, stored, b""))
                    chunks.append(chunk)
            return self._write_manifest(digest, read_back, session_id, chunks)

    def _put_line(self, line: bytes, session_id: str) -> Iterator[tuple[Chunk, bytes]]:
        for start in range(0, len(line), MAX_CHUNK_BYTES):
            part = line[start : start + MAX_CHUNK_BYTES]
            yield self.chunks.put(part, session_id, has_marker=False)

    @contextmanager
    def _kept_chunks(self) -> Iterator[None]:
        """Keep others from removing chunks before a manifest names them."""
        files.make_private_folder(self.chunks.folder)
        mode = files.LockMode.SHARED
        try:
            with files.user_lock(
                CHUNKS_LOCK_KIND, self.chunks.folder, wait_s=LOCK_WAIT_S, mode=mode
            ):
                yield
        except files.LockHeldError as error:
            what = "another ctxtop is removing old copies"
            raise BlobError(0, what, str(self.chunks.folder)) from error

    def _write_manifest(
        self,
        written: hashlib._Hash,
        read_back: hashlib._Hash,
        session_id: str,
        chunks: list[Chunk],
    ) -> str:
        name = written.hexdigest()
        if read_back.hexdigest() != name:
            raise BlobError(0, "the copy cannot be read back as it was written", name)
        files.sync_folder(self.chunks.folder)
        manifest = Manifest(session_id, sum(chunk.size for chunk in chunks), tuple(chunks))
        packed = msgspec.msgpack.encode(manifest)
        if len(packed) > MAX_MANIFEST_BYTES:
            raise BlobError(0, f"it has too many parts: {len(chunks):,}", name)
        data = MANIFEST_START + zlib.compress(packed)
        files.write_file_atomically(self.path(name), data, session_id)
        return name

    def read_manifest(self, name: str) -> Manifest | None:
        """Return what a content is made of; None if it is stored whole. Raises BlobError."""
        return read_manifest(self.path(name))

    def is_intact(self, name: str) -> bool:
        try:
            manifest = self.read_manifest(name)
            if manifest is None:
                return super().is_intact(name)
            return files.hash_blocks(self._contents(manifest))[0] == name
        except OSError:
            return False

    @contextmanager
    def open_blocks(self, name: str) -> Iterator[Iterator[bytes]]:
        manifest = self.read_manifest(name)
        if manifest is None:
            with super().open_blocks(name) as blocks:
                yield blocks
            return
        if not self.is_intact(name):
            raise BlobError(0, "the backup is gone or damaged", str(self.path(name)))
        yield self._contents(manifest)

    def _contents(self, manifest: Manifest) -> Iterator[bytes]:
        session_id = manifest.session_id.encode()
        return (self.chunks.read(chunk, session_id) for chunk in manifest.chunks)

    def open_file(self, name: str) -> BinaryIO:
        """Open a content to read any part of it. Raises BlobError, also while it is read."""
        manifest = self.read_manifest(name)
        if manifest is None:
            raise BlobError(0, "it is stored whole", str(self.path(name)))
        return io.BufferedReader(ChunkedFile(self.chunks, manifest), io.DEFAULT_BUFFER_SIZE)

    def total_bytes(self) -> int:
        """Return the compressed size, with the chunks that others share."""
        own = super().total_bytes()
        return own + sum(each.stored for each in self.named_chunks().values())

    def named_chunks(self) -> dict[bytes, Chunk]:
        """Return the chunks that the readable manifests name."""
        return {
            chunk.digest: chunk
            for name, _ in list_blobs(self.folder)
            for chunk in _readable_chunks(self.path(name))
            if not chunk.is_gap
        }


def _readable_chunks(path: Path) -> tuple[Chunk, ...]:
    try:
        manifest = read_manifest(path)
    except OSError:
        return ()
    return manifest.chunks if manifest else ()


def read_manifest(path: Path) -> Manifest | None:
    """Read a manifest; None if the file is a whole content. Raises BlobError."""
    try:
        with files.open_regular_file(path) as file:
            if file.read(len(MANIFEST_START)) != MANIFEST_START:
                return None
            data = file.read(MAX_MANIFEST_BYTES)
    except FileNotFoundError as error:
        raise BlobError(0, "the copy is gone", str(path)) from error
    except OSError as error:
        raise BlobError(error.errno or 0, error.strerror or str(error), str(path)) from error
    try:
        return msgspec.msgpack.decode(unpack(data, MAX_MANIFEST_BYTES), type=Manifest)
    except (ValueError, RecursionError) as error:  # DecodeError is a ValueError
        raise BlobError(0, f"the copy is damaged: {error}", str(path)) from error


def remove_unreferenced_chunks(state_folder: Path, now_ms: int) -> int:
    """Remove chunks that no backup and nothing in the archive has; return the bytes freed.

    Nothing is removed while a manifest cannot be read, because nobody knows what it names, or
    while another process stores something. Raises OSError.
    """
    chunks = chunk_store(state_folder)
    if not chunks.folder.is_dir():
        return 0
    try:
        with files.user_lock(CHUNKS_LOCK_KIND, chunks.folder):
            referenced: set[bytes] = set()
            for folder in (BACKUPS_FOLDER, ARCHIVE_FOLDER):
                store = BlobStore(state_folder / folder)
                for manifest in map(read_manifest, map(store.path, store.names())):
                    referenced |= {chunk.digest for chunk in manifest.chunks} if manifest else set()
            for folder in (CHUNKS_FOLDER, ARCHIVE_FOLDER):
                _remove_old_temporaries(state_folder / folder, now_ms)
            return chunks.remove_unreferenced(referenced, now_ms)
    except (files.LockHeldError, BlobError):
        return 0


def _remove_old_temporaries(folder: Path, now_ms: int) -> None:
    """Remove what processes that were killed left behind."""
    for path, status in list_files(folder, files.TEMPORARY_NAME):
        if now_ms - status.st_mtime_ns // 1_000_000 > ORPHAN_AGE_MS:
            files.remove_if_present(path)


class ChunkedFile(io.RawIOBase):
    """A content that is read chunk by chunk, the last ones kept in memory."""

    def __init__(self, chunks: ChunkStore, manifest: Manifest) -> None:
        super().__init__()
        self._session_id: Final = manifest.session_id.encode()
        self._chunks: Final = manifest.chunks
        self._size: Final = manifest.size
        self._ends: Final[list[int]] = []
        self._place = 0
        end = 0
        for chunk in manifest.chunks:
            end += chunk.size
            self._ends.append(end)
        self._read: Final = lru_cache(maxsize=2)(
            lambda number: chunks.read(self._chunks[number], self._session_id)
        )

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and self._place < self._size:
            number = bisect_right(self._ends, self._place)
            start = self._ends[number] - self._chunks[number].size
            part = self._read(number)[self._place - start :][: len(view) - filled]
            view[filled : filled + len(part)] = part
            filled += len(part)
            self._place += len(part)
        return filled
