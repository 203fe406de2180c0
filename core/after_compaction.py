"""How much the next request holds after a compaction, before an answer has measured it.

The client's own `postTokens` counts the messages alone. The system prompt, the tools and what
it announces again come on top: what they take is known from the requests before. Texts are
counted as the client counts them (`client_estimate`): a listing that stands before the
compaction and after it takes the same in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .compaction.announced import announced_again
from .compaction.project import project
from .composition import AROUND_TOOLS
from .conversation import Piece, PieceKind
from .counter import client_estimate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .conversation import Entry
    from .material import Counter

MOST_OVERHEAD: Final = 100_000
"""Tokens of system prompt and tools; 91,000 is the most that was seen (claude-code-formats 3.6).
A first answer that saw more had a conversation before it that its file does not hold."""


def measured_overhead(head: Sequence[Entry]) -> int | None:
    """Return what the first request had beyond its messages, in tokens.

    `head` are the entries up to the answer to it, which stands last. None where there is no
    such answer, and where it saw more than a first request has.
    """
    first = head[-1].context_tokens if head else None
    if first is None:
        return None
    overhead = max(0, first - _tokens(project(head[:-1])))
    return overhead if overhead <= MOST_OVERHEAD else None


def written_overhead(entries: Iterable[Entry], counter: Counter) -> int | None:
    """Estimate the system prompt and the tools, in tokens, as the client wrote them down.

    None where it wrote down neither (clients before 2.1.2xx).
    """
    system: tuple[str, ...] = ()
    tools: tuple[tuple[str, str], ...] = ()
    for entry in entries:
        if entry.snapshot:
            system = entry.snapshot.system or system
            tools = entry.snapshot.tools or tools
    if not system and not tools:
        return None
    pieces = [Piece(PieceKind.META, text) for text in system]
    pieces += [Piece(PieceKind.ATTACHMENT, schema, name) for name, schema in tools]
    return sum(map(counter.tokens, pieces)) + (AROUND_TOOLS if tools else 0)


def next_request_tokens(
    overhead: int,
    sent_before: Sequence[Entry],
    sent_after: Sequence[Entry],
    post_tokens: int | None,
) -> int:
    """Estimate the next request in tokens.

    `before` is what was sent before the compaction, of which some is announced again; `sent`
    what is sent after it, as far as it is known; `post_tokens` what the client says of that.
    """
    seen = [*sent_after, *announced_again(sent_before, sent_after)]
    return overhead + max(_tokens(seen), post_tokens or 0)


def _tokens(entries: Iterable[Entry]) -> int:
    return sum(
        client_estimate(piece) for entry in entries if not entry.hidden for piece in entry.parts
    )
