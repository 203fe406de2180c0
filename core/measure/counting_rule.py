"""How a policy counts a context: which of an answer's token counts are part of it.

Requirements 2.1 T-03. Claude Code counts the whole input of the last answer. Other systems leave
out what was just written to the cache (omo-latest), or add the answer itself (omo-2.6).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from ..transcript.conversation import TokenUsage
from ..transcript.conversation import context_tokens as spent_context


class UsageSource(StrEnum):
    API_LAST = "api_last"
    WITH_CUMULATIVE = "api_last+cumulative"  # with all that was ever spent, beside it
    CHARS4 = "chars4"
    TIKTOKEN = "tiktoken"


class UsageComponent(StrEnum):
    INPUT = "input"
    CACHE_READ = "cache_read"
    CACHE_CREATION = "cache_creation"
    OUTPUT = "output"


class TextEstimator(StrEnum):
    TIKTOKEN = "tiktoken"  # calibrated for Claude's tokenizers, with what surrounds each text
    CHARS4 = "chars4"


CHARS_PER_TOKEN: Final = 4  # requirements 001-04, 002-19; rounded up (003-11)


INPUT_SIDE: Final = frozenset(UsageComponent) - {UsageComponent.OUTPUT}

MAX_OUTPUT_TOKENS: Final = 128_000  # of one answer: the most that the API grants any model

_FIELDS: Final = {each: f"{each}_tokens" for each in UsageComponent}  # of a TokenUsage
_NAMES: Final = {
    UsageComponent.CACHE_READ: "cache read",
    UsageComponent.CACHE_CREATION: "cache write",
}


COUNTED_FROM_TEXT: Final = frozenset({UsageSource.CHARS4, UsageSource.TIKTOKEN})
"""Sources that need the length of every text in a context. The store has that of no text but
agents' results, so a context is counted from its last answer all the same, which is more exact."""


class CountingRule(msgspec.Struct, frozen=True):
    asked_source: UsageSource = UsageSource.API_LAST  # by the policy; it may not be available
    components: frozenset[UsageComponent] = INPUT_SIDE
    estimator: TextEstimator = TextEstimator.TIKTOKEN  # of texts that the API has not counted
    message_overhead: int = 4  # tokens around each message that is counted by its characters

    @property
    def is_input_side(self) -> bool:
        """Whether a context is what its last answer saw, as in Claude Code."""
        return self.components == INPUT_SIDE

    @property
    def source(self) -> UsageSource:
        """Where the numbers come from."""
        is_text = self.asked_source in COUNTED_FROM_TEXT
        return UsageSource.API_LAST if is_text else self.asked_source

    @property
    def shows_spent(self) -> bool:
        """Whether the tokens of all answers are shown beside the context."""
        return self.source is UsageSource.WITH_CUMULATIVE

    @property
    def component_names(self) -> list[str]:
        return [each.value for each in UsageComponent if each in self.components]

    @property
    def output_margin(self) -> int:
        """The most that this counts beyond the input of an answer."""
        return MAX_OUTPUT_TOKENS if UsageComponent.OUTPUT in self.components else 0

    @property
    def description(self) -> str:
        """The counts that are added up: `input + cache read only`, `the whole input + output`."""
        if self.components > INPUT_SIDE:
            return "the whole input + output"
        chosen = [
            _NAMES.get(each, each.value) for each in UsageComponent if each in self.components
        ]
        return f"{' + '.join(chosen) or 'nothing'} only"

    def estimate_message(self, chars: int) -> int | None:
        """Estimate a message by its size alone; None if this estimator has to read it."""
        if self.estimator is not TextEstimator.CHARS4:
            return None
        return -(-chars // CHARS_PER_TOKEN) + self.message_overhead

    def count(self, context_tokens: int, usage: TokenUsage) -> int:
        """Count an answer whose last request had this input.

        Where the API repeated it for tools of its own, `usage` is the sum of all steps, and an edit
        of ctxtop lowers the context alone: the shares of the sum are applied to the context.
        """
        counted = context_tokens
        if spent := spent_context(usage):
            chosen = sum(getattr(usage, _FIELDS[each]) for each in self.components & INPUT_SIDE)
            counted = context_tokens * chosen // spent
        return counted + (usage.output_tokens if UsageComponent.OUTPUT in self.components else 0)

    def is_exact(self, context_tokens: int, usage: TokenUsage) -> bool:
        """Whether the counts of an answer are known as it was sent, not as shares of its sums."""
        return self.components >= INPUT_SIDE or context_tokens == spent_context(usage)


DEFAULT_COUNTING: Final = CountingRule()


def make_counting_rule(
    source: str,
    components: Iterable[str],
    estimator: str = DEFAULT_COUNTING.estimator,
    message_overhead: int = DEFAULT_COUNTING.message_overhead,
) -> CountingRule:
    return CountingRule(
        UsageSource(source),
        frozenset(map(UsageComponent, components)),
        TextEstimator(estimator),
        message_overhead,
    )
