"""The keys that move through rows and lines: those of less and vi beside the arrows."""

from __future__ import annotations

from typing import Final

from textual.binding import Binding


def moving_keys(page_down: str = "ctrl+d,pagedown") -> tuple[Binding, ...]:
    """Bind the actions move(rows), page(pages) and edge(0 or -1); a pager's space may be added."""
    return (
        Binding("j,down", "move(1)", "Down", show=False, tooltip="down", id="down"),
        Binding("k,up", "move(-1)", "Up", show=False, tooltip="up", id="up"),
        Binding("g,home", "edge(0)", "First", show=False, tooltip="first", id="first"),
        Binding("G,end", "edge(-1)", "Last", show=False, tooltip="last", id="last"),
        Binding(
            page_down, "page(1)", "Page down", show=False, tooltip="a page down", id="page_down"
        ),
        Binding(
            "ctrl+u,pageup", "page(-1)", "Page up", show=False, tooltip="a page up", id="page_up"
        ),
    )


PAGER: Final = "ctrl+d,pagedown,space"
"""The keys for a page down where the space marks nothing."""
