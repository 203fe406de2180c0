"""The factor by which our count of a text is off, learnt from what the API reported."""

from __future__ import annotations

import statistics
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .content_kind import ContentKind
from .conversation import PieceKind
from .least_absolute import least_absolute
from .piece_count import count_pieces
from .tokenizer import MEASURED, tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .growth import Step
    from .piece_count import CountText, PieceCount

ENOUGH_SAMPLES: Final = 30
"""Of a model before its own factors are used: on real sessions any 30 steps of a model give
factors within 2 % of those that all its steps give."""

PRIOR_SAMPLES: Final = 2.0
"""Of each kind alone that say 1: as many others of that kind can be outliers."""

SMALL_GROWTH: Final = 50
"""Tokens; below it an error counts as if the growth were this large."""

KNOWN_SHARE: Final = 0.5
"""An output that the API told is believed from this share of what was counted of it:
placeholders are 1 to 26, and the shortest call counts 60 (formats 2.6)."""

TRUSTED_SPREAD: Final = 0.25
"""Of learnt factors, at most: those of real sessions have 0.01 to 0.03, and a usage that a
proxy or a test's API invents fits no text."""

TRUSTED_FACTOR: Final = 3.0
"""At most, and its inverse at least: the two generations differ by less than 2."""

P90: Final = 0.9


class Sample(msgspec.Struct, frozen=True):
    """What one step taught: tokens that were counted, and what they were."""

    model: str
    by_kind: tuple[int, ...]
    """Counted, by ContentKind in its order."""
    fixed: int
    """Known besides: the answer's own tokens, and what stands around texts."""
    growth: int


class Origin(StrEnum):
    """Where factors come from, best first."""

    MODEL = "model"
    """This model on this machine."""
    TOKENIZER = "tokenizer"
    """Models of the same generation on this machine."""
    MEASURED = "measured"
    """Nothing was learnt: as measured when ctxtop was made."""


class Factors(msgspec.Struct, frozen=True):
    """What to multiply a count by, and how far a step is off then, as a share of its growth."""

    by_kind: tuple[float, ...]
    spread: float
    """Median."""
    p90: float
    samples: int
    origin: Origin

    def factor(self, kind: ContentKind) -> float:
        """Give the factor of one kind."""
        return self.by_kind[_PLACE[kind]]

    def apply(self, by_kind: Sequence[int], fixed: float = 0) -> int:
        """Estimate the tokens of what was counted by kind, beside what is fixed."""
        return round(_weighed(self.by_kind, by_kind) + fixed)


_PLACE: Final = {kind: place for place, kind in enumerate(ContentKind)}
_ONES: Final = (1.0,) * len(ContentKind)
_PRIOR: Final = [
    [PRIOR_SAMPLES if kind is alone else 0.0 for kind in ContentKind] for alone in ContentKind
]


def sample_of(step: Step, count_text: CountText) -> Sample | None:
    """Make a sample of a step; None where an unknown thought is part of it."""
    tokenizer = tokenizer_of(step.model)
    added = count_pieces(step.added_parts, tokenizer, count_text)
    answer = count_pieces(step.answer_parts, tokenizer, count_text)
    if is_known(step.output_tokens, answer):
        return Sample(
            step.model, added.by_kind, round(added.fixed) + step.output_tokens, step.growth
        )
    if any(piece.kind is PieceKind.THINKING for piece in step.answer_parts):
        return None
    by_kind = tuple(map(int.__add__, added.by_kind, answer.by_kind))
    return Sample(step.model, by_kind, round(added.fixed + answer.fixed), step.growth)


def is_known(output_tokens: int, answer: PieceCount) -> bool:
    """Say whether an answer's output is what the API told, and not a placeholder."""
    return output_tokens >= KNOWN_SHARE * (sum(answer.by_kind) + answer.fixed)


def fit(samples: Sequence[Sample], origin: Origin = Origin.MODEL) -> Factors:
    """Learn the factor of each kind from samples, whatever a fifth of them says.

    The error that is made small is the absolute one as a share of the growth, or of what was
    counted where that is more; a kind that
    no sample holds keeps 1, and one of few samples is held there by PRIOR_SAMPLES.
    """
    # Whatever was counted, and did not come into the context, shall not outweigh the rest.
    scales = [
        max(sample.growth, sum(sample.by_kind) + sample.fixed, SMALL_GROWTH) for sample in samples
    ]
    pairs = list(zip(samples, scales, strict=True))
    rows = [[tokens / scale for tokens in sample.by_kind] for sample, scale in pairs]
    targets = [(sample.growth - sample.fixed) / scale for sample, scale in pairs]
    by_kind = least_absolute([*rows, *_PRIOR], [*targets, *map(sum, _PRIOR)], _ONES)
    off = sorted(
        abs(_weighed(by_kind, sample.by_kind) + sample.fixed - sample.growth) / scale
        for sample, scale in pairs
    )
    return Factors(
        by_kind=tuple(by_kind),
        spread=statistics.median(off),
        p90=off[int(P90 * (len(off) - 1))],
        samples=len(off),
        origin=origin,
    )


def factors_of(model: str | None, samples: Mapping[str, Sequence[Sample]]) -> Factors:
    """Choose a model's factors: its own, its generation's on this machine, or measured ones.

    What was learnt is not used where it does not even fit what it was learnt from.
    """
    tokenizer = tokenizer_of(model)
    alike = [each for of, some in samples.items() if tokenizer_of(of) is tokenizer for each in some]
    own = samples.get(model or "", ())
    for origin, some in ((Origin.MODEL, own), (Origin.TOKENIZER, alike)):
        if len(some) >= ENOUGH_SAMPLES:
            found = fit(some, origin)
            if _is_trusted(found):
                return found
    measured = MEASURED[tokenizer]
    return Factors(_ONES, measured.spread, measured.p90, 0, Origin.MEASURED)


def _is_trusted(factors: Factors) -> bool:
    fits = factors.spread <= TRUSTED_SPREAD
    return fits and all(1 / TRUSTED_FACTOR <= each <= TRUSTED_FACTOR for each in factors.by_kind)


def _weighed(factors: Iterable[float], by_kind: Iterable[int]) -> float:
    return sum(factor * tokens for factor, tokens in zip(factors, by_kind, strict=True))
