"""Token estimates for each model, calibrated with what the API reported on this machine."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Final, TypeVar

import msgspec

from ..model.conversation import Entry, MessagePart, PartKind, Role
from ..model.counting_rule import CountingRule
from .tokens import (
    MEDIA_TOKENS,
    TOKENIZER_PROFILES,
    ContentKind,
    CountText,
    PartCount,
    Tokenizer,
    count_parts,
    count_text,
    model_text,
    model_tokenizer,
)

Number = TypeVar("Number", int, float)


class GrowthStep(msgspec.Struct, frozen=True):
    """One answer, what came after it, and how much larger the next request was; tokens."""

    offset: int  # of the answer in its file
    message_id: str
    model: str
    at: int | None
    growth: int  # of the request's input, as the API reported it
    output_tokens: int  # before client 2.1.97 often a placeholder of 1 to 26 (formats 2.6)
    answer_parts: tuple[MessagePart, ...]
    added_parts: tuple[MessagePart, ...]


class _OpenStep(msgspec.Struct):
    """An answer whose successor is still to come."""

    first: Entry
    last: Entry
    answer: list[MessagePart]
    added: list[MessagePart]


class GrowthTracker:
    """Finds the growth steps of a main conversation, entry by entry in file order.

    There is no step across a compaction, a change of the model, a result that was taken back or
    an edit of ctxtop, and none if the next request was no larger: what changed there is unknown.
    """

    def __init__(self) -> None:
        self._open: _OpenStep | None = None

    @property
    def resume_offset(self) -> int | None:
        """Where to read again for later steps; None: after the last entry."""
        return self._open.first.offset if self._open else None

    def add(self, entry: Entry) -> GrowthStep | None:
        """Add the next entry, and return the step that it ends, if any."""
        step = self._open
        if entry.boundary is not None or entry.takes_back:
            self._open = None
        elif entry.hidden or entry.sidechain:
            return None
        elif entry.role is Role.ASSISTANT and entry.context_tokens:
            if step and entry.message_id == step.first.message_id:
                step.last = entry
                step.answer += entry.parts
                return None
            self._open = _OpenStep(entry, entry, list(entry.parts), [])
            return _finish_step(step, entry) if step else None
        elif step and entry.role is Role.USER:
            step.added += entry.parts
        return None


def _finish_step(step: _OpenStep, following: Entry) -> GrowthStep | None:
    first, last = step.first, step.last
    growth = (following.context_tokens or 0) - (last.context_tokens or 0)
    if last.is_estimate or following.is_estimate or first.message_id is None or growth <= 0:
        return None
    if first.model is None or not first.model == last.model == following.model:
        return None
    return GrowthStep(
        offset=first.offset,
        message_id=first.message_id,
        model=first.model,
        at=first.at,
        growth=growth,
        output_tokens=last.output_tokens or 0,
        answer_parts=tuple(step.answer),
        added_parts=tuple(step.added),
    )


MIN_SAMPLES: Final = 30
"""Steps of a model before its own factors are used: on real sessions any 30 steps of a model give
factors within 2 % of those from all its steps."""

PRIOR_SAMPLES: Final = 2.0  # of each kind alone that say 1: so many can be outliers
MIN_GROWTH_SCALE: Final = 50  # tokens; smaller growths count as if they were this large
MIN_OUTPUT_SHARE: Final = 0.5
"""A reported output is believed from this share of what was counted of it: placeholders are
1 to 26, and the shortest call counts 60 (formats 2.6)."""

MAX_TRUSTED_SPREAD: Final = 0.25
"""The largest spread of learned factors: those of real sessions have 0.01 to 0.03, and a usage that
a proxy or a test's API invents fits no text."""

MAX_TRUSTED_FACTOR: Final = 3.0  # or its inverse: the generations differ by less than 2


class CalibrationSample(msgspec.Struct, frozen=True):
    model: str
    by_kind: tuple[int, ...]  # counted, in the order of ContentKind
    fixed: int  # known tokens: the answer's own, and those around texts
    growth: int


class TokenFactors(msgspec.Struct, frozen=True):
    """Factors for counted tokens."""

    by_kind: tuple[float, ...]
    spread: float  # median error of a step, as a share of its growth

    def factor(self, kind: ContentKind) -> float:
        return self.by_kind[list(ContentKind).index(kind)]

    def apply(self, by_kind: Sequence[int], fixed: float = 0) -> int:
        """Estimate the tokens of what was counted by kind, and add the fixed ones."""
        return round(_weighted_sum(self.by_kind, by_kind) + fixed)


