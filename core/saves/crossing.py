"""Whether a save would make a session compact: what it costs against what is left (004-08, -09)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .noise import Noise

REFERENCE_TOKENS: Final = (7_000 + 20_000) // 2
"""The middle of what a save costs (004-07), where none was measured."""


class Cost(msgspec.Struct, frozen=True):
    """What the next save is expected to put in, in tokens."""

    tokens: int
    sample_count: int
    """Saves that it is the mean of; 0 where it is the reference."""


class Crossing(msgspec.Struct, frozen=True):
    """A save against the tokens left to a session's trigger."""

    session_id: str
    tokens_to_trigger: int
    cost: Cost
    share: float
    """The cost as a share of the trigger, 0..1 and above."""

    @property
    def would_cross(self) -> bool:
        """The next save would make the client compact: what is left does not hold it."""
        return self.tokens_to_trigger < self.cost.tokens


def expected_cost(saves: Sequence[Noise]) -> Cost:
    """Take the mean of the saves that were measured, whole tokens, or the reference of 004-07."""
    if not saves:
        return Cost(REFERENCE_TOKENS, 0)
    return Cost(round(sum(each.tokens for each in saves) / len(saves)), len(saves))


def crossing(
    session_id: str, context_tokens: int | None, trigger: int | None, cost: Cost
) -> Crossing | None:
    """Compare; None where the client's counter or its trigger is not known."""
    if context_tokens is None or not trigger:
        return None
    return Crossing(session_id, max(0, trigger - context_tokens), cost, cost.tokens / trigger)
