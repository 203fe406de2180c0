"""A timeline as lines of text: which part of it is seen, and the picture of the context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Final

from textual.content import Content

from ...core.measure.levels import Level, reached_level
from ...core.measure.timeline import (
    EVENT_PRIORITY,
    Timeline,
    TimelineCompaction,
    TimelineEvent,
    TimelineEventKind,
    bucket_turns,
)
from ..text.formats import (
    fit_left,
    fit_right,
    month_day_time,
    percent,
    time_of_day,
    tokens,
    tokens_after,
)
from ..text.gauge import LEVEL_STYLES

MIN_SPAN: Final = 8  # turns: closer to them nothing more is to be seen
LONG_STEP: Final = 10  # turns of a long step
ZOOM_FACTOR: Final = 2  # times as many turns, or as few, with each step


class TimelineMove(StrEnum):
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
    PREVIOUS_EVENT = "before"  # to what happened before the turn that is looked at
    NEXT_EVENT = "after"


@dataclass(frozen=True, slots=True)
class TimelineViewport:
    """Places of turns, counted from 0."""

    count: int = 0  # turns in all
    span: int | None = None  # turns that are seen at once; None: all
    start: int = 0  # the first that is seen
    at: int | None = None  # the turn that is looked at; None: the newest, whichever that is

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

    def with_count(self, count: int) -> TimelineViewport:
        """See a longer timeline: the end stays in sight where it was looked at."""
        at = None if self.at is None or self.at >= count - 1 else self.at
        return _with_cursor_in_sight(replace(self, count=count, at=at))

    def moved_to(self, turn: int) -> TimelineViewport:
        """Look at a turn."""
        last = self.count - 1
        at = None if turn >= last else max(0, turn)
        return _with_cursor_in_sight(replace(self, at=at))

    def after_move(self, move: TimelineMove) -> TimelineViewport:
        """Move; what is no move from turn to turn by itself changes nothing here."""
        steps = {
            TimelineMove.EARLIER: -1,
            TimelineMove.LATER: 1,
            TimelineMove.FAR_EARLIER: -LONG_STEP,
            TimelineMove.FAR_LATER: LONG_STEP,
            TimelineMove.FIRST: -self.count,
            TimelineMove.NEWEST: self.count,
        }
        if move in steps:
            return self.moved_to(self.cursor + steps[move])
        if move is TimelineMove.ZOOM_IN:
            return self.zoomed(max(min(MIN_SPAN, self.count), self.visible // ZOOM_FACTOR))
        if move is TimelineMove.ZOOM_OUT:
            return self.zoomed(self.visible * ZOOM_FACTOR)
        if move is TimelineMove.ZOOM_RESET:
            return self.zoomed(self.count)
        return self

    def zoomed(self, span: int) -> TimelineViewport:
        """See so many turns; the one that is looked at keeps its place on the screen."""
        if span >= self.count:
            return replace(self, span=None, start=0)
        share = (self.cursor - self.start) / self.visible if self.visible else 0.0
        start = round(self.cursor - share * span)
        return _with_cursor_in_sight(replace(self, span=span, start=start))

    def panned(self, turns: int) -> TimelineViewport:
        """See what is earlier or later; the turn that is looked at goes along at the edge."""
        start = min(max(0, self.start + turns), self.count - self.visible)
        cursor = min(max(self.cursor, start), start + self.visible - 1)
        moved = replace(self, start=start)
        return moved if cursor == self.cursor else moved.moved_to(cursor)


def _with_cursor_in_sight(scope: TimelineViewport) -> TimelineViewport:
    if scope.span is None or scope.span >= scope.count:
        return replace(scope, span=None, start=0)
    cursor = scope.cursor
    start = min(max(scope.start, cursor - scope.span + 1), cursor)
    return replace(scope, start=min(max(0, start), scope.count - scope.span))


TOKEN_LABEL_CELLS: Final = 7
"""For the tokens at the lines: five, the sign before an estimate, and a space."""

NAME_LABEL_CELLS: Final = 9  # for the names of the lines
TOKEN_LABELS_MIN_WIDTH: Final = 72
"""Cells below which the tokens at the left give way to the picture."""

COMPACTION_LANE_MIN_HEIGHT: Final = 7  # lines from which compactions have one of their own
MARK_LANE_MIN_HEIGHT: Final = 4  # lines from which what happened has one of its own
ALL_LEVELS_MIN_HEIGHT: Final = 10  # lines of the area from which every level has its line
CLOSE_UP_RATIO: Final = 0.25
"""Of the window: a context that was never so full is drawn against less than the window."""

MARK_SIGNS: Final = {
    TimelineEventKind.STARTED: ("●", "$accent"),
    TimelineEventKind.RETURNED: ("✓", "$level-calm"),
    TimelineEventKind.FAILED: ("✗", "$level-emergency"),
    TimelineEventKind.WARNING: ("▲", "$level-warning"),
    TimelineEventKind.REFUSAL: ("!", "bold $level-emergency"),
    TimelineEventKind.MODEL: ("◇", "$secondary"),
    TimelineEventKind.CLEARED: ("◌", "$accent"),
}
MARK_MEANINGS: Final = {
    TimelineEventKind.STARTED: "an agent started",
    TimelineEventKind.RETURNED: "an agent returned",
    TimelineEventKind.FAILED: "an agent failed, or did not compress its result",
    TimelineEventKind.WARNING: "a level was reached",
    TimelineEventKind.REFUSAL: "the API refused the prompt",
    TimelineEventKind.MODEL: "another model answers",
    TimelineEventKind.CLEARED: "the client cleared old tool results",
}
"""What the signs below a timeline mean."""

COMPACTION_SIGN: Final = "↻"
CURSOR_SIGN: Final = "◆"

DIMMED: Final = " 55%"
"""Below its edge the area is darker, so that the edge is what the eye follows."""

EDGE_EIGHTHS: Final = 8  # eighths of a cell that are the edge
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_ROUND_STEPS: Final = (1, 2, 2.5, 4, 5, 8, 10)
_LABELLED: Final = (Level.WARNING, Level.NOTICE)
_BAND: Final = " on $block-cursor-background"

Cell = tuple[str, str]  # a character of one cell, and its style


@dataclass(frozen=True, slots=True)
class TurnAxis:
    """Where turns stand on a line of the picture."""

    left: int  # cells before the area
    width: int  # of the area
    start: int
    visible: int

    def cells_of(self, turn: int) -> range:
        """Name the cells of the area that show a turn; empty where it is not in sight."""
        place = turn - self.start
        if not 0 <= place < self.visible:
            return range(0)
        first = -(-place * self.width // self.visible)
        last = -(-(place + 1) * self.width // self.visible)
        if first < last:
            return range(first, last)
        shared = min(place * self.width // self.visible, self.width - 1)
        return range(shared, shared + 1)

    def turn_at(self, cell: int) -> int:
        """Name the turn that a cell of the whole line shows, the nearest where none does."""
        inside = min(max(cell - self.left, 0), max(0, self.width - 1))
        return self.start + inside * self.visible // max(1, self.width)


def turn_axis(scope: TimelineViewport, width: int) -> TurnAxis:
    """Lay out a line of `width` cells."""
    left = TOKEN_LABEL_CELLS if width >= TOKEN_LABELS_MIN_WIDTH else 0
    return TurnAxis(left, max(1, width - left - NAME_LABEL_CELLS), scope.start, scope.visible)


def timeline_lines(
    timeline: Timeline, scope: TimelineViewport, width: int, height: int
) -> list[Content]:
    """Draw what a scope shows in so many lines of so many cells, each filled to its end."""
    if not timeline.turns or height < 1:
        return [Content(" " * width)] * max(0, height)
    return [_join_cells(line) for line in _Picture(timeline, scope, width, height).lines()]


def scale_top(timeline: Timeline) -> int:
    """Choose what the picture's top stands for, in tokens: the window, or less of it."""
    peak = max(turn.tokens for turn in timeline.turns)
    if peak > timeline.window:
        return peak
    if peak >= timeline.window * CLOSE_UP_RATIO:
        return timeline.window
    unit = 1000
    while True:
        for step in _ROUND_STEPS:
            if unit * step >= peak * 1.2:
                return min(int(unit * step), timeline.window)
        unit *= 10


