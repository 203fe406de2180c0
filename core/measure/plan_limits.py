"""How much of the plan's limits is used, how fast, and when a window will be full.

The client reports a window as a share of the plan that no file names the size of. Its use comes
in bursts with nights between them, so the projection samples the past, as the forecast of a
context does: from each earlier moment that was as long after the last use, how long did it take
until as much was used as is left now? Recent moments weigh most, and those of the same time of
day. `tests/bench/bench_limits.py` prints how often the interval was right.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import msgspec

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS

FIVE_HOURS: Final = "five_hour"
WEEK: Final = "seven_day"
WINDOW_LENGTHS_MS: Final = {FIVE_HOURS: 5 * HOUR_MS, WEEK: 7 * DAY_MS}
"""The windows whose length is known (reference: claude-code-formats 3.3)."""

FORGET_STALE_MS: Final = DAY_MS
"""How long after its reset a window is still shown: after that its access may have ended."""

NEAR_LIMITS: Final = {
    FIVE_HOURS: ((0.9, 0.72),),
    WEEK: ((0.75, 0.6), (0.5, 0.35), (0.25, 0.15)),
}
"""Shares used, and the shares of the window until which the client counts the limit as near then
(2.1.329: its code, and 0.95 seen before and after). The API can say so earlier, in a header that
the client keeps to itself."""

SAME_RESET_MS: Final = 5 * 60_000
"""Readings whose resets differ by less are of one window: each answer's header rounds it."""

MIN_SPAN_MS: Final = 10 * 60_000  # of history that a rate is taken from: a burst alone is none
MIN_USED: Final = 0.01  # in that history: a percent is the smallest step of older clients
BURN_SPAN_MS: Final = HOUR_MS  # newest readings that the rate is taken from
LONG_BURN_SPAN_MS: Final = DAY_MS  # for windows of several days: with the night
MAX_STARTS: Final = 400  # newest moments to sample from
HALF_LIFE_MS: Final = 3 * DAY_MS  # after which a moment counts half
DAY_PHASE_FROM_MS: Final = 36 * HOUR_MS  # of history from which the time of day is compared
PHASE_WIDTH_H: Final = 1.5  # hours by which a moment may differ and still count fully
PHASE_FLOOR: Final = 0.02  # weight of a moment at the opposite time of day

# Measured by bench_limits: standard deviations of ln(time), beside the samples' own.
MODEL_SPREAD: Final = 0.03  # of any projection
PARTS: Final = 8  # of equal length, by which a history's own changes are measured
PAST_GUESSES: Final = 24  # at moments of the history, by which this one is corrected
SHIPPED_ERRORS: Final = tuple((each, 1.7) for each in (-2.6, -1.7, -0.8, 0.0, 0.8, 1.7, 2.6))
"""Errors of guesses in units of their own spread, with weights: what a history that is too short
to replay is corrected by."""

MAX_SPREAD: Final = 2.0  # more than a factor of seven either way is no projection

_TENTH: Final = 1.2816  # deviations of a normal distribution below which a tenth lies


class LimitReading(msgspec.Struct, frozen=True):
    """What one session's client said of a window; times are ms since 1970."""

    window: str
    session_id: str
    at: int  # when this value was first said
    last_at: int  # when it was last said: the client repeats its last answer's
    used_ratio: float
    resets_at: int | None
    answered_at: int | None = None  # the session's last answer before `last_at`, if looked up
    before_at: int | None = None  # when the session last said another value

    @property
    def fresh_at(self) -> int:
        """When the API last confirmed the value, as far as it is known.

        An answer renews it, and one that changed is younger than what was said before.
        """
        known = [each for each in (self.answered_at, self.before_at) if each is not None]
        return max(known) if known else self.at


def is_near_limit(reading: LimitReading) -> bool:
    """Whether the client counted its limit as near, or as reached, when it was told of it."""
    if reading.used_ratio >= 1:
        return True
    length = WINDOW_LENGTHS_MS.get(reading.window)
    if length is None or reading.resets_at is None:
        return False
    elapsed = 1 - (reading.resets_at - reading.fresh_at) / length
    return any(
        reading.used_ratio >= used and elapsed <= until
        for used, until in NEAR_LIMITS.get(reading.window, ())
    )


class BurnRate(msgspec.Struct, frozen=True):
    ratio_per_hour: float
    span_ms: int  # of the readings that it is taken from


