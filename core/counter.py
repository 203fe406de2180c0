"""The four numbers by which a context is told, each for what it is (claude-code-formats 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .conversation import PieceKind

if TYPE_CHECKING:
    from .conversation import Piece

CHARS_A_TOKEN: Final = 4
"""Of the client's own rough estimate (formats 3.2)."""

MEDIA_TOKENS: Final = 2_000
"""Tokens of an image or a document by the same estimate (formats 3.2)."""


class Numbers(msgspec.Struct, frozen=True):
    """Tokens of one context, counted in four ways; None where there is nothing to count."""

    fill: int | None
    """A: input of the last answer, as the status line shows it against the window."""
    counter: int | None
    """B: what the client compares with its trigger."""
    hook: int | None
    """C: what hooks are told as `context_tokens` when a session is resumed."""
    report: int | None = None
    """D: total of the last `/context`, which counts each category by itself."""


NO_NUMBERS: Final = Numbers(None, None, None)


EXACT_OUTPUT_FROM: Final = (2, 1, 97)
"""Clients before wrote a placeholder for an answer's output (changelog 2.1.97); in agents'
files it is found up to 2.1.286 (formats 2.6)."""


class Counted(msgspec.Struct, frozen=True):
    """What the store knows of a context after its last boundary; tokens."""

    answer: int | None = None
    """Input side of the last answer."""
    output: int = 0
    """Output of its last iteration."""
    answer_text: int = 0
    """Estimate of the answer's own texts, where its output may be a placeholder."""
    after_answer: int = 0
    """Estimate of what stands after the answer."""
    boundary_estimate: int | None = None
    """The client's estimate at the last boundary: of the messages alone."""
    next_request: int | None = None
    """Estimate of the next request after that boundary, with system prompt, tools and listings."""
    is_answer_estimated: bool = False
    """An edit of ctxtop lowered the last answer's input: it is an estimate."""
    cleared: int = 0
    """What the client cleared since the last answer, by its own estimate."""
    report: int | None = None
    """Total of the last `/context`."""


def numbers_of(stored: Counted) -> Numbers:
    """Work out the four numbers in tokens.

    Source: formats 3.1. The counter is the last answer with its output, and an estimate of
    what follows; of an output that may be a placeholder the answer's own texts tell more.
    Without an answer it is the boundary's estimate, which hooks are told too (2.1.329).
    """
    if stored.answer is None:
        return Numbers(None, stored.boundary_estimate, stored.boundary_estimate, stored.report)
    output = max(stored.output, stored.answer_text)
    return Numbers(
        fill=stored.answer,
        counter=stored.answer + output + stored.after_answer,
        hook=stored.answer + output,
        report=stored.report,
    )


def client_estimate(part: Piece) -> int:
    """Estimate a piece's tokens as the client does: its counter is made of these.

    Source: formats 3.2 (four characters a token, rounded; a call with its tool's name);
    seen in the automatic boundaries of 2.1.45 and 2.1.329.
    """
    chars = len(part.text)
    if part.kind is PieceKind.TOOL_INPUT:
        chars += len(part.name)
    return (chars + CHARS_A_TOKEN // 2) // CHARS_A_TOKEN + part.media * MEDIA_TOKENS