class _Picture:
    def __init__(
        self, timeline: Timeline, scope: TimelineViewport, width: int, height: int
    ) -> None:
        self._timeline = timeline
        self._scope = scope
        self._across = turn_axis(scope, width)
        self._width = width
        self._with_cuts = height >= COMPACTION_LANE_MIN_HEIGHT
        self._with_marks = height >= MARK_LANE_MIN_HEIGHT
        self._with_axis = height > 1
        self._rows = height - self._with_axis - self._with_cuts - self._with_marks
        self._top = scale_top(timeline)
        self._buckets = bucket_turns(timeline, scope.start, scope.stop, self._across.width)
        self._band = set(self._across.cells_of(scope.cursor))
        self._cuts = [
            (cells.start if cells else self._across.width - 1, cut)
            for cut in timeline.compactions
            if (cells := self._across.cells_of(cut.turns_before)) or cut.turns_before == scope.stop
        ]

    def lines(self) -> Iterator[list[Cell]]:
        if self._with_cuts:
            yield self._framed(self._cut_lane())
        names = self._names()
        for row in range(self._rows):
            yield self._area(row, *names.get(row, ("", "", "", "")))
        if self._with_marks:
            yield self._framed(self._mark_lane())
        if self._with_axis:
            yield self._framed(self._axis())

    # The area.

    def _row_of(self, size: float) -> int:
        """Name the row, counted from the top, in which a size ends."""
        inside = min(max(size, 0), self._top) / self._top * self._rows
        return max(0, self._rows - 1 - int(inside - 1e-9))

    def _names(self) -> dict[int, tuple[str, str, str, str]]:
        """Map rows to their labels: tokens, name, line character and style."""
        timeline = self._timeline
        found: dict[int, tuple[str, str, str, str]] = {}
        found[self._rows - 1] = ("0", "", "", "$quiet")
        whole = "window" if self._top >= timeline.window else f"of {tokens(timeline.window)}"
        found[0] = (tokens(self._top), whole, "", "$quiet")
        lines = [line for line in timeline.thresholds if line.at * timeline.window <= self._top]
        shown = [
            *(
                line
                for line in lines
                if self._rows >= ALL_LEVELS_MIN_HEIGHT and line.level not in _LABELLED
            ),
            *(line for level in reversed(_LABELLED) for line in lines if line.level is level),
        ]
        trigger = timeline.trigger if (timeline.trigger or 0) <= self._top else None
        taken = self._row_of(trigger) if trigger else None
        for line in shown:
            size = line.at * timeline.window
            row = self._row_of(size)
            if row == taken and self._rows >= ALL_LEVELS_MIN_HEIGHT:
                # Beside the trigger's line, on the side where it lies.
                row += 1 if size < (trigger or 0) else -1
            if row or self._rows < MARK_LANE_MIN_HEIGHT:
                found[row] = (tokens(round(size)), percent(line.at), "┄", LEVEL_STYLES[line.level])
        if trigger:
            found[self._row_of(trigger)] = (tokens(trigger), "compacts", "─", "$bar-trigger")
        if self._scope.stop == self._scope.count:
            newest = timeline.turns[-1].tokens
            row = self._row_of(newest)
            sign = "≈" if timeline.turns[-1].is_estimate else ""
            level = reached_level(newest / timeline.window, timeline.thresholds)
            # A line's name goes before it; then the nearest place below, or above, is near enough.
            near = (row, row + 1, row - 1, row + 2, row + 3)
            free = next((each for each in near if each not in found and each < self._rows), None)
            if free is not None:
                found[free] = ("", f"◂{sign}{tokens(newest)}", "", f"bold {LEVEL_STYLES[level]}")
        return found

    def _area(self, row: int, size: str, name: str, line: str, style: str) -> list[Cell]:
        below = self._rows - 1 - row
        unit = self._top / (self._rows * 8)
        middle = (below + 0.5) / self._rows * self._top / self._timeline.window
        fill = LEVEL_STYLES[reached_level(middle, self._timeline.thresholds)]
        edges = {place for place, _ in self._cuts}
        cells: list[Cell] = []
        for place, bucket in enumerate(self._buckets):
            eighths = _eighths(bucket.peak, unit) - below * 8
            if eighths > 0:
                inside = (
                    fill if eighths <= EDGE_EIGHTHS else f"{fill.removeprefix('bold ')}{DIMMED}"
                )
                cells.append((_EIGHTHS[min(8, eighths)], inside))
            elif place in edges:
                cells.append(("┊", "$bar-mark"))
            else:
                cells.append((line or " ", style if line else ""))
        named = style if line or name.startswith("◂") else "$quiet"
        return self._framed(cells, (size, "$quiet"), (name, named))

    # What stands above and below it.

    def _cut_lane(self) -> list[Cell]:
        cells: list[Cell] = [(" ", "")] * self._across.width
        taken = -1
        shared = [(place, [*each]) for place, each in groupby(self._cuts, key=lambda one: one[0])]
        for number, (place, cuts) in enumerate(shared):
            end = shared[number + 1][0] if number + 1 < len(shared) else len(cells)
            said = _sizes_text([cut for _, cut in cuts])
            begin = place + 1
            if begin + len(said) > end and place - len(said) > taken:
                begin = place - len(said)
            if begin + len(said) <= end and begin > taken:
                for offset, character in enumerate(said):
                    cells[begin + offset] = (character, "$quiet")
                taken = begin + len(said) - 1
            cells[place] = (COMPACTION_SIGN, "bold $accent")
            taken = max(taken, place)
        return cells

    def _mark_lane(self) -> list[Cell]:
        cells: list[Cell] = [(" ", "")] * self._across.width
        for place, _ in self._cuts:
            cells[place] = (" ", "") if self._with_cuts else (COMPACTION_SIGN, "bold $accent")
        for place, mark in _place_marks(self._timeline.events, self._across).items():
            cells[place] = _mark_cell(mark)
        return cells

    def _axis(self) -> list[Cell]:
        width, turns, scope = self._across.width, self._timeline.turns, self._scope
        first, last = turns[scope.start].at, turns[scope.stop - 1].at
        write = (
            time_of_day
            if first and last and time_of_day(first) <= time_of_day(last)
            else month_day_time
        )
        if first and last and month_day_time(first)[:5] != month_day_time(last)[:5]:
            write = month_day_time
        cells: list[Cell] = [(" ", "")] * width
        band = sorted(self._band)
        if band:
            place, said = band[len(band) // 2], write(turns[scope.cursor].at)
            begin = place + 2 if place + 2 + len(said) <= width else place - 1 - len(said)
            _write_at(cells, begin, said, "$foreground")
            cells[place] = (CURSOR_SIGN, "bold $accent")
        for begin, said in ((0, write(first)), (width - len(write(last)), write(last))):
            # What the cursor says stands there already.
            near = cells[max(0, begin - 2) : begin + len(said) + 2]
            if all(character == " " for character, _ in near):
                _write_at(cells, begin, said, "$quiet")
        return cells

    def _framed(
        self, cells: Sequence[Cell], left: Cell = ("", ""), right: Cell = ("", "")
    ) -> list[Cell]:
        banded = [
            (character, f"{style or '$foreground'}{_BAND}" if place in self._band else style)
            for place, (character, style) in enumerate(cells)
        ]
        room = self._width - self._across.left - self._across.width
        before = fit_right(left[0], self._across.left - 1) + " " if self._across.left else ""
        return [
            *((character, left[1]) for character in before),
            *banded,
            *((character, right[1]) for character in fit_left(f" {right[0]}", max(0, room))),
        ]


def _eighths(size: int, unit: float) -> int:
    """Count the eighths of a cell that a size fills; what is there is seen."""
    return max(1, round(size / unit)) if size else 0


def _sizes_text(cuts: Sequence[TimelineCompaction]) -> str:
    before, last = tokens(cuts[0].pre_tokens), cuts[-1]
    after = tokens_after(last.next_tokens, last.next_estimate)
    times = f"{len(cuts)}× " if len(cuts) > 1 else ""
    return f" {times}{before} → {after} "


def _place_marks(marks: Sequence[TimelineEvent], along: TurnAxis) -> dict[int, TimelineEvent]:
    """Map cells to marks: side by side if the turn has room, else only the most urgent."""
    placed: dict[int, TimelineEvent] = {}
    for turn, here in groupby(marks, key=lambda mark: mark.turn):
        cells, listed = along.cells_of(turn), list(here)
        wide = len(cells) >= len(listed)
        for number, mark in enumerate(listed if cells else ()):
            cell = cells.start + number * wide
            before = placed.get(cell)
            if before is None or EVENT_PRIORITY.index(before.kind) < EVENT_PRIORITY.index(
                mark.kind
            ):
                placed[cell] = mark
    return placed


def _mark_cell(mark: TimelineEvent) -> Cell:
    sign, style = MARK_SIGNS[mark.kind]
    return (sign, LEVEL_STYLES[mark.level]) if mark.level else (sign, style)


def _write_at(cells: list[Cell], begin: int, text: str, style: str) -> None:
    for offset, character in enumerate(text):
        if 0 <= begin + offset < len(cells):
            cells[begin + offset] = (character, style)


def _join_cells(cells: Sequence[Cell]) -> Content:
    runs = groupby(cells, key=lambda cell: cell[1])
    return Content.assemble(
        *(("".join(character for character, _ in run), style) for style, run in runs)
    )


__all__ = [
    "TurnAxis",
    "scale_top",
    "timeline_lines",
    "turn_axis",
]
