"""The line in which a filter or a search is typed."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events, on
from textual.message import Message
from textual.widgets import Input

from ..formats import one_line


class FilterBar(Input):
    """Shown while a filter is typed or stands; Esc clears it."""

    @dataclass
    class Typed(Message):
        """The words have changed."""

        words: str

    @dataclass
    class Left(Message):
        """A person is done typing; the words stay."""

    @dataclass
    class Cleared(Message):
        """A person wants to see everything again."""

    def __init__(self) -> None:
        super().__init__(id="filter", select_on_focus=False, compact=True)

    @on(Input.Changed)
    def _tell_typed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Typed(event.value))

    @on(Input.Submitted)
    def _tell_left(self, event: Input.Submitted) -> None:
        event.stop()
        self.post_message(self.Left())

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(one_line(event.text))

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self.post_message(self.Cleared())
            return
        if event.key == "down":
            event.stop()
            event.prevent_default()
            self.post_message(self.Left())
            return
        await super()._on_key(event)
