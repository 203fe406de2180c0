"""One receipt: what was done, its operations with their texts, the checks, and taking it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from ..formats import age, one_line
from ..receipt_report import receipt_lines, tick_lines
from ..receipt_rows import head_line, operation_line
from ..widgets.pager import Pager
from ..widgets.row_list import Row, RowList, Rows
from .page import Page

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from textual.timer import Timer
    from textual.widget import Widget

    from ...collectors.folder import Trouble
    from ...core.compaction.plan import Operation
    from ...core.compaction.receipts import Receipt
    from ...core.compaction.undo import Undone
    from ..applying import NotDone
    from ..operation_changes import Change

TICK_S: Final = 0.04
"""Between two ticks: each is seen to come, and none is waited for."""

BESIDE: Final = 3
"""Lines of a text below the list; Enter shows all."""

SHOWN_CHANGES: Final = 10
"""Changes of one operation that are read to be shown."""

EDGES: Final = 4
"""Cells of the page's padding and its scroll bar."""


class ReceiptScreen(Page):
    """Shows a receipt as it stands now."""

    CSS_PATH = "receipt.tcss"
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", tooltip="mark it: u takes back what is marked", id="mark"),
        Binding(
            "right", "show", "Text", show=False, tooltip="its text before and after", id="text"
        ),
        Binding("u", "undo", "Undo", tooltip="take back what is marked, or all of it", id="undo"),
        Binding("v", "check", "Check", tooltip="try out whether it can be taken back", id="check"),
        Binding(
            "y",
            "copy",
            "Copy",
            show=False,
            tooltip="copy the command that goes on with it",
            id="copy",
        ),
    ]

    def __init__(self, receipt_id: str, title: str, ticked: int | None = None) -> None:
        """Show a receipt; so many checks have their tick at first, all where None is said."""
        super().__init__(title, f"receipt {receipt_id}")
        self._receipt_id: Final = receipt_id
        self._title: Final = title
        self._receipt: Receipt | None = None
        self._why_not: str | None = None
        self._marked: set[int] = set()
        self._ticked = ticked
        self._ticking: Timer | None = None

    def compose_page(self) -> Iterable[Widget]:
        """Lay out what was done, the checks, the operations, and the text of one."""
        yield Static(id="done")
        yield Static(id="ticks")
        yield RowList(id="operations", number="", name="Operations")
        yield Pager(Static(id="change"), id="words")

    def on_mount(self) -> None:
        """Ask for it."""
        self.query_one(RowList).empty = "the receipt is being read …"
        self.query_one(Rows).focus()

    def on_screen_resume(self) -> None:
        """Read it again: it may have been taken back meanwhile."""
        super().on_screen_resume()
        self._read()

    def _read(self) -> None:
        store, receipt_id = self.app.places.store, self._receipt_id

        def question(db: sqlite3.Connection) -> tuple[Receipt | None, str | None]:
            from ..receipt_words import found_receipt

            del db
            return found_receipt(store, receipt_id)

        self.look_up(question, self._take)

    def _take(self, found: tuple[Receipt | None, str | None] | Trouble) -> None:
        if not isinstance(found, tuple) or found[0] is None:
            why = str(found) if not isinstance(found, tuple) else "it cannot be read any more"
            self.query_one(RowList).empty = one_line(why)
            return
        is_first = self._receipt is None
        self._receipt, self._why_not = found
        if is_first:
            self._begin_ticking()
        self._draw()

    def _begin_ticking(self) -> None:
        if self.app.animation_level == "none":
            self._ticked = None
        if self._ticked is not None:
            # Not so many times: a busy machine leaves beats out, and a tick is never left out.
            self._ticking = self.set_interval(TICK_S, self._tick)

    def _tick(self) -> None:
        count = len(self._receipt.verified) if self._receipt else 0
        self._ticked = (self._ticked or 0) + 1
        if self._ticked >= count and self._ticking is not None:
            self._ticking.stop()
        self._draw_ticks()

    # What a person does.

    def action_mark(self) -> None:
        """Mark the operation, or take its mark away."""
        number = self._number
        if number is None or self._receipt is None:
            return
        undone = self._receipt.now.undone if self._receipt.now else ()
        if number not in undone:
            self._marked ^= {number}
            self._draw()

    def action_undo(self) -> None:
        """Take back what is marked, or all of it."""
        if self._receipt is not None:
            numbers = sorted(self._marked) or None
            self.app.session_actions.undo(self._receipt, numbers, self._undone)

    def _undone(self, found: Undone | NotDone | Trouble) -> None:
        del found
        self._marked = set()
        if self.is_attached:
            self._read()

    def action_check(self) -> None:
        """Take it back into nowhere, and say whether that would do."""
        receipt, store = self._receipt, self.app.places.store
        if receipt is None:
            return

        def question(db: sqlite3.Connection) -> str:
            from ...collectors.subjects import state_folder
            from ..receipt_words import tried_out

            del db
            refusal = tried_out(receipt, state_folder(store))
            if refusal is None:
                return "it can be taken back byte for byte: that was tried out"
            return f"{refusal.check}: {refusal.why}: {refusal.what_to_do}"

        self.look_up(question, lambda said: self.app.notify(one_line(str(said)), markup=False))

    def action_copy(self) -> None:
        """Copy the command that goes on with the session."""
        if self._receipt is not None:
            self.app.copy(self._receipt.resume_command, "the command that goes on with it")

    @on(RowList.Opened)
    def _open(self) -> None:
        self.action_show()

    def action_show(self) -> None:
        """Show the whole text of the marked operation."""
        from ..change_lines import LONG
        from .reading import ReadingScreen

        number = self._number
        if number is None or self._receipt is None:
            return
        operation = self._receipt.plan.operations[number]
        crumbs = (self._title, f"receipt {self._receipt_id}", operation.what)
        self._read_change(
            number,
            LONG,
            lambda said: self.app.push_screen(ReadingScreen(*crumbs, content=said)),
        )

    @on(RowList.Highlighted)
    def _show_beside(self) -> None:
        number = self._number
        if number is None or not self.query_one("#words").display:
            return

        def put(content: Content) -> None:
            if number == self._number:
                self.query_one("#change", Static).update(content)

        self._read_change(number, BESIDE, put)

    def _read_change(self, number: int, lines: int, show: Callable[[Content], object]) -> None:
        from .reading import MARGINS, WIDEST

        receipt, store = self._receipt, self.app.places.store
        width = min(self.size.width - MARGINS, WIDEST)
        if receipt is None:
            return
        operation = receipt.plan.operations[number]

        def question(db: sqlite3.Connection) -> list[Change]:
            from ..receipt_words import changes_then

            del db
            return changes_then(receipt, operation, store, SHOWN_CHANGES)

        def take(found: list[Change] | Trouble) -> None:
            show(_said(operation, found, width, lines))

        self.look_up(question, take)

    # Drawing.

    @property
    def _number(self) -> int | None:
        key = self.query_one(RowList).key
        return int(key) if key is not None else None

    def _draw(self) -> None:
        receipt = self._receipt
        if receipt is None or not self.is_attached:
            return
        width = max(0, self.size.width - EDGES)
        when = f"{age(self.app.now_ms() - receipt.at)} ago"
        self.query_one("#done", Static).update(receipt_lines(receipt, self._why_not, when, width))
        self._draw_ticks()
        pane = self.query_one(RowList)
        undone = receipt.now.undone if receipt.now else ()
        pane.show_header(head_line(pane.row_width))
        pane.show_rows(
            [
                Row(
                    str(number),
                    operation_line(
                        each,
                        pane.row_width,
                        is_undone=number in undone,
                        is_marked=number in self._marked,
                    ),
                )
                for number, each in enumerate(receipt.plan.operations)
            ]
        )
        marked = f" · {len(self._marked)} marked" if self._marked else ""
        pane.border_title = f"Operations: {len(receipt.plan.operations):,}{marked}"
        self._show_beside()

    def _draw_ticks(self) -> None:
        if self._receipt is not None and self.is_attached:
            width = max(0, self.size.width - EDGES)
            checks = self._receipt.verified
            ticked = len(checks) if self._ticked is None else self._ticked
            drawn = tick_lines(checks, ticked, width)
            self.query_one("#ticks", Static).update(drawn)

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self._draw()


def _said(operation: Operation, found: list[Change] | Trouble, width: int, lines: int) -> Content:
    from ..change_lines import change_lines

    if isinstance(found, list):
        return change_lines(operation, found, width, lines)
    return Content.styled(one_line(str(found)), "$level-warning")
