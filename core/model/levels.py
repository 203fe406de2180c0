"""The levels of a context: where each begins, and when its warning is issued and repeated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace


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
        """The level without the words for how hard to compress (003-15): its color."""
        return _SEVERITIES.get(self, self)


_SEVERITIES: Final = {
    Level.LIGHT: Level.WARNING,
    Level.MEDIUM: Level.HIGH,
    Level.AGGRESSIVE: Level.EMERGENCY,
}
_RANKS: Final = {level: rank for rank, level in enumerate(Level)}


class ThresholdOp(StrEnum):
    """Whether a level begins at its threshold or above it (requirements 2.1, T-22)."""

    AT_LEAST = ">="
    ABOVE = ">"


class ThresholdBase(StrEnum):
    WINDOW = "window"
    TRIGGER = "trigger"  # where the client compacts automatically
    TOKENS = "tokens"  # nothing: it is a number of tokens


class Threshold(msgspec.Struct, frozen=True):
    """Where a level begins in any window, as a policy sets it."""

    at: float  # share of its base, or tokens
    level: Level
    action: str  # a word of the policy
    op: ThresholdOp = ThresholdOp.AT_LEAST
    of: ThresholdBase = ThresholdBase.WINDOW

    @property
    def name(self) -> str:
        """An identifier that is the same for every window and policy."""
        sign = "" if self.op is ThresholdOp.AT_LEAST else self.op.value
        return f"{sign}{self.at:.12g}" + ("" if self.of is ThresholdBase.WINDOW else f"@{self.of}")


class PlacedThreshold(msgspec.Struct, frozen=True):
    at: float  # share of the window
    level: Level
    name: str  # the threshold's
    op: ThresholdOp = ThresholdOp.AT_LEAST
    slack: float = 0.0  # share of the window that is no whole token: 0.25 of 74,999.25

    @property
    def of(self) -> ThresholdBase:
        return ThresholdBase(self.name.partition("@")[2] or ThresholdBase.WINDOW)

    @property
    def limit_share(self) -> float | None:
        """Where it begins as the policy says it: a share of the policy's limit; None if it is none.

        The limit is the window, unless the policy sets another one.
        """
        if self.of is not ThresholdBase.WINDOW:
            return None
        return float(self.name.removeprefix(ThresholdOp.ABOVE.value))

    def is_reached(self, ratio: float) -> bool:
        """Return whether a share of the window is at the threshold, or above it by `op`.

        It is at the threshold from the last whole token on: `int(limit * share)` (001-25).
        """
        return ratio > self.at if self.op is ThresholdOp.ABOVE else ratio >= self.at - self.slack


DEFAULT_THRESHOLDS: Final = (
    Threshold(0.70, Level.NOTICE, "reassure"),
    Threshold(0.80, Level.WARNING, "suggest"),
    Threshold(0.85, Level.HIGH, "offer_compact"),
    Threshold(0.95, Level.EMERGENCY, "alert"),
    Threshold(1.00, Level.OVERFLOW, "recover"),
)
"""Requirements 2.2, T-22, T-23."""


class RearmRule(msgspec.Struct, frozen=True):
    """When a warning may be repeated (requirements 2.1, T-09)."""

    on_compaction: bool = True
    hysteresis: float | None = 0.05  # how far the ratio must fall below; None: a fall is not enough
    cooldown_ms: int | None = None  # repeat after this time, also while it is active; 0: always

    @property
    def is_once(self) -> bool:
        """Neither a compaction nor a fall re-arms."""
        return not self.on_compaction and self.hysteresis is None


_TOLERANCE: Final = 1e-9  # 0.70 - 0.05 is 0.6499…: ratios this close are the same


def place_thresholds(
    thresholds: Iterable[Threshold], window: int, trigger: int | None, limit: int | None = None
) -> tuple[PlacedThreshold, ...]:
    """Place thresholds in a window, the lowest first; all sizes in tokens.

    `limit` is the policy's size of the window. Thresholds of an unknown trigger are left out.
    """
    bases = {
        ThresholdBase.WINDOW: limit or window,
        ThresholdBase.TRIGGER: trigger,
        ThresholdBase.TOKENS: 1,
    }
    placed = []
    for threshold in thresholds:
        base = bases[threshold.of]
        if base is not None:
            at = threshold.at if base == window else threshold.at * base / window
            slack = _slack(threshold.at * base) / window
            placed.append(PlacedThreshold(at, threshold.level, threshold.name, threshold.op, slack))
    return tuple(sorted(placed, key=lambda each: (each.at, _RANKS[each.level])))


_WHOLE_TOKEN: Final = 1e-6  # a size this close to a whole number is one: 0.7 * 1,000,000


def _slack(tokens: float) -> float:
    """Return the part of a size that is no whole token, with room for rounding."""
    part = tokens - int(tokens + _WHOLE_TOKEN)
    return part + _WHOLE_TOKEN if part > _WHOLE_TOKEN else 0.0


DEFAULT_PLACED_THRESHOLDS: Final = place_thresholds(DEFAULT_THRESHOLDS, 100, None)
"""They have the same shares in every window."""


class FillPoint(msgspec.Struct, frozen=True):
    at: int | None  # milliseconds since 1970 (UTC)
    ratio: float | None  # share of the window; None if unknown
    compacted: bool = False
    tokens: int | None = None
    mark: str = ""  # the answer's or boundary's own id, which survives a rewrite of the file
    path: str = ""  # below projects/
    offset: int = 0  # in bytes


class LevelWarning(msgspec.Struct, frozen=True):
    placed_threshold: PlacedThreshold
    point: FillPoint
    cleared_by: FillPoint | None = None

    @property
    def level(self) -> Level:
        return self.placed_threshold.level

    @property
    def threshold(self) -> float:
        """Where the level begins, as a share of the window that was known then."""
        return self.placed_threshold.at

    @property
    def ratio(self) -> float:
        return self.point.ratio or 0.0

    @property
    def limit_ratio(self) -> float:
        """The used part of the policy's limit; may exceed 1."""
        limit = self.limit_tokens
        return self.ratio if limit is None else (self.point.tokens or 0) / limit

    @property
    def limit_tokens(self) -> int | None:
        """The policy's limit, of which the threshold is a share; None if that is the window."""
        share = self.placed_threshold.limit_share
        if share is None or not self.ratio or self.point.tokens is None:
            return None
        window = self.point.tokens / self.ratio
        limit = round(self.threshold / share * window)
        return None if abs(limit - window) < 1 else limit

    @property
    def at(self) -> int | None:
        """Milliseconds since 1970 (UTC)."""
        return self.point.at

    @property
    def cleared_at(self) -> int | None:
        """Milliseconds since 1970 (UTC); None while it is active."""
        return self.cleared_by.at if self.cleared_by else None


