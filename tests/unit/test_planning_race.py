"""Planning a session that is being written: one consistent reading, whatever comes meanwhile."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.actions.conversation_planning import plan_conversation
from ctxtop.core.compaction.plan import Severity
from ctxtop.core.compaction.strategies.summary_and_cut import plan_cut
from ctxtop.core.compaction.transcript_reading import TranscriptRewrittenError
from ctxtop.core.compaction.transcript_view import open_transcript
from ctxtop.core.transcript.entry_decoder import iter_entries
from msgspec.structs import replace

from tests import transcripts as made
from tests.planned import plan_of, short, source_of
from tests.unit.test_planning import checks, long_session

from ..planned import plan_transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ctxtop.core.compaction.plan import CompactionPlan
    from ctxtop.core.compaction.transcript_reading import EntryReader

AIM = short(Severity.PROSE)
ROUNDS = 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return long_session().write(tmp_path / "s.jsonl")


def by_level(path: Path, read: EntryReader) -> CompactionPlan:
    return plan_transcript(replace(source_of(path), read_entries=read), AIM)


def as_a_whole(path: Path, read: EntryReader) -> CompactionPlan:
    source = replace(source_of(path), read_entries=read)
    return plan_conversation(source, lambda whole, _: plan_cut(whole, 1))


def grown(path: Path) -> None:
    made.append(path, [made.user("more words"), made.assistant(f"m{path.stat().st_size}", 9)])


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[3:]))
    other.replace(path)


def put_anew(path: Path) -> None:
    """The same bytes, as a file of its own."""
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.replace(path)


@pytest.mark.parametrize("plan", [by_level, as_a_whole])
@pytest.mark.parametrize(("reading", "entry_number"), [(1, 5), (2, 0), (3, 5)])
def test_what_is_appended_while_it_is_read_is_no_part_of_the_plan(
    path: Path, plan: Callable[[Path, EntryReader], CompactionPlan], reading: int, entry_number: int
) -> None:
    expected = plan(path, iter_entries)
    readings = 0

    def growing(read: Path, start: int = 0, /) -> Iterator[Any]:
        nonlocal readings
        readings += 1
        for number, entry in enumerate(iter_entries(read, start)):
            if readings == reading and number == entry_number:
                grown(read)
            yield entry

    found = plan(path, growing)

    assert (found.base_sha256, found.base_bytes) == (expected.base_sha256, expected.base_bytes)
    assert found.operations == expected.operations
    assert checks(found) == [*checks(expected), "changed"]


@pytest.mark.parametrize("plan", [by_level, as_a_whole])
@pytest.mark.parametrize("happens", [cut_in_half, replaced, put_anew])
def test_a_transcript_that_is_another_one_by_now_is_said_to_be(
    path: Path, plan: Callable[[Path, EntryReader], CompactionPlan], happens: Callable[[Path], None]
) -> None:
    def changing(read: Path, start: int = 0, /) -> Iterator[Any]:
        happens(read)
        yield from iter_entries(read, start)

    with pytest.raises(
        TranscriptRewrittenError, match="rewritten while it was being read: try again"
    ):
        plan(path, changing)


def test_lines_that_come_while_they_are_counted_are_not_among_them(path: Path) -> None:
    size = path.stat().st_size
    with open_transcript(path) as file:
        raw = file._file

        class Growing:
            def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- a file's
                return getattr(raw, name)

            def readline(self, limit: int) -> bytes:
                grown(path)
                return raw.readline(limit)

        file._file = Growing()  # type: ignore[misc, assignment]
        scan = file.scan()

    assert (scan.size, scan.end_offset, scan.torn_line) == (size, size, None)


def test_a_session_that_a_client_writes_all_the_time_is_planned_for(path: Path) -> None:
    size = path.stat().st_size
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.002):
            with path.open("ab") as file:
                for part in (made.encode([made.user("more words")]), b'{"type":"us', b'er"}\n'):
                    file.write(part)
                    file.flush()

    client = threading.Thread(target=write)
    client.start()
    try:
        plans = [plan_of(path, AIM) for _ in range(ROUNDS)]
    finally:
        stop.set()
        client.join()

    data = path.read_bytes()
    for each in plans:
        assert each.base_bytes >= size
        assert hashlib.sha256(data[: each.base_bytes]).hexdigest() == each.base_sha256
