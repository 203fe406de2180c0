"""How a policy counts a context: which of an answer's token counts are part of it.

Requirements 2.1 T-03. Claude Code counts the whole input of the last answer. Other systems leave
out what was just written to the cache (omo-latest), or add the answer itself (omo-2.6), or count
the conversation's text instead (not-agent, hybrid-buffer).
"""

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from ..lazy_pattern import lazy_pattern
from .answer_facts import TokenUsage
from .answer_facts import context_tokens as spent_context


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
    CHARS_BY_SCRIPT = "chars_by_script"


CHARS_PER_TOKEN: Final = 4  # requirements 001-04, 002-19; rounded up (003-11)
HANGUL_PER_TOKEN: Final = 1.5  # characters of Korean script (R003-10)
_HANGUL: Final = lazy_pattern("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")


def estimate_by_characters(text: str, estimator: TextEstimator) -> int:
    """Estimate a text's tokens by its length; rounded up."""
    by_script = estimator is TextEstimator.CHARS_BY_SCRIPT and not text.isascii()
    hangul = len(_HANGUL.findall(text)) if by_script else 0
    return math.ceil(hangul / HANGUL_PER_TOKEN + (len(text) - hangul) / CHARS_PER_TOKEN)


INPUT_SIDE: Final = frozenset(UsageComponent) - {UsageComponent.OUTPUT}

MAX_OUTPUT_TOKENS: Final = 128_000  # of one answer: the most that the API grants any model

_FIELDS: Final = {each: f"{each}_tokens" for each in UsageComponent}  # of a TokenUsage
_NAMES: Final = {
    UsageComponent.CACHE_READ: "cache read",
    UsageComponent.CACHE_CREATION: "cache write",
}
CHARACTER_UNITS: Final = {
    TextEstimator.CHARS4: f"characters / {CHARS_PER_TOKEN}",
    TextEstimator.CHARS_BY_SCRIPT: f"characters / {CHARS_PER_TOKEN} (Hangul / {HANGUL_PER_TOKEN})",
}

_TEXT_SOURCES: Final = frozenset({UsageSource.CHARS4, UsageSource.TIKTOKEN})

_ANY_SIZE: Final = 1 << 31  # tokens; a text has no fixed relation to what the API counted of it


class CountingRule(msgspec.Struct, frozen=True):
    asked_source: UsageSource = UsageSource.API_LAST  # by the policy
    components: frozenset[UsageComponent] = INPUT_SIDE
    estimator: TextEstimator = TextEstimator.TIKTOKEN  # of texts that the API has not counted
    message_overhead: int = 4  # tokens around each message that is counted by its text
    has_text: bool = True  # False for a context whose text is not counted: the API's number is used
    is_substitute: bool = False  # not of a policy: the API reported no tokens (UNREPORTED_USAGE)

    @property
    def is_input_side(self) -> bool:
        """Whether a context is what its last answer saw, as in Claude Code."""
        return self.components == INPUT_SIDE and not self.counts_text

    @property
    def source(self) -> UsageSource:
        """Where the numbers come from."""
        is_missing = self.asked_source in _TEXT_SOURCES and not self.has_text
        return UsageSource.API_LAST if is_missing else self.asked_source

    @property
    def counts_text(self) -> bool:
        """Whether a context is the text of its conversation, without system prompt and tools."""
        return self.source in _TEXT_SOURCES

    @property
    def text_rule(self) -> str:
        """A name for how a text is counted, stored beside each count."""
        parts = [self.asked_source.value, str(self.message_overhead)]
        if self.text_estimator is TextEstimator.CHARS_BY_SCRIPT:
            parts.append(self.text_estimator.value)
        return " ".join(parts)

    @property
    def text_estimator(self) -> TextEstimator | None:
        """How a context's text is estimated; None if its tokens of cl100k_base are counted."""
        if self.asked_source is not UsageSource.CHARS4:
            return None
        by_script = self.estimator is TextEstimator.CHARS_BY_SCRIPT
        return TextEstimator.CHARS_BY_SCRIPT if by_script else TextEstimator.CHARS4

    @property
    def shows_spent(self) -> bool:
        """Whether the tokens of all answers are shown beside the context."""
        return self.source is UsageSource.WITH_CUMULATIVE

    @property
    def component_names(self) -> list[str]:
        """The counts of the last answer that are part of the context; none if its text is."""
        chosen = frozenset[UsageComponent]() if self.counts_text else self.components
        return [each.value for each in UsageComponent if each in chosen]

    @property
    def margin(self) -> int:
        """The most that this counts beyond the input of an answer, in tokens."""
        if self.counts_text:
            return _ANY_SIZE
        return MAX_OUTPUT_TOKENS if UsageComponent.OUTPUT in self.components else 0

    @property
    def description(self) -> str:
        """What is counted: `input + cache read only`, `the whole input + output`, `the text only`.

        With the unit of a text, and what is added around each message.
        """
        if self.counts_text:
            estimator = self.text_estimator
            unit = CHARACTER_UNITS[estimator] if estimator else "tokens of cl100k_base"
            around = f", {self.message_overhead} tokens around each message"
            text = f"the text only, as {unit}{around if self.message_overhead else ''}"
            return f"{text}: {NO_USAGE}" if self.is_substitute else text
        if self.components > INPUT_SIDE:
            return "the whole input + output"
        chosen = [
            _NAMES.get(each, each.value) for each in UsageComponent if each in self.components
        ]
        return f"{' + '.join(chosen) or 'nothing'} only"

    def estimate_message(self, text: str) -> int | None:
        """Estimate a message by its characters; None if its tokens are to be counted."""
        if self.estimator is TextEstimator.TIKTOKEN:
            return None
        return estimate_by_characters(text, self.estimator) + self.message_overhead

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


NO_USAGE: Final = "the API reported no tokens"

DEFAULT_COUNTING: Final = CountingRule()

UNREPORTED_USAGE: Final = CountingRule(UsageSource.TIKTOKEN, is_substitute=True)
"""For a context whose last answer came with zeros, as some gateways report: no context is empty."""


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