class Exhaustion(msgspec.Struct, frozen=True):
    """When a window is projected to be full: ms since 1970, None is not before its reset."""

    at: int | None  # the median
    low: int | None  # p10, the lower bound of the 80 % interval
    high: int | None  # p90


class PlanLimit(msgspec.Struct, frozen=True):
    """A window by its freshest reading, whichever session reported it."""

    window: str
    session_id: str
    used_ratio: float
    fresh_at: int  # when the API last confirmed it
    read_at: int  # when a client last reported it
    resets_at: int | None
    burn: BurnRate | None = None  # None with too short a history
    exhaustion: Exhaustion | None = None  # None if nothing is projected

    def is_stale(self, now_ms: int) -> bool:
        """Whether its window was reset since: then the reading says nothing about now."""
        return self.resets_at is not None and now_ms >= self.resets_at

    def is_forgotten(self, now_ms: int) -> bool:
        return is_forgotten(self.resets_at, now_ms)

    def age_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self.fresh_at)

    @property
    def starts_at(self) -> int | None:
        """When its window began; None if the window's length is not known."""
        length = WINDOW_LENGTHS_MS.get(self.window)
        return None if length is None or self.resets_at is None else self.resets_at - length


def is_forgotten(resets_at: int | None, now_ms: int) -> bool:
    """Return whether a window was reset so long ago that it may be no limit any more."""
    return resets_at is not None and now_ms - resets_at >= FORGET_STALE_MS


def measure_limits(readings: Iterable[LimitReading], now_ms: int) -> tuple[PlanLimit, ...]:
    """Measure every window that was reported: the two known ones first."""
    by_window: dict[str, list[LimitReading]] = {}
    for each in readings:
        by_window.setdefault(each.window, []).append(each)
    known = [*WINDOW_LENGTHS_MS]
    order = sorted(by_window, key=lambda name: (name not in known, name))
    return tuple(_measure_window(by_window[name], now_ms) for name in order)


def _measure_window(readings: Sequence[LimitReading], now_ms: int) -> PlanLimit:
    newest = freshest_reading(readings, now_ms)
    limit = PlanLimit(
        newest.window,
        newest.session_id,
        newest.used_ratio,
        newest.fresh_at,
        newest.last_at,
        newest.resets_at,
    )
    if limit.is_stale(now_ms):
        return limit
    use = WindowUse.of_readings(readings)
    burn = use.burn_rate(now_ms, _burn_span(newest.window))
    return msgspec.structs.replace(
        limit, burn=burn, exhaustion=_project(use, newest, now_ms) if burn else None
    )


def _burn_span(window: str) -> int:
    long = WINDOW_LENGTHS_MS.get(window, 0) >= 2 * DAY_MS
    return LONG_BURN_SPAN_MS if long else BURN_SPAN_MS


def freshest_reading(readings: Iterable[LimitReading], now_ms: int) -> LimitReading:
    """Choose among the sessions' readings: a client that idles repeats an old one.

    One whose window was reset counts only where there is no other.
    """

    def freshness(reading: LimitReading) -> tuple[bool, int, int, float]:
        resets_at = reading.resets_at
        is_open = resets_at is None or resets_at > now_ms
        return is_open, reading.fresh_at, resets_at or 0, reading.used_ratio

    return max(readings, key=freshness)


CONTEXT: Final = "context"  # what binds beside the plan's windows


class BindingLimit(msgspec.Struct, frozen=True):
    """What a session is projected to reach first."""

    what: str  # CONTEXT, or the name of a window
    at: int  # the median of its projection, ms since 1970


def find_binding(
    limits: Iterable[PlanLimit], context_minutes: float | None, now_ms: int
) -> BindingLimit | None:
    """Return what binds first: the context after so many minutes of work, or a window."""
    ends = [
        BindingLimit(each.window, each.exhaustion.at)
        for each in limits
        if each.exhaustion and each.exhaustion.at is not None and not each.is_stale(now_ms)
    ]
    if context_minutes is not None:
        ends.append(BindingLimit(CONTEXT, now_ms + round(context_minutes * 60_000)))
    return min(ends, key=lambda end: end.at, default=None)


