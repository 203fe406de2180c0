"""A plan of one operation on a whole conversation: a summary, a cut, or the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .break_even import break_even
from .line_file import open_lines
from .plan import Operation, Plan, Refusal, make_plan
from .planning import CHANGED, read_view, refusals
from .whole import Whole, envelope_of, newest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .planning import Read
    from .view import PieceCounter, View

    CounterOf = Callable[[str | None], PieceCounter]
    Make = Callable[[Whole, View], Operation | Refusal]


def plan_whole(
    session_id: str,
    path: Path,
    read: Read,
    counter_of: CounterOf,
    make: Make,
    *,
    live: str | None = None,
) -> Plan:
    """Plan what `make` gives for a transcript; nothing is written, a refusal is part of it.

    Unlike `planning.plan_transcript` it holds all texts of the conversation. Raises OSError
    where the file cannot be read.
    """
    with open_lines(path) as file:
        scan = file.scan()
        view = read_view(path, file, scan, read, counter_of)
        refused = list(refusals(view, live))
        operations: list[Operation] = []
        if not refused:
            made = make(_whole(path, read, view), view)
            if isinstance(made, Refusal):
                refused.append(made)
            else:
                operations.append(made)
        if file.has_changed(scan):
            refused.append(CHANGED)
    saved = sum(each.tokens_saved for each in operations)
    # Nothing of the conversation stays where it was: what the cache keeps is what precedes it.
    even = break_even(view.tokens, view.overhead, saved)
    return make_plan(
        session_id,
        scan.sha256,
        scan.size,
        operations,
        before_tokens=view.tokens,
        break_even_requests=even.five_minutes,
        refused=refused,
    )


def _whole(path: Path, read: Read, view: View) -> Whole:
    entries = tuple(read(path))
    last = newest(entries)
    said = view.value(last.line) if last else None
    return Whole(
        entries,
        envelope_of(said if isinstance(said, dict) else {}),
        view.count,
        str(path),
    )
