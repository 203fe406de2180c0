"""Lines with a label at their left: `pays     after 12 requests`, wrapped below themselves."""

from __future__ import annotations

import textwrap
from typing import Final

from .columns import one_line, paint

LABEL_CELLS: Final = 10


def labelled(label: str, text: str, width: int) -> list[str]:
    """Write a text beside its label; what does not fit goes on below it."""
    first, *rest = textwrap.wrap(
        one_line(text),
        max(width, LABEL_CELLS * 3) - LABEL_CELLS,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
    return [beside(label, first), *(beside("", line) for line in rest)]


def beside(label: str, drawn: str) -> str:
    """Put what is drawn beside its label; it is not wrapped."""
    return f"{paint(label, 'quiet') if label else ''}{' ' * (LABEL_CELLS - len(label))}{drawn}"