class WindowUse(msgspec.Struct, frozen=True):
    """The use of a window over time, without its resets: a sum that only grows."""

    times: tuple[int, ...]  # ms since 1970, when more was used
    sums: tuple[float, ...]  # used by then, since the first

    @classmethod
    def of_readings(cls, readings: Iterable[LimitReading]) -> WindowUse:
        """Join the readings of all sessions.

        Within a window the use only grows: a lower value is one that another client repeats, and
        so is one whose window was reset before. If one client's own value falls, the plan changed.
        """
        times: list[int] = []
        sums: list[float] = []
        used, resets_at = 0.0, -1
        said: dict[str, float] = {}  # in this window, by session
        for reading in sorted(readings, key=lambda each: each.at):
            reset = reading.resets_at or 0
            if reset < resets_at - SAME_RESET_MS:
                continue
            if reset > resets_at + SAME_RESET_MS:
                # What a window began with before the first reading is not known.
                used = reading.used_ratio if not times else 0.0
                resets_at = reset
                said.clear()
            if reading.used_ratio < said.get(reading.session_id, 0.0):
                used = reading.used_ratio
            said[reading.session_id] = reading.used_ratio
            grown = reading.used_ratio - used
            if grown > 0 or not times:
                times.append(reading.at)
                sums.append((sums[-1] if sums else 0.0) + max(0.0, grown))
                used = max(used, reading.used_ratio)
        return cls(tuple(times), tuple(sums))

    def used_by(self, at: int) -> float:
        place = bisect_right(self.times, at) - 1
        return self.sums[place] if place >= 0 else 0.0

    def burn_rate(self, now_ms: int, span_ms: int) -> BurnRate | None:
        """Return the mean of the newest readings; None if they are too few."""
        if not self.times or now_ms - self.times[0] < MIN_SPAN_MS:
            return None
        since = max(self.times[0], now_ms - span_ms)
        used = self.used_by(now_ms) - self.used_by(since)
        return BurnRate(used / ((now_ms - since) / HOUR_MS), now_ms - since)

    def time_until(self, needed: float, now_ms: int) -> TimeLeft | None:
        """Return the time until as much more is used; None if too little is known."""
        if not self.times or now_ms - self.times[0] < MIN_SPAN_MS or self.sums[-1] < MIN_USED:
            return None
        guess = _Sampler(self, now_ms).guess(needed)
        return guess.with_errors(self._past_errors(needed)) if guess else None

    def uncertainty(self, now_ms: int) -> float:
        """Return the relative error of the mean use, by how its parts of equal length differ."""
        begin, span = self.times[0], now_ms - self.times[0]
        marks = [self.used_by(begin + span * place // PARTS) for place in range(PARTS + 1)]
        parts = [later - earlier for earlier, later in pairwise(marks)]
        mean = sum(parts) / PARTS
        variance = sum((part - mean) ** 2 for part in parts) / (PARTS - 1)
        return math.sqrt(variance / PARTS) / mean

    def _past_errors(self, needed: float) -> list[float]:
        """Guess as much at earlier moments, by what was known then; return how far off it was.

        The same share of what had been used by then is guessed: that is as hard as this guess.
        """
        share = needed / self.sums[-1]
        most = self.sums[-1] / (1 + share)  # beyond it the answer is not known yet
        errors: list[float] = []
        for number in range(1, PAST_GUESSES + 1):
            place = bisect_left(self.sums, most * number / PAST_GUESSES) - 1
            if place < 1:
                continue
            before = WindowUse(self.times[: place + 1], self.sums[: place + 1])
            now, wanted = before.times[-1], share * before.sums[-1]
            if now - before.times[0] < MIN_SPAN_MS or before.sums[-1] < MIN_USED:
                continue
            guess = _Sampler(before, now).guess(wanted)
            end = bisect_left(self.sums, before.sums[-1] + wanted)
            took = self.times[min(end, len(self.times) - 1)] - now
            if guess and took > 0:
                errors.append(guess.error(took))
        return errors


class TimeLeft(msgspec.Struct, frozen=True):
    """Milliseconds until a window is full."""

    median: float
    low: float  # p10
    high: float  # p90


class _Guess(msgspec.Struct, frozen=True):
    middle: float  # ln(ms)
    below: float  # standard deviation of ln(ms) to either side
    above: float

    def error(self, took_ms: float) -> float:
        off = math.log(took_ms) - self.middle
        return off / (self.above if off > 0 else self.below)

    def with_errors(self, errors: Sequence[float]) -> TimeLeft | None:
        """Widen or narrow the guess by the errors of earlier ones (conformal prediction)."""
        weights = [*((each, 1.0) for each in errors), *SHIPPED_ERRORS]
        weights.sort()
        low = min(0.0, _weighted_quantile(weights, 0.1)) * self.below
        high = max(0.0, _weighted_quantile(weights, 0.9)) * self.above
        if max(-low, high) > _TENTH * MAX_SPREAD:
            return None
        return TimeLeft(
            math.exp(self.middle), math.exp(self.middle + low), math.exp(self.middle + high)
        )


def _project(use: WindowUse, newest: LimitReading, now_ms: int) -> Exhaustion | None:
    left = 1.0 - newest.used_ratio
    if left <= 0:
        return Exhaustion(newest.fresh_at, newest.fresh_at, newest.fresh_at)
    times = use.time_until(left, now_ms)
    if times is None:
        return None
    end = math.inf if newest.resets_at is None else newest.resets_at - now_ms
    median, low, high = (
        None if each >= end else now_ms + round(each)
        for each in (times.median, times.low, times.high)
    )
    return Exhaustion(median, low, high)


class _Sampler:
    """Repeats a history from earlier moments on; its end is joined with its beginning."""

    def __init__(self, use: WindowUse, now_ms: int) -> None:
        self._use = use
        self._now = now_ms
        span = now_ms - use.times[0]
        # Whole days, so that a night follows an evening.
        self._lap_ms = span // DAY_MS * DAY_MS if span >= DAY_MS else span
        self._lap_from = now_ms - self._lap_ms
        self._lap_used = use.sums[-1] - use.used_by(self._lap_from)
        if self._lap_used < MIN_USED:
            self._lap_ms, self._lap_from, self._lap_used = span, use.times[0], use.sums[-1]

    def guess(self, needed: float) -> _Guess | None:
        found = sorted(
            (math.log(max(1.0, self._wait(moment, needed))), weight)
            for moment, weight in self._moments()
        )
        if not found:
            return None
        middle, low, high = (_weighted_quantile(found, share) for share in (0.5, 0.1, 0.9))
        floor = math.hypot(MODEL_SPREAD, self._use.uncertainty(self._now))
        below = math.hypot((middle - low) / _TENTH, floor)
        above = math.hypot((high - middle) / _TENTH, floor)
        return _Guess(middle, below, above)

    def _moments(self) -> list[tuple[int, float]]:
        """List earlier moments as long after a use as now, with their weights."""
        times = self._use.times
        idle = self._now - times[-1]
        ends = (*times[1:], self._now)
        alike = [time + idle for time, end in zip(times, ends, strict=True) if end - time >= idle]
        if len(alike) < 2:
            alike = [min(time + idle, end) for time, end in zip(times, ends, strict=True)]
        has_days = self._now - times[0] >= DAY_PHASE_FROM_MS
        return [(each, self._weight(each, has_days=has_days)) for each in alike[-MAX_STARTS:]]

    def _weight(self, moment: int, *, has_days: bool) -> float:
        age = self._now - moment
        recent = math.exp(-math.log(2) * age / HALF_LIFE_MS)
        if not has_days:
            return recent
        hours = age % DAY_MS / HOUR_MS
        apart = min(hours, 24 - hours) / PHASE_WIDTH_H
        return recent * max(PHASE_FLOOR, math.exp(-0.5 * apart * apart))

    def _wait(self, moment: int, needed: float) -> float:
        """Return the ms from a moment until as much more was used."""
        use = self._use
        target = use.used_by(moment) + needed
        if target <= use.sums[-1]:
            return use.times[bisect_left(use.sums, target)] - moment
        waited = float(self._now - moment)
        laps, rest = divmod(target - use.sums[-1], self._lap_used)
        place = bisect_left(use.sums, use.used_by(self._lap_from) + rest)
        end = use.times[min(place, len(use.times) - 1)]
        return waited + laps * self._lap_ms + max(0, end - self._lap_from)


def _weighted_quantile(found: Sequence[tuple[float, float]], share: float) -> float:
    left = share * sum(weight for _, weight in found)
    for value, weight in found:
        left -= weight
        if left <= 0:
            return value
    return found[-1][0]
