"""The lines that reports are made of: sections, and values beside their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.content import Content

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL: Final = 14
"""Cells of a label, with the space after it."""


def section(name: str) -> Iterator[Content]:
    """Head what follows, with a blank line before it."""
    yield Content("")
    yield Content.styled(name, "bold $accent")


def line(label: str, text: str, width: int, style: str = "$foreground") -> Iterator[Content]:
    """Write a value beside its label."""
    head = Content.styled(f"  {label:<{LABEL}}", "$quiet")
    yield from hung(head, Content.styled(text, style), width)


def hung(head: Content, value: Content, width: int) -> Iterator[Content]:
    """Break a long value between words; what follows stands below its beginning."""
    indent = Content(" " * head.cell_length)
    for place, part in enumerate(value.wrap(max(1, width - head.cell_length))):
        yield (indent if place else head) + part
