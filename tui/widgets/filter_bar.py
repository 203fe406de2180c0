"""The line in which a filter or a search is typed, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.suggester import Suggester
from textual.widgets import Input, Static

from ...core.transcript.sanitize import one_line
from ..screens.fleet.session_filter import complete_filter

FILTER_SIGN: Final = "/"


class _FilterSuggester(Suggester):
    """Goes on with the last word; nothing of it is kept, the sessions change."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.choices: dict[str, tuple[str, ...]] | None = None
        """None where nothing is suggested."""

    async def get_suggestion(self, value: str) -> str | None:
        return None if self.choices is None else complete_filter(value, self.choices)


class FilterInput(Input):
    """Where it is typed; Tab takes what is suggested."""

    @dataclass
    class Done(Message):
        pass

    @dataclass
    class Cleared(Message):
        pass

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(one_line(event.text))

    async def _on_key(self, event: events.Key) -> None:
        said = {"escape": self.Cleared, "down": self.Done, "enter": self.Done}.get(event.key)
        if said is not None:
            event.stop()
            event.prevent_default()
            self.post_message(said())
            return
        if event.key == "tab":
            event.stop()
            event.prevent_default()
            self.action_cursor_right()
            return
        await super()._on_key(event)


class FilterBar(Horizontal):
    """Shown while a filter is typed or stands; Esc clears it."""

    @dataclass
    class Typed(Message):
        """The words have changed."""

        words: str

    @dataclass
    class Done(Message):
        pass

    @dataclass
    class Cleared(Message):
        pass

    def __init__(self, placeholder: str = "") -> None:
        """`placeholder` says what can be typed."""
        super().__init__(id="filter")
        self.display = False
        self._placeholder: Final = placeholder
        self._completion: Final = _FilterSuggester()
        self._wrong = ""

    def compose(self) -> ComposeResult:
        yield Static(FILTER_SIGN, classes="sign", markup=False)
        yield FilterInput(select_on_focus=False, compact=True, suggester=self._completion)
        yield Static(classes="wrong", markup=False)

    @property
    def value(self) -> str:
        return self.query_one(FilterInput).value

    def open(
        self,
        words: str,
        placeholder: str | None = None,
        choices: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        """Show the bar with `words` as its text and focus it; `choices` are suggested."""
        self._completion.choices = choices
        self.set_words(words)
        typed = self.query_one(FilterInput)
        typed.placeholder = self._placeholder if placeholder is None else placeholder
        self.display = True
        typed.focus()

    def set_words(self, words: str) -> None:
        """Show other words without a word of it."""
        typed = self.query_one(FilterInput)
        with self.prevent(Input.Changed):
            typed.value = words

    def show_error(self, wrong: str) -> None:
        if wrong == self._wrong:
            return
        self._wrong = wrong
        self.query_one(".wrong", Static).update(Content(wrong))

    @on(Input.Changed)
    def _tell_typed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Typed(event.value))

    @on(FilterInput.Done)
    def _tell_left(self, event: FilterInput.Done) -> None:
        event.stop()
        self.post_message(self.Done())

    @on(FilterInput.Cleared)
    def _tell_cleared(self, event: FilterInput.Cleared) -> None:
        event.stop()
        self.post_message(self.Cleared())
