"""Keys typed while a text field opens: they reach the field, in the order in which they were typed.

A field is open a few frames after the key that opens it. Until then the keys behind that one would
go to the page, whose bindings they are: a search for "auth" would begin by answering a prompt.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from typing import Final

from textual import events
from textual.app import App
from textual.widget import Widget
from textual.widgets import Input

MAX_OPENING_S: Final = 5.0  # then the keys go to what has the focus: no field came
LOOK_S: Final = 0.01  # between two looks for the field
MAX_KEYS_UNDER_WAY: Final = 256  # sent to a widget, and perhaps on their way back

_TYPING_KEYS: Final = frozenset({"backspace", "enter", "escape"})


class TypeAheadApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self._field_due = 0.0  # a field is opening until then at the latest
        self._early: list[events.Key] = []
        # Weak: a page that was left is let go.
        self._sent: Final[deque[tuple[events.Key, weakref.ref[Widget] | None]]] = deque(
            maxlen=MAX_KEYS_UNDER_WAY
        )

    def expect_typing(self) -> None:
        """Hold the keys that follow until a text field has the focus."""
        if not isinstance(self.focused, Input):
            self._field_due = time.monotonic() + MAX_OPENING_S
            self._look_for_field()

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key) and not event.is_forwarded:
            if self._hold(event):
                return
            focused = self.focused
            self._sent.append((event, None if focused is None else weakref.ref(focused)))
        await super().on_event(event)

    async def _on_key(self, event: events.Key) -> None:
        """Redirect a key to the field that opened after the key was sent."""
        field = self.focused
        sent_to = next((held and held() for key, held in self._sent if key is event), field)
        if not self._hold(event):
            if not isinstance(field, Input) or sent_to is field or not _is_typed(event):
                return
            field.post_message(_again(event))
        # Textual calls App's own handler next, which looks for a binding.
        event.prevent_default()

    def _hold(self, event: events.Key) -> bool:
        if isinstance(self.focused, Input):
            self._deliver(self.focused)
        if not self._field_due or not _is_typed(event):
            return False
        self._early.append(event)
        return True

    def _look_for_field(self) -> None:
        field = self.focused
        if not isinstance(field, Input) and time.monotonic() < self._field_due:
            self.set_timer(LOOK_S, self._look_for_field)
            return
        self._deliver(field or self.screen)

    def _deliver(self, receiver: Widget) -> None:
        self._field_due = 0.0
        early, self._early = sorted(self._early, key=lambda key: key.time), []
        for event in early:
            receiver.post_message(_again(event))


def _is_typed(event: events.Key) -> bool:
    """Whether a person who types words presses the key; the others act on what is there."""
    return event.is_printable or event.key in _TYPING_KEYS


def _again(event: events.Key) -> events.Key:
    key = event.copy()
    key._set_forwarded()  # noqa: SLF001 -- to the field, which may send it up again
    return key
