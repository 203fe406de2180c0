"""Percentiles by nearest rank, and a linear fit by least absolute deviations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

Number = TypeVar("Number", int, float)


def nearest_rank(ordered: Sequence[Number], share: float) -> Number:
    """Return a percentile of sorted numbers: the one at the rank of its share, rounded up."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


FIT_ROUNDS: Final = 30  # of reweighting; the factors stand still to four digits after 10 to 20
MIN_DEVIATION: Final = 0.01
"""A row that is met better than this weighs no more: 1 % of what was measured."""


REGULARIZATION: Final = 1e-6
"""Of a coefficient that no row names, towards its start, where it stays."""


def fit_least_absolute(
    rows: Sequence[Sequence[float]], targets: Sequence[float], start: Sequence[float]
) -> list[float]:
    """Find the coefficients whose predictions are off by the least in all.

    A row and its target are to be divided by what an error of 1 shall mean, or multiplied by
    how much the row shall weigh.
    Source: iteratively reweighted least squares (Schlossmacher 1973).
    """
    found = list(start)
    for _ in range(FIT_ROUNDS):
        left = [[0.0] * len(start) for _ in start]
        right = [REGULARIZATION * value for value in start]
        for place in range(len(start)):
            left[place][place] = REGULARIZATION
        for row, target in zip(rows, targets, strict=True):
            off = abs(target - sum(map(_times, row, found)))
            _add_row(left, right, row, target, 1 / max(off, MIN_DEVIATION))
        found = _solve(left, right)
    return found


def _times(one: float, other: float) -> float:
    return one * other


def _add_row(
    left: list[list[float]], right: list[float], row: Sequence[float], target: float, weight: float
) -> None:
    named = [(place, value) for place, value in enumerate(row) if value]
    for place, value in named:
        weighted, line = value * weight, left[place]
        right[place] += weighted * target
        for other, second in named:
            line[other] += weighted * second


def _solve(left: list[list[float]], right: list[float]) -> list[float]:
    """Solve a system that is symmetric and positive (Gauss, without a need to pivot)."""
    size = len(right)
    for place in range(size):
        for below in range(place + 1, size):
            share = left[below][place] / left[place][place]
            if share:
                for column in range(place, size):
                    left[below][column] -= share * left[place][column]
                right[below] -= share * right[place]
    found = [0.0] * size
    for place in reversed(range(size)):
        known = sum(map(_times, left[place][place + 1 :], found[place + 1 :]))
        found[place] = (right[place] - known) / left[place][place]
    return found
