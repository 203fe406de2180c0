"""Which part of a timeline is seen, and which turn a person looks at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

LEAST_SPAN: Final = 8
"""Turns: closer to them nothing more is to be seen."""

FAR: Final = 10
"""Turns of a long step."""

ZOOM: Final = 2
"""Times as many turns, or as few, with each step."""


class Move(StrEnum):
    """How a person moves along the timeline."""

    EARLIER = "earlier"
    LATER = "later"
    FAR_EARLIER = "far_earlier"
    FAR_LATER = "far_later"
    FIRST = "first"
    NEWEST = "newest"
    ZOOM_IN = "closer"
    ZOOM_OUT = "wider"
    ZOOM_RESET = "whole"
    PREVIOUS_EVENT = "before"
    """To what happened before the turn that is looked at."""
    NEXT_EVENT = "after"


@dataclass(frozen=True, slots=True)
class Scope:
    """Places of turns, counted from 0."""

    count: int = 0
    """Turns in all."""
    span: int | None = None
    """Turns that are seen at once; None: all."""
    start: int = 0
    """The first that is seen."""
    at: int | None = None
    """The turn that is looked at; None: the newest, whichever that is."""

    @property
    def cursor(self) -> int:
        """The turn that is looked at."""
        return max(0, self.count - 1) if self.at is None else self.at

    @property
    def visible(self) -> int:
        """How many turns are seen."""
        return self.count if self.span is None else min(self.span, self.count)

    @property
    def stop(self) -> int:
        """One behind the last that is seen."""
        return self.start + self.visible

    def with_count(self, count: int) -> Scope:
        """See a longer timeline: the end stays in sight where it was looked at."""
        at = None if self.at is None or self.at >= count - 1 else self.at
        return _in_sight(replace(self, count=count, at=at))

    def moved_to(self, turn: int) -> Scope:
        """Look at a turn."""
        last = self.count - 1
        at = None if turn >= last else max(0, turn)
        return _in_sight(replace(self, at=at))

    def after_move(self, move: Move) -> Scope:
        """Move; what is no move from turn to turn by itself changes nothing here."""
        steps = {
            Move.EARLIER: -1,
            Move.LATER: 1,
            Move.FAR_EARLIER: -FAR,
            Move.FAR_LATER: FAR,
            Move.FIRST: -self.count,
            Move.NEWEST: self.count,
        }
        if move in steps:
            return self.moved_to(self.cursor + steps[move])
        if move is Move.ZOOM_IN:
            return self.zoomed(max(min(LEAST_SPAN, self.count), self.visible // ZOOM))
        if move is Move.ZOOM_OUT:
            return self.zoomed(self.visible * ZOOM)
        if move is Move.ZOOM_RESET:
            return self.zoomed(self.count)
        return self

    def zoomed(self, span: int) -> Scope:
        """See so many turns; the one that is looked at keeps its place on the screen."""
        if span >= self.count:
            return replace(self, span=None, start=0)
        share = (self.cursor - self.start) / self.visible if self.visible else 0.0
        start = round(self.cursor - share * span)
        return _in_sight(replace(self, span=span, start=start))

    def panned(self, turns: int) -> Scope:
        """See what is earlier or later; the turn that is looked at goes along at the edge."""
        start = min(max(0, self.start + turns), self.count - self.visible)
        cursor = min(max(self.cursor, start), start + self.visible - 1)
        moved = replace(self, start=start)
        return moved if cursor == self.cursor else moved.moved_to(cursor)


def _in_sight(scope: Scope) -> Scope:
    if scope.span is None or scope.span >= scope.count:
        return replace(scope, span=None, start=0)
    cursor = scope.cursor
    start = min(max(scope.start, cursor - scope.span + 1), cursor)
    return replace(scope, start=min(max(0, start), scope.count - scope.span))
