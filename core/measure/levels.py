"""The levels of a context: where each begins, and when a warning is given and given again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec


class Level(StrEnum):
    """How urgent a context's fill is, in rising order."""

    NOTICE = "notice"
    WARNING = "warning"
    LIGHT = "light"
    MEDIUM = "medium"
    HIGH = "high"
    AGGRESSIVE = "aggressive"
    EMERGENCY = "emergency"
    OVERFLOW = "overflow"

    @property
    def severity(self) -> Level:
        """The same without the words for how hard to compress (003-15): what a colour shows."""
        return _SEVERITIES.get(self, self)


_SEVERITIES: Final = {
    Level.LIGHT: Level.WARNING,
    Level.MEDIUM: Level.HIGH,
    Level.AGGRESSIVE: Level.EMERGENCY,
}

_LEVEL_RANKS: Final = {level: place for place, level in enumerate(Level)}


class ThresholdOp(StrEnum):
    """Whether a level begins at its threshold or above it (requirements 2.1, T-22)."""

    AT_LEAST = ">="
    ABOVE = ">"


class ThresholdBase(StrEnum):
    """What a threshold is a part of."""

    WINDOW = "window"
    TRIGGER = "trigger"  # where the client compacts by itself
    TOKENS = "tokens"  # nothing: it is a number of tokens


class Threshold(msgspec.Struct, frozen=True):
    """Where a level begins, as a policy says it: for every window."""

    at: float  # ratio of its base; of `Base.TOKENS` the number itself
    level: Level
    action: str  # what it is good for: a word of the policy
    op: ThresholdOp = ThresholdOp.AT_LEAST
    of: ThresholdBase = ThresholdBase.WINDOW

    @property
    def name(self) -> str:
        """Identifier among the thresholds, the same for every window and policy."""
        sign = "" if self.op is ThresholdOp.AT_LEAST else self.op.value
        return f"{sign}{self.at:.12g}" + ("" if self.of is ThresholdBase.WINDOW else f"@{self.of}")


class PlacedThreshold(msgspec.Struct, frozen=True):
    """A threshold in one window."""

    at: float  # ratio of the window
    level: Level
    name: str  # the threshold's
    op: ThresholdOp = ThresholdOp.AT_LEAST

    @property
    def of(self) -> ThresholdBase:
        """What its threshold is a part of."""
        return ThresholdBase(self.name.partition("@")[2] or ThresholdBase.WINDOW)

    def is_reached(self, ratio: float) -> bool:
        """Whether a ratio of the window is at the threshold, or above it if `op` says so."""
        return ratio > self.at if self.op is ThresholdOp.ABOVE else ratio >= self.at


DEFAULT_THRESHOLDS: Final = (
    Threshold(0.70, Level.NOTICE, "reassure"),
    Threshold(0.80, Level.WARNING, "suggest"),
    Threshold(0.85, Level.HIGH, "offer_compact"),
    Threshold(0.95, Level.EMERGENCY, "alert"),
    Threshold(1.00, Level.OVERFLOW, "recover"),
)
"""The built-in ones (requirements 2.2, T-22, T-23)."""


class RearmRule(msgspec.Struct, frozen=True):
    """When a level may be said again (requirements 2.1, T-09)."""

    on_compaction: bool = True
    hysteresis: float | None = 0.05
    """How far below its line a ratio falls; None: a fall re-arms nothing."""
    cooldown_ms: int | None = None
    """Said again this long after it was said, also while it stands; 0: with every answer."""

    @property
    def is_once(self) -> bool:
        """Neither a compaction nor a fall re-arms."""
        return not self.on_compaction and self.hysteresis is None


DEFAULT_REARM: Final = RearmRule()

_TOLERANCE: Final = 1e-9  # 0.70 - 0.05 is 0.6499…: ratios this close are the same


def place_thresholds(
    thresholds: Iterable[Threshold], window: int, trigger: int | None, limit: int | None = None
) -> tuple[PlacedThreshold, ...]:
    """Find where thresholds lie in a window, the lowest first; all sizes in tokens.

    `limit` is what a policy takes for the window; a threshold of a trigger that is not known
    has no line.
    """
    lines = []
    for threshold in thresholds:
        at = _window_ratio(threshold, window, trigger, limit or window)
        if at is not None:
            lines.append(PlacedThreshold(at, threshold.level, threshold.name, threshold.op))
    return tuple(sorted(lines, key=lambda line: (line.at, _LEVEL_RANKS[line.level])))


def _window_ratio(
    threshold: Threshold, window: int, trigger: int | None, limit: int
) -> float | None:
    if threshold.of is ThresholdBase.TOKENS:
        return threshold.at / window
    base = limit if threshold.of is ThresholdBase.WINDOW else trigger
    if base is None or base == window:
        return None if base is None else threshold.at
    return threshold.at * base / window


DEFAULT_PLACED_THRESHOLDS: Final = tuple(
    PlacedThreshold(each.at, each.level, each.name, each.op) for each in DEFAULT_THRESHOLDS
)
"""Of the built-in thresholds, which lie at the same ratios in every window."""


