"""A timeline as lines of text: the visible part, and the picture of the context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Final

from textual.content import Content

from ...core.measure.timeline import (
    EVENT_PRIORITY,
    Timeline,
    TimelineCompaction,
    TimelineEvent,
    TimelineEventKind,
    bucket_turns,
)
from ...core.model.levels import Level, PlacedThreshold, reached_level
from ..text.formats import (
    fit_left,
    fit_right,
    month_day_time,
    percent,
    time_of_day,
    tokens,
    tokens_after,
    tokens_before,
)
from ..text.gauge import LEVEL_STYLES

MIN_SPAN: Final = 8  # turns: zooming in further would show nothing more
LONG_STEP: Final = 10  # turns
ZOOM_FACTOR: Final = 2


class TimelineMove(StrEnum):
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
    NEXT_EVENT = "after"


_STEPS: Final = {
    TimelineMove.EARLIER: -1,
    TimelineMove.LATER: 1,
    TimelineMove.FAR_EARLIER: -LONG_STEP,
    TimelineMove.FAR_LATER: LONG_STEP,
}  # turns


@dataclass(frozen=True, slots=True)
class TimelineViewport:
    """The visible part of a timeline; turns are counted from 0."""

    count: int = 0  # turns in all
    span: int | None = None  # turns that are visible at once; None: all
    start: int = 0  # the first visible turn
    at: int | None = None  # the turn under the cursor; None: the newest, whichever that is

    @property
    def cursor(self) -> int:
        return max(0, self.count - 1) if self.at is None else self.at

    @property
    def visible(self) -> int:
        return self.count if self.span is None else min(self.span, self.count)

    @property
    def stop(self) -> int:
        """One more than the last visible turn."""
        return self.start + self.visible

    def with_count(self, count: int) -> TimelineViewport:
        """Return the viewport of a longer timeline; a cursor on the newest turn stays there."""
        at = None if self.at is None or self.at >= count - 1 else self.at
        return _with_cursor_visible(replace(self, count=count, at=at))

    def moved_to(self, turn: int) -> TimelineViewport:
        at = None if turn >= self.count - 1 else max(0, turn)
        return _with_cursor_visible(replace(self, at=at))

    def after_move(self, move: TimelineMove) -> TimelineViewport:
        """Move by turns or zoom; moves to events change nothing here."""
        if move in _STEPS:
            return self.moved_to(self.cursor + _STEPS[move])
        if move is TimelineMove.FIRST:
            return self.moved_to(-self.count)
        if move is TimelineMove.NEWEST:
            return self.moved_to(self.count)
        if move is TimelineMove.ZOOM_IN:
            return self.zoomed(max(min(MIN_SPAN, self.count), self.visible // ZOOM_FACTOR))
        if move is TimelineMove.ZOOM_OUT:
            return self.zoomed(self.visible * ZOOM_FACTOR)
        return self.zoomed(self.count) if move is TimelineMove.ZOOM_RESET else self

    def zoomed(self, span: int) -> TimelineViewport:
        """Show `span` turns; the cursor keeps its place on the screen."""
        if span >= self.count:
            return replace(self, span=None, start=0)
        share = (self.cursor - self.start) / self.visible if self.visible else 0.0
        start = round(self.cursor - share * span)
        return _with_cursor_visible(replace(self, span=span, start=start))

    def panned(self, turns: int) -> TimelineViewport:
        """Show earlier or later turns; the cursor stays within the visible ones."""
        start = min(max(0, self.start + turns), self.count - self.visible)
        cursor = min(max(self.cursor, start), start + self.visible - 1)
        moved = replace(self, start=start)
        return moved if cursor == self.cursor else moved.moved_to(cursor)


def _with_cursor_visible(viewport: TimelineViewport) -> TimelineViewport:
    if viewport.span is None or viewport.span >= viewport.count:
        return replace(viewport, span=None, start=0)
    start = min(max(viewport.start, viewport.cursor - viewport.span + 1), viewport.cursor)
    return replace(viewport, start=min(max(0, start), viewport.count - viewport.span))


TOKEN_LABEL_CELLS: Final = 7  # of the tokens at the left: five, the sign of an estimate, a space
NAME_LABEL_CELLS: Final = 9  # of the names at the right
TOKEN_LABELS_MIN_WIDTH: Final = 72  # cells below which there are no tokens at the left
COMPACTION_LANE_MIN_HEIGHT: Final = 7  # lines from which compactions have a line of their own
MARK_LANE_MIN_HEIGHT: Final = 4  # lines from which events have a line of their own
ALL_LEVELS_MIN_HEIGHT: Final = 10  # lines of the area from which every level has its line
CLOSE_UP_RATIO: Final = 0.25  # of the window; a smaller context is drawn against less than that
CACHE_MISS_SIGN: Final = "¢"
MARK_SIGNS: Final = {
    TimelineEventKind.STARTED: ("●", "$accent"),
    TimelineEventKind.RETURNED: ("✓", "$level-calm"),
    TimelineEventKind.FAILED: ("✗", "$level-emergency"),
    TimelineEventKind.WARNING: ("▲", "$level-warning"),
    TimelineEventKind.REFUSAL: ("!", "bold $level-emergency"),
    TimelineEventKind.MODEL: ("◇", "$secondary"),
    TimelineEventKind.CLEARED: ("◌", "$accent"),
    TimelineEventKind.CACHE_MISS: (CACHE_MISS_SIGN, "$level-notice"),
}
MARK_MEANINGS: Final = {
    TimelineEventKind.STARTED: "an agent started",
    TimelineEventKind.RETURNED: "an agent returned",
    TimelineEventKind.FAILED: "an agent failed or was noncompliant",
    TimelineEventKind.WARNING: "a warning",
    TimelineEventKind.REFUSAL: "the API refused the prompt",
    TimelineEventKind.MODEL: "the model changed",
    TimelineEventKind.CLEARED: "Claude Code cleared old tool results",
    TimelineEventKind.CACHE_MISS: "the prompt cache was written again",
}

COMPACTION_SIGN: Final = "↻"
CURSOR_SIGN: Final = "◆"

DIMMED: Final = " 55%"  # the area below its edge is darker, so that the eye follows the edge
EDGE_EIGHTHS: Final = 8  # of a cell
_EIGHTHS: Final = " ▁▂▃▄▅▆▇█"
_ROUND_STEPS: Final = (1, 2, 2.5, 4, 5, 8, 10)
_LABELED: Final = (Level.WARNING, Level.NOTICE)
_BAND: Final = " on $block-cursor-background"

Cell = tuple[str, str]  # a character of one cell, and its style


@dataclass(frozen=True, slots=True)
class TurnAxis:
    left: int  # cells before the area
    width: int  # of the area
    start: int
    visible: int

    def cells_of(self, turn: int) -> range:
        """Return the cells of the area that show a turn, none if it is not visible."""
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
        """Return the turn that a cell of the whole line shows, or the nearest one."""
        inside = min(max(cell - self.left, 0), max(0, self.width - 1))
        return self.start + inside * self.visible // max(1, self.width)


def turn_axis(viewport: TimelineViewport, width: int) -> TurnAxis:
    left = TOKEN_LABEL_CELLS if width >= TOKEN_LABELS_MIN_WIDTH else 0
    return TurnAxis(left, max(1, width - left - NAME_LABEL_CELLS), viewport.start, viewport.visible)


def timeline_lines(
    timeline: Timeline, viewport: TimelineViewport, width: int, height: int
) -> list[Content]:
    """Draw the visible part in `height` lines of exactly `width` cells."""
    if not timeline.turns or height < 1:
        return [Content(" " * width)] * max(0, height)
    return [_join_cells(line) for line in _Picture(timeline, viewport, width, height).lines()]


def scale_top(timeline: Timeline) -> int:
    """Return the tokens at the top of the picture: the window, or less of it."""
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


_BLANK: Final[Cell] = (" ", "")


class _Picture:
    def __init__(
        self, timeline: Timeline, viewport: TimelineViewport, width: int, height: int
    ) -> None:
        self._timeline = timeline
        self._viewport = viewport
        self._axis = turn_axis(viewport, width)
        self._width = width
        self._has_cut_lane = height >= COMPACTION_LANE_MIN_HEIGHT
        self._has_mark_lane = height >= MARK_LANE_MIN_HEIGHT
        self._has_time_lane = height > 1
        self._rows = height - self._has_time_lane - self._has_cut_lane - self._has_mark_lane
        self._top = scale_top(timeline)
        self._buckets = bucket_turns(timeline, viewport.start, viewport.stop, self._axis.width)
        self._cursor_cells = self._axis.cells_of(viewport.cursor)
        self._cuts: dict[int, list[TimelineCompaction]] = {}  # compactions by cell
        for cut in timeline.compactions:
            cells = self._axis.cells_of(cut.turns_before)
            if cells or cut.turns_before == viewport.stop:
                cell = cells.start if cells else self._axis.width - 1
                self._cuts.setdefault(cell, []).append(cut)

    def lines(self) -> Iterator[list[Cell]]:
        if self._has_cut_lane:
            yield self._framed(self._cut_lane())
        labels = self._labels()
        for row in range(self._rows):
            yield self._area(row, *labels.get(row, ("", "", "", "")))
        if self._has_mark_lane:
            yield self._framed(self._mark_lane())
        if self._has_time_lane:
            yield self._framed(self._time_lane())

    # The area.

    def _row_of(self, size: float) -> int:
        """Return the row in which a size ends, counted from the top."""
        inside = min(max(size, 0), self._top) / self._top * self._rows
        return max(0, self._rows - 1 - int(inside - 1e-9))

    def _labels(self) -> dict[int, tuple[str, str, str, str]]:
        """Map rows to tokens, name, line character and style; a later label replaces another."""
        timeline, window = self._timeline, self._timeline.window
        name = "window" if self._top >= window else f"of {tokens(window)}"
        labels = {self._rows - 1: ("0", "", "", "$quiet")}
        labels[0] = (tokens(self._top), name, "", "$quiet")
        is_high = self._rows >= ALL_LEVELS_MIN_HEIGHT
        trigger = timeline.trigger if (timeline.trigger or 0) <= self._top else None
        trigger_row = self._row_of(trigger) if trigger else None
        for threshold in self._shown_thresholds():
            size = threshold.at * window
            row = self._row_of(size)
            if row == trigger_row and is_high:
                # Next to the trigger's line, above or below it as the size is.
                row += 1 if size < (trigger or 0) else -1
            if row or self._rows < MARK_LANE_MIN_HEIGHT:
                style = LEVEL_STYLES[threshold.level]
                share = size / (timeline.limit or window)
                labels[row] = (tokens(round(size)), percent(share), "┄", style)
        if trigger:
            labels[self._row_of(trigger)] = (tokens(trigger), "compacts", "─", "$bar-trigger")
        if self._viewport.stop == self._viewport.count:
            newest = timeline.turns[-1]
            row = self._row_of(newest.tokens)
            # A line's own name has priority; then a row nearby is used.
            near = (row, row + 1, row - 1, row + 2, row + 3)
            free = next((each for each in near if each not in labels and each < self._rows), None)
            if free is not None:
                level = reached_level(newest.tokens / window, timeline.thresholds)
                size_text = f"◂{'≈' if newest.is_estimate else ''}{tokens(newest.tokens)}"
                labels[free] = ("", size_text, "", f"bold {LEVEL_STYLES[level]}")
        return labels

    def _shown_thresholds(self) -> Iterator[PlacedThreshold]:
        """Yield the thresholds that have a line, the most important ones last."""
        timeline = self._timeline
        visible = [each for each in timeline.thresholds if each.at * timeline.window <= self._top]
        if self._rows >= ALL_LEVELS_MIN_HEIGHT:
            yield from (each for each in visible if each.level not in _LABELED)
        for level in reversed(_LABELED):
            yield from (each for each in visible if each.level is level)

    def _area(self, row: int, size: str, name: str, line: str, style: str) -> list[Cell]:
        rows_below = self._rows - 1 - row
        unit = self._top / (self._rows * 8)
        middle = (rows_below + 0.5) / self._rows * self._top / self._timeline.window
        fill = LEVEL_STYLES[reached_level(middle, self._timeline.thresholds)]
        dimmed = f"{fill.removeprefix('bold ')}{DIMMED}"
        cells: list[Cell] = []
        for cell, bucket in enumerate(self._buckets):
            eighths = (max(1, round(bucket.peak / unit)) if bucket.peak else 0) - rows_below * 8
            if eighths > 0:
                is_edge = eighths <= EDGE_EIGHTHS
                cells.append((_EIGHTHS[min(8, eighths)], fill if is_edge else dimmed))
            elif cell in self._cuts:
                cells.append(("┊", "$bar-mark"))
            else:
                cells.append((line, style) if line else _BLANK)
        name_style = style if line or name.startswith("◂") else "$quiet"
        return self._framed(cells, (size, "$quiet"), (name, name_style))

    # The lanes above and below it.

    def _cut_lane(self) -> list[Cell]:
        lane = [_BLANK] * self._axis.width
        last_used = -1
        ends = [*list(self._cuts)[1:], len(lane)]
        for (cell, cuts), end in zip(self._cuts.items(), ends, strict=False):
            text = _sizes_text(cuts)
            start = cell + 1
            if start + len(text) > end and cell - len(text) > last_used:
                start = cell - len(text)
            if start + len(text) <= end and start > last_used:
                _write_at(lane, start, text, "$quiet")
                last_used = start + len(text) - 1
            lane[cell] = (COMPACTION_SIGN, "bold $accent")
            last_used = max(last_used, cell)
        return lane

    def _mark_lane(self) -> list[Cell]:
        lane = [_BLANK] * self._axis.width
        for cell in () if self._has_cut_lane else self._cuts:
            lane[cell] = (COMPACTION_SIGN, "bold $accent")
        for cell, mark in _place_marks(self._timeline.events, self._axis).items():
            sign, style = MARK_SIGNS[mark.kind]
            lane[cell] = (sign, LEVEL_STYLES[mark.level] if mark.level else style)
        return lane

    def _time_lane(self) -> list[Cell]:
        width, turns, viewport = self._axis.width, self._timeline.turns, self._viewport
        first, last = turns[viewport.start].at, turns[viewport.stop - 1].at
        is_one_day = (
            first
            and last
            and month_day_time(first)[:5] == month_day_time(last)[:5]
            and time_of_day(first) <= time_of_day(last)
        )
        write = time_of_day if is_one_day else month_day_time
        lane = [_BLANK] * width
        if self._cursor_cells:
            cell = self._cursor_cells[len(self._cursor_cells) // 2]
            text = write(turns[viewport.cursor].at)
            start = cell + 2 if cell + 2 + len(text) <= width else cell - 1 - len(text)
            _write_at(lane, start, text, "$foreground")
            lane[cell] = (CURSOR_SIGN, "bold $accent")
        for start, text in ((0, write(first)), (width - len(write(last)), write(last))):
            # The cursor's time may be there already.
            near = lane[max(0, start - 2) : start + len(text) + 2]
            if all(character == " " for character, _ in near):
                _write_at(lane, start, text, "$quiet")
        return lane

    def _framed(
        self, cells: Sequence[Cell], left: Cell = ("", ""), right: Cell = ("", "")
    ) -> list[Cell]:
        """Add labels at both sides, and the band of the cursor."""
        banded = list(cells)
        for cell in self._cursor_cells:
            character, style = cells[cell]
            banded[cell] = (character, f"{style or '$foreground'}{_BAND}")
        room = self._width - self._axis.left - self._axis.width
        before = fit_right(left[0], self._axis.left - 1) + " " if self._axis.left else ""
        after = fit_left(f" {right[0]}", max(0, room))
        return [
            *((each, left[1]) for each in before),
            *banded,
            *((each, right[1]) for each in after),
        ]


def _sizes_text(cuts: Sequence[TimelineCompaction]) -> str:
    times = f"{len(cuts)}× " if len(cuts) > 1 else ""
    return f" {times}{tokens_before(cuts[0])} → {tokens_after(cuts[-1])} "


def _place_marks(marks: Sequence[TimelineEvent], axis: TurnAxis) -> dict[int, TimelineEvent]:
    """Map cells to events: side by side if the turn has room, else only the most urgent."""
    placed: dict[int, TimelineEvent] = {}
    priority = EVENT_PRIORITY.index
    for turn, group in groupby(marks, key=lambda mark: mark.turn):
        cells, same_turn = axis.cells_of(turn), list(group)
        step = 1 if len(cells) >= len(same_turn) else 0
        for number, mark in enumerate(same_turn if cells else ()):
            cell = cells.start + number * step
            if cell not in placed or priority(placed[cell].kind) < priority(mark.kind):
                placed[cell] = mark
    return placed


def _write_at(cells: list[Cell], begin: int, text: str, style: str) -> None:
    for offset, character in enumerate(text):
        if 0 <= begin + offset < len(cells):
            cells[begin + offset] = (character, style)


def _join_cells(cells: Sequence[Cell]) -> Content:
    runs = groupby(cells, key=lambda cell: cell[1])
    return Content.assemble(
        *(("".join(character for character, _ in run), style) for style, run in runs)
    )
