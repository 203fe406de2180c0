"""`message.usage` as counts: what was spent, and what the model saw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.usage import Usage, context_tokens

if TYPE_CHECKING:
    from .lines import Iteration
    from .lines import Usage as UsageLine


def read_usage(usage: UsageLine) -> tuple[Usage, int]:
    """Read what was spent, summed over a server-side tool loop, and what its last step saw."""
    spent = _usage(usage)
    last = _last_message(usage.iterations) if usage.iterations else None
    return spent, context_tokens(spent if last is None else _usage(last))


def last_output(usage: UsageLine) -> int | None:
    """Read the output of the last step of a server-side tool loop; None where there was none."""
    last = _last_message(usage.iterations) if usage.iterations else None
    return None if last is None else last.output_tokens


def is_lowered(usage: UsageLine) -> bool:
    """Return whether an edit of ctxtop lowered what the last step saw (strategies.usage).

    The sums stay what was paid, and the one step beside them says less. The client writes no
    such counts: where it writes one step, its counts are the sums.
    """
    if usage.iterations is None or len(usage.iterations) != 1:
        return False
    return context_tokens(_usage(usage.iterations[0])) < context_tokens(_usage(usage))


def hour_writes(usage: UsageLine) -> int:
    """Read how many tokens were written to the cache for an hour, not for five minutes."""
    nested = usage.cache_creation
    return (nested.ephemeral_1h_input_tokens or 0) if nested else 0


def _last_message(iterations: list[Iteration]) -> Iteration | None:
    """Find the last step that was the model's own (a server's tool may report its own usage)."""
    for step in reversed(iterations):
        if step.type in {None, "message"}:
            return step
    return None


def _usage(counts: Iteration) -> Usage:
    return Usage(
        counts.input_tokens or 0,
        _cache_creation(counts),
        counts.cache_read_input_tokens or 0,
        counts.output_tokens or 0,
    )


def _cache_creation(counts: Iteration) -> int:
    """Take the larger of the flat and the nested form: clients before 2.1.152 wrote a flat 0."""
    flat, nested = counts.cache_creation_input_tokens or 0, counts.cache_creation
    if nested is None:
        return flat
    by_lifetime = (nested.ephemeral_5m_input_tokens or 0) + (nested.ephemeral_1h_input_tokens or 0)
    return max(flat, by_lifetime)
