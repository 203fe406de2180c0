"""How full one context is: its tokens in each way of counting, its window and its level."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .answer_facts import TokenUsage
from .counting_rule import DEFAULT_COUNTING, UNREPORTED_USAGE, CountingRule
from .levels import DEFAULT_PLACED_THRESHOLDS, Level, PlacedThreshold, reached_level

if TYPE_CHECKING:
    from .context_window import Trigger, Window


class ReportedCategory(StrEnum):
    """The client's names of categories (client 2.1.329)."""

    SYSTEM_PROMPT = "System prompt"
    SYSTEM_TOOLS = "System tools"  # without the listing of skills
    MCP_TOOLS = "MCP tools"
    CUSTOM_AGENTS = "Custom agents"
    MEMORY_FILES = "Memory files"
    SKILLS = "Skills"  # of the listing, by an estimate of the client's own
    MESSAGES = "Messages"  # what of the measured total is none of the others
    FREE_SPACE = "Free space"
    AUTOCOMPACT_BUFFER = "Autocompact buffer"


DEFERRED_SUFFIX = "(deferred)"  # of categories outside the context: tools not loaded


class ContextReport(msgspec.Struct, frozen=True):
    """A `/context` report; tokens, rounded to hundreds if only its text was recorded."""

    model: str
    total_tokens: int
    window_tokens: int  # the window that the client compacts by
    percent: int  # of the window, as the client rounded it; it may exceed 100
    categories: dict[str, int]  # what is in the context, by the client's names
    autocompact_buffer: int | None = None  # kept free; None if it compacts only when it must


class TokenCounts(msgspec.Struct, frozen=True):
    """Tokens of one context, counted in four ways; None if there is nothing to count."""

    fill: int | None  # A: input of the last answer, as in the status line
    counter: int | None  # B: what the client compares with its trigger
    hook: int | None  # C: what hooks get as `context_tokens` when a session is resumed
    report: int | None = None  # D: total of the last `/context`, which counts by category
    also_counted: int = 0  # of B: what was cleared from the last request


EXACT_OUTPUT_VERSION: Final = (2, 1, 97)
"""Clients before wrote a placeholder for an answer's output (changelog 2.1.97); in agents'
files it is found up to 2.1.286 (formats 2.6)."""


def decode_text_counts(stored: str | None) -> Mapping[str, int]:
    return msgspec.json.decode(stored, type=dict[str, int]) if stored else {}


class StoredTokenCounts(msgspec.Struct, frozen=True):
    """What the store knows of a context after its last boundary; tokens."""

    answer: int | None = None  # input side of the last answer
    output: int = 0  # output of its last iteration
    answer_text: int = 0  # estimate of the answer's texts, if its output may be a placeholder
    after_answer: int = 0  # estimate of what follows the answer
    boundary_estimate: int | None = None  # the client's, of the messages alone
    next_request: int | None = None  # estimated after that boundary, with system prompt and tools
    is_answer_estimated: bool = False  # an edit of ctxtop lowered the last answer's input
    cleared: int = 0  # what the client cleared since the last answer, by its own estimate
    also_counted: int = 0  # cleared from the last answer's request; the counter includes it
    report: int | None = None  # total of the last `/context`
    input: int = 0  # this and the next two: what the answer spent, over all its steps
    cache_creation: int = 0
    cache_read: int = 0
    texts: Mapping[str, int] = {}
    """The text up to the last answer, or to a compaction since, by `CountingRule.text_rule`."""

    @property
    def usage(self) -> TokenUsage:
        """The last answer's counts."""
        return TokenUsage(self.input, self.cache_creation, self.cache_read, self.output)


def make_token_counts(stored: StoredTokenCounts) -> TokenCounts:
    """Compute the four numbers in tokens.

    Source: formats 3.1. The counter is the last answer with its output, and an estimate of
    what follows; if the output may be a placeholder, the estimate of the answer's texts counts.
    Without an answer it is the boundary's estimate, which hooks get too (2.1.329). An answer that
    came with zeros says nothing. What the API, or the client, cleared from the last request is
    compared with the trigger all the same (client 2.1.332).
    """
    if stored.answer == 0:
        return TokenCounts(None, None, None, stored.report)
    if stored.answer is None:
        return TokenCounts(None, stored.boundary_estimate, stored.boundary_estimate, stored.report)
    output = max(stored.output, stored.answer_text)
    return TokenCounts(
        fill=stored.answer,
        counter=stored.answer + output + stored.after_answer + stored.also_counted,
        hook=stored.answer + output,
        report=stored.report,
        also_counted=stored.also_counted,
    )


class ContextState(StrEnum):
    """How the size of a context is known."""

    MEASURED = "measured"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


