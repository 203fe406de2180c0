"""Two texts as lines beside each other; both have as many, so that they scroll together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import plural
from .wrapping import plain, wrap

if TYPE_CHECKING:
    from ..core.text_difference import Difference, Side

GONE: Final = "$foreground on $error 30%"
NEW: Final = "$foreground on $success 30%"
"""Words of a line that the other text does not have."""

ALL_GONE: Final = "$foreground on $error 12%"
ALL_NEW: Final = "$foreground on $success 12%"
"""A line that is like none of the other text's."""

_NUMBER: Final = 5
"""Cells of a line's number and its sign."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Both sides, and where lines begin to differ."""

    left: tuple[Content, ...]
    right: tuple[Content, ...]
    difference_starts: tuple[int, ...]
    same_lines: int
    only_left: int
    only_right: int
    uncompared: int
    """Lines at the ends that nobody compared."""

    @property
    def headline(self) -> str:
        """Say in one line what differs."""
        if not self.difference_starts:
            return f"the same {plural(self.same_lines, 'line')}"
        more = f" · {self.uncompared:,} lines at the end not compared" if self.uncompared else ""
        return (
            f"{plural(len(self.difference_starts), 'difference')} · −{self.only_left:,} +{self.only_right:,} ·"
            f" {plural(self.same_lines, 'line')} the same{more}"
        )


def compared(found: Difference, width: int) -> Compared:
    """Lay out both texts in columns of `width` cells."""
    left: list[Content] = []
    right: list[Content] = []
    starts: list[int] = []
    wanted = frozenset(found.starts)
    for place, pair in enumerate(found.pairs):
        if place in wanted:
            starts.append(len(left))
        one = _side(pair.left, width, "−" if not pair.same else " ", (GONE, ALL_GONE))
        other = _side(pair.right, width, "+" if not pair.same else " ", (NEW, ALL_NEW))
        height = max(len(one), len(other))
        left += one + [_blank(pair.left)] * (height - len(one))
        right += other + [_blank(pair.right)] * (height - len(other))
    return Compared(
        tuple(left),
        tuple(right),
        tuple(starts),
        found.same,
        found.only_left,
        found.only_right,
        found.left_cut + found.right_cut,
    )


def _side(side: Side | None, width: int, sign: str, styles: tuple[str, str]) -> list[Content]:
    if side is None:
        return []
    # Wrapping counts characters of the text as it is shown.
    text = plain(side.text)
    spans = _shown_spans(side) if side.changed else ()
    base = "$foreground" if sign != " " else "$quiet"
    style = styles[side.changed == ((0, len(side.text)),)]
    lines = wrap(text, width - _NUMBER - 1, spans, style, base).lines
    signed = "$error" if sign == "−" else "$success"
    return [
        Content.assemble(
            (f"{side.number:>{_NUMBER - 2}}" if n == 0 else " " * (_NUMBER - 2), "$quiet"),
            (sign if sign != " " else " ", f"bold {signed}"),
            " ",
            line,
        )
        for n, line in enumerate(lines)
    ]


def _shown_spans(side: Side) -> tuple[tuple[int, int], ...]:
    return tuple(
        (len(plain(side.text[:start])), len(plain(side.text[:end]))) for start, end in side.changed
    )


def _blank(side: Side | None) -> Content:
    return Content("") if side is not None else Content.styled("   ╱", "$pane")
