"""What a conversation grew by from one answer to the next, and what was added meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .conversation import Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .conversation import Entry, Piece


class Step(msgspec.Struct, frozen=True):
    """One answer, what came after it, and how much larger the next request was; tokens."""

    offset: int
    """Where the answer begins in its file."""
    message_id: str
    model: str
    at: int | None
    growth: int
    """Of the request's input, as the API reported it."""
    output_tokens: int
    """Of the answer; before client 2.1.97 often a placeholder of 1 to 26 (formats 2.6)."""
    answer_parts: tuple[Piece, ...]
    added_parts: tuple[Piece, ...]


class _Open(msgspec.Struct):
    """An answer whose successor is still to come."""

    first: Entry
    last: Entry
    answer: list[Piece]
    added: list[Piece]


class Steps:
    """Takes a main conversation entry by entry, in the order of its file, and finds its steps.

    No step is one over a compaction, a change of the model, a result that was taken back or an
    edit of ctxtop, and none after which the request was no larger: what changed there is not
    known.
    """

    def __init__(self) -> None:
        self._open: _Open | None = None

    @property
    def resume_offset(self) -> int | None:
        """Where to read again for the steps that are still to come; None: after what was taken."""
        return self._open.first.offset if self._open else None

    def add(self, entry: Entry) -> Step | None:
        """Take the next entry; the step that it ends, if it ends one."""
        now = self._open
        if entry.boundary is not None or entry.replaced_results or entry.microcompaction:
            self._open = None
        elif entry.hidden or entry.sidechain:
            return None
        elif entry.role is Role.ASSISTANT and entry.context_tokens:
            if now and entry.message_id == now.first.message_id:
                now.last = entry
                now.answer += entry.parts
                return None
            self._open = _Open(entry, entry, list(entry.parts), [])
            return _step(now, entry) if now else None
        elif now and entry.role is Role.USER:
            now.added += entry.parts
        return None


def steps_of(entries: Iterable[Entry]) -> list[Step]:
    """List the steps of a main conversation."""
    steps = Steps()
    return [step for step in map(steps.add, entries) if step]


def _step(now: _Open, following: Entry) -> Step | None:
    before, after = now.last.context_tokens or 0, following.context_tokens or 0
    first = now.first
    same = first.model is not None and first.model == now.last.model == following.model
    if now.last.is_estimate or following.is_estimate:
        return None
    if not same or first.message_id is None or after <= before:
        return None
    return Step(
        offset=first.offset,
        message_id=first.message_id,
        model=first.model or "",
        at=first.at,
        growth=after - before,
        output_tokens=now.last.output_tokens or 0,
        answer_parts=tuple(now.answer),
        added_parts=tuple(now.added),
    )
