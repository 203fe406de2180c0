"""A list's rows with their header, and the headings and quiet lines that pages share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from textual.content import Content

if TYPE_CHECKING:
    from ..widgets.row_list import Row


class SessionTab(StrEnum):
    """A part of the page; its place is the key that opens it."""

    BREAKDOWN = "Fills"
    ITEMS = "Items"
    COMPACTIONS = "Compactions"
    WARNINGS = "Warnings"
    SOURCES = "Evidence"
    ABOUT = "About"


SHORT_TAB_NAMES: Final = ("Fills", "Items", "Compact", "Warn", "Why", "About")
"""Their names where there is no room."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a part lists."""

    rows: tuple[Row, ...]
    head: Content
    empty: str
    """What to say, and to do, where there is nothing."""


def heading(words: str) -> Content:
    """Write a line above others."""
    return Content.styled(words, "bold $accent")


def quiet(words: str) -> Content:
    """Write what is less than the rest."""
    return Content.styled(words, "$quiet")


def join_lines(*parts: Content) -> Content:
    """Put parts below each other."""
    return Content("\n").join(parts)
