"""How other tools find compactions: rules over the rows of a transcript, as peers.md 0.4 has them.

A rule gets every assistant row of one file in its order, as the tool itself would see it, and
gives the spans (line before, line at which it fires) between which it says one took place.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Span = tuple[int, int]


class Row(NamedTuple):
    """One assistant line's counts."""

    line: int
    input: int
    cache_creation: int
    cache_read: int
    sidechain: bool = False
    synthetic: bool = False


class Rule(NamedTuple):
    """A tool's way to find compactions."""

    name: str
    spans: Callable[[Sequence[Row]], list[Span]]


class Score(NamedTuple):
    """How a rule did."""

    found: int
    missed: int
    false: int

    @property
    def precision(self) -> float | None:
        """Share of what it said that was so; None where it said nothing."""
        said = self.found + self.false
        return self.found / said if said else None

    @property
    def recall(self) -> float | None:
        """Share of what was so that it said; None where nothing was."""
        true = self.found + self.missed
        return self.found / true if true else None


def half_drop(rows: Sequence[Row]) -> list[Span]:
    """PoolCoder, context-stats: the whole input side falls by more than half."""
    return drops(own(rows), whole, 0.5)


def third_drop(rows: Sequence[Row]) -> list[Span]:
    """ccmonitor: the whole input side falls by more than 30 %."""
    return drops(own(rows), whole, 0.3)


def ccboard(rows: Sequence[Row]) -> list[Span]:
    """ccboard: 30 % of input + cache_read, over every row, sidechains and made-up ones too."""
    return drops(rows, lambda row: row.input + row.cache_read, 0.3)


def abtop(rows: Sequence[Row]) -> list[Span]:
    """abtop: its own number falls by 30 %.

    The number is input + cache_read, or input + cache_creation where nothing was read; how
    far it must fall is not described, and is taken as ccboard's.
    """
    return drops(
        rows,
        lambda row: row.input + (row.cache_read or row.cache_creation),
        0.3,
    )


RULES: Final = (
    Rule("50 % drop (PoolCoder, context-stats)", half_drop),
    Rule("30 % drop (ccmonitor)", third_drop),
    Rule("30 % drop of input + cache_read (ccboard)", ccboard),
    Rule("30 % drop of its own number (abtop)", abtop),
)


def drops(rows: Sequence[Row], size: Callable[[Row], int], share: float) -> list[Span]:
    """Find the rows whose size is smaller than the row's before by more than a share."""
    spans = []
    before: Row | None = None
    for row in rows:
        if before is not None and size(row) < (1 - share) * size(before):
            spans.append((before.line, row.line))
        before = row
    return spans


def own(rows: Iterable[Row]) -> list[Row]:
    """Leave out agents' rows and those that the client made up."""
    return [row for row in rows if not row.sidechain and not row.synthetic]


def whole(row: Row) -> int:
    """All of the input side."""
    return row.input + row.cache_creation + row.cache_read


def score(spans: Iterable[Span], boundaries: Iterable[int]) -> Score:
    """Compare spans with the boundaries' lines; a span finds one boundary, its first."""
    left = sorted(boundaries)
    found = false = 0
    for start, end in spans:
        inside = next((line for line in left if start < line < end), None)
        if inside is None:
            false += 1
        else:
            found += 1
            left.remove(inside)
    return Score(found, len(left), false)


def add(scores: Iterable[Score]) -> Score:
    """Add scores of several files up."""
    listed = list(scores)
    return Score(
        sum(each.found for each in listed),
        sum(each.missed for each in listed),
        sum(each.false for each in listed),
    )


class Formula(NamedTuple):
    """A tool's number for what is in the context, of its last row's counts."""

    name: str
    tokens: Callable[[Row, int], int]
    """Of a row, and its output."""


FORMULAS: Final = (
    Formula("input + both caches (status line, agentsview)", lambda row, output: whole(row)),
    Formula("input + both caches + output (cozempic)", lambda row, output: whole(row) + output),
    Formula("input + cache_read (ccboard)", lambda row, output: row.input + row.cache_read),
    Formula(
        "its own number (abtop)",
        lambda row, output: row.input + (row.cache_read or row.cache_creation),
    ),
)

SMALL: Final = 200_000
LARGE: Final = 1_000_000


class WindowRule(NamedTuple):
    """A tool's way to a model's window: of the API's name, and of the most that was seen."""

    name: str
    window: Callable[[str, int], int | None]


def ccstatusline(model: str, peak: int) -> int:
    """A mark in the name, which transcripts never have; else its fallback."""
    return LARGE if "[1m]" in model else SMALL


def ccusage(model: str, peak: int) -> int:
    """The table that it ships, which has what the API can do (peers 0.1)."""
    return LARGE if re.search(r"(opus|sonnet)-(4-[5-9]|[5-9])|fable|mythos", model) else SMALL


def cozempic(model: str, peak: int) -> int:
    """Opus and Sonnet from 4.5 on are large, Haiku is small, and all else is large."""
    return SMALL if "haiku" in model else LARGE


def agentsview(model: str, peak: int) -> int | None:
    """A table of prefixes; nothing where the model is not in it."""
    if "opus-4-6" in model:
        return LARGE
    small = ("sonnet-4-5", "sonnet-4-6", "haiku-4-5")
    return SMALL if any(name in model for name in small) else None


def poolcoder(model: str, peak: int) -> int:
    """Opus and Fable are large, the rest small, until more than that was seen."""
    return LARGE if peak > SMALL or "opus" in model or "fable" in model else SMALL


def by_peak(model: str, peak: int) -> int:
    """ccboard, abtop: small, until more than that was seen."""
    return LARGE if peak > SMALL or "[1m]" in model else SMALL


WINDOW_RULES: Final = (
    WindowRule("ccstatusline", ccstatusline),
    WindowRule("ccusage", ccusage),
    WindowRule("cozempic", cozempic),
    WindowRule("agentsview", agentsview),
    WindowRule("PoolCoder", poolcoder),
    WindowRule("ccboard, abtop", by_peak),
)
