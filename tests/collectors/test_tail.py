"""Reading what was added to a file: whole lines, each once, also where the file is hostile."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code import tail
from ctxtop.collectors.claude_code.tail import TailChange, TailRead, read_tail
from ctxtop.core.files.safe_open import open_regular
from ctxtop.core.model.transcript_records import BadLine, TailState

if TYPE_CHECKING:
    from pathlib import Path

START = TailState()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


RawLine = tuple[int, bytes]


def lines_of(read: TailRead) -> list[RawLine]:
    """A block's lines, each with the byte offset at which it stands."""
    lines, offset = [], read.block.offset
    for line in read.block.data[: read.block.size].split(b"\n")[:-1]:
        lines.append((offset, line))
        offset += len(line) + 1
    return lines


def read_all(
    path: Path, before: TailState = START, block_bytes: int = tail.BLOCK_BYTES
) -> tuple[list[RawLine], list[BadLine], TailState]:
    """Read to the end as the collector does."""
    lines: list[RawLine] = []
    bad: list[BadLine] = []
    while True:
        read = read_tail(path, before, block_bytes)
        assert read.change is not TailChange.REWRITTEN
        lines += lines_of(read)
        bad += read.bad_lines
        before = read.after
        if not read.has_more:
            return lines, bad, before


def grown(read: TailRead) -> list[RawLine]:
    assert read.change is TailChange.GROWN
    return lines_of(read)


