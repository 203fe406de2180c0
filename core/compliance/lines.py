"""A returned text as numbered lines, the way its limits count them."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

MARKER: Final = "[COMPRESSED]"
"""Begins a compressed result; case counts (requirements 3)."""

MOST_LINES: Final = 2000
"""Read of one text; longer ones have failed by their lines alone, and are still counted whole."""

SHOWN_CHARS: Final = 200
"""Of an offending line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its trailing spaces, and its number in the text as it was given."""

    number: int
    text: str

    @property
    def excerpt(self) -> str:
        """As much of it as a person needs to find it."""
        return self.text if len(self.text) <= SHOWN_CHARS else f"{self.text[:SHOWN_CHARS]}…"


@dataclass(frozen=True, slots=True)
class Text:
    """A text without blank lines around it."""

    lines: tuple[Line, ...]
    """The first of them; from the marker on, where that stands further below."""
    first: Line
    last: Line
    count: int
    """Physical lines, blank ones inside included."""
    chars: int


def read_text(text: str) -> Text | None:
    """Normalise a text (requirements 3): CRLF, trailing spaces, blank lines around; None if blank.

    Takes time in proportion to the text's length, and memory for MOST_LINES lines.
    """
    text = text.replace("\r\n", "\n")
    stripped = text.rstrip()
    if not stripped:
        return None
    begin = stripped.rfind("\n", 0, len(stripped) - len(stripped.lstrip())) + 1
    number = stripped.count("\n", 0, begin) + 1
    count = stripped.count("\n", begin) + 1
    lines = _lines(stripped, begin, number)
    last_begin = stripped.rfind("\n") + 1
    last = Line(number + count - 1, stripped[last_begin:])
    first = lines[0]
    if count > MOST_LINES:
        chars = len(stripped) - begin
        marker = stripped.find(f"\n{MARKER}", begin) + 1
        # The marker may stand below what is read of the beginning.
        if marker and stripped.count("\n", begin, marker) >= MOST_LINES:
            lines = _lines(stripped, marker, stripped.count("\n", 0, marker) + 1)
    else:
        chars = sum(len(line.text) + 1 for line in lines) - 1
    return Text(tuple(lines), first, last, count, chars)


def _lines(text: str, begin: int, number: int) -> list[Line]:
    found: list[Line] = []
    while begin <= len(text) and len(found) < MOST_LINES:
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        found.append(Line(number + len(found), text[begin:end].rstrip()))
        begin = end + 1
    return found
