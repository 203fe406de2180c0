"""What a filter or a search matched, highlighted within the cells that a text has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from textual.content import Content

from .formats import fit_left, shorten_end

MATCH_STYLE: Final = "bold underline $accent"
LEAD_CHARS: Final = 8  # of the text before a match that would be cut off


def match_pattern(words: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds any of the words in any case; None without words."""
    parts = sorted({re.escape(word) for word in words if word}, key=len, reverse=True)
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def matched_text(text: str, cells: int, pattern: re.Pattern[str] | None, style: str) -> Content:
    """Fit a text to its cells and highlight what matched; the cut moves so that it is visible."""
    if pattern is None:
        return Content.styled(fit_left(text, cells), style)
    shown = fit_left(text, cells)
    found = pattern.search(text)
    if found is not None and not pattern.search(shown):
        start = max(0, found.start() - min(LEAD_CHARS, max(0, cells - len(found[0]) - 2)))
        shown = fit_left(shorten_end(f"…{text[start:]}", cells), cells)
    return highlight_matches(Content.styled(shown, style), pattern)


def highlight_matches(
    text: Content, pattern: re.Pattern[str] | None, style: str = MATCH_STYLE
) -> Content:
    for match in pattern.finditer(text.plain) if pattern else ():
        text = text.stylize(style, *match.span())
    return text
