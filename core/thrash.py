"""Compactions that follow each other too fast, and what filled the context in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .conversation import Entry, Piece, PieceKind, Role
from .summaries.artifacts import READ
from .summaries.cues import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .conversation import Boundary

THRASH_TURNS: Final = 10
"""Answers between two compactions, below which it is thrash. The client's own breaker stops
at fewer than 3, three times in a row (anthropics/claude-code #60600, #82131), when the money
is spent; work needs its last 10 tool turns (compaction.md 1.4), so a context that does not
last so long cannot hold what the work needs."""

CHARS_PER_TOKEN: Final = 2.85
"""Measured over usage differences of recorded sessions (compaction.md 1.4); used where no
answer stands on both sides."""

MEDIA_TOKENS: Final = 1_600
"""An image (claude-code-formats 9)."""

WHAT_CHARS: Final = 80
"""Of a prompt's words that name it."""


class Culprit(msgspec.Struct, frozen=True):
    """What put the most into a context since the compaction before."""

    kind: str
    """file_read, tool_result, attachment, agent_return, prompt, meta or answer."""
    what: str
    """A file's path, a tool, an attachment's kind, or the words' beginning."""
    tokens: int
    """By the growth of the answers; estimated where none stands on both sides."""
    line: int
    """Of its largest piece, counted from 1."""


class Refill(msgspec.Struct, frozen=True):
    """What stands between a compaction and the one before it."""

    turns_since_last: int
    """Answers between the two."""
    culprit: Culprit | None
    """None where nothing was put in."""


class _Answer(msgspec.Struct):
    """One answer: its request's size, its own, and what was put in since the one before."""

    context_tokens: int | None = None
    output_tokens: int = 0
    thinking_tokens: int = 0
    pieces: list[tuple[Piece, int]] = []
    put_in: list[tuple[Piece, int]] = []


def thrash(refill: Refill | None, turns: int = THRASH_TURNS) -> Refill | None:
    """Say whether a compaction came fewer than `turns` answers after the one before.

    Whoever asked for it, the context was given up twice; that a person asked is told by the
    boundary. None where it came later, or first.
    """
    return refill if refill and refill.turns_since_last < turns else None


def find_refill(between: Iterable[Entry], boundary: Boundary) -> Refill:
    """Say what filled a context again; `between` are the entries since the last boundary.

    Each line is given once, and no agent's.
    """
    answers, last = _answers(between)
    return Refill(len(answers), _culprit(answers, last, boundary.pre_tokens))


def _culprit(
    answers: Sequence[_Answer], last: Iterable[tuple[Piece, int]], end_tokens: int | None
) -> Culprit | None:
    """Find the group of pieces that grew the context most: a file, a tool, a kind of attachment.

    Between two answers the context grows by the first one's output (without its thinking)
    and by what was put in after it; each part is shared by its pieces' lengths. What stands
    before the first answer, or after the last where the boundary does not say its size, is
    estimated from its length.
    """
    groups: dict[tuple[str, str], _Group] = {}
    before: _Answer | None = None
    closing = _Answer(context_tokens=end_tokens, put_in=list(last))
    for answer in (*answers, closing):
        own, grown = _growth(before, answer)
        if before is not None and own:
            _share(before.pieces, own, groups)
        _share(answer.put_in, grown, groups)
        before = answer
    best = max(groups.values(), key=lambda group: group.tokens, default=None)
    if best is None or round(best.tokens) <= 0:
        return None
    return Culprit(best.kind, best.what, round(best.tokens), best.line)


class _Group(msgspec.Struct):
    kind: str
    what: str
    tokens: float = 0.0
    largest: float = 0.0
    line: int = 0


def _answers(entries: Iterable[Entry]) -> tuple[list[_Answer], list[tuple[Piece, int]]]:
    """Put an answer's lines together; results between them are put in before the next one."""
    answers: dict[str, _Answer] = {}
    waiting: list[tuple[Piece, int]] = []
    for entry in entries:
        if entry.hidden:
            continue
        pieces = [(piece, entry.line) for piece in entry.parts]
        if entry.role is not Role.ASSISTANT:
            waiting += [each for each in pieces if each[0].kind is not PieceKind.SUMMARY]
            continue
        key = entry.message_id or f"line {entry.line}"
        if key not in answers:
            answers[key] = _Answer(put_in=waiting)
            waiting = []
        answer = answers[key]
        answer.pieces += pieces
        # Early lines of clients before 2.1.97 hold a placeholder.
        answer.output_tokens = max(answer.output_tokens, entry.output_tokens or 0)
        answer.thinking_tokens = max(answer.thinking_tokens, entry.thinking_tokens or 0)
        answer.context_tokens = entry.context_tokens or answer.context_tokens
    return list(answers.values()), waiting


def _growth(before: _Answer | None, answer: _Answer) -> tuple[float, float]:
    """Split the growth between two answers: the first one's own words, and what was put in."""
    if before is None or before.context_tokens is None or answer.context_tokens is None:
        return 0.0, sum(_weight(piece) for piece, _ in answer.put_in) / CHARS_PER_TOKEN
    grown = max(0, answer.context_tokens - before.context_tokens)
    own = min(grown, max(0, before.output_tokens - before.thinking_tokens))
    return float(own), float(grown - own)


def _share(
    pieces: Sequence[tuple[Piece, int]], tokens: float, groups: dict[tuple[str, str], _Group]
) -> None:
    weights = [_weight(piece) for piece, _ in pieces]
    whole = sum(weights)
    if not whole:
        return
    for (piece, line), weight in zip(pieces, weights, strict=True):
        part = tokens * weight / whole
        kind, what = _name(piece)
        group = groups.setdefault((kind, what), _Group(kind, what))
        group.tokens += part
        if part > group.largest:
            group.largest, group.line = part, line


def _weight(piece: Piece) -> float:
    if piece.kind is PieceKind.THINKING:
        return 0.0
    return len(piece.text) + piece.media * MEDIA_TOKENS * CHARS_PER_TOKEN


def _name(piece: Piece) -> tuple[str, str]:
    named = " ".join(each for each in (piece.name, piece.path) if each)
    if piece.kind is PieceKind.TOOL_RESULT:
        is_file = piece.name in READ and piece.path
        return ("file_read", piece.path or "") if is_file else ("tool_result", named or "a tool")
    if piece.kind in {PieceKind.TEXT, PieceKind.TOOL_INPUT}:
        return "answer", named or "the model's words"
    if piece.kind is PieceKind.ATTACHMENT:
        return "attachment", named
    if piece.kind is PieceKind.AGENT_RETURN:
        return "agent_return", piece.name or "a task's end"
    return piece.kind.value, piece.name or quote(piece.text, WHAT_CHARS)
