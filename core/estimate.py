"""The one way to estimate tokens: counted, weighed for the model, and by what was learnt here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .calibration import factors_of
from .piece_count import count_pieces
from .text_count import count_text
from .tokenizer import tokenizer_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .calibration import Factors, Sample
    from .content_kind import ContentKind
    from .conversation import Piece
    from .piece_count import CountText
    from .tokenizer import Tokenizer


class ModelEstimator:
    """Estimates the tokens of texts and pieces for one model; every number is an estimate."""

    def __init__(
        self, tokenizer: Tokenizer, factors: Factors, count: CountText = count_text
    ) -> None:
        self.tokenizer = tokenizer
        self.factors = factors
        self._count = count

    @property
    def spread(self) -> float:
        """How far the estimate of a step is off in the median, as a share of it."""
        return self.factors.spread

    def tokens(self, part: Piece) -> int:
        """Estimate a piece of a message, with what stands around it."""
        counted = count_pieces((part,), self.tokenizer, self._count)
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
        self, samples: Mapping[str, Sequence[Sample]], count: CountText = count_text
    ) -> None:
        self._samples = samples
        self._count = count
        self._of_models: dict[str | None, ModelEstimator] = {}

    def for_model(self, model: str | None) -> ModelEstimator:
        """Give the estimator of one model; its factors are fitted when it is first asked for."""
        if model not in self._of_models:
            factors = factors_of(model, self._samples)
            self._of_models[model] = ModelEstimator(tokenizer_of(model), factors, self._count)
        return self._of_models[model]

    def tokens(self, text: str, model: str | None, kind: ContentKind | None = None) -> int:
        """Estimate a text alone as a model counts it."""
        return self.for_model(model).text_tokens(text, kind)
