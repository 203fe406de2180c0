"""The log's entries as lines, and which of them match what a person asks for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .cycled import Cycled
from .formats import NOTHING, fit, fit_right
from .notices import Weight

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .happenings import Happening

_TIME: Final = 12
_SOURCE: Final = 10
_LEAST_WHERE: Final = 12
_MOST_WHERE: Final = 44

NARROW: Final = 72
"""Cells below which the source of an entry goes: its words say as much."""

SIGNS: Final = {
    Weight.NOTE: ("·", "$quiet"),
    Weight.WARNING: ("▲", "$level-warning"),
    Weight.TROUBLE: ("✗", "bold $level-emergency"),
}
"""How bad an entry is: never told by colour alone."""


class Least(Cycled):
    """Which entries are shown."""

    ALL = Weight.NOTE
    WARNINGS = Weight.WARNING
    TROUBLES = Weight.TROUBLE

    @property
    def label(self) -> str:
        """Name it for a person; empty for all."""
        return "" if self is Least.ALL else f"{self.name.lower()} only"


def select(entries: Iterable[Happening], filter_text: str, level: Least) -> list[Happening]:
    """Choose the entries that are bad enough and have all words; !word is one they have not."""
    asked = filter_text.casefold().split()
    return [each for each in entries if each.weight >= level.value and _matches(each, asked)]


def _matches(entry: Happening, asked: list[str]) -> bool:
    if not asked:
        return True
    text = f"{entry.source} {entry.where} {entry.text} {entry.detail}".casefold()
    return all(
        (word[1:] not in text) if word.startswith("!") and len(word) > 1 else word in text
        for word in asked
    )


def log_head(width: int) -> Content:
    """Write the line above the entries."""
    where = _where(width)
    source = f"{fit('who', _SOURCE)} " if width >= NARROW else ""
    return Content.styled(f"{fit('when', _TIME)}   {source}{fit('where', where)} what", "$quiet")


def log_line(entry: Happening, width: int, now_ms: int) -> Content:
    """Write an entry's line for so many cells."""
    sign, style = SIGNS[entry.weight]
    where = _where(width)
    source = f"{fit(entry.source, _SOURCE)} " if width >= NARROW else ""
    rest = max(0, width - _TIME - 3 - len(source) - where - 1)
    words = "$foreground" if entry.weight is Weight.NOTE else style
    return Content.assemble(
        (fit_right(clock(entry.at, now_ms), _TIME), "$quiet"),
        (f" {sign} ", style),
        (source, "$quiet"),
        (f"{fit(entry.where, where)} ", "bold"),
        (fit(entry.text, rest), words),
    )


def _where(width: int) -> int:
    return min(max(_LEAST_WHERE, (width - _TIME) // 3), _MOST_WHERE)


def clock(at: int | None, now_ms: int) -> str:
    """Write a moment in local time, as exact as it is near: 11:57:40, or 19 Nov 08:12."""
    if at is None:
        return NOTHING
    moment, now = _local(at), _local(now_ms)
    if moment.date() == now.date():
        return f"{moment:%H:%M:%S}"
    if moment.year == now.year:
        return f"{moment.day} {moment:%b %H:%M}"
    return f"{moment:%Y-%m-%d}"


def whole(entry: Happening) -> Content:
    """Write all that is known of an entry."""
    sign, style = SIGNS[entry.weight]
    at = NOTHING if entry.at is None else f"{_local(entry.at):%Y-%m-%d %H:%M:%S}"
    return Content("\n").join(
        [
            Content.assemble((f"{sign} {entry.text}", style)),
            Content(""),
            Content.assemble(("when     ", "$quiet"), at),
            Content.assemble(("who      ", "$quiet"), entry.source),
            Content.assemble(("where    ", "$quiet"), entry.where),
            *([Content(""), Content(entry.detail)] if entry.detail else []),
        ]
    )


def _local(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone()
