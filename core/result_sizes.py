"""How large agents' results are: what one usually puts into its parent's context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .nearest_rank import nearest_rank
from .tokens import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .agents import Agent

MEDIAN: Final = 0.5
LARGE: Final = 0.9
"""One result in ten is larger: what a parent has to reckon with (reference: peers 0.6)."""


class Sizes(msgspec.Struct, frozen=True):
    """Of some results; lines as they stand in the text, tokens estimated."""

    results: int = 0
    median_lines: int = 0
    """Of half of them, no more."""
    p90_lines: int = 0
    """Of nine in ten, no more."""
    median_tokens: int = 0
    p90_tokens: int = 0


NO_SIZES: Final = Sizes()


def sizes(agents: Iterable[Agent]) -> Sizes:
    """Measure what agents put into their parents; those that returned nothing are left out."""
    results = [each.result for each in agents if each.result is not None]
    if not results:
        return NO_SIZES
    lines = sorted(each.lines for each in results)
    tokens = sorted(count_of(each.estimated_tokens, each.text) for each in results)
    return Sizes(
        len(results),
        nearest_rank(lines, MEDIAN),
        nearest_rank(lines, LARGE),
        nearest_rank(tokens, MEDIAN),
        nearest_rank(tokens, LARGE),
    )
