"""The keys, made from the bindings themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ..gauge import MARK, TRIGGER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.app import ComposeResult

_SIGNS: Final = (
    ("● ○ ▲", "at work, idle, waits for you"),
    ("✗ †", "the prompt is too long, the transcript is gone"),
    ("↻2", "compacted twice"),
    ("4 ✗1", "of four agents one did not compress its result"),
    ("◆ ↑", "marked with others, pinned to the top"),
    (f"{MARK} {TRIGGER}", "on a bar: 70 and 80 % of the window, where the client compacts"),
    ("warm cold", "whether the next request is read from the prompt cache"),
    ("≈", "an estimate; without it the number is the API's"),
    ("–", "not known yet"),
)


class HelpScreen(ModalScreen[None]):
    """Every key of the screen below, and every sign."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "dismiss", "Close", key_display="Esc"),
    ]

    def __init__(self, bindings: Iterable[Binding]) -> None:
        super().__init__()
        self._explained: Final = list(bindings)

    def compose(self) -> ComposeResult:
        """Lay out keys and signs."""
        with VerticalScroll(id="help"):
            yield Static(self._text())

    def on_mount(self) -> None:
        """Name the box."""
        box = self.query_one("#help")
        box.border_title = "Help"
        box.border_subtitle = "Esc closes"

    def _text(self) -> Content:
        lines = [Content.styled("Keys", "bold $accent")]
        for words, keys in self._keys().items():
            lines.append(
                Content.assemble((f"  {' '.join(keys):<14}", "$primary"), (words, "$foreground"))
            )
        lines += [Content(""), Content.styled("Signs", "bold $accent")]
        lines += [
            Content.assemble((f"  {sign:<14}", "$primary"), (words, "$foreground"))
            for sign, words in _SIGNS
        ]
        return Content("\n").join(lines)

    def _keys(self) -> dict[str, list[str]]:
        by_words: dict[str, list[str]] = {}
        for binding in self._explained:
            # Textual's own (scroll left, focus next …) have none and are what one expects.
            if not binding.tooltip or binding.key == "ctrl+q":
                continue
            keys = by_words.setdefault(binding.tooltip, [])
            shown = self.app.get_key_display(binding)
            if shown not in keys:
                keys.append(shown)
        return by_words
