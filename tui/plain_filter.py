"""Draws every line of the screen with ASCII's signs: the one place where `--ascii` holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.filter import LineFilter

from .plain_signs import plain

if TYPE_CHECKING:
    from textual.color import Color


class PlainSigns(LineFilter):
    """Textual applies it to what any widget has drawn, its borders and scroll bars too."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Write the segments' texts plainly; none becomes wider."""
        return [Segment(plain(text), style, control) for text, style, control in segments]
