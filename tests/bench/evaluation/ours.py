"""ctxtop's own ways to compact, each level of harm with all that is below it."""

from __future__ import annotations

import json
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from ctxtop.collectors.transcripts.conversation import read_conversation
from ctxtop.core.compaction.image import after, image
from ctxtop.core.compaction.keep import Tail
from ctxtop.core.compaction.plan import Harm
from ctxtop.core.compaction.plan_whole import KEPT_CHARS, plan_whole
from ctxtop.core.compaction.planning import plan_transcript
from ctxtop.core.compaction.select import Aim
from ctxtop.core.compaction.strategies.summarise import facts_of, summarise
from ctxtop.core.compaction.view import slim
from ctxtop.core.compaction.whole import Whole, envelope_of
from ctxtop.core.conversation import PieceKind
from ctxtop.core.summaries.budget import Budget, sum_up
from ctxtop.core.summaries.templates import ELEVEN
from msgspec.structs import replace

from .figures import counter_for
from .replay import RefusedError
from .texts import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ctxtop.core.compaction.plan import Operation, Refusal
    from ctxtop.core.compaction.view import View
    from ctxtop.core.conversation import Entry, Piece
    from ctxtop.core.material import CountedOnce

    from .replay import Compact

LEVELS: Final = tuple(level for level in Harm if level <= Harm.PROSE)
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
    """Give the levels, the least harm first."""
    for level in LEVELS:
        yield f"level {level.value} {level.name.lower().replace('_', ' ')}", compact_at(level)

    yield "level 7 summary", _with_summary


def summary_within(entries: Sequence[Entry], last: bytes, budget: int, tokens: CountedOnce) -> str:
    """Sum up a whole conversation by rules in at most so many tokens; `last` is its last line."""
    whole = _whole(entries, last, tokens)
    facts = facts_of(whole, Tail(tuple(whole.visible_entries), (), 0, 0))
    prompts = sum(
        tokens.tokens(piece)
        for piece in pieces_of(whole.visible_entries)
        if piece.kind is PieceKind.PROMPT
    )
    of_prompts = min(int(QUOTED * prompts), int(PROMPTS_SHARE * budget))
    made = sum_up(facts, ELEVEN, Budget(budget - of_prompts, of_prompts))
    # What the person's messages leave of their share is for all others.
    for part in _FILLED:
        spare = int(part * max(0, budget - made.tokens))
        filled = sum_up(facts, ELEVEN, Budget(budget - of_prompts + spare, of_prompts))
        if filled.tokens <= budget:
            return filled.text
    return made.text


def compact_at(level: Harm) -> Compact:
    """Give the way to compact with all strategies up to a level."""
    return partial(_compact, level)


def _compact(level: Harm, path: Path) -> bytes:
    plan = plan_transcript(path.stem, path, _read, counter_for, options=Aim(max_level=level))
    if plan.refused or not plan.operations:
        raise RefusedError("; ".join(f"{each.check}: {each.why}" for each in plan.refused))
    with path.open("rb") as lines:
        return b"".join(after(image(lines, plan.operations)))


def _read(path: Path, start: int = 0) -> Iterator[Entry]:
    """Give the entries from a byte on."""
    return (entry for entry in _all_of(path) if entry.offset >= start)


@lru_cache(maxsize=200)
def _all_of(path: Path) -> list[Entry]:
    """Read a transcript once for all levels: no case's file changes while it is judged."""
    return list(read_conversation(path))


def _with_summary(path: Path) -> bytes:
    plan = plan_whole(path.stem, path, _read, counter_for, _summarised)
    if plan.refused or not plan.operations:
        raise RefusedError("; ".join(f"{each.check}: {each.why}" for each in plan.refused))
    with path.open("rb") as lines:
        return b"".join(after(image(lines, plan.operations)))


def _summarised(whole: Whole, _view: View) -> Operation | Refusal:
    return summarise(whole, KEPT_MESSAGES, ELEVEN)


def _whole(entries: Sequence[Entry], last: bytes, tokens: CountedOnce) -> Whole:
    # As `plan_whole` holds it: of a result no more than its beginning.
    held = tuple(replace(entry, parts=tuple(map(_cut, entry.parts))) for entry in entries)
    return Whole(held, envelope_of(json.loads(last)), tokens.tokens)


def _cut(piece: Piece) -> Piece:
    whole = piece.kind is not PieceKind.TOOL_RESULT or piece.failed
    return piece if whole else slim(piece, KEPT_CHARS)
