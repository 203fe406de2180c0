"""Contents in chunks: byte for byte, each chunk once, and whatever is damaged is noticed."""

from __future__ import annotations

import os
import random
import zlib
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.core.compaction.receipts import BackupStore
from ctxtop.core.files.blob_store import (
    ChunkedBlobStore,
    chunk_store,
    remove_unreferenced_chunks,
)
from ctxtop.core.files.chunk_store import (
    ID_MARKER,
    MAX_CHUNK_BYTES,
    ORPHAN_AGE_MS,
    BlobError,
    Packing,
    cut_chunks,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.core.files.chunk_store import Manifest

ONE: Final = "11111111-2222-4333-8444-555555555555"
FORK: Final = "99999999-2222-4333-8444-555555555555"


def transcript(session_id: str, lines: int, seed: int = 1) -> bytes:
    """Lines of very different lengths, each with the session's id."""
    choose = random.Random(seed)
    return b"".join(
        b'{"sessionId":"%s","n":%d,"text":"%s"}\n'
        % (
            session_id.encode(),
            number,
            choose.randbytes(choose.choice((5, 20, 300))).hex().encode() * 30,
        )
        for number in range(lines)
    )


@pytest.fixture
def blobs(tmp_path: Path) -> ChunkedBlobStore:
    return ChunkedBlobStore(tmp_path / "archive" / "files", chunk_store(tmp_path, Packing.SMALL))


def content(store: ChunkedBlobStore, name: str) -> bytes:
    with store.open_blocks(name) as blocks:
        return b"".join(blocks)


def manifest(store: ChunkedBlobStore, name: str) -> Manifest:
    found = store.read_manifest(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"\n\n\n",
        b"no line end " * 300_000,
        b"\0" * 5_000_000,
        ID_MARKER + b" " + ONE.encode(),
        ONE.encode() * 200_000 + b"\n",
        transcript(ONE, 400),
        transcript(ONE, 400)[:-7],
    ],
    ids=range(9),
)
def test_every_content_comes_back_as_it_was(blobs: ChunkedBlobStore, data: bytes) -> None:
    blocks = [data[start : start + 99_991] for start in range(0, len(data), 99_991)]
    name = blobs.put(blocks, ONE)
    assert name == sha256(data).hexdigest()
    assert content(blobs, name) == data
    assert manifest(blobs, name).size == len(data)
    assert all(chunk.size <= 2 * MAX_CHUNK_BYTES for chunk in manifest(blobs, name).chunks)


def test_blocks_of_any_size_are_cut_alike() -> None:
    data = transcript(ONE, 900)
    whole = [*cut_chunks([data], ONE.encode())]
    assert len(whole) > 5
    small = [data[start : start + 777] for start in range(0, len(data), 777)]
    assert [*cut_chunks(small, ONE.encode())] == whole


def test_a_fork_shares_all_but_its_own_lines(blobs: ChunkedBlobStore) -> None:
    data = transcript(ONE, 1_000)
    name = blobs.put([data], ONE)
    before = blobs.named_chunks()
    forked = data.replace(ONE.encode(), FORK.encode()) + transcript(FORK, 20, seed=2)
    fork = blobs.put([forked], FORK)
    added = blobs.named_chunks().keys() - before.keys()
    assert len(before) > 10
    assert len(added) <= 2
    assert content(blobs, fork) == forked
    assert content(blobs, name) == data


def test_a_file_that_grew_adds_only_its_end(blobs: ChunkedBlobStore) -> None:
    data = transcript(ONE, 1_000)
    blobs.put([data], ONE)
    before = blobs.named_chunks()
    blobs.put([data + transcript(ONE, 20, seed=2)], ONE)
    assert len(blobs.named_chunks().keys() - before.keys()) <= 2


def test_any_part_can_be_read(blobs: ChunkedBlobStore) -> None:
    data = transcript(ONE, 600)
    choose = random.Random(3)
    with blobs.open_file(blobs.put([data], ONE)) as file:
        for _ in range(50):
            start, size = choose.randrange(len(data)), choose.randrange(400_000)
            file.seek(start)
            assert file.read(size) == data[start : start + size]
        assert file.seek(0, os.SEEK_END) == len(data)
        assert file.read(1) == b""


def test_backups_and_archive_share_their_chunks(tmp_path: Path, blobs: ChunkedBlobStore) -> None:
    data = transcript(ONE, 600)
    backups = BackupStore(tmp_path)
    backup, archived = backups.put([data], ONE), blobs.put([data], ONE)
    assert backup == archived
    assert backups.named_chunks() == blobs.named_chunks()
    assert len([*blobs.chunks.folder.iterdir()]) == len(blobs.named_chunks())