class FillPoint(msgspec.Struct, frozen=True):
    """A context's fill at one moment; a compaction starts the count anew."""

    at: int | None  # milliseconds since 1970 (UTC)
    ratio: float | None  # of the window; None where it is not known
    compacted: bool = False
    tokens: int | None = None
    mark: str = ""
    """The answer's or the boundary's own id, which stays when its file is written anew."""
    path: str = ""
    offset: int = 0  # the fact: its file below projects/, and the byte where it stands


class LevelWarning(msgspec.Struct, frozen=True):
    """A level that was reached, and when it ended."""

    placed_threshold: PlacedThreshold
    point: FillPoint
    cleared_by: FillPoint | None = None

    @property
    def level(self) -> Level:
        """How urgent."""
        return self.placed_threshold.level

    @property
    def threshold(self) -> float:
        """Where the level begins, as a ratio of the window that was known then."""
        return self.placed_threshold.at

    @property
    def ratio(self) -> float:
        """What was in use, as a ratio of the same window."""
        return self.point.ratio or 0.0

    @property
    def at(self) -> int | None:
        """Milliseconds since 1970 (UTC)."""
        return self.point.at

    @property
    def cleared_at(self) -> int | None:
        """Milliseconds since 1970 (UTC); None while it stands."""
        return self.cleared_by.at if self.cleared_by else None


def reached_level(
    ratio: float | None, thresholds: Iterable[PlacedThreshold] = DEFAULT_PLACED_THRESHOLDS
) -> Level | None:
    """Name the most urgent level whose line `ratio` (0..1 and above) has reached."""
    if ratio is None:
        return None
    reached = [line.level for line in thresholds if line.is_reached(ratio)]
    return max(reached, key=_LEVEL_RANKS.__getitem__) if reached else None


def warning_urgency(warning: LevelWarning) -> tuple[int, float]:
    """Sort key: the most urgent level last, then the highest line."""
    return (_LEVEL_RANKS[warning.level], warning.threshold)


def find_warnings(
    points: Iterable[FillPoint],
    thresholds: Sequence[PlacedThreshold] = DEFAULT_PLACED_THRESHOLDS,
    rearm: RearmRule = DEFAULT_REARM,
    earlier: Iterable[LevelWarning] = (),
) -> list[LevelWarning]:
    """Replay a context's fill: each level once, and again when it was re-armed.

    `said` was found in the points before these, its lines as ratios of the present window;
    the list begins with it, cleared where these points ended it. A line that lies higher by
    more than the hysteresis than where it was said (the window turned out larger) is said
    again when it is reached there; one that lies lower is not. Pure: the same facts, cut
    anywhere, give the same warnings.
    """
    replay = _WarningReplay(thresholds, rearm, earlier)
    for point in points:
        replay.take(point)
    return replay.found


class _WarningReplay:
    """The latches of one context's lines (requirements 2.2.3, threshold)."""

    def __init__(
        self, lines: Sequence[PlacedThreshold], rearm: RearmRule, said: Iterable[LevelWarning]
    ) -> None:
        self.found = list(said)
        self._lines: Final = lines
        self._rearm: Final = rearm
        self._margin: Final = rearm.hysteresis or 0.0
        self._standing = [n for n, each in enumerate(self.found) if each.cleared_by is None]
        self._last: Final = {each.placed_threshold.name: each for each in self.found}
        self._lowest: Final = min((line.at for line in lines), default=math.inf)

    def take(self, point: FillPoint) -> None:
        if not self._standing and (point.ratio is None or point.ratio < self._lowest):
            return
        ended = [n for n in self._standing if self._ends(point, self.found[n].placed_threshold)]
        for n in ended:
            self.found[n] = msgspec.structs.replace(self.found[n], cleared_by=point)
            self._standing.remove(n)
        if point.ratio is None:
            return
        for line in self._lines:
            if line.is_reached(point.ratio) and self._may_warn(line, point):
                warning = LevelWarning(line, point)
                self._standing.append(len(self.found))
                self.found.append(warning)
                self._last[line.name] = warning

    def _ends(self, point: FillPoint, line: PlacedThreshold) -> bool:
        rearm = self._rearm
        if point.compacted and (rearm.on_compaction or rearm.is_once):
            return True
        if point.ratio is None:
            return False
        if rearm.hysteresis is not None:
            return point.ratio <= line.at - rearm.hysteresis + _TOLERANCE
        return rearm.is_once and not line.is_reached(point.ratio)

    def _may_warn(self, line: PlacedThreshold, point: FillPoint) -> bool:
        last = self._last.get(line.name)
        if last is None or self._has_cooled_down(last, point):
            return True
        stands = [
            self.found[n].placed_threshold
            for n in self._standing
            if self.found[n].placed_threshold.name == line.name
        ]
        if not stands:
            return not self._rearm.is_once
        return all(each.at < line.at - self._margin - _TOLERANCE for each in stands)

    def _has_cooled_down(self, last: LevelWarning, point: FillPoint) -> bool:
        cooldown = self._rearm.cooldown_ms
        if cooldown is None or point.at is None or last.at is None:
            return False
        return point.at - last.at >= cooldown
