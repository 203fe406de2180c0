"""A context's fill as a bar: how full, at which level, and where the levels begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.levels import Level
from .formats import NOTHING, fit_right, percent, tokens

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.context import Context
    from ..core.levels import Line

SHORTEST: Final = 10
"""Cells; a shorter bar tells nothing (design: screens)."""

PERCENT_CELLS: Final = 6
"""Room for ≈, three digits and the sign."""

MARKED: Final = frozenset({Level.NOTICE, Level.WARNING})
"""The levels whose beginning is marked: what follows is near the end of the bar."""

MARK: Final = "┊"
TRIGGER: Final = "▏"
"""Where the client compacts by itself."""

FULL: Final = "█"
EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_HALF: Final = 4
"""Eighths from which a cell counts as filled where a mark takes its place."""

_EDGE: Final = 1e-9
"""0.7 of 30 cells is 20.999999999999996: a mark stands in the cell that its level fills first."""

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
    """Draw the bar and its number; the number always stands beside the bar."""
    style = LEVEL_STYLES[context.level]
    number = fit_right(f"{estimate_sign(context)}{percent(context.ratio)}", PERCENT_CELLS)
    shown = "$quiet" if context.ratio is None else style
    return Content.assemble(*_bar(context, cells, style), (number, shown))


def fill(context: Context) -> str:
    """Write tokens of window, with ≈ before an estimate."""
    if context.tokens is None:
        return f"{NOTHING} of {tokens(context.window.tokens)}"
    return f"{estimate_sign(context)}{tokens(context.tokens)} of {tokens(context.window.tokens)}"


def estimate_sign(context: Context) -> str:
    """Mark what is not measured."""
    return "≈" if context.state == "estimated" else ""


def mark_cells(lines: Iterable[Line], cells: int) -> dict[int, Line]:
    """Say in which cells of a bar the marked levels begin."""
    return {
        int(cells * line.at + _EDGE): line
        for line in lines
        if line.level.severity in MARKED and line.at < 1
    }


def _bar(context: Context, cells: int, style: str) -> list[tuple[str, str]]:
    """Draw cell by cell; a mark is cut out of the filled part, so that it never goes under."""
    full, rest = divmod(_eighths(context.ratio, cells), 8)
    marks = _marks(context, cells)
    cut = f"$background on {style.removeprefix('bold ')}"
    drawn: list[tuple[str, str]] = []
    start = 0
    for cell in sorted(marks):
        sign, colour = marks[cell]
        drawn += _plain(start, cell, full, rest, style)
        filled = cell < full or (cell == full and rest >= _HALF)
        drawn.append((sign, cut if filled else colour))
        start = cell + 1
    return [*drawn, *_plain(start, cells, full, rest, style)]


def _plain(start: int, end: int, full: int, rest: int, style: str) -> list[tuple[str, str]]:
    """Draw the cells between two marks."""
    filled = max(0, min(full, end) - start)
    part = EIGHTHS[rest] if rest and start <= full < end else ""
    empty = end - start - filled - len(part)
    return [(FULL * filled + part, style), (" " * empty, "")]


def _eighths(ratio: float | None, cells: int) -> int:
    """Measure the filled part: what is not empty is seen, what is over fills it."""
    eighths = round(min(max(ratio or 0.0, 0.0), 1.0) * cells * 8)
    return max(eighths, 1) if ratio and ratio > 0 else eighths


def _marks(context: Context, cells: int) -> dict[int, tuple[str, str]]:
    marks: dict[int, tuple[str, str]] = {}
    for cell in mark_cells(context.thresholds, cells):
        marks[cell] = (MARK, "$bar-mark")
    trigger = context.trigger.tokens if context.trigger else None
    if trigger:
        # In the last cell at the latest: a trigger beyond the bar is not shown nowhere.
        place = min(int(cells * trigger / context.window.tokens + _EDGE), cells - 1)
        marks[place] = (TRIGGER, "$bar-trigger")
    return marks