def test_a_copy_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    data = transcript(ONE, 20)
    backups = BackupStore(tmp_path)
    backups.folder.mkdir()
    name = sha256(data).hexdigest()
    backups.path(name).write_bytes(zlib.compress(data))
    assert backups.is_intact(name)
    with backups.open_lines(name) as lines:
        assert b"".join(lines) == data
    assert backups.total_bytes() == backups.path(name).stat().st_size


@pytest.mark.parametrize("damage", ["gone", "cut", "other", "noise"])
def test_a_damaged_chunk_is_one_clear_error(blobs: ChunkedBlobStore, damage: str) -> None:
    name = blobs.put([transcript(ONE, 900)], ONE)
    assert len(manifest(blobs, name).chunks) > 2
    path = blobs.chunks.path(manifest(blobs, name).chunks[1].digest)
    whole = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        other = blobs.chunks.path(manifest(blobs, name).chunks[0].digest).read_bytes()
        path.write_bytes({"cut": whole[:-9], "other": other, "noise": b"noise"}[damage])
    assert not blobs.is_intact(name)
    with pytest.raises(BlobError, match="gone or damaged"), blobs.open_blocks(name):
        pass
    with pytest.raises(BlobError, match="a part of the copy is"), blobs.open_file(name) as file:
        file.read()


def test_a_damaged_chunk_is_written_again_with_the_same_content(blobs: ChunkedBlobStore) -> None:
    data = transcript(ONE, 300)
    name = blobs.put([data], ONE)
    path = blobs.chunks.path(manifest(blobs, name).chunks[0].digest)
    path.write_bytes(b"noise")
    assert blobs.put([data], ONE) == name
    assert content(blobs, name) == data


def test_what_nothing_names_goes_after_a_day_and_nothing_else(
    tmp_path: Path, blobs: ChunkedBlobStore
) -> None:
    kept, gone = transcript(ONE, 300), transcript(ONE, 300, seed=2)
    name, other = blobs.put([kept], ONE), blobs.put([gone], ONE)
    backup = BackupStore(tmp_path).put([transcript(ONE, 300, seed=3)], ONE)
    blobs.remove([other])
    count = len([*blobs.chunks.folder.iterdir()])
    newest = max(path.stat().st_mtime_ns for path in blobs.chunks.folder.iterdir()) // 1_000_000
    assert remove_unreferenced_chunks(tmp_path, newest) == 0
    assert remove_unreferenced_chunks(tmp_path, newest + ORPHAN_AGE_MS + 1) > 0
    assert len([*blobs.chunks.folder.iterdir()]) < count
    assert content(blobs, name) == kept
    assert BackupStore(tmp_path).is_intact(backup)


def test_nothing_goes_while_a_manifest_cannot_be_read(
    tmp_path: Path, blobs: ChunkedBlobStore
) -> None:
    name, other = (blobs.put([transcript(ONE, 50, seed)], ONE) for seed in (1, 2))
    blobs.remove([other])
    path = blobs.path(name)
    path.write_bytes(path.read_bytes()[:-5])
    later = path.stat().st_mtime_ns // 1_000_000 + 2 * ORPHAN_AGE_MS
    assert remove_unreferenced_chunks(tmp_path, later) == 0


def test_nothing_goes_while_another_process_stores(tmp_path: Path, blobs: ChunkedBlobStore) -> None:
    name = blobs.put([transcript(ONE, 50)], ONE)
    blobs.remove([name])
    later = next(blobs.chunks.folder.iterdir()).stat().st_mtime_ns // 1_000_000 + 2 * ORPHAN_AGE_MS
    steps = blobs.put_in_steps([transcript(ONE, 900, seed=2)], ONE)
    next(steps)
    assert remove_unreferenced_chunks(tmp_path, later) == 0
    steps.close()
    assert remove_unreferenced_chunks(tmp_path, later) > 0


def test_all_is_for_the_user_alone(tmp_path: Path, blobs: ChunkedBlobStore) -> None:
    blobs.put([transcript(ONE, 50)], ONE)
    for path in (tmp_path / "archive").rglob("*"), blobs.chunks.folder.iterdir():
        for each in path:
            assert each.stat().st_mode & 0o077 == 0, each
    assert blobs.chunks.folder.stat().st_mode & 0o077 == 0