def test_only_what_was_added_is_read(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    first = read_tail(path, START)
    path.write_bytes(path.read_bytes() + b'{"c":3}\n')

    assert grown(first) == [(0, b'{"a":1}'), (8, b'{"b":2}')]
    assert grown(read_tail(path, first.after)) == [(16, b'{"c":3}')]


def test_a_torn_last_line_is_kept_back_until_it_is_whole(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n{"b"')
    lines, _, stands = read_all(path)
    torn = read_tail(path, stands)
    with path.open("ab") as file:
        file.write(b":2}\n")

    assert lines == [(0, b'{"a":1}')]
    assert torn.change is TailChange.NONE
    assert grown(read_tail(path, torn.after)) == [(8, b'{"b":2}')]


def test_a_file_without_any_line_end_says_nothing_yet(path: Path) -> None:
    path.write_bytes(b'{"a":1}')

    read = read_tail(path, START)

    assert (read.change, read.block.data, read.after.offset) == (TailChange.NONE, b"", 0)
    assert read.after.size == 7


def rested(path: Path, data: bytes) -> None:
    """Write a file, and let it be as old as one that nobody writes to."""
    path.write_bytes(data)
    os.utime(path, (1_700_000_000 + len(data), 1_700_000_000 + len(data)))


@pytest.mark.parametrize("end", [b"", b"\r", b" \0"])
def test_a_whole_object_at_the_end_of_a_file_that_rests_is_a_line(path: Path, end: bytes) -> None:
    rested(path, b'{"a":1}\n{"b":2}' + end)

    _, _, stands = read_all(path)
    again = read_tail(path, stands)

    assert stands.offset == 15
    assert (again.change, again.unterminated) == (TailChange.NONE, False)


def test_a_file_that_does_not_rest_is_to_be_looked_at_again(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n{"b":2}')
    first = read_tail(path, START)
    os.utime(path, (1_700_000_000, 1_700_000_000))

    assert (first.after.offset, first.unterminated) == (8, True)
    assert read_tail(path, first.after).block.size == 7


@pytest.mark.parametrize("half", [b'{"b":', b'{"b":2', b"{", b"12", b"[1]", b'{"b":2}{"c":3}'])
def test_half_a_line_is_none_however_long_it_rests(path: Path, half: bytes) -> None:
    rested(path, b'{"a":1}\n' + half)

    _, _, stands = read_all(path)
    again = read_tail(path, stands)

    assert (stands.offset, again.change, again.unterminated) == (8, TailChange.NONE, False)


@pytest.mark.parametrize("block", [4, 64, tail.BLOCK_BYTES])
def test_a_line_end_that_comes_later_adds_nothing(path: Path, block: int) -> None:
    rested(path, b'{"a":1}\n{"b":22}')
    _, _, stands = read_all(path, block_bytes=block)
    rested(path, b'{"a":1}\n{"b":22}\r\n{"c":3}\n')

    lines, bad, after = read_all(path, stands, block)

    assert stands.offset == 16
    assert [line for line in lines if line[1].strip()] == [(18, b'{"c":3}')]
    assert (bad, after.offset) == ([], path.stat().st_size)


@pytest.mark.parametrize("more", [b'{"c":3}\n', b"x", b'\0{"c":3}'])
def test_what_is_written_into_such_a_line_makes_it_another_one(path: Path, more: bytes) -> None:
    rested(path, b'{"a":1}\n{"b":2}')
    _, _, stands = read_all(path)
    rested(path, b'{"a":1}\n{"b":2}' + more)

    assert read_tail(path, stands).change is TailChange.REWRITTEN


def test_an_unchanged_file_has_not_changed(path: Path) -> None:
    path.write_bytes(b"{}\n" * 5000)
    _, _, stands = read_all(path)

    assert read_tail(path, stands).change is TailChange.NONE


@pytest.mark.parametrize(
    "now", [b"", b'{"a":1}\n', b'{"a":9}\n{"b":2}\n', b'{"b":2}\n{"a":1}\n{"c":3}\n']
)
def test_a_file_that_shrank_or_says_other_things_was_rewritten(path: Path, now: bytes) -> None:
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    stands = read_tail(path, START).after
    path.write_bytes(now)

    read = read_tail(path, stands)

    assert (read.change, read.after) == (TailChange.REWRITTEN, stands)


def test_a_line_removed_far_before_the_end_is_seen(path: Path) -> None:
    lines = [b'{"n":%d}\n' % number for number in range(10_000)]
    path.write_bytes(b"".join(lines))
    _, _, stands = read_all(path)
    path.write_bytes(b"".join(lines[:5] + lines[6:]) + b'{"more":1}\n' * 5)

    assert read_tail(path, stands).change is TailChange.REWRITTEN


LONG = b"".join(b'{"n":%06d}\n' % number for number in range(50_000))


def changed_at(place: int) -> bytes:
    """The same length, and one digit another one."""
    return LONG[:place] + b"7" + LONG[place + 1 :]


@pytest.mark.parametrize("is_hidden", [False, True])
def test_an_edit_of_the_same_length_far_before_the_end_is_seen(path: Path, is_hidden: bool) -> None:
    path.write_bytes(LONG)
    was = path.stat()
    _, _, stands = read_all(path)
    time.sleep(0.02)
    with path.open("r+b") as file:
        file.write(changed_at(300_005))
    if is_hidden:
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))

    assert read_tail(path, stands).change is TailChange.REWRITTEN


def test_an_edit_of_a_place_is_seen_also_where_the_file_grew_since(path: Path) -> None:
    path.write_bytes(LONG)
    _, _, stands = read_all(path)
    place = int((len(LONG) - tail.SAMPLE_BYTES) / (tail.SAMPLE_COUNT - 1) * 7) + 5
    seen = changed_at(place) + b'{"more":1}\n'
    path.write_bytes(LONG + b'{"more":1}\n')

    assert read_tail(path, stands).change is TailChange.GROWN
    path.write_bytes(seen)
    assert read_tail(path, stands).change is TailChange.REWRITTEN


def test_looking_for_edits_reads_little_of_a_large_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(LONG * 8)
    _, _, stands = read_all(path)
    path.write_bytes(LONG * 8 + b"{}\n")
    read: list[int] = []
    with open_regular(path) as file:
        raw = file.read

        class Counting:
            def __getattr__(self, name: str) -> object:
                return getattr(file, name)

            def read(self, size: int = -1) -> bytes:
                found = raw(size)
                read.append(len(found))
                return found

        assert tail.read_open_tail(Counting(), stands).change is TailChange.GROWN  # type: ignore[arg-type]

    assert sum(read) < 3 + tail.ANCHOR_BYTES + 2 * tail.SAMPLE_COUNT * tail.SAMPLE_BYTES + 1


def test_another_file_under_the_same_name_was_rewritten(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n')
    stands = read_tail(path, START).after
    other = path.with_suffix(".new")
    other.write_bytes(b'{"a":1}\n{"b":2}\n')
    other.replace(path)

    assert read_tail(path, stands).change is TailChange.REWRITTEN


def test_the_same_bytes_put_back_are_the_same_file(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n')
    stands = read_tail(path, START).after
    path.write_bytes(b'{"a":1}\n{"b":2}\n')

    assert grown(read_tail(path, stands)) == [(8, b'{"b":2}')]


def test_a_vanished_file_is_told_as_such(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_tail(path, START)


def test_a_fifo_does_not_block(path: Path) -> None:
    os.mkfifo(path)
    began = time.monotonic()
    with pytest.raises(OSError, match="not a regular file"):
        read_tail(path, START)

    assert time.monotonic() - began < 60, "it waited"


def test_folders_and_links_are_not_read(path: Path) -> None:
    path.mkdir()
    target = path / "target"
    target.write_bytes(b"{}\n")
    link = path / "link.jsonl"
    link.symlink_to(target)

    for place in (path, link):
        with pytest.raises(OSError), open_regular(place):  # noqa: PT011 -- ELOOP or EISDIR
            pytest.fail("it was opened")


def test_a_line_longer_than_a_batch_is_read_whole(path: Path) -> None:
    long = b'{"x":"' + b"y" * 5000 + b'"}'
    path.write_bytes(b"{}\n" + long + b"\n{}\n")

    assert read_all(path, block_bytes=64)[0] == [(0, b"{}"), (3, long), (4 + len(long), b"{}")]


def test_a_long_line_without_its_end_is_kept_back(path: Path) -> None:
    path.write_bytes(b"{}\n" + b"y" * 5000)
    lines, _, stands = read_all(path, block_bytes=64)
    with path.open("ab") as file:
        file.write(b"z\n")

    assert lines == [(0, b"{}")]
    assert read_all(path, stands, block_bytes=64)[0] == [(3, b"y" * 5000 + b"z")]


@pytest.mark.parametrize("end", [b"\n", b"\n{}\n"])
def test_a_line_that_is_too_long_is_set_aside(
    path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(tail, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(tail, "BLOCK_BYTES", 300)
    path.write_bytes(b"{}\n" + b"y" * 1001 + end)

    lines, bad, stands = read_all(path, block_bytes=300)

    assert [(line.offset, line.length) for line in bad] == [(3, 1001)]
    assert "longer" in bad[0].reason
    assert lines == [(0, b"{}")] + [(1005, b"{}")] * (len(end) > 1)
    assert stands.offset == path.stat().st_size


def test_a_line_as_long_as_the_limit_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(tail, "BLOCK_BYTES", 300)
    path.write_bytes(b"y" * 1000 + b"\n")

    assert read_all(path, block_bytes=300)[:2] == ([(0, b"y" * 1000)], [])


@pytest.mark.slow
def test_a_line_of_fifty_megabytes(path: Path) -> None:
    long = b'{"x":"' + b"y" * 50_000_000 + b'"}'
    path.write_bytes(long + b"\n{}\n")

    lines, bad, stands = read_all(path)

    assert [(offset, len(data)) for offset, data in lines] == [
        (0, len(long)),
        (len(long) + 1, 2),
    ]
    assert lines[0][1] == long
    assert (bad, stands.offset) == ([], len(long) + 4)


@pytest.mark.parametrize("batch", [1, 2, 7, 8, 9, 64, 1000, 100_000])
def test_lines_are_the_same_however_they_are_cut(path: Path, batch: int) -> None:
    data = b'{"a":1}\n\r\n\0{"b":2}\r\nnot json\n' + b'{"n":3}\n' * 30 + b"{torn"
    path.write_bytes(data)
    whole = read_all(path)
    cut = read_all(path, block_bytes=batch)

    assert cut[:2] == whole[:2]
    assert cut[2].offset == whole[2].offset == len(data) - 5
    assert cut[2].anchor == whole[2].anchor


def test_where_reading_stops_early_the_file_still_looks_changed(path: Path) -> None:
    path.write_bytes(b"{}\n" * 100)
    read = read_tail(path, START, block_bytes=30)

    assert read.has_more
    assert read.after.size == read.after.offset < path.stat().st_size


def test_a_file_that_is_rewritten_while_it_is_read_is_seen(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    stands = read_tail(path, START).after
    fstat = os.fstat

    def rewriting(descriptor: int) -> os.stat_result:
        status = fstat(descriptor)
        path.write_bytes(b'{"other":1}\n{"other":2}\n{"other":3}\n')
        return status

    monkeypatch.setattr(os, "fstat", rewriting)
    met = read_tail(path, stands)
    first = read_tail(path, START)
    path.write_bytes(b'{"x":1}\n')
    monkeypatch.undo()

    assert met.change is TailChange.REWRITTEN
    assert read_tail(path, first.after).change is TailChange.REWRITTEN


def test_what_was_read_is_remembered_not_what_stands_there_by_now(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    behind = tail._read_anchor

    def rewriting(file: object, offset: int) -> bytes:
        found = behind(file, offset)  # type: ignore[arg-type]
        path.write_bytes(b'{"c":1}\n{"d":2}\n')
        return found

    monkeypatch.setattr(tail, "_read_anchor", rewriting)
    read = read_tail(path, START)
    monkeypatch.undo()

    assert lines_of(read) == [(0, b'{"a":1}'), (8, b'{"b":2}')]
    assert read_tail(path, read.after).change is TailChange.REWRITTEN
