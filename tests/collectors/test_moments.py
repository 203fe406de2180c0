"""One place of a transcript: what filled the context then, an answer's calls, a line's text."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.transcript_details import (
    TranscriptUnavailableError,
    read_composition,
    read_line_text,
    read_tool_calls,
)
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import context_queries
from ctxtop.core.store.writer import Writer

from ..recorder import Recorder
from ..transcripts import PROJECT, SESSION, text, write
from .test_composing import FILE, Letters, session

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder


@pytest.fixture
def db(claude: ClaudeFolder, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    write(claude.projects / PROJECT / f"{SESSION}.jsonl", session())
    store = tmp_path / "moments.db"
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(store)) as reader:
        yield reader


def test_the_context_at_a_past_answer_is_what_that_answer_saw(
    claude: ClaudeFolder, db: sqlite3.Connection
) -> None:
    first, second = context_queries.answers(db, SESSION)

    def at(until: int | None, most: int = 20) -> tuple[int, set[str], int]:
        found = read_composition(
            db, claude.projects, SESSION, counter=Letters(), until_offset=until, max_items=most
        )
        names = {each.name for each in found.categories}
        return found.total_tokens, names, len(found.largest)

    total, names, _ = at(first.last_offset)
    assert total == 2_000
    assert "tool results" not in names
    total, names, listed = at(second.last_offset)
    assert total == 4_000
    assert "tool results" in names
    assert at(None)[:2] == (total, names)
    assert at(None, 2)[2] == 2
    assert listed > 2


def test_the_calls_of_an_answer_are_named_by_what_they_are_about(
    claude: ClaudeFolder, db: sqlite3.Connection
) -> None:
    first, second = context_queries.answers(db, SESSION)
    assert read_tool_calls(db, claude.projects, SESSION, first) == ("Read /p/shop.py",)
    assert read_tool_calls(db, claude.projects, SESSION, second) == ()


def test_a_line_is_read_by_its_number(claude: ClaudeFolder, db: sqlite3.Connection) -> None:
    found = read_composition(db, claude.projects, SESSION, counter=Letters())
    result = next(item for item in found.largest if item.kind == "tool results")
    assert result.line is not None
    assert read_line_text(db, claude.projects, SESSION, result.line).startswith(FILE[:100])
    call = next(item for item in found.largest if item.kind == "tool inputs")
    assert call.line is not None
    assert "/p/shop.py" in read_line_text(db, claude.projects, SESSION, call.line)


@pytest.mark.parametrize("number", [0, 8, 999])
def test_a_line_that_says_nothing_is_refused(
    claude: ClaudeFolder, db: sqlite3.Connection, number: int
) -> None:
    with pytest.raises(TranscriptUnavailableError, match=f"line {number} of"):
        read_line_text(db, claude.projects, SESSION, number)


def test_a_file_that_is_gone_is_told(claude: ClaudeFolder, db: sqlite3.Connection) -> None:
    first, _ = context_queries.answers(db, SESSION)
    (claude.projects / PROJECT / f"{SESSION}.jsonl").unlink()
    with pytest.raises(TranscriptUnavailableError, match="cannot be read"):
        read_line_text(db, claude.projects, SESSION, 1)
    with pytest.raises(TranscriptUnavailableError, match="cannot be read"):
        read_tool_calls(db, claude.projects, SESSION, first)
    with pytest.raises(TranscriptUnavailableError, match="has no transcript"):
        read_line_text(db, claude.projects, "another", 1)


def test_what_a_line_says_is_harmless(claude: ClaudeFolder, tmp_path: Path) -> None:
    from ..transcripts import assistant

    write(
        claude.projects / PROJECT / f"{SESSION}.jsonl",
        [assistant("msg_1", 2_000, content=[text("a\x1b[31mb\u202ec")])],
    )
    store = tmp_path / "harmless.db"
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(store)) as reader:
        assert read_line_text(reader, claude.projects, SESSION, 1) == "a[31mbc"