def _weighted_sum(weights: Iterable[float], values: Iterable[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


_ONES: Final = (1.0,) * len(ContentKind)
_PRIOR: Final = [
    [PRIOR_SAMPLES if kind is alone else 0.0 for kind in ContentKind] for alone in ContentKind
]


def make_sample(step: GrowthStep, count_text: CountText) -> CalibrationSample | None:
    """Make a sample of a step; None if it holds thinking of unknown size."""
    tokenizer = model_tokenizer(step.model)
    added = count_parts(step.added_parts, tokenizer, count_text)
    answer = count_parts(step.answer_parts, tokenizer, count_text)
    if is_output_reported(step.output_tokens, answer):
        fixed = round(added.fixed) + step.output_tokens
        return CalibrationSample(step.model, added.by_kind, fixed, step.growth)
    if any(part.kind is PartKind.THINKING for part in step.answer_parts):
        return None
    by_kind = tuple(map(int.__add__, added.by_kind, answer.by_kind))
    return CalibrationSample(step.model, by_kind, round(added.fixed + answer.fixed), step.growth)


def is_output_reported(output_tokens: int, answer: PartCount) -> bool:
    """Return whether an answer's output is the API's count, and not a placeholder."""
    return output_tokens >= MIN_OUTPUT_SHARE * (sum(answer.by_kind) + answer.fixed)


def fit_factors(samples: Sequence[CalibrationSample]) -> TokenFactors:
    """Fit the factor of each kind; robust against a fifth of the samples.

    Minimises the absolute error as a share of the growth, or of what was counted if that is
    more. A kind without samples keeps 1, and PRIOR_SAMPLES hold one with few samples near it.
    """
    # Text that was counted but never came into the context must not outweigh the rest.
    scales = [
        max(sample.growth, sum(sample.by_kind) + sample.fixed, MIN_GROWTH_SCALE)
        for sample in samples
    ]
    import statistics  # only here; hooks and commands estimate without a calibration

    pairs = list(zip(samples, scales, strict=True))
    rows = [[tokens / scale for tokens in sample.by_kind] for sample, scale in pairs]
    targets = [(sample.growth - sample.fixed) / scale for sample, scale in pairs]
    by_kind = fit_least_absolute([*rows, *_PRIOR], [*targets, *map(sum, _PRIOR)], _ONES)
    errors = (
        abs(_weighted_sum(by_kind, sample.by_kind) + sample.fixed - sample.growth) / scale
        for sample, scale in pairs
    )
    return TokenFactors(tuple(by_kind), statistics.median(errors))


def nearest_rank(ordered: Sequence[Number], share: float) -> Number:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


FIT_ROUNDS: Final = 30  # of reweighting; the factors settle to four digits after 10 to 20
MIN_DEVIATION: Final = 0.01  # 1 % of what was measured: closer rows weigh no more
REGULARIZATION: Final = 1e-6  # keeps a coefficient that no row contains at its start


def fit_least_absolute(
    rows: Sequence[Sequence[float]], targets: Sequence[float], start: Sequence[float]
) -> list[float]:
    """Return the coefficients with the smallest sum of absolute errors.

    Scale a row and its target to weigh it, or to change the unit of its error.
    Source: iteratively reweighted least squares (Schlossmacher 1973).
    """
    coefficients = list(start)
    for _ in range(FIT_ROUNDS):
        left = [[0.0] * len(start) for _ in start]
        right = [REGULARIZATION * value for value in start]
        for place in range(len(start)):
            left[place][place] = REGULARIZATION
        for row, target in zip(rows, targets, strict=True):
            deviation = abs(target - _weighted_sum(row, coefficients))
            _add_row(left, right, row, target, 1 / max(deviation, MIN_DEVIATION))
        coefficients = _solve(left, right)
    return coefficients


def _add_row(
    left: list[list[float]], right: list[float], row: Sequence[float], target: float, weight: float
) -> None:
    nonzero = [(place, value) for place, value in enumerate(row) if value]
    for place, value in nonzero:
        weighted, line = value * weight, left[place]
        right[place] += weighted * target
        for other, second in nonzero:
            line[other] += weighted * second


def _solve(left: list[list[float]], right: list[float]) -> list[float]:
    """Solve a symmetric positive-definite system by Gaussian elimination without pivoting."""
    size = len(right)
    for place in range(size):
        for below in range(place + 1, size):
            share = left[below][place] / left[place][place]
            if share:
                for column in range(place, size):
                    left[below][column] -= share * left[place][column]
                right[below] -= share * right[place]
    solution = [0.0] * size
    for place in reversed(range(size)):
        known = _weighted_sum(left[place][place + 1 :], solution[place + 1 :])
        solution[place] = (right[place] - known) / left[place][place]
    return solution


def choose_factors(
    model: str | None, samples: Mapping[str, Sequence[CalibrationSample]]
) -> TokenFactors:
    """Return a model's factors: its own, its generation's on this machine, or measured ones.

    Learned factors are not used if they do not even fit their own samples.
    """
    tokenizer = model_tokenizer(model)
    alike = [
        sample
        for name, some in samples.items()
        if model_tokenizer(name) is tokenizer
        for sample in some
    ]
    for some in (samples.get(model or "", ()), alike):
        if len(some) >= MIN_SAMPLES:
            factors = fit_factors(some)
            if factors.spread <= MAX_TRUSTED_SPREAD and all(
                1 / MAX_TRUSTED_FACTOR <= factor <= MAX_TRUSTED_FACTOR for factor in factors.by_kind
            ):
                return factors
    return TokenFactors(_ONES, TOKENIZER_PROFILES[tokenizer].spread)


class ModelEstimator:
    def __init__(
        self, tokenizer: Tokenizer, factors: TokenFactors, count: CountText = count_text
    ) -> None:
        self.tokenizer = tokenizer
        self.factors = factors
        self._count = count

    def tokens(self, part: MessagePart) -> int:
        """Estimate a message part with the tokens around it."""
        counted = count_parts((part,), self.tokenizer, self._count)
        return self.factors.apply(counted.by_kind, counted.fixed)

    def text_tokens(self, text: str, kind: ContentKind | None = None) -> int:
        """Estimate a text alone; its kind is detected if it is None."""
        counted = self._count(text)
        factor = self.factors.factor(kind or counted.kind)
        return round(counted.for_tokenizer(self.tokenizer) * factor)


class CharactersCounter:
    """Counts message parts by their characters alone, for a policy that asks for it."""

    def __init__(self, counting: CountingRule) -> None:
        self._counting: Final = counting

    def tokens(self, part: MessagePart) -> int:
        """Estimate a part; those of an answer are one message, which the API has counted."""
        text, _ = model_text(part)
        tokens = self._counting.estimate_message(text) or 0
        is_of_answer = part.kind in {PartKind.TEXT, PartKind.THINKING, PartKind.TOOL_INPUT}
        overhead = self._counting.message_overhead if is_of_answer else 0
        return tokens - overhead + part.media * MEDIA_TOKENS


class Estimator:
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


TOKENS_PER_LETTER: Final = 0.88
"""What a letter that is one token of cl100k_base takes in the tokenizer generation that weighs it
more; longer tokens have less per letter (core/measure/tokens.py, TOKENIZER_PROFILES: the weight of
a class by its fewest characters)."""

TOKENS_PER_MARK: Final = 1.24  # of a digit or a mark, with the line end after it
TOKENS_PER_SPACE: Final = 1.17  # of a space that is not before a word
TOKENS_PER_WORD_SPACE: Final = 0.3
"""Of a space before a word: it is a token of its own only if the two letters after it are one
together, which weigh that much less."""

TOKENS_PER_LINE_END: Final = 1.51
TOKENS_PER_OTHER_BYTE: Final = 1.64  # of a byte beyond ASCII
_LETTERS: Final = re.compile(r"[A-Za-z]+")
_MARKS: Final = re.compile(r"[!-@\[-`{-~]+")
_SPACE_BEFORE_WORD: Final = re.compile(r" (?=[A-Za-z])")


def token_upper_bound(text: str) -> int:
    """Return at least as many tokens as any model's estimate.

    Loading the table of `core.measure.tokens` takes longer than a hook may; for prose this is about
    three times the estimate. Factors that were learned on this machine are not included.
    """
    letters, marks = (sum(map(len, chars.findall(text))) for chars in (_LETTERS, _MARKS))
    spaces, before_words = text.count(" "), len(_SPACE_BEFORE_WORD.findall(text))
    lines, size = text.count("\n"), len(text.encode("utf-8", "replace"))
    return ceil(
        TOKENS_PER_LETTER * letters
        + TOKENS_PER_MARK * marks
        + TOKENS_PER_SPACE * (spaces - before_words)
        + TOKENS_PER_WORD_SPACE * before_words
        + TOKENS_PER_LINE_END * lines
        + TOKENS_PER_OTHER_BYTE * (size - letters - marks - spaces - lines)
    )