def reached_level(
    ratio: float | None, thresholds: Iterable[PlacedThreshold] = DEFAULT_PLACED_THRESHOLDS
) -> Level | None:
    """Return the most urgent level whose threshold `ratio` (0..1 and above) has reached."""
    if ratio is None:
        return None
    reached = [each.level for each in thresholds if each.is_reached(ratio)]
    return max(reached, key=_RANKS.__getitem__) if reached else None


def warning_urgency(warning: LevelWarning) -> tuple[int, float]:
    """Sort key: the most urgent level last, then the highest threshold."""
    return (_RANKS[warning.level], warning.threshold)


def find_warnings(
    points: Iterable[FillPoint],
    thresholds: Sequence[PlacedThreshold] = DEFAULT_PLACED_THRESHOLDS,
    rearm: RearmRule = RearmRule(),  # noqa: B008 -- frozen
    earlier: Iterable[LevelWarning] = (),
) -> list[LevelWarning]:
    """Replay a context's fill: each level warns once, and again when it was re-armed.

    `earlier` warnings come from the points before these, their thresholds as shares of the
    present window; the result begins with them, cleared if these points ended them. A threshold
    that is higher than the one that warned by more than the hysteresis (the window turned out
    larger) warns again when it is reached; a lower one does not. Points can be split anywhere
    without a change of the result.
    """
    replay = _WarningReplay(thresholds, rearm, earlier)
    for point in points:
        replay.add(point)
    return replay.warnings


class _WarningReplay:
    """The latches of one context's thresholds (requirements 2.2.3, threshold)."""

    def __init__(
        self,
        thresholds: Sequence[PlacedThreshold],
        rearm: RearmRule,
        earlier: Iterable[LevelWarning],
    ) -> None:
        self.warnings = list(earlier)
        self._thresholds: Final = thresholds
        self._rearm: Final = rearm
        self._active = [n for n, each in enumerate(self.warnings) if each.cleared_by is None]
        self._last: Final = {each.placed_threshold.name: each for each in self.warnings}
        self._lowest: Final = min((each.at for each in thresholds), default=math.inf)

    def add(self, point: FillPoint) -> None:
        if not self._active and (point.ratio is None or point.ratio < self._lowest):
            return
        ended = [n for n in self._active if self._ends(point, self.warnings[n].placed_threshold)]
        for n in ended:
            self.warnings[n] = replace(self.warnings[n], cleared_by=point)
            self._active.remove(n)
        if point.ratio is None:
            return
        for threshold in self._thresholds:
            if threshold.is_reached(point.ratio) and self._may_warn(threshold, point):
                warning = LevelWarning(threshold, point)
                self._active.append(len(self.warnings))
                self.warnings.append(warning)
                self._last[threshold.name] = warning

    def _ends(self, point: FillPoint, threshold: PlacedThreshold) -> bool:
        rearm = self._rearm
        if point.compacted and (rearm.on_compaction or rearm.is_once):
            return True
        if point.ratio is None:
            return False
        if rearm.hysteresis is not None:
            return point.ratio <= threshold.at - rearm.hysteresis + _TOLERANCE
        return rearm.is_once and not threshold.is_reached(point.ratio)

    def _may_warn(self, threshold: PlacedThreshold, point: FillPoint) -> bool:
        last = self._last.get(threshold.name)
        if last is None or self._has_cooled_down(last, point):
            return True
        active = [
            placed
            for n in self._active
            if (placed := self.warnings[n].placed_threshold).name == threshold.name
        ]
        if not active:
            return not self._rearm.is_once
        margin = (self._rearm.hysteresis or 0.0) + _TOLERANCE
        return all(each.at < threshold.at - margin for each in active)

    def _has_cooled_down(self, last: LevelWarning, point: FillPoint) -> bool:
        cooldown = self._rearm.cooldown_ms
        if cooldown is None or point.at is None or last.at is None:
            return False
        return point.at - last.at >= cooldown
