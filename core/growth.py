"""What a conversation grew by from one answer to the next, and what was added meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .conversation import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .conversation import Entry, Piece


class Step(msgspec.Struct, frozen=True):
    """One answer, what came after it, and how much larger the next request was; tokens."""

    offset: int
    """Where the answer begins in its file."""
    next_offset: int
    """Where the next answer begins."""
    message_id: str
    model: str
    at: int | None
    growth: int
    """Of the request's input, as the API reported it."""
    output_tokens: int
    """Of the answer; before client 2.1.97 often a placeholder of 1 to 26 (formats 2.6)."""
    answer: tuple[Piece, ...]
    added: tuple[Piece, ...]


class _Open(msgspec.Struct):
    """An answer whose successor is still to come."""

    first: Entry
    last: Entry
    answer: list[Piece]
    added: list[Piece]


def steps_of(entries: Iterable[Entry]) -> Iterator[Step]:
    """Give the steps of a main conversation, in the order of its file.

    Left out is a step over a compaction, a change of the model or a result that was taken
    back, and one after which the request was no larger: what changed there is not known.
    """
    now: _Open | None = None
    for entry in entries:
        if entry.boundary is not None or entry.replaced:
            now = None
        elif entry.hidden or entry.sidechain:
            continue
        elif entry.role is Role.ASSISTANT and entry.context_tokens:
            if now and entry.message_id == now.first.message_id:
                now.last = entry
                now.answer += entry.pieces
                continue
            step = _step(now, entry) if now else None
            if step:
                yield step
            now = _Open(entry, entry, list(entry.pieces), [])
        elif now and entry.role is Role.USER:
            now.added += entry.pieces


def _step(now: _Open, following: Entry) -> Step | None:
    before, after = now.last.context_tokens or 0, following.context_tokens or 0
    first = now.first
    same = first.model is not None and first.model == now.last.model == following.model
    if not same or first.message_id is None or after <= before:
        return None
    return Step(
        offset=first.offset,
        next_offset=following.offset,
        message_id=first.message_id,
        model=first.model or "",
        at=first.at,
        growth=after - before,
        output_tokens=now.last.output_tokens or 0,
        answer=tuple(now.answer),
        added=tuple(now.added),
    )
