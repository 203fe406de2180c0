"""A context as a bar with its levels, and numbers as blocks: a sparkline, a memory save's meter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from textual.content import Content

from ...core.model.levels import Level, PlacedThreshold
from .formats import fit_right, half_cell_bar, used_percent

if TYPE_CHECKING:
    from ...core.model.context import Context


MIN_GAUGE_CELLS: Final = 10  # a shorter bar is not readable (design: screens)
PERCENT_CELLS: Final = 6  # room for ≈, three digits and the sign
MARKED_LEVELS: Final = frozenset({Level.NOTICE, Level.WARNING})  # the others begin near the end

LEVEL_MARK: Final = "┊"
TRIGGER_MARK: Final = "▏"  # where the client auto-compacts
FULL_CELL: Final = "█"
EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_HALF_CELL_EIGHTHS: Final = 4  # from which a cell with a mark counts as filled
_ROUNDING_ERROR: Final = 1e-9  # 0.7 of 30 cells is 20.999…: a mark is in the cell that fills first

QUIET_BAR_STYLE: Final = "$bar-mark"

LEVEL_STYLES: Final = {
    None: "$level-calm",
    Level.NOTICE: "$level-notice",
    Level.WARNING: "$level-warning",
    Level.LIGHT: "$level-warning",
    Level.MEDIUM: "$level-high",
    Level.HIGH: "$level-high",
    Level.AGGRESSIVE: "$level-emergency",
    Level.EMERGENCY: "$level-emergency",
    Level.OVERFLOW: "bold $level-emergency",
}


def gauge(context: Context, cells: int) -> Content:
    style = LEVEL_STYLES[context.level]
    number = fit_right(used_percent(context), PERCENT_CELLS)
    number_style = "$quiet" if context.limit_ratio is None else style
    bar = _gauge_bar(context, cells, style, trigger_style="$bar-trigger")
    return Content.assemble(*bar, (number, number_style))


def quiet_gauge(context: Context, cells: int) -> Content:
    """Draw the bar of a session that has ended: dim, whatever its fill."""
    number = fit_right(used_percent(context), PERCENT_CELLS)
    bar = _gauge_bar(context, cells, QUIET_BAR_STYLE, trigger_style=QUIET_BAR_STYLE)
    return Content.assemble(*bar, (number, "$quiet"))


def limit_thresholds(context: Context) -> tuple[PlacedThreshold, ...]:
    """Return where a context's thresholds begin, as shares of what the bar is full at."""
    return tuple(
        replace(each, at=context.of_limit(each.at), slack=0.0) for each in context.thresholds
    )


def mark_cells(
    lines: Iterable[PlacedThreshold], cells: int, scale: float = 1.0
) -> dict[int, PlacedThreshold]:
    """Map cells of a bar to the marked levels that begin in them.

    `scale` makes shares of the bar of theirs.
    """
    return {
        int(cells * line.at * scale + _ROUNDING_ERROR): line
        for line in lines
        if line.level.severity in MARKED_LEVELS and line.at * scale < 1
    }


def _gauge_bar(
    context: Context, cells: int, style: str, trigger_style: str
) -> list[tuple[str, str]]:
    full, rest = divmod(_eighths(context.limit_ratio, cells), 8)
    marks = _marks(context, cells, trigger_style)
    cut = f"$background on {style.removeprefix('bold ')}"
    drawn: list[tuple[str, str]] = []
    start = 0
    for cell in sorted(marks):
        sign, color = marks[cell]
        drawn += _unmarked_cells(start, cell, full, rest, style)
        filled = cell < full or (cell == full and rest >= _HALF_CELL_EIGHTHS)
        drawn.append((sign, cut if filled else color))
        start = cell + 1
    return [*drawn, *_unmarked_cells(start, cells, full, rest, style)]


def _unmarked_cells(
    start: int, end: int, full: int, rest: int, style: str
) -> list[tuple[str, str]]:
    filled = max(0, min(full, end) - start)
    part = EIGHTHS[rest] if rest and start <= full < end else ""
    empty = end - start - filled - len(part)
    return [(FULL_CELL * filled + part, style), (" " * empty, "")]


def _eighths(ratio: float | None, cells: int) -> int:
    """Return the filled eighths of a cell: at least one if not empty, at most all."""
    eighths = round(min(max(ratio or 0.0, 0.0), 1.0) * cells * 8)
    return max(eighths, 1) if ratio and ratio > 0 else eighths


def _marks(context: Context, cells: int, trigger_style: str) -> dict[int, tuple[str, str]]:
    marks: dict[int, tuple[str, str]] = {}
    for cell in mark_cells(context.thresholds, cells, context.of_limit(1.0)):
        marks[cell] = (LEVEL_MARK, "$bar-mark")
    trigger = context.trigger_tokens
    if trigger:
        # A trigger beyond the bar is shown in its last cell.
        place = min(int(cells * trigger / context.limit_tokens + _ROUNDING_ERROR), cells - 1)
        marks[place] = (TRIGGER_MARK, trigger_style)
    return marks


METER_SCALE: Final = 2.0  # the end of the meter is this many times the expected maximum
_TRACK: Final = "▁"


def noise_meter(value: int, maximum: int | None, cells: int) -> Content:
    """Draw a number against its expected maximum; without one only the track."""
    if not maximum:
        return Content.styled(_TRACK * cells, "$bar-track")
    ratio = value / maximum
    if ratio <= 1:
        style = "$level-calm"
    else:
        style = "$level-high" if ratio <= METER_SCALE else "$level-emergency"
    bar, mark = half_cell_bar(ratio / METER_SCALE, cells), int(cells / METER_SCALE)
    rest = (
        (TRIGGER_MARK, "$bar-trigger") if cell == mark else (_TRACK, "$bar-track")
        for cell in range(len(bar), cells)
    )
    return Content.assemble((bar, style), *rest)
