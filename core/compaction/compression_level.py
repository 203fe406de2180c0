"""How hard to compress a context: light, medium or aggressive, and why (003-14, 003-15, T-02)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from ..model.context import Context
from ..model.levels import Level, PlacedThreshold, ThresholdOp
from ..policy.policy import Policy

COMPRESSION_LEVELS: Final = (Level.LIGHT, Level.MEDIUM, Level.AGGRESSIVE)  # the mildest first
COMPACTING_ACTIONS: Final = frozenset({"offer_compact", "compact"})  # of a policy's thresholds
_ROUNDING: Final = 1e-6  # tokens: a share of another limit than the window is not exact


class DueCompression(msgspec.Struct, frozen=True):
    level: Level | None  # None while the context is below the first
    reason: str  # one line
    tokens_left: int | None = None  # until the next level; None if there is none, or it is unknown
    limit_tokens: int | None = None  # what the policy measures by, if that is not the window
    limit_share: float | None = None  # of it that is used; may exceed 1


def due_compression(policy: Policy, context: Context) -> DueCompression:
    """Return the level of compression that a context has reached, by its share of the limit."""
    starts = sorted(_level_starts(policy, context), key=lambda start: start[1])
    if context.tokens is None:
        return DueCompression(None, "its context is unknown")
    if not starts:
        return DueCompression(None, "no threshold compacts it")
    limit = limit_tokens(policy, context)
    reached = [start for start in starts if context.tokens >= start[1]]
    ahead = starts[len(reached) :]
    parts = [f"{context.tokens / limit:.0%} of {limit_text(policy, context)}"]
    parts += [f"{level} from {size / limit:.0%}" for level, size in (*reached[-1:], *ahead)]
    is_own_limit = limit != context.window.tokens
    return DueCompression(
        reached[-1][0] if reached else None,
        ", ".join(parts),
        ahead[0][1] - context.tokens if ahead else None,
        limit if is_own_limit else None,
        context.tokens / limit if is_own_limit else None,
    )


def defined_compression(policy: Policy, context: Context) -> Level | None:
    """Return the level that is due if the policy's own thresholds name such levels."""
    has_levels = any(each.level in COMPRESSION_LEVELS for each in policy.thresholds)
    return due_compression(policy, context).level if has_levels else None


def compacting_sizes(policy: Policy, context: Context) -> list[int]:
    """Return the sizes in tokens from which a context is compacted: `int(limit * share)` (001-25).

    The limit is the policy's, as for the target of a compaction, and need not be the window.
    """
    names = {each.name for each in policy.thresholds if each.action in COMPACTING_ACTIONS}
    return [_first_size(each, context) for each in context.thresholds if each.name in names]


def limit_tokens(policy: Policy, context: Context) -> int:
    return policy.effective_window(context.window) or context.window.tokens


def limit_text(policy: Policy, context: Context) -> str:
    limit = limit_tokens(policy, context)
    return "its window" if limit == context.window.tokens else f"the limit of {limit:,} tokens"


def _level_starts(policy: Policy, context: Context) -> Iterator[tuple[Level, int]]:
    """Yield from how many tokens on each level is due.

    A policy without thresholds of these levels has them all the same (T-02): light where it
    compacts, medium at `compact.midpoint`, aggressive in an emergency.
    """
    placed = {each.level: each for each in reversed(context.thresholds)}
    named = [placed[level] for level in COMPRESSION_LEVELS if level in placed]
    if named:
        yield from ((each.level, _first_size(each, context)) for each in named)
        return
    sizes = compacting_sizes(policy, context)
    if not sizes:
        return
    yield Level.LIGHT, min(sizes)
    emergency = placed.get(Level.EMERGENCY)
    end = _first_size(emergency, context) if emergency else None
    middle = int((policy.number("compact.midpoint") or 0) * limit_tokens(policy, context))
    has_middle = policy.text("compact.levels") != "two" and middle > min(sizes)
    if has_middle and (end is None or middle < end):
        yield Level.MEDIUM, middle
    if end is not None:
        yield Level.AGGRESSIVE, end


def _first_size(threshold: PlacedThreshold, context: Context) -> int:
    size = int(threshold.at * context.window.tokens + _ROUNDING)
    return size + 1 if threshold.op is ThresholdOp.ABOVE else size
