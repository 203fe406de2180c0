"""ctxtop's own ways to compact, each level of harm with all that is below it."""

from __future__ import annotations

import json
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from ctxtop.core.actions.conversation_planning import plan_conversation, shorten_output
from ctxtop.core.compaction.condensing import plan_condensed
from ctxtop.core.compaction.plan import CONDENSE, PlanOptions, Severity
from ctxtop.core.compaction.protection import RetainedTail
from ctxtop.core.compaction.rewritten_lines import lines_after, rewrite_lines
from ctxtop.core.compaction.strategies.summary_and_cut import (
    Conversation,
    facts_before_tail,
    summarize_by_rules,
)
from ctxtop.core.compaction.transcript_reading import PlanSource
from ctxtop.core.model.claude_models import LARGE_WINDOW, SMALL_WINDOW
from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.summary_building import SummaryBudget, SummarySettings, build_summary
from ctxtop.core.summaries.summary_facts import ELEVEN_SECTIONS
from ctxtop.core.transcript.entry_decoder import read_entries
from msgspec.structs import replace

from ...planned import plan_transcript
from .figures import counter_for
from .replay import RefusedError
from .texts import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ctxtop.core.compaction.plan import CompactionPlan, Operation, Refusal
    from ctxtop.core.compaction.transcript_view import TranscriptView
    from ctxtop.core.measure.tokens import CachedPartCounter
    from ctxtop.core.model.conversation import Entry, MessagePart

    from .replay import Compact

LEVELS: Final = tuple(level for level in Severity if level <= Severity.PROSE)
"""Those that edit lines; a summary comes after them, and a cut keeps nothing to be judged."""

KEPT_MESSAGES: Final = 20
"""Beside a summary: ten turns, as many as the other levels protect (compaction.md 7.5)."""

QUOTED: Final = 1.3
"""Tokens of a quoted message to those of the message: marks and line numbers stand around it."""

PROMPTS_SHARE: Final = 0.5
"""Of a summary's budget, at most: what of it the person's messages may take."""

_FILLED: Final = (1.0, 0.9, 0.75, 0.5)
"""Of what is left of a budget: the most that fits is taken."""


def our_ways() -> Iterator[tuple[str, Compact]]:
    """Yield the compaction levels, the least severe first."""
    for level in LEVELS:
        yield f"level {level.value} {level.name.lower().replace('_', ' ')}", compact_at(level)

    yield "level 7 summary", _with_summary
    yield "condense, half the window", condense


def summary_within(
    entries: Sequence[Entry], last: bytes, budget: int, tokens: CachedPartCounter
) -> str:
    """Sum up a whole conversation by rules in at most so many tokens; `last` is its last line."""
    whole = _whole(entries, last, tokens)
    facts = facts_before_tail(whole, RetainedTail(tuple(whole.visible_entries), (), 0, 0))
    prompts = sum(
        tokens.tokens(piece)
        for piece in pieces_of(whole.visible_entries)
        if piece.kind is PartKind.PROMPT
    )
    of_prompts = min(int(QUOTED * prompts), int(PROMPTS_SHARE * budget))
    made = build_summary(facts, ELEVEN_SECTIONS, SummaryBudget(budget - of_prompts, of_prompts))
    # What the person's messages leave of their share is for all others.
    for part in _FILLED:
        spare = int(part * max(0, budget - made.tokens))
        filled = build_summary(
            facts, ELEVEN_SECTIONS, SummaryBudget(budget - of_prompts + spare, of_prompts)
        )
        if filled.tokens <= budget:
            return filled.text
    return made.text


def compact_at(level: Severity) -> Compact:
    """Return a function that compacts with all strategies up to this level."""
    return partial(_compact, level)


def _compact(level: Severity, path: Path) -> bytes:
    return _carried_out(plan_transcript(_source(path), PlanOptions(level=level.value)), path)


def _carried_out(plan: CompactionPlan, path: Path) -> bytes:
    if plan.refused or not plan.operations:
        raise RefusedError("; ".join(f"{each.check}: {each.why}" for each in plan.refused))
    with path.open("rb") as lines:
        return b"".join(lines_after(rewrite_lines(lines, plan.operations)))


def compact_by(path: Path, tokens: int) -> bytes:
    """Compact with levels up to 4 until so many tokens are freed."""
    before = plan_level_4(path).before_tokens
    window = SMALL_WINDOW if before <= SMALL_WINDOW else LARGE_WINDOW
    target = max(0, before - tokens) / window
    options = PlanOptions(level=Severity.INPUTS.value, target=target)
    return _carried_out(plan_transcript(_source(path), options), path)


def condense(path: Path) -> bytes:
    """Compact to half of the window: levels 2 to 4, then a digest of the oldest turns."""
    return _carried_out(plan_condensing(path), path)


def plan_condensing(path: Path) -> CompactionPlan:
    options = PlanOptions(strategies=(CONDENSE,))
    return plan_conversation(
        _source(path), lambda whole, view: plan_condensed(whole, view, options), options
    )


def plan_level_4(path: Path) -> CompactionPlan:
    """Plan by levels to half of the window, as without any option."""
    return plan_transcript(_source(path))


def _source(path: Path) -> PlanSource:
    return PlanSource(path.stem, path, counter_for, read_entries=_read)


def _read(path: Path, start: int = 0) -> Iterator[Entry]:
    """Return the entries from byte offset `start` on."""
    return (entry for entry in _all_of(path) if entry.offset >= start)


@lru_cache(maxsize=200)
def _all_of(path: Path) -> list[Entry]:
    """Read a transcript once for all levels: no case's file changes while it is judged."""
    return list(read_entries(path))


def _with_summary(path: Path) -> bytes:
    return _carried_out(plan_conversation(_source(path), _summarized), path)


def _summarized(whole: Conversation, _view: TranscriptView) -> Operation | Refusal:
    return summarize_by_rules(whole, SummarySettings(ELEVEN_SECTIONS, keep_messages=KEPT_MESSAGES))


def _whole(entries: Sequence[Entry], last: bytes, tokens: CachedPartCounter) -> Conversation:
    # As `plan_conversation` holds it: of a result no more than its beginning.
    held = tuple(replace(entry, parts=tuple(map(_cut, entry.parts))) for entry in entries)
    return Conversation(held, json.loads(last), tokens.tokens)


def _cut(piece: MessagePart) -> MessagePart:
    whole = piece.kind is not PartKind.TOOL_RESULT or piece.failed
    return piece if whole else shorten_output(piece)
