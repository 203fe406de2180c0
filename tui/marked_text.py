"""A result's own lines with their numbers; those that break a rule are marked, and named by it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..core.compliance.codes import Code

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..core.compliance.findings import Finding

MOST_LINES: Final = 2_000
"""Shown of one text; a compressed one has ten. `y` copies all of it."""

LINE_CHARS: Final = 4_000
"""Shown of one line: more fills several screens."""

PLAIN: Final = "│"
MARKED: Final = "▌"
"""Beside a line that breaks a rule: not by its colour alone."""

_BROKEN: Final = "$level-warning"


def numbered(text: str, findings: Iterable[Finding], width: int) -> list[Content]:
    """Write a text for lines of `width` cells; `findings` count its lines from 1."""
    lines = text.replace("\r\n", "\n").split("\n")
    by_line: dict[int, list[Finding]] = {}
    for each in findings:
        by_line.setdefault(each.line, []).append(each)
    limits = [line for line, found in by_line.items() for each in found if _is_limit(each)]
    first_too_many = min(limits, default=len(lines) + 1)
    sheet = _Sheet(len(str(min(len(lines), MOST_LINES))), width)
    shown: list[Content] = []
    for number, line in enumerate(lines[:MOST_LINES], 1):
        found = by_line.get(number, [])
        style = _BROKEN if number >= first_too_many else _style(found)
        shown += sheet.line(number, line, style)
        for each in found:
            shown += sheet.name(each, style)
    if len(lines) > MOST_LINES:
        rest = f"… {len(lines) - MOST_LINES:,} lines more; y copies all"
        shown.append(Content.styled(rest, "$quiet"))
    return shown


@dataclass(frozen=True, slots=True)
class _Sheet:
    """How wide the numbers are, and all of it."""

    digits: int
    width: int

    def line(self, number: int, line: str, style: str) -> Iterator[Content]:
        cut = line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]}…"
        heads = self._heads(f"{number}", style)
        room = max(1, self.width - self.digits - 3)
        for head, part in zip(heads, Content(cut).wrap(room), strict=False):
            yield Content.assemble((head, style or "$quiet"), part.stylize(style or "$foreground"))

    def name(self, found: Finding, style: str) -> Iterator[Content]:
        """Say below a line which rule it breaks."""
        room = max(1, self.width - self.digits - 5)
        parts = Content(f"{found.label} {found.sentence}").wrap(room)
        for sign, head, part in zip(
            chain("└", repeat(" ")), self._heads("", style), parts, strict=False
        ):
            yield Content.assemble((f"{head}{sign} ", style), part.stylize(style))

    def _heads(self, number: str, style: str) -> Iterator[str]:
        sign = MARKED if style else PLAIN
        return (f"{each:>{self.digits}} {sign} " for each in chain([number], repeat("")))


def _is_limit(found: Finding) -> bool:
    return found.code is Code.LINE_LIMIT


def _style(found: Iterable[Finding]) -> str:
    """Choose by the worst: a violation, or a warning."""
    codes = [each.code for each in found]
    if any(each.is_violation for each in codes):
        return _BROKEN
    return "$level-notice" if codes else ""
