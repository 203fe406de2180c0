"""The lines below the marker, each with what it is: a field, more of one, or neither."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from .surface import FENCE, HEADER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .lines import Line


class Kind(Enum):
    """What a line below the marker is."""

    FIELD = auto()
    PLAIN = auto()
    BLANK = auto()
    STRAY = auto()
    """It begins with what continues no field."""
    BREAK = auto()
    """A header or a block of code: ends a field, and is told of elsewhere."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A line and what it is."""

    kind: Kind
    line: Line
    key: str = ""
    value: str = ""
    """Of a field's first line, what follows the key."""


@dataclass(slots=True)
class Field:
    """A field: its first line, and all lines that belong to it."""

    key: str
    lines: list[Line]
    value: str
    more_lines: list[Line] = field(default_factory=list)

    @property
    def has_text(self) -> bool:
        """There is text, in its first line or below it."""
        return bool(self.value or self.more_lines)


def pieces(lines: Iterable[Line], keys: Iterable[str], *, fenced: bool) -> Iterator[Piece]:
    """Sort lines by what they are; `fenced`: the marker itself stands in a block of code."""
    known = tuple(keys)
    inside = False
    for line in lines:
        text = line.text
        if text.lstrip().startswith(FENCE):
            if fenced:
                fenced = False
            else:
                inside = not inside
            yield Piece(Kind.BREAK, line)
        elif inside:
            continue
        elif not text:
            yield Piece(Kind.BLANK, line)
        elif HEADER.match(text):
            yield Piece(Kind.BREAK, line)
        elif key := next((each for each in known if text.startswith(f"{each}:")), ""):
            yield Piece(Kind.FIELD, line, key, text[len(key) + 1 :].strip())
        else:
            yield Piece(Kind.STRAY if text.startswith("#") else Kind.PLAIN, line)
