"""A context's fill as a bar: how full, at which level, and where the levels begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.levels import Level
from .formats import NOTHING, bar, fit_right, percent, tokens

if TYPE_CHECKING:
    from ..core.context import Context

SHORTEST: Final = 10
"""Cells; a shorter bar tells nothing (design: screens)."""

PERCENT_CELLS: Final = 6
"""Room for ≈, three digits and the sign."""

MARKED: Final = frozenset({Level.NOTICE, Level.WARNING})
"""The levels whose beginning is marked: what follows is near the end of the bar."""

MARK: Final = "▃"
TRIGGER: Final = "▏"
"""Where the client compacts by itself."""

_TRACK: Final = "▁"

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
    drawn = "" if context.ratio is None else bar(context.ratio, cells)
    rest = _empty(context, cells, len(drawn))
    shown = "$quiet" if context.ratio is None else style
    return Content.styled(drawn, style) + rest + Content.styled(number, shown)


def fill(context: Context) -> str:
    """Write tokens of window, with ≈ before an estimate."""
    if context.tokens is None:
        return f"{NOTHING} of {tokens(context.window.tokens)}"
    return f"{estimate_sign(context)}{tokens(context.tokens)} of {tokens(context.window.tokens)}"


def estimate_sign(context: Context) -> str:
    """Mark what is not measured."""
    return "≈" if context.state == "estimated" else ""


def _empty(context: Context, cells: int, start: int) -> Content:
    marks = {
        round(cells * line.at): (MARK, "$bar-mark")
        for line in context.lines
        if line.level.severity in MARKED
    }
    trigger = context.trigger.tokens if context.trigger else None
    if trigger:
        # In the last cell at the latest: a trigger beyond the bar is not shown nowhere.
        place = min(int(cells * trigger / context.window.tokens), cells - 1)
        marks[place] = (TRIGGER, "$bar-trigger")
    return Content("").join(
        Content.styled(*marks.get(cell, (_TRACK, "$bar-track"))) for cell in range(start, cells)
    )
