"""What a request holds beside its messages: the system prompt and the tools.

No line of a transcript says it, but what an answer's request had beyond the messages before it
does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..cleared import cleared_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..conversation import Entry
    from .view import Slot


def overhead_of(
    blocks: Sequence[Slot], entries: Sequence[Entry], count_tokens: Callable[[Entry], int]
) -> int:
    """Estimate it in tokens from the newest answer behind the last boundary.

    Where none follows the boundary, or where it had no more than the messages before it are
    estimated at, it is taken from the session's first answer, before which stands so little
    that its estimate is hardly off; `tokens` counts those lines. 0 where no answer says what
    it used.
    """
    newest = _by_newest(blocks, entries)
    if newest > 0:
        return newest
    begun = _until_first_answer(entries)
    if not begun:
        return 0
    return max(0, (begun[-1].context_tokens or 0) - sum(map(count_tokens, begun[:-1])))


def opening(entries: Sequence[Entry], sent: Sequence[Entry]) -> list[Entry]:
    """List the lines that `overhead_of` has to count beside those that are sent."""
    return [] if _newest(entries, sent) else _until_first_answer(entries)


def cleared_tokens(blocks: Sequence[Slot], entries: Sequence[Entry], answer: Entry) -> int:
    """Estimate how many tokens of some slots an answer's request did not hold any more."""
    cleared = cleared_for(answer, entries)
    return sum(each.tokens for each in blocks if cleared.includes(each.entry, each.part))


def _by_newest(blocks: Sequence[Slot], entries: Sequence[Entry]) -> int:
    answer = _newest(entries, [each.entry for each in blocks])
    if answer is None:
        return 0
    first = next(each for each in blocks if each.entry.message_id == answer.message_id)
    held = first.tokens_before - cleared_tokens(blocks[: first.index], entries, answer)
    return (answer.context_tokens or 0) - held


def _newest(entries: Sequence[Entry], sent: Sequence[Entry]) -> Entry | None:
    boundary = max((each.offset for each in entries if each.boundary), default=-1)
    answers = (
        each
        for each in reversed(sent)
        if each.context_tokens and each.offset > boundary and each.message_id
    )
    return next(answers, None)


def _until_first_answer(entries: Sequence[Entry]) -> list[Entry]:
    spoken = [each for each in entries if each.parts and not each.sidechain]
    first = next((n for n, each in enumerate(spoken) if each.context_tokens), None)
    return [] if first is None else spoken[: first + 1]
