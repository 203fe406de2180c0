"""What each place says that a part of a context takes: the same, of one session's parts.

Compared are the breakdown with its items and JSON, the conversation, the plan (whose sizes a
receipt keeps) and the breakdowns of earlier answers, which the timeline opens.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.core.compaction.transcript_reading import PlanSource, read_transcript_view
from ctxtop.core.compaction.transcript_view import open_transcript
from ctxtop.core.measure.conversation_steps import entry_steps, join_results
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.token_samples import read_part_counters
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.tui.cli.json_records import composition_record
from ctxtop.tui.conversation.conversation_reading import ConversationPlace, read_sizes
from ctxtop.tui.conversation.conversation_rows import ContextScale, ConversationLayout
from ctxtop.tui.text.formats import tokens

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ctxtop.core.compaction.transcript_view import TranscriptView
    from ctxtop.core.measure.composition import Composition
    from ctxtop.core.model.conversation import Entry
    from ctxtop.core.model.session import Session

TURNS: Final = 5
"""Newest answers of a session after which the sizes are compared."""

MOST: Final = 10_000

_OVERHEAD: Final = {"system prompt", "system tools", "MCP tools", "system prompt and tools"}


class Compared(NamedTuple):
    """How many sizes were compared, and what differs."""

    sizes: int
    differences: list[str]


class SizedSessions:
    """The sessions of a folder with something in their context, and what each place says."""

    def __init__(self, projects: Path, db: sqlite3.Connection, now_ms: int) -> None:
        self.projects: Final = projects
        self.db: Final = db
        found = read_sessions(db, now_ms)
        self.sessions: Final = [each for each in found if each.context.tokens and self._paths(each)]

    def _paths(self, session: Session) -> list[Path]:
        return [*self.projects.glob(f"*/{session.session_id}.jsonl")]

    def path(self, session: Session) -> Path:
        return self._paths(session)[0]

    def composed(self, session: Session, until: int | None = None) -> Composition:
        return read_composition(
            self.db,
            self.projects,
            session.session_id,
            counting=session.context.counting,
            until_offset=until,
            max_items=MOST,
        )

    def planned(self, session: Session) -> TranscriptView:
        path = self.path(session)
        source = PlanSource(
            session.session_id,
            path,
            read_part_counters(self.db, session.context.counting),
            estimated_tokens=session.context.unanswered_tokens,
        )
        with open_transcript(path) as file:
            return read_transcript_view(source, file, file.scan())


def compare_plan(found: SizedSessions, session: Session) -> Compared:
    composed, view = found.composed(session), found.planned(session)
    sizes, compared, differences = composed.part_sizes, 0, []
    for block in view.blocks:
        size = sizes.get((block.entry.offset, block.entry.parts.index(block.part)))
        # Of earlier turns some models see no thinking.
        if block.tokens or block.part.kind is not PartKind.THINKING:
            compared += 1
            if block.tokens != size:
                where = f"line {block.entry.line}, {block.part.kind.value} {block.part.name}"
                differences.append(f"{where}: {size} in the breakdown, {block.tokens} in the plan")
    listed = (session.context.tokens or 0) + composed.later_tokens
    if abs(view.tokens - listed) > 50:
        differences.append(f"all: {listed} in the list, {view.tokens} in the plan")
    return Compared(compared, differences)


def compare_shown(found: SizedSessions, session: Session) -> Compared:
    place = ConversationPlace(session.session_id)
    shown = read_sizes(found.db, found.projects, place, session.context.counting)
    entries = read_entries(found.path(session))
    layout = ConversationLayout(300, ContextScale(), sizes=shown)
    steps = [*join_results([step for entry in entries for step in entry_steps(entry)])]
    rows = {row.anchor[0]: row.content.plain for row in layout.rows(steps, frozenset())}
    composed = found.composed(session)
    compared, differences = _compare_items(composed, entries, shown.parts)
    for step in steps:
        size = shown.parts.get(step.result_key) if step.result_key else None
        if size and f"≈ {tokens(size)} tokens" not in rows[step.key]:
            differences.append(f"byte {step.offset}: {size}, shown as {rows[step.key]!r}")
    said = [each["tokens"] for each in composition_record(session, None, composed)["largest"]]
    if said != [each.tokens for each in composed.largest]:
        differences.append("other items in JSON")
    return Compared(compared, differences)


def _compare_items(
    composed: Composition, entries: Sequence[Entry], shown: Mapping[tuple[int, int], int]
) -> tuple[int, list[str]]:
    sizes: dict[int, Counter[int]] = {}
    offsets = {entry.offset: entry.line for entry in entries}
    for (offset, _), size in shown.items():
        sizes.setdefault(offsets[offset], Counter())[size] += 1
    items = [
        each for each in composed.largest if each.line is not None and each.kind == "tool results"
    ]
    return len(items), [
        f"line {each.line}: {each.tokens} in the items, {[*sizes.get(each.line or 0, ())]} shown"
        for each in items
        if each.tokens not in sizes.get(each.line or 0, ())
    ]


def compare_turns(found: SizedSessions, session: Session) -> Compared:
    """Compare what an answer measured with what the next ones say of it."""
    entries = read_entries(found.path(session))
    last = max((each.offset for each in entries if each.boundary), default=-1)
    answers = {each.message_id: each for each in entries if each.context_tokens}
    first = {each.message_id: each.offset for each in reversed(entries)}
    prompts = [each.offset for each in entries if each.snapshot]
    since = [each for each in answers.values() if each.offset > last and not each.sidechain]
    before: tuple[Composition, int] | None = None
    compared, differences = 0, list[str]()
    for answer in since[-TURNS:]:
        now = found.composed(session, answer.offset)
        if sum(each.tokens for each in now.categories) != now.total_tokens:
            differences.append(f"line {answer.line}: the categories do not add up")
        if now.unexplained_tokens and now.categories[-1].name != "unexplained":
            differences.append(f"line {answer.line}: what is unexplained has no line")
        if before is not None:
            sizes, changed = _compare_turn(*before, now)
            compared += sizes
            differences += [f"line {answer.line}: {each}" for each in changed]
            one, other = _overhead(before[0]), _overhead(now)
            is_same = not any(before[1] < each < answer.offset for each in prompts)
            if is_same and one != other:
                differences.append(f"line {answer.line}: {one}, then {other}")
        before = now, first[answer.message_id]
    return Compared(compared, differences)


def _compare_turn(earlier: Composition, offset: int, now: Composition) -> Compared:
    measured = {key: size for key, size in earlier.part_sizes.items() if key[0] < offset}
    changed = [
        f"byte {key[0]}: {size}, then {now.part_sizes[key]}"
        for key, size in measured.items()
        if now.part_sizes.get(key, size) != size
    ]
    return Compared(len(measured), changed)


def _overhead(composed: Composition) -> dict[str, int]:
    return {each.name: each.tokens for each in composed.categories if each.name in _OVERHEAD}
