"""The lines of a list and its head, ready to be drawn or printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from textual.content import Content

from ...core.store.bulkhead import NOT_SHOWN, bulkhead
from .text_lines import lost_line


class Row(msgspec.Struct, frozen=True):
    """A row; its key stays the same when its place or content changes."""

    key: str
    content: Content
    item: object = None  # what the row is about, if the screen needs it

    @property
    def height(self) -> int:
        return self.content.plain.count("\n") + 1

    def looks_like(self, other: AnyRow) -> bool:
        return isinstance(other, Row) and self.content.is_same(other.content)


class Listing(msgspec.Struct, frozen=True):
    rows: tuple[Row, ...]
    head: Content
    empty: str  # shown instead of rows: why there are none, and what to do


class LazyRow:
    """A row that is written when it is first drawn; `look` is all that its content depends on."""

    __slots__ = ("_content", "_write", "appearance", "height", "item", "key")

    def __init__(
        self,
        key: str,
        look: object,
        write: Callable[[], Content],
        height: int = 1,
        item: object = None,
    ) -> None:
        self.key: Final = key
        self.appearance: Final = look
        self.height: Final = height  # in lines
        self.item: Final = item  # what the row is about, if the screen needs it
        self._write: Final = write
        self._content: Content | None = None

    @property
    def content(self) -> Content:
        if self._content is None:
            with bulkhead(f"row {self.key}", NOT_SHOWN):
                self._content = self._write()
        if self._content is None:
            self._content = Content("\n" * (self.height - 1)) + lost_line()
        return self._content

    def looks_like(self, other: AnyRow) -> bool:
        return self is other or (isinstance(other, LazyRow) and self.appearance == other.appearance)


AnyRow = Row | LazyRow