class Context(msgspec.Struct, frozen=True):
    tokens: int | None
    state: ContextState
    window: Window
    trigger: Trigger | None = None
    token_counts: TokenCounts = TokenCounts(None, None, None)
    thresholds: tuple[PlacedThreshold, ...] = DEFAULT_PLACED_THRESHOLDS  # by its session's policy
    counting: CountingRule = DEFAULT_COUNTING  # by which `tokens` is counted, likewise

    @property
    def trigger_tokens(self) -> int | None:
        """Where the client compacts by itself; None if that is not known or not armed."""
        return self.trigger.tokens if self.trigger else None

    @property
    def trigger_ratio(self) -> float | None:
        """The compaction counter as a ratio of the trigger; may exceed 1."""
        counter, trigger = self.token_counts.counter, self.trigger
        if counter is None or trigger is None or not trigger.tokens:
            return None
        return counter / trigger.tokens

    @property
    def trigger_left(self) -> int | None:
        """Tokens until the client compacts by itself, by its counter; None if that is unknown."""
        counter, trigger = self.token_counts.counter, self.trigger_tokens
        return None if counter is None or trigger is None else max(0, trigger - counter)

    @property
    def sent_tokens(self) -> int | None:
        """What the model is sent, by the API's count, whatever the policy counts."""
        fill = self.token_counts.fill
        return self.tokens if fill is None or self.counting.is_input_side else fill

    @property
    def unanswered_tokens(self) -> int | None:
        """The estimate while the API measured none since the last compaction, or ever (zeros)."""
        is_text = self.counting.counts_text and not self.counting.is_substitute
        return None if self.token_counts.fill is not None or is_text else self.tokens

    @property
    def ratio(self) -> float | None:
        """The used part of the window; may exceed 1."""
        return None if self.tokens is None else self.tokens / self.window.tokens

    @property
    def limit_tokens(self) -> int:
        """What the policy measures by: its own limit, or the window."""
        return self.window.limit or self.window.tokens

    @property
    def limit_ratio(self) -> float | None:
        """The used part of the policy's limit; may exceed 1. None also if nothing is measured."""
        if self.tokens is None or self.window.limit == 0:
            return None
        return self.tokens / self.limit_tokens

    def of_limit(self, window_share: float) -> float:
        """Convert a share of the window to one of the policy's limit."""
        return window_share * self.window.tokens / self.limit_tokens

    @property
    def level(self) -> Level | None:
        """The most urgent level reached."""
        return reached_level(self.ratio, self.thresholds)


def measure_context(
    stored: StoredTokenCounts,
    window: Window,
    trigger: Trigger | None = None,
    thresholds: tuple[PlacedThreshold, ...] = DEFAULT_PLACED_THRESHOLDS,
    counting: CountingRule = DEFAULT_COUNTING,
) -> Context:
    if stored.answer == 0 and not counting.counts_text:
        counting = UNREPORTED_USAGE
    if counting.counts_text and counting.text_rule not in stored.texts:
        counting = msgspec.structs.replace(counting, has_text=False)
    tokens, state = tokens_in_use(stored, counting)
    return Context(tokens, state, window, trigger, make_token_counts(stored), thresholds, counting)


def tokens_in_use(
    stored: StoredTokenCounts, counting: CountingRule = DEFAULT_COUNTING
) -> tuple[int | None, ContextState]:
    """Return the tokens in use: the last answer's, else an estimate of the next request, else None.

    Source: claude-code-formats 3.1; before the first answer the client itself reports null, not
    0. After an edit or a clearing the number is an estimate until the next answer. What is counted
    of a text is always one (T-03). An answer that came with zeros says nothing of its context.
    """
    text = stored.texts.get(counting.text_rule)
    if counting.counts_text and text is not None:
        return max(0, text - stored.cleared), ContextState.ESTIMATED
    if stored.answer == 0:
        text = stored.texts.get(UNREPORTED_USAGE.text_rule)
        return text, ContextState.UNKNOWN if text is None else ContextState.ESTIMATED
    if stored.answer is None:
        estimate = stored.boundary_estimate if stored.next_request is None else stored.next_request
        return estimate, ContextState.UNKNOWN if estimate is None else ContextState.ESTIMATED
    answer, is_exact = stored.answer, True
    if not counting.is_input_side:
        answer = counting.count(stored.answer, stored.usage)
        is_exact = counting.is_exact(stored.answer, stored.usage)
    if stored.is_answer_estimated or stored.cleared:
        return max(0, answer - stored.cleared), ContextState.ESTIMATED
    return answer, ContextState.MEASURED if is_exact else ContextState.ESTIMATED
