"""Two texts beside each other: which lines are the same, and which words of the others are not."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LINES: Final = 4_000
"""Of either text; difflib's time grows with the product, and this takes it a second."""

WORDS: Final = 400
"""Of either line; in longer ones the whole line counts as changed."""

BLOCK: Final = 1_600
"""Pairs of lines that are tried for likeness within one change; in larger ones lines are paired
in their order."""

ALIKE: Final = 0.5
"""Share of two lines from which one is the other, changed (difflib's ratio)."""

_WORD: Final = re.compile(r"\w+|\s+|[^\w\s]")


class Side(msgspec.Struct, frozen=True):
    """A line of one of the texts."""

    number: int
    """Counted from 1."""
    text: str
    changed: tuple[tuple[int, int], ...] = ()
    """Start and end of what the other text does not have."""


class Pair(msgspec.Struct, frozen=True):
    """Two lines that stand beside each other; None where one text has none there."""

    left: Side | None
    right: Side | None
    same: bool = False


class Difference(msgspec.Struct, frozen=True):
    """Both texts line by line."""

    pairs: tuple[Pair, ...]
    starts: tuple[int, ...]
    """Places in `pairs` at which lines begin to differ."""
    left_cut: int = 0
    """Lines at the end that were not compared."""
    right_cut: int = 0

    @property
    def same(self) -> int:
        """Count the lines that both have."""
        return sum(pair.same for pair in self.pairs)

    @property
    def only_left(self) -> int:
        """Count the lines that the left text alone has, or has otherwise."""
        return sum(pair.left is not None and not pair.same for pair in self.pairs)

    @property
    def only_right(self) -> int:
        """Count the lines that the right text alone has, or has otherwise."""
        return sum(pair.right is not None and not pair.same for pair in self.pairs)


def difference(left: str, right: str) -> Difference:
    """Compare two texts, of each at most LINES lines."""
    one, other = left.split("\n"), right.split("\n")
    pairs = tuple(_pairs(one[:LINES], other[:LINES]))
    starts = tuple(
        place
        for place, pair in enumerate(pairs)
        if not pair.same and (place == 0 or pairs[place - 1].same)
    )
    return Difference(pairs, starts, max(0, len(one) - LINES), max(0, len(other) - LINES))


def _pairs(one: Sequence[str], other: Sequence[str]) -> Iterator[Pair]:
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    for tag, start, end, begin, stop in matcher.get_opcodes():
        lefts = [Side(n + 1, one[n]) for n in range(start, end)]
        rights = [Side(n + 1, other[n]) for n in range(begin, stop)]
        if tag == "equal":
            for a, b in zip(lefts, rights, strict=True):
                yield Pair(a, b, same=True)
        else:
            yield from _changed(lefts, rights)


def _changed(lefts: Sequence[Side], rights: Sequence[Side]) -> Iterator[Pair]:
    """Put lines that are alike beside each other, and the others in their order."""
    waiting = [(lefts, rights)]
    while waiting:
        some, others = waiting.pop()
        place = _most_alike(some, others)
        if place is None:
            yield from _beside(some, others)
            continue
        at, to = place
        if at or to:
            waiting += [(some[at:], others[to:]), (some[:at], others[:to])]
            continue
        yield _words(some[0], others[0])
        waiting.append((some[1:], others[1:]))


def _beside(some: Sequence[Side], others: Sequence[Side]) -> Iterator[Pair]:
    for place in range(max(len(some), len(others))):
        yield Pair(
            _whole(some[place]) if place < len(some) else None,
            _whole(others[place]) if place < len(others) else None,
        )


def _whole(side: Side) -> Side:
    return Side(side.number, side.text, ((0, len(side.text)),) if side.text else ())


def _most_alike(some: Sequence[Side], others: Sequence[Side]) -> tuple[int, int] | None:
    if not some or not others or len(some) * len(others) > BLOCK:
        return None
    best, found = ALIKE, None
    matcher: SequenceMatcher[str] = SequenceMatcher(None, autojunk=False)
    for to, other in enumerate(others):
        words = _split(other.text)
        matcher.set_seq2(words)
        for at, one in enumerate(some):
            mine = _split(one.text)
            if len(words) > WORDS or len(mine) > WORDS:
                continue
            matcher.set_seq1(mine)
            if matcher.real_quick_ratio() <= best or matcher.quick_ratio() <= best:
                continue
            ratio = matcher.ratio()
            if ratio > best:
                best, found = ratio, (at, to)
    return found


def _words(one: Side, other: Side) -> Pair:
    mine, theirs = _split(one.text), _split(other.text)
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    left: list[tuple[int, int]] = []
    right: list[tuple[int, int]] = []
    for tag, start, end, begin, stop in matcher.get_opcodes():
        if tag != "equal":
            left += _span(mine, start, end)
            right += _span(theirs, begin, stop)
    return Pair(
        Side(one.number, one.text, tuple(left)), Side(other.number, other.text, tuple(right))
    )


def _split(text: str) -> list[str]:
    return _WORD.findall(text)


def _span(words: Sequence[str], start: int, end: int) -> list[tuple[int, int]]:
    before = sum(map(len, words[:start]))
    length = sum(map(len, words[start:end]))
    return [(before, before + length)] if length else []
