"""How much a plan holds of a transcript, how often it reads it, and what is too large for it."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

from ctxtop.core.actions.conversation_planning import KEPT_RESULT_CHARS, plan_conversation
from ctxtop.core.compaction import plan as compaction_plan
from ctxtop.core.compaction import transcript_view
from ctxtop.core.compaction.plan import AppendLine, Refusal, Severity, edits_of
from ctxtop.core.compaction.strategies.summary_and_cut import summarize_by_rules
from ctxtop.core.compaction.transcript_reading import read_transcript_view
from ctxtop.core.compaction.transcript_view import (
    CACHED_BYTES,
    LARGE_TRANSCRIPT_BYTES,
    large_transcript_note,
    open_transcript,
)
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.summary_building import SummarySettings
from ctxtop.core.transcript.entry_decoder import iter_entries
from msgspec.structs import replace

from tests.planned import short, source_of

from .. import transcripts as made
from ..planned import COUNTERS, plan_of, view_of
from ..worked import Session, numbered

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest
    from ctxtop.core.compaction.plan import Operation
    from ctxtop.core.compaction.strategies.summary_and_cut import Conversation
    from ctxtop.core.compaction.transcript_view import FileLine, TranscriptView
    from ctxtop.core.model.conversation import Entry

_MB = 1_000_000


def worked(long_line: int = 0) -> Session:
    session = Session()
    session.ask("mend the decoder")
    if long_line:
        details = {"type": "text", "file": {"content": "x" * long_line, "filePath": "/long"}}
        session.use("Read", numbered(20), details=details, file_path="/long")
    for number in range(20):
        text = numbered(80, words=f"decode_packet_{number}(table)")
        session.use("Read", text, file_path=f"/src/{number}.py")
        session.use("Read", text, file_path=f"/src/{number}.py")
    session.rest()
    return session


def test_a_long_line_is_not_held_more_than_three_times(tmp_path: Path) -> None:
    size = 20 * _MB
    path = worked(size).write(tmp_path / "s.jsonl")
    COUNTERS.for_model(made.MODEL).text_tokens("the table is read once")
    tracemalloc.start()
    try:
        plan = plan_of(path, short(Severity.FILE_ONLY))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert plan.bytes_before - plan.bytes_after > 0.99 * size
    assert peak < 3 * size + 5 * _MB


def test_what_is_not_sent_is_not_read_again(tmp_path: Path) -> None:
    session = worked()
    session.add(made.boundary())
    first = session.add(made.summary())
    # Of a client that records what it puts back: for older ones it is looked for.
    session.add(made.attachment("date_change", newDate="2026-11-27"))
    session.lines += worked().lines[1:]
    path = session.write(tmp_path / "s.jsonl")
    read: list[int] = []

    def counting(path: Path, start: int = 0) -> Iterable[Entry]:
        for entry in iter_entries(path, start):
            read.append(entry.offset)
            yield entry

    with open_transcript(path) as file:
        scan = file.scan()
        read_transcript_view(replace(source_of(path), read_entries=counting), file, scan)
    again = read[len(set(read)) :]
    # What stands before the first answer tells how large the system prompt and the tools are.
    answer = next(each.offset for each in iter_entries(path) if each.context_tokens)
    assert any(offset > answer for offset in again)
    assert not any(answer < offset < scan.lines[first - 1].offset for offset in again)


def test_a_long_line_is_read_once_while_short_ones_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = worked(CACHED_BYTES + 1).write(tmp_path / "s.jsonl")
    read: list[int] = []
    with view_of(path) as view:
        read_line = view.read_line

        def count_and_read(line: FileLine) -> bytes:
            read.append(line.number)
            return read_line(line)

        monkeypatch.setattr(view, "read_line", count_and_read)
        long = next(line.number for line in view.lines if line.content_bytes > CACHED_BYTES)
        for number in range(1, len(view.lines) + 1):
            assert view.line_bytes(long).endswith(b"}")
            assert view.line_bytes(number).endswith(b"}")
    assert sorted(read) == list(range(1, len(view.lines) + 1))


def test_a_summary_counts_what_it_does_not_hold(tmp_path: Path) -> None:
    session = worked()
    session.use("Bash", numbered(60), failed=True, command="make")
    session.say("It fails.")
    path = session.write(tmp_path / "s.jsonl")
    seen: list[tuple[Conversation, TranscriptView]] = []

    def make(whole: Conversation, view: TranscriptView) -> Operation | Refusal:
        seen.append((whole, view))
        return Refusal("nothing", "only looked at", "nothing")

    plan_conversation(source_of(path), make)
    ((whole, view),) = seen
    assert whole.tokens(whole.visible_entries) == sum(each.tokens for each in view.blocks)
    results = [
        piece
        for entry in whole.entries
        for piece in entry.parts
        if piece.kind is PartKind.TOOL_RESULT
    ]
    assert max(len(each.text) for each in results if not each.failed) < KEPT_RESULT_CHARS + 20
    assert [each.text for each in results if each.failed] == [numbered(60)]


def test_a_long_check_says_what_it_counted(tmp_path: Path) -> None:
    session = worked()
    session.use("Bash", f"{numbered(60)}\n=== 8 passed in 0.31s ===", command="pytest -v")
    session.rest()
    path = session.write(tmp_path / "s.jsonl")
    settings = SummarySettings(keep_messages=4)
    plan = plan_conversation(
        source_of(path), lambda said, _view: summarize_by_rules(said, settings)
    )
    *_, summary = edits_of(plan.operations)
    assert isinstance(summary, AppendLine)
    assert "`pytest -v` went well: 8 passed" in summary.text


def test_a_large_file_is_planned_for_and_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = worked().write(tmp_path / "s.jsonl")
    size = path.stat().st_size
    with monkeypatch.context() as limited:
        limited.setattr(compaction_plan, "MAX_TRANSCRIPT_BYTES", size - 1)
        plan = plan_of(path)
    assert [each.check for each in plan.refused] == ["file-size"]
    assert plan.operations == plan_of(path).operations != ()
    assert plan_of(path).refused == ()


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = worked(long_line=50_000).write(tmp_path / "s.jsonl")
    monkeypatch.setattr(transcript_view, "MAX_LINE_BYTES", 40_000)
    plan = plan_of(path)
    assert [each.check for each in plan.refused] == ["line-size"]
    assert plan.operations == ()


def test_a_word_about_a_large_file() -> None:
    assert large_transcript_note(LARGE_TRANSCRIPT_BYTES) is None
    assert large_transcript_note(63_400_000) == (
        "the transcript is 63 MB: planning and applying take a while"
    )


def test_nothing_is_planned_around_a_field_that_cannot_be_read(tmp_path: Path) -> None:
    session = worked()
    session.lines[3]["timestamp"] = 5
    plan = plan_of(session.write(tmp_path / "s.jsonl"), short(Severity.PROSE))
    assert plan.operations == ()
    assert [each.why for each in plan.refused] == [
        "line 4 has a field that ctxtop cannot read: timestamp"
    ]
