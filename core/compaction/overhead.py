"""What a request holds beside its messages: the system prompt and the tools.

No line of a transcript says it, but what an answer's request had beyond the messages before it
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..conversation import Entry
    from .view import Slot


def overhead_of(
    slots: Sequence[Slot], entries: Sequence[Entry], tokens: Callable[[Entry], int]
) -> int:
    """Estimate it in tokens from the newest answer behind the last boundary.

    Where none follows the boundary it is taken from the session's first answer, before which
    stands so little that its estimate is hardly off; `tokens` counts those lines. 0 where no
    answer says what it used.
    """
    boundary = max((each.offset for each in entries if each.boundary), default=-1)
    for slot in reversed(slots):
        entry = slot.entry
        if entry.context_tokens and entry.offset > boundary and entry.message_id:
            first = next(each for each in slots if each.entry.message_id == entry.message_id)
            return max(0, entry.context_tokens - first.position)
    begun = opening(entries)
    if not begun:
        return 0
    return max(0, (begun[-1].context_tokens or 0) - sum(map(tokens, begun[:-1])))


def opening(entries: Sequence[Entry]) -> list[Entry]:
    """List the lines up to the first answer that says what it used; none where there is none."""
    spoken = [each for each in entries if each.pieces and not each.sidechain]
    first = next((n for n, each in enumerate(spoken) if each.context_tokens), None)
    return [] if first is None else spoken[: first + 1]
