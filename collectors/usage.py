"""`message.usage` as counts: what was spent, and what the model saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.usage import Usage, context_tokens

if TYPE_CHECKING:
    from .lines import Iteration
    from .lines import Usage as UsageLine


@dataclass(frozen=True, slots=True)
class Counts:
    """What one answer says of its tokens."""

    usage: Usage
    """Spent: sums over a server-side tool loop."""
    context_tokens: int
    """In context: the last iteration of that loop alone."""


def read_usage(usage: UsageLine | None) -> Counts | None:
    """Read the counts; None where a line has no usage."""
    if usage is None:
        return None
    last = _last_message(usage.iterations or []) or usage
    return Counts(_usage(usage), context_tokens(_usage(last)))


def _last_message(iterations: list[Iteration]) -> Iteration | None:
    """Find the last step that was the model's own (a server's tool may report its own usage)."""
    for step in reversed(iterations):
        if step.type in {None, "message"}:
            return step
    return None


def _usage(counts: Iteration) -> Usage:
    return Usage(
        input_tokens=counts.input_tokens or 0,
        cache_creation_tokens=_cache_creation(counts),
        cache_read_tokens=counts.cache_read_input_tokens or 0,
        output_tokens=counts.output_tokens or 0,
    )


def _cache_creation(counts: Iteration) -> int:
    """Take the larger of the flat and the nested form: clients before 2.1.152 wrote a flat 0."""
    nested = counts.cache_creation
    by_lifetime = 0
    if nested:
        by_lifetime = (nested.ephemeral_5m_input_tokens or 0) + (
            nested.ephemeral_1h_input_tokens or 0
        )
    return max(counts.cache_creation_input_tokens or 0, by_lifetime)
