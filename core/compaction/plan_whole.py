"""A plan of one operation on a whole conversation: a summary, a cut, or the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ..conversation import Piece, PieceKind
from ..summaries.running import ASKERS
from .break_even import break_even
from .limits import LARGEST_BYTES
from .line_file import open_lines
from .plan import Append, Harm, Operation, Plan, Refusal, make_plan
from .planning import as_scanned, late_refusals, read_view, refusals
from .view import slim
from .whole import Whole, envelope_of, newest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from .planning import Read
    from .view import PieceCounter, View

    CounterOf = Callable[[str | None], PieceCounter]
    Make = Callable[[Whole, View], Operation | Refusal]

KEPT_CHARS: Final = 1_000
"""Of a result: a summary is told its beginning, at most 800 characters (summaries.providers)."""


def plan_whole(
    session_id: str,
    path: Path,
    read: Read,
    counter_of: CounterOf,
    make: Make,
    *,
    live: str | None = None,
    largest: int = LARGEST_BYTES,
) -> Plan:
    """Plan what `make` gives for a transcript; nothing is written, a refusal is part of it.

    Unlike `planning.plan_transcript` it holds what was said and what tools were called with;
    of their results it holds KEPT_CHARS. Raises OSError where the file cannot be read.
    """
    with open_lines(path) as file:
        scan = file.scan()
        read = as_scanned(read, file, scan)
        view = read_view(path, file, scan, read, counter_of)
        refused = list(refusals(view, scan, live))
        operations: list[Operation] = []
        if not refused:
            made = make(_whole(path, read, view), view)
            if isinstance(made, Refusal):
                refused.append(made)
            elif made.level is Harm.SUMMARY and made.tokens_saved <= 0:
                refused.append(_LARGER)
            else:
                operations.append(made)
        refused += late_refusals(file, scan, largest)
    saved = sum(each.tokens_saved for each in operations)
    warm = view.overhead + _unmoved(operations, view)
    even = break_even(view.tokens, warm, saved, view.model)
    return make_plan(
        session_id,
        scan.sha256,
        scan.size,
        operations,
        before_tokens=view.tokens,
        break_even_requests=even.five_minutes,
        break_even_requests_1h=even.one_hour,
        refused=refused,
    )


_LARGER: Final = Refusal(
    "nothing",
    "the summary and what the client announces again would be no smaller than what they replace",
    "let the session grow, or name a smaller --budget",
)


class _Counts:
    """Tokens of pieces whose texts are cut, as they were counted when they were whole."""

    def __init__(self, view: View) -> None:
        self._count: Final = view.count
        self._of_slots: Final = {
            slot.piece: slot.tokens
            for slot in view.slots
            # Of a thought the context holds more than its text says.
            if not slot.replaced and slot.piece.kind is not PieceKind.THINKING
        }
        self._known: Final[dict[Piece, int]] = {}

    def cut(self, piece: Piece) -> Piece:
        """Cut a piece's text where a summary needs no more of it."""
        short = slim(piece, KEPT_CHARS) if _is_output(piece) else piece
        known = self._of_slots.get(slim(piece))
        if known is not None:
            self._known[short] = known
        return short

    def of(self, piece: Piece) -> int:
        """Give what was counted, or count."""
        known = self._known.get(piece)
        if known is None:
            known = self._known[piece] = self._count(piece)
        return known


def _unmoved(operations: Iterable[Operation], view: View) -> int:
    """Add up what of the conversation stays where it was, and so in the cache.

    What is appended stands in the place of all; what is removed leaves all before it as it is.
    """
    edits = [edit for each in operations for edit in each.edits]
    if any(isinstance(edit, Append) for edit in edits):
        return 0
    first = min((edit.line for edit in edits if not isinstance(edit, Append)), default=0)
    return min((slot.position for slot in view.slots if slot.line >= first), default=0)


def _whole(path: Path, read: Read, view: View) -> Whole:
    counts = _Counts(view)
    entries = tuple(
        replace(entry, pieces=tuple(map(counts.cut, entry.pieces)), snapshot=None)
        for entry in read(path)
    )
    last = newest(entries)
    said = view.value(last.line) if last else None
    return Whole(
        entries,
        envelope_of(said if isinstance(said, dict) else {}),
        counts.of,
        str(path),
        view.overhead,
        view.tokens - view.overhead,
    )


def _is_output(piece: Piece) -> bool:
    """Tell what is put in or comes out of a tool: the most of a conversation, by far."""
    if piece.kind is PieceKind.TOOL_RESULT:
        # Of what failed its end counts, and of a running task what it says of its state.
        return not piece.failed and piece.name not in ASKERS
    return piece.kind in {PieceKind.ATTACHMENT, PieceKind.META}
