"""How hard a conversation is compressed: three levels, each a summary of the one before it.

Sources: requirements 003-15, 003-20, 003-37, 001-12 and T-02.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ..compaction.compression_trigger import CompressionLevel
from .budget import SOURCE_SHARE, Budget, Summary, most, sum_up
from .words import PREFACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .budget import CountTokens
    from .fact import Fact
    from .templates import Template


class Compression(msgspec.Struct, frozen=True):
    """What a level keeps."""

    keep_messages: int
    """That stay word for word."""
    share: float
    """Of the source that the summary may have."""
    target_reduction: float
    """Of the context, that a good compaction frees at least."""


COMPRESSIONS: Final = {
    CompressionLevel.LIGHT: Compression(20, SOURCE_SHARE, 0.5),
    CompressionLevel.MEDIUM: Compression(10, SOURCE_SHARE / 2, 0.6),
    CompressionLevel.AGGRESSIVE: Compression(4, SOURCE_SHARE / 4, 0.7),
}
"""Kept: 003-26 in the middle, not-agent's four at the end (001-21). Targets: 001-12, 50 to
70 %, one end for each outer level. Shares are halved from level to level."""


def hierarchical_summarise(
    facts: Sequence[Fact],
    template: Template,
    budget: Budget,
    levels: int,
    estimate: CountTokens = most,
    preface: str = PREFACE,
) -> tuple[Summary, ...]:
    """Give one summary for each level, each in half the budget of the one before (003-20).

    Each is chosen from what the one before it holds, so that nothing comes back that was left
    out, and no summary's words are summed up.
    """
    found: list[Summary] = []
    left = tuple(facts)
    for level in range(max(1, levels)):
        halved = Budget(budget.max_tokens >> level, budget.max_prompt_tokens >> level)
        made = sum_up(left, template, halved, estimate, preface)
        found.append(made)
        left = made.facts
    return tuple(found)
