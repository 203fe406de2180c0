"""Markdown: texts that are never taken for markup, and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ...core.transcript.sanitize import one_line
from ..tables import Column, Item

_MARKUP: Final = re.compile(r"([\\`*_\[\]<>|~&$@#]|:(?=//))")
"""What is markup within a cell: of CommonMark, and of the tables, links and names of GitHub."""

_LINKS: Final = re.compile(r"[\[\]<>]")
"""What begins a link, an image or HTML."""


def escape_markdown(text: str) -> str:
    """Write a text so that Markdown shows it as it is, in one cell of a table."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def escape_links(text: str) -> str:
    """Write a text that fetches and hides nothing; emphasis and code in it are shown as such."""
    return _LINKS.sub(lambda found: f"\\{found[0]}", one_line(text))


def escape_cell(text: str) -> str:
    """Write a text as `escape_links` does, in one cell of a table."""
    return escape_links(text).replace("|", "\\|")


def code_span(text: str) -> str:
    shown = one_line(text).replace("`", "'")
    return f"`{shown}`"


def markdown_table(
    columns: Sequence[Column[Item, str]], items: Sequence[Item], escape: Callable[[str], str]
) -> list[str]:
    """Write a header and a line for each item, of whose texts `escape` takes the markup."""
    lines = [
        [column.header for column in columns],
        ["---" for _ in columns],
        *([escape(column.value(item)) for column in columns] for item in items),
    ]
    return [f"| {' | '.join(cells)} |" for cells in lines]
