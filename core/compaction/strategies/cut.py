"""Level 8: all but the first prompt and the last turns leave, without a summary.

It is appended behind a boundary as a summary is: what left stays in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...conversation import Piece, PieceKind, messages_of
from ..keep import is_prompt, keep_turns
from ..plan import Harm, Operation, Refusal
from ..whole import appended_operation

if TYPE_CHECKING:
    from ...conversation import Entry
    from ..keep import Tail
    from ..whole import Whole

NAME: Final = "cut"
LEVEL: Final = Harm.CUT


def cut(conversation: Whole, turns: int) -> Operation | Refusal:
    """Plan to keep the first prompt and the last turns, each from its prompt to its end."""
    sent = conversation.visible_entries
    tail = keep_turns(sent, turns)
    first = _first_prompt(sent, tail)
    if len(tail.removed) <= len(first):
        return Refusal("too_few", f"there are not more than {turns} turns", "keep fewer turns")
    last = "turn" if turns == 1 else f"{turns} turns"
    lines = [entry.line for entry in tail.removed]
    said = (
        f"[Earlier conversation removed]\nThe first request and the last {last} follow."
        f" What stood between them (lines {min(lines)} to {max(lines)} of {conversation.transcript_path},"
        " one JSON object a line) is no longer in the context: read files again before you rely"
        " on them."
    )
    what = f"{tail.removed_messages} messages leave, the first prompt and the last {last} stay"
    kept = (*first, *tail.retained)
    return appended_operation(
        conversation, Piece(PieceKind.SUMMARY, said), kept, LEVEL, (NAME, what, "the last resort")
    )


def _first_prompt(sent: list[Entry], tail: Tail) -> tuple[Entry, ...]:
    away = {entry.offset for entry in tail.removed}
    first = next((each for each in messages_of(sent) if is_prompt(each)), None)
    return tuple(
        entry
        for entry in (first.entries if first else ())
        if entry.offset in away and any(piece.kind is PieceKind.PROMPT for piece in entry.parts)
    )
