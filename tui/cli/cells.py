"""What stands in a table's row: bars, fills, ids and times."""

from __future__ import annotations

from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Final

from ...core.context import ContextState
from ...core.tokens import count_of
from ..compliance_words import SIGNS, short_verdict
from ..formats import NOTHING, age, percent, plural, tokens
from .columns import Cell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ...core.agents import Agent
    from ...core.compliance.states import Ruling
    from ...core.context import Context

BAR_CELLS: Final = 10
SHORTEST_ID: Final = 8

_EIGHTHS: Final = "░▏▎▍▌▋▊▉"
_ROUNDING: Final = 1e-9
"""0.29 × 100 is 28.999…: products this close are the same."""


def gauge(context: Context) -> Cell:
    """Draw the bar and, beside it, its number."""
    drawn = bar(context.ratio, BAR_CELLS)
    number = f"{_sign(context)}{percent(context.ratio)}"
    return Cell(f"{drawn} {number:>6}", context.level.severity.value if context.level else "")


def bar(ratio: float | None, cells: int) -> str:
    """Draw a ratio of 1 in `cells` cells, to the eighth below: only what is full looks full."""
    eighths = int(min(max(ratio or 0.0, 0.0), 1.0) * cells * 8 + _ROUNDING)
    full, rest = divmod(max(eighths, 1) if ratio else 0, 8)
    drawn = "█" * full + (_EIGHTHS[rest] if rest else "")
    return drawn.ljust(cells, "░")


def fill(context: Context) -> str:
    """Write tokens of window."""
    used = f"{_sign(context)}{tokens(context.tokens)}" if context.tokens is not None else NOTHING
    return f"{used} of {tokens(context.window.tokens)}"


def level(context: Context) -> Cell:
    """Name the level that the context reached."""
    found = context.level
    return Cell(found.value, found.severity.value) if found else Cell("")


def returned(found: Agent) -> str:
    """Say how much an agent put into its parent's context."""
    if found.result is None:
        return NOTHING
    lines = plural(found.result.lines, "line")
    return f"{lines} ≈{tokens(count_of(found.result.estimated_tokens, found.result.text))}"


def verdict(found: Ruling | None) -> Cell:
    """Say whether an agent compressed its result: nothing where nothing is asked of it."""
    if found is None or not SIGNS[found.verdict].strip():
        return Cell("")
    words = f"{SIGNS[found.verdict]} {short_verdict(found)}".rstrip()
    return Cell(words, "bad" if found.failed else "")


def session_id(whole: str, short: Mapping[str, str]) -> Cell:
    """Write an id as `ctxtop sessions` does; that of a session without a file stays whole."""
    return Cell(short.get(whole, whole), "quiet")


def since(at_ms: int | None, now_ms: int) -> str:
    """Say how long ago it was."""
    return age(None if at_ms is None else now_ms - at_ms)


def shorten(session_ids: Iterable[str]) -> dict[str, str]:
    """Cut ids to the same length, as short as still tells them apart."""
    ordered = sorted(set(session_ids))
    shared = (_shared(*pair) for pair in pairwise(ordered))
    length = max([SHORTEST_ID - 1, *shared]) + 1
    return {each: each[:length] for each in ordered}


def _sign(context: Context) -> str:
    return "≈" if context.state is ContextState.ESTIMATED else ""


def _shared(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
