"""What a save is expected to cost, and on which side of that one stands (004-15 to 004-20)."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from .noise import Noise


class Place(StrEnum):
    """Where a number stands to a band; both ends belong to it."""

    BELOW = "below"
    WITHIN = "within"
    ABOVE = "above"


class Span(msgspec.Struct, frozen=True):
    """From one number to another, both included; without an end it is open."""

    low: int
    high: int | None = None

    def position_of(self, number: int) -> Place:
        """Say where a number stands."""
        if number < self.low:
            return Place.BELOW
        return Place.ABOVE if self.high is not None and number > self.high else Place.WITHIN


class Band(msgspec.Struct, frozen=True):
    """One row of the estimates."""

    name: str
    """The requirement that says it."""
    label: str
    lines: Span
    tokens: Span
    reduction: tuple[float, float] | None = None
    """Of the lines of a save before, 0..1."""


BEFORE: Final = Band("004-15", "before", Span(50), Span(7_000, 20_000))
ONE: Final = Band("004-16", "1 category", Span(8, 12), Span(1_000, 1_500), (0.85, 0.85))
THREE: Final = Band("004-17", "3 categories", Span(13, 24), Span(1_500, 3_000), (0.50, 0.75))
SIX: Final = Band("004-18", "6 categories", Span(21, 38), Span(2_500, 5_000), (0.40, 0.60))
BANDS: Final = (BEFORE, ONE, THREE, SIX)

LEAK_LINES: Final = Span(10, 15)
LEAK_TOKENS: Final = Span(1_000, 2_000)
"""What a leaking agent adds to each band (004-19)."""

SEVERAL_REALISTIC: Final = (0.50, 0.65)
"""Reduction that several categories realistically reach (004-20)."""


class BandVerdict(msgspec.Struct, frozen=True):
    """One save against one band."""

    band: Band
    lines: Place
    tokens: Place
    is_expected: bool
    """The band of this save's number of categories."""

    @property
    def is_met(self) -> bool:
        """The save cost no more than the band says."""
        return Place.ABOVE not in {self.lines, self.tokens}


def expected_band(categories: int) -> Band | None:
    """Choose the band of a number of categories, the next larger one between two; None for 0."""
    if categories <= 0:
        return None
    if categories == 1:
        return ONE
    return THREE if categories <= _THREE else SIX


def judge(noise: Noise) -> tuple[BandVerdict, ...]:
    """Judge a save against every band; a leak widens each but the one before (004-19)."""
    expected = expected_band(len(noise.categories))
    return tuple(_judge(noise, band, is_expected=band == expected) for band in BANDS)


def _judge(noise: Noise, band: Band, *, is_expected: bool) -> BandVerdict:
    lines, tokens = band.lines, band.tokens
    if noise.leaked_calls and band is not BEFORE:
        lines, tokens = _wider(lines, LEAK_LINES), _wider(tokens, LEAK_TOKENS)
    return BandVerdict(
        band, lines.position_of(noise.lines), tokens.position_of(noise.tokens), is_expected
    )


def _wider(span: Span, by: Span) -> Span:
    return Span(span.low, None if span.high is None else span.high + (by.high or 0))


_THREE: Final = 3
