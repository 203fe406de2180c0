"""Token estimates for each model, calibrated with what the API reported on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from ..transcript.conversation import Entry, MessagePart, PartKind, Role
from .robust_statistics import fit_least_absolute
from .tokens import (
    TOKENIZER_PROFILES,
    ContentKind,
    CountText,
    PartCount,
    Tokenizer,
    count_parts,
    count_text,
    model_tokenizer,
)


class GrowthStep(msgspec.Struct, frozen=True):
    """One answer, what came after it, and how much larger the next request was; tokens."""

    offset: int  # where the answer begins in its file
    message_id: str
    model: str
    at: int | None
    growth: int  # of the request's input, as the API reported it
    output_tokens: int
    """Of the answer; before client 2.1.97 often a placeholder of 1 to 26 (formats 2.6)."""
    answer_parts: tuple[MessagePart, ...]
    added_parts: tuple[MessagePart, ...]


class _OpenStep(msgspec.Struct):
    """An answer whose successor is still to come."""

    first: Entry
    last: Entry
    answer: list[MessagePart]
    added: list[MessagePart]


class GrowthTracker:
    """Finds the steps of a main conversation, entry by entry in the order of its file.

    No step is one over a compaction, a change of the model, a result that was taken back or an
    edit of ctxtop, and none after which the request was no larger: what changed there is not
    known.
    """

    def __init__(self) -> None:
        self._open: _OpenStep | None = None

    @property
    def resume_offset(self) -> int | None:
        """Where to read again for the steps that are still to come; None: after what was taken."""
        return self._open.first.offset if self._open else None

    def add(self, entry: Entry) -> GrowthStep | None:
        """Add the next entry, and return the step that it ends, if any."""
        now = self._open
        if entry.boundary is not None or entry.replaced_results or entry.microcompaction:
            self._open = None
        elif entry.hidden or entry.sidechain:
            return None
        elif entry.role is Role.ASSISTANT and entry.context_tokens:
            if now and entry.message_id == now.first.message_id:
                now.last = entry
                now.answer += entry.parts
                return None
            self._open = _OpenStep(entry, entry, list(entry.parts), [])
            return _finish_step(now, entry) if now else None
        elif now and entry.role is Role.USER:
            now.added += entry.parts
        return None


def list_growth_steps(entries: Iterable[Entry]) -> list[GrowthStep]:
    """List the steps of a main conversation."""
    steps = GrowthTracker()
    return [step for step in map(steps.add, entries) if step]


def _finish_step(now: _OpenStep, following: Entry) -> GrowthStep | None:
    before, after = now.last.context_tokens or 0, following.context_tokens or 0
    first = now.first
    same = first.model is not None and first.model == now.last.model == following.model
    if now.last.is_estimate or following.is_estimate:
        return None
    if not same or first.message_id is None or after <= before:
        return None
    return GrowthStep(
        offset=first.offset,
        message_id=first.message_id,
        model=first.model or "",
        at=first.at,
        growth=after - before,
        output_tokens=now.last.output_tokens or 0,
        answer_parts=tuple(now.answer),
        added_parts=tuple(now.added),
    )


MIN_SAMPLES: Final = 30
"""Of a model before its own factors are used: on real sessions any 30 steps of a model give
factors within 2 % of those that all its steps give."""

PRIOR_SAMPLES: Final = 2.0
"""Of each kind alone that say 1: as many others of that kind can be outliers."""

MIN_GROWTH_SCALE: Final = 50  # tokens; below it an error counts as if the growth were this large
MIN_OUTPUT_SHARE: Final = 0.5
"""An output that the API told is believed from this share of what was counted of it:
placeholders are 1 to 26, and the shortest call counts 60 (formats 2.6)."""

MAX_TRUSTED_SPREAD: Final = 0.25
"""Of learnt factors, at most: those of real sessions have 0.01 to 0.03, and a usage that a
proxy or a test's API invents fits no text."""

MAX_TRUSTED_FACTOR: Final = 3.0
"""At most, and its inverse at least: the two generations differ by less than 2."""

P90: Final = 0.9


class CalibrationSample(msgspec.Struct, frozen=True):
    """What one step taught: tokens that were counted, and what they were."""

    model: str
    by_kind: tuple[int, ...]  # counted, by ContentKind in its order
    fixed: int  # known besides: the answer's own tokens, and what stands around texts
    growth: int


class FactorOrigin(StrEnum):
    """Where factors come from, best first."""

    MODEL = "model"  # this model on this machine
    TOKENIZER = "tokenizer"  # models of the same generation on this machine
    MEASURED = "measured"  # nothing was learnt: as measured when ctxtop was made


class TokenFactors(msgspec.Struct, frozen=True):
    """What to multiply a count by, and how far a step is off then, as a share of its growth."""

    by_kind: tuple[float, ...]
    spread: float  # median
    p90: float
    samples: int
    origin: FactorOrigin

    def factor(self, kind: ContentKind) -> float:
        return self.by_kind[_KIND_INDEX[kind]]

    def apply(self, by_kind: Sequence[int], fixed: float = 0) -> int:
        """Estimate the tokens of what was counted by kind, beside what is fixed."""
        return round(_weighted_sum(self.by_kind, by_kind) + fixed)


_KIND_INDEX: Final = {kind: place for place, kind in enumerate(ContentKind)}
_ONES: Final = (1.0,) * len(ContentKind)
_PRIOR: Final = [
    [PRIOR_SAMPLES if kind is alone else 0.0 for kind in ContentKind] for alone in ContentKind
]


