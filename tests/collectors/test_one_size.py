"""One size of a part: the breakdown, its items, the conversation, JSON and the plan show the same.

On the demo's sessions, which three generations of clients wrote, now and after earlier answers.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.claude_code.collector_thread import Collector
from ctxtop.collectors.claude_code.discover import ClaudeFolder
from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.collectors.demo import make_demo
from ctxtop.core.compaction.transcript_reading import PlanSource, read_transcript_view
from ctxtop.core.compaction.transcript_view import open_transcript
from ctxtop.core.measure.conversation_steps import entry_steps, join_results
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.readers.fleet_reader import read_sessions
from ctxtop.core.store.token_samples import read_estimator
from ctxtop.core.store.writer import Writer
from ctxtop.core.transcript.conversation import PartKind
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.tui.cli.json_records import composition_record
from ctxtop.tui.screens.session.conversation_reading import ConversationPlace, read_sizes
from ctxtop.tui.screens.session.conversation_rows import ContextScale, ConversationLayout
from ctxtop.tui.text.formats import tokens

from ..recorder import Recorder

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

    from ctxtop.core.compaction.transcript_view import TranscriptView
    from ctxtop.core.measure.composition import Composition
    from ctxtop.core.model.session import Session

NOW: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
TURNS: Final = 5
"""Newest answers of each session after which the sizes are compared."""

MOST: Final = 10_000


class Demo:
    """The demo's sessions, and what each place says of them."""

    def __init__(self, projects: Path, db: sqlite3.Connection) -> None:
        self.projects: Final = projects
        self.db: Final = db
        sessions = read_sessions(db, round(NOW.timestamp() * 1000))
        self.sessions: Final = [each for each in sessions if each.context.tokens]

    def path(self, session: Session) -> Path:
        return next(self.projects.glob(f"*/{session.session_id}.jsonl"))

    def composed(self, session: Session, until: int | None = None) -> Composition:
        return read_composition(
            self.db, self.projects, session.session_id, until_offset=until, max_items=MOST
        )

    def planned(self, session: Session) -> TranscriptView:
        path = self.path(session)
        source = PlanSource(
            session.session_id,
            path,
            read_estimator(self.db).for_model,
            estimated_tokens=session.context.unanswered_tokens,
        )
        with open_transcript(path) as file:
            return read_transcript_view(source, file, file.scan())


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    root = tmp_path_factory.mktemp("demo")
    made = make_demo(root / "config", NOW, pid=4242, proc_start="99")
    claude = ClaudeFolder(made.root.resolve())
    with closing(Writer(root / "ctxtop.db")) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(root / "ctxtop.db")) as db:
        yield Demo(claude.projects, db)


def test_a_plan_has_the_sizes_of_the_breakdown(demo: Demo) -> None:
    compared = 0
    for session in demo.sessions:
        composed, view = demo.composed(session), demo.planned(session)
        sizes = composed.part_sizes
        for block in view.blocks:
            place = block.entry.parts.index(block.part)
            # Of earlier turns some models see no thinking.
            if block.tokens or block.part.kind is not PartKind.THINKING:
                size = sizes[block.entry.offset, place]
                assert block.tokens == size, (session.title, block)
                compared += 1
        listed, later = session.context.tokens or 0, composed.later_tokens
        assert view.tokens == pytest.approx(listed + later, abs=50), session.title
    assert compared > 500


def test_items_and_json_have_the_sizes_of_the_conversation(demo: Demo) -> None:
    compared = 0
    for session in demo.sessions:
        place = ConversationPlace(session.session_id)
        shown = read_sizes(demo.db, demo.projects, place, session.context.counting)
        entries = read_entries(demo.path(session))
        layout = ConversationLayout(300, ContextScale(), sizes=shown)
        steps = [*join_results([step for entry in entries for step in entry_steps(entry)])]
        rows = {row.anchor[0]: row.content.plain for row in layout.rows(steps, frozenset())}
        sizes: dict[int, Counter[int]] = {}
        offsets = {entry.offset: entry.line for entry in entries}
        for (offset, _), size in shown.parts.items():
            sizes.setdefault(offsets[offset], Counter())[size] += 1
        composed = demo.composed(session)
        for item in composed.largest:
            if item.line is not None and item.kind == "tool results":
                assert item.tokens in sizes[item.line], (session.title, item)
                compared += 1
        for step in steps:
            if step.result_key is not None and step.result_key in shown.parts:
                size = shown.parts[step.result_key]
                assert not size or f"≈ {tokens(size)} tokens" in rows[step.key], session.title
        said = composition_record(session, None, composed)["largest"]
        assert [each["tokens"] for each in said] == [each.tokens for each in composed.largest]
    assert compared > 30


def test_what_did_not_change_between_two_turns_has_the_same_size(demo: Demo) -> None:
    compared = 0
    for session in demo.sessions:
        entries = read_entries(demo.path(session))
        last = max((each.offset for each in entries if each.boundary), default=-1)
        answers = {each.message_id: each for each in entries if each.context_tokens}
        first = {each.message_id: each.offset for each in reversed(entries)}
        since = [each for each in answers.values() if each.offset > last and not each.sidechain]
        before: tuple[Composition, int] | None = None
        for answer in since[-TURNS:]:
            now = demo.composed(session, answer.offset)
            assert sum(each.tokens for each in now.categories) == now.total_tokens
            assert now.categories[-1].name == "unexplained" or not now.unexplained_tokens
            if before is not None:
                compared += _require_same(before, now, session.title)
            before = now, first[answer.message_id]
    assert compared > 500


def _require_same(before: tuple[Composition, int], now: Composition, title: str) -> int:
    """Compare what the earlier answer measured; the answer itself is measured by the next one."""
    earlier, offset = before
    measured = {key: size for key, size in earlier.part_sizes.items() if key[0] < offset}
    changed = {
        key: (size, now.part_sizes[key])
        for key, size in measured.items()
        if now.part_sizes.get(key, size) != size
    }
    assert changed == {}, title
    names = {"system prompt", "system tools", "MCP tools", "system prompt and tools"}
    one, other = (
        {each.name: each.tokens for each in found.categories if each.name in names}
        for found in (earlier, now)
    )
    assert one == other, title
    return len(measured)
