"""Every action ever taken: what stands, what was taken back, and taking back."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content

from ..action_rows import action_line, head_line, select_actions
from ..formats import one_line, tokens
from ..widgets.filter_bar import FilterBar
from ..widgets.row_list import Row, RowList, Rows
from .filtered import FilteredPage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from textual.widget import Widget

    from ...collectors.folder import Trouble
    from ...core.compaction.receipts import Receipt
    from ...core.compaction.undo import Undone
    from ..actions import Action
    from ..applying import NotDone
    from ..view import View

LOOK_S: Final = 2.0
"""How often it is looked whether something was done, by this ctxtop or by another one."""

NOTHING_YET: Final = (
    "Nothing was changed yet, by nobody.\nc on a session plans how to make it smaller;"
    " what is carried out then stands here, and u takes it back."
)


class ReceiptsScreen(FilteredPage):
    """Lists them, newest first; Enter shows one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "Undo", tooltip="take back the marked one", id="undo"),
        Binding(
            "v",
            "check",
            "Check",
            tooltip="try out of each whether it can be taken back",
            id="check",
        ),
        Binding("y", "copy", "Copy", show=False, tooltip="copy the receipt's id", id="copy"),
    ]

    def __init__(self) -> None:
        super().__init__("receipts")
        self._actions: list[Action] = []
        self._seen: tuple[object, ...] | None = None
        self._check_results: dict[str, str] = {}

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the list."""
        yield RowList(id="actions", number="", name="Receipts")
        yield FilterBar("a title, fork, in place, undone, a receipt's id …")

    def on_mount(self) -> None:
        """Ask for them."""
        self.query_one(RowList).empty = "the receipts are being read …"
        self.query_one(Rows).focus()
        self.set_interval(LOOK_S, self._look)

    def on_screen_resume(self) -> None:
        """Read them again."""
        super().on_screen_resume()
        self._seen = None
        self._look()

    def show_view(self, view: View) -> None:
        """Take newer titles."""
        self.draw()

    def _look(self) -> None:
        store, seen = self.app.places.store, self._seen

        def question(
            db: sqlite3.Connection,
        ) -> tuple[tuple[object, ...], list[Action]] | None:
            from ..actions import read_actions, signature

            now = signature(db, store)
            return None if now == seen else (now, read_actions(db, store))

        self.look_up(question, self._take)

    def _take(self, found: tuple[tuple[object, ...], list[Action]] | Trouble | None) -> None:
        if found is None:
            return
        if isinstance(found, tuple):
            self._seen, self._actions = found
            self.query_one(RowList).empty = NOTHING_YET
        else:
            self.query_one(RowList).empty = one_line(str(found))
        self.draw()

    @property
    def _marked(self) -> Action | None:
        key = self.query_one(RowList).key
        return next((each for each in self._actions if each.key == key), None)

    # What a person does.

    @on(RowList.Opened)
    def _open(self) -> None:
        from .receipt import ReceiptScreen

        action = self._marked
        if action is None:
            return
        if action.receipt_id is None:
            self.app.notify(one_line(f"{action.what}; {action.undo_obstacle}"), markup=False)
            return
        self.app.push_screen(ReceiptScreen(action.receipt_id, self._title(action)))

    def action_undo(self) -> None:
        """Take back the marked one; where that cannot be, say why."""
        action = self._marked
        if action is None:
            return
        if action.receipt_id is None:
            why = action.undo_obstacle or "there is nothing to take back"
            self.app.notify(one_line(why), title="cannot be undone", markup=False)
            return
        store, receipt_id = self.app.places.store, action.receipt_id

        def question(db: sqlite3.Connection) -> Receipt | None:
            from ..receipt_words import found_receipt

            del db
            return found_receipt(store, receipt_id)[0]

        def take(found: Receipt | Trouble | None) -> None:
            from ...core.compaction.receipts import Receipt

            if isinstance(found, Receipt):
                self.app.session_actions.undo(found, None, self._undone)

        self.look_up(question, take)

    def _undone(self, found: Undone | NotDone | Trouble) -> None:
        del found
        self._check_results = {}
        self._seen = None
        if self.is_attached:
            self._look()

    def action_check(self) -> None:
        """Take each back into nowhere, and say what stands in its way."""
        store = self.app.places.store

        def question(db: sqlite3.Connection) -> dict[str, str]:
            from ..receipt_words import checked_all

            del db
            return checked_all(store)

        self.app.notify("each receipt is taken back into nowhere …", markup=False)
        self.look_up(question, self._take_checks)

    def _take_checks(self, found: dict[str, str] | Trouble) -> None:
        if isinstance(found, dict):
            self._check_results = found
            bad = sum(said != "ok" for said in found.values())
            self.app.notify(f"{len(found)} receipts were tried out, {bad} cannot be undone")
        else:
            self.app.notify(one_line(str(found)), severity="error", markup=False)
        self.draw()

    def action_copy(self) -> None:
        """Copy the receipt's id."""
        action = self._marked
        if action is not None:
            name = action.receipt_id or action.session_id or action.what
            self.app.copy(name, f"receipt {name}")

    # Drawing.

    def _title(self, action: Action) -> str:
        sessions = self.app.view.sessions if self.app.view else ()
        known = (each.title for each in sessions if each.session_id == action.session_id)
        return next(known, (action.session_id or "ctxtop")[:8])

    def draw(self) -> None:
        """Draw what matches."""
        if not self.is_attached:
            return
        pane = self.query_one(RowList)
        sessions = self.app.view.sessions if self.app.view else ()
        titles = {each.session_id: each.title for each in sessions}
        shown = select_actions(self._actions, titles, self.words)
        if self.words and not shown:
            pane.empty = f"no receipt has the words “{self.words}”; Esc shows all"
        elif self._seen is not None:
            pane.empty = NOTHING_YET
        now = self.app.now_ms()
        pane.show_header(head_line(pane.row_width))
        pane.show_rows(
            [
                Row(
                    each.key,
                    action_line(
                        each,
                        titles.get(each.session_id or "", (each.session_id or "–")[:8]),
                        self._check_results.get(each.receipt_id or ""),
                        now,
                        pane.row_width,
                    ),
                )
                for each in shown
            ]
        )
        count = len(self._actions)
        pane.border_title = f"Receipts: {count:,}" if count else "Receipts"
        freed = sum(each.freed_tokens or 0 for each in shown if each.undo_obstacle is None)
        stands = f"≈ {tokens(freed)} tokens freed by what stands" if freed else ""
        pane.border_subtitle = Content(f"/{self.words}" if self.words else stands)
