"""What is wrong with a text in any format: code, headers, phrases that say nothing."""

from __future__ import annotations

import re

from .codes import Code
from .findings import at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Final

    from .findings import Finding
    from .lines import Line, Text

FENCE: Final = "```"

HEADER: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")

_PHRASE: Final = re.compile(
    r"(?:I(?:'ve|’ve| have)? completed|Great job|Here(?:'s|’s| is| are)|Let me know)\b",
    re.IGNORECASE,
)
"""At the beginning of a line: inside one it may be part of a sentence that says something."""

_KOREAN: Final = "완료했습니다"
"""A verb, and so at the end of its sentence."""

_DOCS: Final = re.compile(r" {0,3}##[ \t]+(?:Changed Files|Key Decisions|Issues)[ \t]*$")
"""Headers of the variant that a guide shows (R000-22)."""


def surface(text: Text) -> Iterator[Finding]:
    """Find V08, V09, V10 and W04, wherever they stand."""
    yield from _marks(text.lines)
    for line in (text.first, text.last) if text.count > 1 else (text.first,):
        if _PHRASE.match(line.text.lstrip()) or _KOREAN in line.text:
            yield at(Code.PLEASANTRY, line)


def _marks(lines: Iterable[Line]) -> Iterator[Finding]:
    inside = docs = False
    for line in lines:
        if line.text.lstrip().startswith(FENCE):
            inside = not inside
            if inside:
                yield at(Code.CODE_BLOCK, line)
        elif not inside and HEADER.match(line.text):
            yield at(Code.MARKDOWN_HEADER, line)
            if not docs and _DOCS.match(line.text):
                docs = True
                yield at(Code.DOCS_MARKDOWN, line)