def make_sample(step: GrowthStep, count_text: CountText) -> CalibrationSample | None:
    """Make a sample of a step; None where an unknown thought is part of it."""
    tokenizer = model_tokenizer(step.model)
    added = count_parts(step.added_parts, tokenizer, count_text)
    answer = count_parts(step.answer_parts, tokenizer, count_text)
    if is_output_reported(step.output_tokens, answer):
        return CalibrationSample(
            step.model, added.by_kind, round(added.fixed) + step.output_tokens, step.growth
        )
    if any(piece.kind is PartKind.THINKING for piece in step.answer_parts):
        return None
    by_kind = tuple(map(int.__add__, added.by_kind, answer.by_kind))
    return CalibrationSample(step.model, by_kind, round(added.fixed + answer.fixed), step.growth)


def is_output_reported(output_tokens: int, answer: PartCount) -> bool:
    """Whether an answer's output is what the API reported, and not a placeholder."""
    return output_tokens >= MIN_OUTPUT_SHARE * (sum(answer.by_kind) + answer.fixed)


def fit_factors(
    samples: Sequence[CalibrationSample], origin: FactorOrigin = FactorOrigin.MODEL
) -> TokenFactors:
    """Learn the factor of each kind from samples, whatever a fifth of them says.

    The error that is made small is the absolute one as a share of the growth, or of what was
    counted where that is more; a kind that
    no sample holds keeps 1, and one of few samples is held there by PRIOR_SAMPLES.
    """
    # Whatever was counted, and did not come into the context, shall not outweigh the rest.
    scales = [
        max(sample.growth, sum(sample.by_kind) + sample.fixed, MIN_GROWTH_SCALE)
        for sample in samples
    ]
    pairs = list(zip(samples, scales, strict=True))
    rows = [[tokens / scale for tokens in sample.by_kind] for sample, scale in pairs]
    targets = [(sample.growth - sample.fixed) / scale for sample, scale in pairs]
    by_kind = fit_least_absolute([*rows, *_PRIOR], [*targets, *map(sum, _PRIOR)], _ONES)
    off = sorted(
        abs(_weighted_sum(by_kind, sample.by_kind) + sample.fixed - sample.growth) / scale
        for sample, scale in pairs
    )
    return TokenFactors(
        by_kind=tuple(by_kind),
        spread=statistics.median(off),
        p90=off[int(P90 * (len(off) - 1))],
        samples=len(off),
        origin=origin,
    )


def choose_factors(
    model: str | None, samples: Mapping[str, Sequence[CalibrationSample]]
) -> TokenFactors:
    """Choose a model's factors: its own, its generation's on this machine, or measured ones.

    What was learnt is not used where it does not even fit what it was learnt from.
    """
    tokenizer = model_tokenizer(model)
    alike = [
        each for of, some in samples.items() if model_tokenizer(of) is tokenizer for each in some
    ]
    own = samples.get(model or "", ())
    for origin, some in ((FactorOrigin.MODEL, own), (FactorOrigin.TOKENIZER, alike)):
        if len(some) >= MIN_SAMPLES:
            found = fit_factors(some, origin)
            if _is_trusted(found):
                return found
    measured = TOKENIZER_PROFILES[tokenizer]
    return TokenFactors(_ONES, measured.spread, measured.p90, 0, FactorOrigin.MEASURED)


def _is_trusted(factors: TokenFactors) -> bool:
    fits = factors.spread <= MAX_TRUSTED_SPREAD
    return fits and all(
        1 / MAX_TRUSTED_FACTOR <= each <= MAX_TRUSTED_FACTOR for each in factors.by_kind
    )


def _weighted_sum(factors: Iterable[float], by_kind: Iterable[int]) -> float:
    return sum(factor * tokens for factor, tokens in zip(factors, by_kind, strict=True))


class ModelEstimator:
    """Estimates the tokens of texts and pieces for one model; every number is an estimate."""

    def __init__(
        self, tokenizer: Tokenizer, factors: TokenFactors, count: CountText = count_text
    ) -> None:
        self.tokenizer = tokenizer
        self.factors = factors
        self._count = count

    @property
    def spread(self) -> float:
        """How far the estimate of a step is off in the median, as a share of it."""
        return self.factors.spread

    def tokens(self, part: MessagePart) -> int:
        """Estimate a piece of a message, with what stands around it."""
        counted = count_parts((part,), self.tokenizer, self._count)
        return self.factors.apply(counted.by_kind, counted.fixed)

    def text_tokens(self, text: str, kind: ContentKind | None = None) -> int:
        """Estimate a text alone; its kind is found where it is not given."""
        counted = self._count(text)
        return round(
            counted.for_tokenizer(self.tokenizer) * self.factors.factor(kind or counted.kind)
        )


class Estimator:
    """Estimates tokens for every model, by the samples of this machine."""

    def __init__(
        self, samples: Mapping[str, Sequence[CalibrationSample]], count: CountText = count_text
    ) -> None:
        self._samples = samples
        self._count = count
        self._of_models: dict[str | None, ModelEstimator] = {}

    def for_model(self, model: str | None) -> ModelEstimator:
        """Return the estimator of one model; its factors are fitted on first use."""
        if model not in self._of_models:
            factors = choose_factors(model, self._samples)
            self._of_models[model] = ModelEstimator(model_tokenizer(model), factors, self._count)
        return self._of_models[model]

    def tokens(self, text: str, model: str | None, kind: ContentKind | None = None) -> int:
        """Estimate a text alone as a model counts it."""
        return self.for_model(model).text_tokens(text, kind)
