"""The first frame: one line, drawn before anything that takes long to import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.screen import Screen

from ..widgets.status_line import Standing, StatusLine

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

MOST_HELD: Final = 32
"""Keys; more than that is a key that was held down."""


class OpeningScreen(Screen[None]):
    """Lies below the fleet and is seen for a moment."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self._source: Final = source
        self.held_keys: Final[list[events.Key]] = []
        """What was typed ahead: it is pressed again once the sessions' screen is there."""

    def compose(self) -> ComposeResult:
        """Show the same line as the fleet does."""
        line = StatusLine(id="status")
        line.set_reactive(StatusLine.status, Standing(source=self._source, scan="opening"))
        yield line

    def on_key(self, event: events.Key) -> None:
        """Hold a key that nothing here can act on yet."""
        active = self.active_bindings.get(event.key)
        if active is not None and active.enabled:
            return
        event.stop()
        if len(self.held_keys) < MOST_HELD:
            self.held_keys.append(event.copy())
