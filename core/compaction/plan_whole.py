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
    read_entries: Read,
    counter_of: CounterOf,
    make_operation: Make,
    *,
    open_in: str | None = None,
    max_bytes: int = LARGEST_BYTES,
) -> Plan:
    """Plan what `make` gives for a transcript; nothing is written, a refusal is part of it.

    Unlike `planning.plan_transcript` it holds what was said and what tools were called with;
    of their results it holds KEPT_CHARS. Raises OSError where the file cannot be read.
    """
    with open_lines(path) as file:
        scan = file.scan()
        read_entries = as_scanned(read_entries, file, scan)
        view = read_view(path, file, scan, read_entries, counter_of)
        refused = list(refusals(view, scan, open_in))
        operations: list[Operation] = []
        if not refused:
            made = make_operation(_whole(path, read_entries, view), view)
            if isinstance(made, Refusal):
                refused.append(made)
            elif made.level is Harm.SUMMARY and made.tokens_saved <= 0:
                refused.append(_LARGER)
            else:
                operations.append(made)
        refused += late_refusals(file, scan, max_bytes)
    saved = sum(each.tokens_saved for each in operations)
    warm = view.overhead_tokens + _unmoved(operations, view)
    even = break_even(view.tokens, warm, saved, view.model)
    return make_plan(
        session_id,
        scan.sha256,
        scan.size,
        operations,
        before_tokens=view.tokens,
        break_even_requests=even.requests_5m,
        break_even_requests_1h=even.requests_1h,
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
        self._count: Final = view.count_tokens
        self._of_slots: Final = {
            slot.part: slot.tokens
            for slot in view.blocks
            # Of a thought the context holds more than its text says.
            if not slot.is_replaced and slot.part.kind is not PieceKind.THINKING
        }
        self._known: Final[dict[Piece, int]] = {}

    def shorten(self, piece: Piece) -> Piece:
        """Cut a piece's text where a summary needs no more of it."""
        short = slim(piece, KEPT_CHARS) if _is_output(piece) else piece
        known = self._of_slots.get(slim(piece))
        if known is not None:
            self._known[short] = known
        return short

    def tokens_of(self, piece: Piece) -> int:
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
    return min((slot.tokens_before for slot in view.blocks if slot.line >= first), default=0)


def _whole(path: Path, read: Read, view: View) -> Whole:
    counts = _Counts(view)
    entries = tuple(
        replace(entry, parts=tuple(map(counts.shorten, entry.parts)), snapshot=None)
        for entry in read(path)
    )
    last = newest(entries)
    said = view.decoded_line(last.line) if last else None
    return Whole(
        entries,
        envelope_of(said if isinstance(said, dict) else {}),
        counts.tokens_of,
        str(path),
        view.overhead_tokens,
        view.tokens - view.overhead_tokens,
    )


def _is_output(piece: Piece) -> bool:
    """Tell what is put in or comes out of a tool: the most of a conversation, by far."""
    if piece.kind is PieceKind.TOOL_RESULT:
        # Of what failed its end counts, and of a running task what it says of its state.
        return not piece.failed and piece.name not in ASKERS
    return piece.kind in {PieceKind.ATTACHMENT, PieceKind.META}
