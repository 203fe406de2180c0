"""How far earlier forecasts were off, and how that corrects the next one.

A guess is compared with what earlier guesses of the same distance came to (conformal
prediction): the logarithm of turns taken over turns guessed, in units of the root of the
guess's own spread. Its quantiles around that distance are the interval to show, so that the
interval holds as often as it says on sessions that grow as those it was measured on.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

QUANTILES: Final = (0.5, 0.8, 0.1, 0.9)
"""Of the cases that are over by each bound, in the order of `Interval`'s fields."""

DISTANCES: Final = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Guessed turns at which the errors are looked at; between two of them it is interpolated."""

KERNEL_WIDTH: Final = 0.35
"""Standard deviation of ln(turns) within which a case counts at a distance, half the way to the
next: with more, far forecasts of the recorded sessions, which err less, get near ones' errors."""

MIN_SPREAD: Final = 0.15
"""Of a guess, in ln(turns): sources that agree are still not the turns to come."""

SHIPPED_WEIGHT: Final = 5  # sessions of this machine that count as much as what is shipped
_NORMAL_80: Final = 2.5631
"""Standard deviations between the first and the last tenth of a normal distribution."""

_HALF_TURN: Final = 0.5
"""Turns are whole: the share within a rounded bound includes the whole turn at it. Half a turn
inwards makes the share that is meant."""


class TurnGuess(msgspec.Struct, frozen=True):
    """Turns until a size is reached, before any calibration."""

    turns: float  # the middle of what the sources say, at least 1
    spread: float  # standard deviation of ln(turns) among the sources


class PastGuess(msgspec.Struct, frozen=True):
    """A guess that was made for a moment of the past, and what came."""

    guess: TurnGuess
    took: int  # turns that it took
    weight: float = 1.0  # moments that this one stands for


class ForecastCalibration(msgspec.Struct, frozen=True):
    """Quantiles of the error at each of DISTANCES, in the order of SHARES."""

    errors: tuple[tuple[float, float, float, float], ...]

    def bounds(self, guess: TurnGuess) -> tuple[int, int, int, int]:
        """Correct a guess: whole turns in the order of SHARES, low <= p50 <= p80 <= high."""
        unit = _error_unit(guess)
        p50, p80, low, high = (
            guess.turns * math.exp(error * unit) for error in self._errors_at(guess.turns)
        )
        middle = _whole_turns(p50)
        over = max(middle, _whole_turns(p80 - _HALF_TURN))
        return (
            middle,
            over,
            min(middle, _whole_turns(low + _HALF_TURN)),
            max(over, _whole_turns(high - _HALF_TURN)),
        )

    def _errors_at(self, turns: float) -> Sequence[float]:
        after = bisect_right(DISTANCES, turns)
        if after == 0:
            return self.errors[0]
        if after == len(DISTANCES):
            return self.errors[-1]
        nearer, farther = DISTANCES[after - 1], DISTANCES[after]
        share = math.log(turns / nearer) / math.log(farther / nearer)
        return _blend(self.errors[after - 1], self.errors[after], share)


def measure_errors(sessions: Sequence[Sequence[PastGuess]]) -> ForecastCalibration | None:
    """Measure the errors of these sessions' guesses; None where there are none."""
    misses = [miss for session in sessions for miss in session]
    if not misses:
        return None
    cases = sorted(
        (
            math.log(miss.took / miss.guess.turns) / _error_unit(miss.guess),
            math.log(miss.guess.turns),
            miss.weight,
        )
        for miss in misses
    )
    return ForecastCalibration(tuple(_quantiles_at(distance, cases) for distance in DISTANCES))


def blend_calibration(
    sessions: Sequence[Sequence[PastGuess]], shipped: ForecastCalibration
) -> ForecastCalibration:
    """Measure this machine's sessions; the fewer they are, the more counts what is shipped."""
    told = [session for session in sessions if session]
    own = measure_errors(told)
    if own is None:
        return shipped
    share = len(told) / (len(told) + SHIPPED_WEIGHT)
    return ForecastCalibration(
        tuple(_blend(*both, share) for both in zip(shipped.errors, own.errors, strict=True))
    )


def _quantiles_at(
    distance: float, cases: Sequence[tuple[float, float, float]]
) -> tuple[float, float, float, float]:
    place = math.log(distance)
    sums = list(
        accumulate(
            weight * math.exp(-(((turns - place) / KERNEL_WIDTH) ** 2) / 2)
            for _, turns, weight in cases
        )
    )
    if sums[-1] <= 0:
        # So far from every case that no weight is left: all of them together say more.
        sums = list(accumulate(weight for _, _, weight in cases))
    p50, p80, low, high = (
        cases[min(bisect_right(sums, share * sums[-1]), len(cases) - 1)][0] for share in QUANTILES
    )
    return p50, p80, low, high


def _error_unit(guess: TurnGuess) -> float:
    return math.sqrt(max(MIN_SPREAD, guess.spread))


def log_spread(low: float, high: float) -> float:
    """Standard deviation of ln(turns) where four in five lie between two bounds (> 0)."""
    return math.log(high / low) / _NORMAL_80


def _blend(
    some: Sequence[float], others: Sequence[float], share: float
) -> tuple[float, float, float, float]:
    p50, p80, low, high = (
        one + (other - one) * share for one, other in zip(some, others, strict=True)
    )
    return p50, p80, low, high


def _whole_turns(turns: float) -> int:
    return max(1, round(turns))


SHIPPED_CALIBRATION: Final = ForecastCalibration(
    (
        (0.38, 0.87, -0.89, 1.15),  # 2 turns
        (0.33, 0.78, -0.67, 1.02),  # 4 turns
        (0.39, 0.87, -0.56, 1.07),  # 8 turns
        (0.35, 0.82, -0.55, 1.01),  # 16 turns
        (0.25, 0.64, -0.77, 0.90),  # 32 turns
        (0.12, 0.44, -0.96, 0.57),  # 64 turns
        (-0.02, 0.33, -0.88, 0.43),  # 128 turns
    )
)
"""Measured on the recorded sessions by `python -m tests.bench.bench_forecast --measure`."""
