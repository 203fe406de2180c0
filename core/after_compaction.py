"""How much the next request holds after a compaction, before an answer has measured it.

The client's own `postTokens` counts the messages alone. The system prompt, the tools and what
it announces again come on top: what they take is known from the session's first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .compaction.announced import announced_again
from .compaction.project import project
from .counter import client_estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .conversation import Entry


MOST_OVERHEAD: Final = 100_000
"""Tokens of system prompt and tools; 91,000 is the most that was seen (claude-code-formats 3.6).
A first answer that saw more had a conversation before it that its file does not hold."""


def next_request_tokens(
    head: Sequence[Entry], sent: Sequence[Entry], post_tokens: int | None
) -> int | None:
    """Estimate the next request in tokens; None where no answer says what every request holds.

    `head` are the entries up to the first answer that says what it used, which stands last;
    `sent` those that are sent after the compaction, as far as they are known; `post_tokens` is
    what the client says of them. Texts are counted as the client counts them
    (`client_estimate`), so that a listing that stands in both takes the same in both.
    """
    first = head[-1].context_tokens if head else None
    if first is None:
        return None
    opening = project(head[:-1])
    overhead = max(0, first - _tokens(opening))
    if overhead > MOST_OVERHEAD:
        return None
    seen = [*sent, *announced_again(opening, sent)]
    return overhead + max(_tokens(seen), post_tokens or 0)


def _tokens(entries: Iterable[Entry]) -> int:
    return sum(
        client_estimate(piece) for entry in entries if not entry.hidden for piece in entry.pieces
    )
