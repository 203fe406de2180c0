"""A list of rows with a head: one widget a pane, however many rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult
    from textual.content import Content


@dataclass(frozen=True, slots=True)
class Row:
    """A row's key, which it keeps when its place or words change, and its words."""

    key: str
    content: Content


class Rows(OptionList):
    """The rows; keys of less and vi beside the arrows, and a click only marks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Open", key_display="⏎", tooltip="show it whole", id="open"),
        Binding("j,down", "cursor_down", "Down", show=False, tooltip="down", id="down"),
        Binding("k,up", "cursor_up", "Up", show=False, tooltip="up", id="up"),
        Binding("g,home", "first", "First", show=False, tooltip="first", id="first"),
        Binding("G,end", "last", "Last", show=False, tooltip="last", id="last"),
        Binding(
            "ctrl+d,pagedown",
            "page_down",
            "Page down",
            show=False,
            tooltip="a page down",
            id="page_down",
        ),
        Binding(
            "ctrl+u,pageup", "page_up", "Page up", show=False, tooltip="a page up", id="page_up"
        ),
    ]

    class RoomChanged(Message):
        """Rows may be longer now, or must be shorter."""

        def can_replace(self, message: Message) -> bool:
            """Draw once, however many panes have changed."""
            return isinstance(message, type(self))

    def __init__(self) -> None:
        super().__init__(markup=False, compact=True)

    def on_resize(self) -> None:
        """Tell of another size, whatever the reason: the terminal, a zoom, a pane turned up.

        Also where the width is the one before: rows may have been drawn for one between.
        """
        self.post_message(self.RoomChanged())

    async def _on_click(self, event: events.Click) -> None:
        # Textual calls each class's handler; the base's opens at the first click.
        event.prevent_default()
        marked = event.style.meta.get("option")
        if marked is None:
            return
        if event.chain > 1:
            self.action_select()
        self.highlighted = marked


class RowList(Vertical):
    """A pane: its title on the border, a head line, rows, and words where there are none."""

    ALLOW_MAXIMIZE = True
    empty: reactive[str] = reactive("")
    """What to say, and to do, where there are no rows."""

    @dataclass
    class Marked(Message):
        """Another row is marked."""

        pane: RowList
        key: str

        @property
        def control(self) -> RowList:
            """The pane, for selectors."""
            return self.pane

    @dataclass
    class Opened(Message):
        """A person wants to see a row whole."""

        pane: RowList
        key: str

        @property
        def control(self) -> RowList:
            """The pane, for selectors."""
            return self.pane

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, name=name)
        self.border_title = f"{number} {name}"
        self._shown: list[Row] = []
        self._room = 0

    def compose(self) -> ComposeResult:
        """Lay out the head, the rows and the empty words."""
        yield Static(classes="head", markup=False)
        yield Rows()
        yield Static(classes="empty", markup=False)

    @property
    def rows(self) -> Rows:
        """The list itself, which takes the focus."""
        return self.query_one(Rows)

    @property
    def room(self) -> int:
        """Cells that a row may take, or could take when the pane was last seen."""
        self._room = self.rows.scrollable_content_region.width or self._room
        return self._room

    @property
    def key(self) -> str | None:
        """The marked row's key."""
        marked = self.rows.highlighted
        return self._shown[marked].key if marked is not None and self._shown else None

    def watch_empty(self, words: str) -> None:
        """Show the words where there are no rows."""
        if self.is_mounted:
            self.query_one(".empty", Static).update(words)

    def show_head(self, head: Content) -> None:
        """Write the line above the rows."""
        self.query_one(".head", Static).update(head)

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Show these rows; the mark stays on its row, and only what changed is drawn."""
        before, marked = self._shown, self.key
        self._shown = list(rows)
        self.set_class(not rows, "-empty")
        if [row.key for row in before] == [row.key for row in rows]:
            for index, (old, new) in enumerate(zip(before, rows, strict=True)):
                if not new.content.is_same(old.content):
                    self.rows.replace_option_prompt_at_index(index, new.content)
            return
        with self.prevent(OptionList.OptionHighlighted):
            scrolled = self.rows.scroll_offset.y
            self.rows.set_options(Option(row.content) for row in rows)
            keys = [row.key for row in rows]
            if keys:
                self.rows.highlighted = keys.index(marked) if marked in keys else 0
            self.rows.scroll_to(y=scrolled, animate=False)
        if self.key is not None and self.key != marked:
            self.post_message(self.Marked(self, self.key))

    def mark_first(self) -> None:
        """Mark the first row: where nobody has chosen one, the mark is not kept on its row."""
        if self._shown:
            self.rows.highlighted = 0

    @on(OptionList.OptionHighlighted)
    def _tell_marked(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if self.key is not None:
            self.post_message(self.Marked(self, self.key))

    @on(OptionList.OptionSelected)
    def _tell_opened(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self.key is not None:
            self.post_message(self.Opened(self, self.key))
