"""The tabs of a page in one line: their names can be clicked, and what is shown stands beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult


class TabName(Static):
    """One of them."""

    @dataclass
    class Clicked(Message):
        """A person wants to see this tab."""

        name: str

    def on_click(self) -> None:
        """Tell which it is."""
        self.post_message(self.Clicked(self.name or ""))


class TabLine(Horizontal):
    """Names with their numbers; the one that is shown stands out, not by colour alone."""

    DEFAULT_CSS = """
    TabLine {
        height: 1;
        TabName { width: auto; padding: 0 1; color: $quiet; }
        TabName.-shown { color: $foreground; text-style: bold underline; }
        #note { width: 1fr; text-align: right; color: $quiet; padding: 0 1; text-wrap: nowrap; }
    }
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(id="tabs")
        self._names = tuple(names)
        self._shown: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the names and the note."""
        for name in self._names:
            yield TabName(name=name, markup=False)
        yield Static(id="note", markup=False)

    def show(self, shown: str, labels: Sequence[str], note: str) -> None:
        """Write each name's words; `shown` is the one to stand out."""
        if (said_now := (shown, *labels, note)) == self._shown:
            return
        self._shown = said_now
        for tab, said in zip(self.query(TabName), labels, strict=True):
            tab.update(Content(said))
            tab.set_class(tab.name == shown, "-shown")
        self.query_one("#note", Static).update(Content(note))
