"""When a context is full enough to say so, and when to say it again."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


class Level(StrEnum):
    """How urgent a context's fill is."""

    NOTICE = "notice"
    WARNING = "warning"
    HIGH = "high"
    EMERGENCY = "emergency"
    OVERFLOW = "overflow"


THRESHOLDS: Final[tuple[tuple[Level, float], ...]] = (
    (Level.NOTICE, 0.70),
    (Level.WARNING, 0.80),
    (Level.HIGH, 0.85),
    (Level.EMERGENCY, 0.95),
    (Level.OVERFLOW, 1.00),
)
"""Ratio of the window at which a level begins, inclusive (requirements 2.2, T-23)."""

HYSTERESIS: Final = 0.05
"""How far below its threshold a ratio falls before the level may be said again."""

_ROUNDING: Final = 1e-9
"""0.70 - 0.05 is 0.6499…: ratios this close are the same."""


class Point(msgspec.Struct, frozen=True):
    """A context's fill at one moment; a compaction starts the count anew."""

    at: int | None
    """Milliseconds since 1970 (UTC)."""
    ratio: float | None
    """Of the window; None where it is not known."""
    compacted: bool = False


class LevelWarning(msgspec.Struct, frozen=True):
    """A level that was reached, and when it ended."""

    level: Level
    threshold: float
    ratio: float
    at: int | None
    cleared_at: int | None = None


def level_of(ratio: float | None) -> Level | None:
    """Name the highest level whose threshold `ratio` (0..1 and above) has reached."""
    if ratio is None:
        return None
    reached = [level for level, threshold in THRESHOLDS if ratio >= threshold]
    return reached[-1] if reached else None


def find_warnings(points: Iterable[Point]) -> list[LevelWarning]:
    """Replay a context's fill: each level once, again after a compaction or a fall of 5 points.

    Pure, so that the same facts give the same warnings after a restart.
    """
    said: list[LevelWarning] = []
    standing: dict[Level, int] = {}
    for point in points:
        for level, threshold in THRESHOLDS:
            if level in standing and _ends(point, threshold):
                index = standing.pop(level)
                said[index] = _cleared(said[index], point.at)
            if point.ratio is not None and point.ratio >= threshold and level not in standing:
                standing[level] = len(said)
                said.append(LevelWarning(level, threshold, point.ratio, point.at))
    return said


def _ends(point: Point, threshold: float) -> bool:
    if point.compacted:
        return True
    return point.ratio is not None and point.ratio <= threshold - HYSTERESIS + _ROUNDING


def _cleared(warning: LevelWarning, at: int | None) -> LevelWarning:
    return LevelWarning(warning.level, warning.threshold, warning.ratio, warning.at, at)
