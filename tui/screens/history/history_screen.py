"""The history page: every action, whether it can be undone, and undo."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from ....core.model.filter_language import fields_filter
from ....core.transcript.sanitize import one_line
from ...messages import FleetView
from ...tables import Cell, Column, total_cells
from ...text.formats import NOTHING, age, tokens
from ...text.text_lines import ScreenColumn, header_line, item_line
from ...widgets.filter_bar import FilterBar
from ...widgets.row_list import Row, RowList, Rows
from ..page import FilteredPage

if TYPE_CHECKING:
    from ....core.actions.session_access import ActionFailure
    from ....core.compaction.receipts import CompactionReceipt
    from ....core.compaction.undo import UndoResult
    from ....core.model.problem import Problem
    from .receipt_history import HistoryEntry


_DETAILS_FROM_CELLS: Final = 100  # cells from which on there is room for what was done and by whom


def history_columns(
    width: int, titles: Mapping[str, str], check_results: Mapping[str, str], now_ms: int
) -> list[ScreenColumn[HistoryEntry]]:
    """Lay out a line; `check_results` has how receipts stand of which undoing was tried."""

    def title(action: HistoryEntry) -> Cell:
        session_id = action.session_id or ""
        return Cell(one_line(titles.get(session_id, (session_id or NOTHING)[:8])))

    def state(action: HistoryEntry) -> Cell:
        return Cell(one_line(check_results.get(action.receipt_id or "") or action.state))

    columns: list[ScreenColumn[HistoryEntry]] = [
        Column("ago", lambda action: Cell(age(action.at, now_ms)), right=True, cells=7),
        Column("session", title),
        Column("how", lambda action: Cell(action.mode), cells=16),
        Column("what", _what_cell),
        Column("freed", _freed_cell, right=True, cells=8),
        Column("state", state, cells=16),
    ]
    room = max(0, width - total_cells(columns, 1) + 1)
    named = room if width < _DETAILS_FROM_CELLS else room * 2 // 5
    columns[1] = replace(columns[1], cells=named)
    columns[3] = replace(columns[3], cells=room - named - 1)
    return columns if width >= _DETAILS_FROM_CELLS else [*columns[:3], *columns[4:]]


def _what_cell(action: HistoryEntry) -> Cell:
    by = "" if action.requested_by in {"you", ""} else f" (by itself: {action.requested_by})"
    return Cell(one_line(f"{action.what}{by}"))


def _freed_cell(action: HistoryEntry) -> Cell:
    freed = action.freed_tokens
    return Cell(NOTHING if freed is None else f"≈ {tokens(freed)}")


def history_line(columns: Iterable[ScreenColumn[HistoryEntry]], action: HistoryEntry) -> Content:
    """Write an action's line, quiet where it cannot be undone."""
    style = "$foreground" if action.undo_obstacle is None else "$quiet"
    return item_line(columns, action).stylize(style)


def filter_history(
    actions: Iterable[HistoryEntry], titles: Mapping[str, str], words: str
) -> list[HistoryEntry]:
    """Choose the actions of which what is shown meets the filter."""
    is_wanted = fields_filter(words)

    def said(each: HistoryEntry) -> str:
        title = titles.get(each.session_id or "", "")
        parts = (
            title,
            each.session_id,
            each.receipt_id,
            each.mode,
            each.what,
            each.requested_by,
            each.state,
        )
        return " ".join(part for part in parts if part).casefold()

    return [each for each in actions if is_wanted({"": said(each)})]


REFRESH_S: Final = 2.0
"""How often it is looked whether something was done, by this ctxtop or by another one."""

EMPTY_TEXT: Final = (
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
        self._actions: list[HistoryEntry] = []
        self._seen: tuple[object, ...] | None = None
        self._check_results: dict[str, str] = {}

    def compose_page(self) -> Iterable[Widget]:
        yield RowList(id="actions", number="", name="Receipts")
        yield FilterBar("a title, fork, in place, undone, a receipt's id …")

    def on_mount(self) -> None:
        self.query_one(RowList).empty = "the receipts are being read …"
        self.query_one(Rows).focus()
        self.set_interval(REFRESH_S, self._look)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self._seen = None
        self._look()

    def show_view(self, view: FleetView) -> None:
        """Redraw, because sessions may have new titles."""
        self.draw()

    def _look(self) -> None:
        store, seen = self.app.places.store, self._seen

        def question(
            db: sqlite3.Connection,
        ) -> tuple[tuple[object, ...], list[HistoryEntry]] | None:
            from .receipt_history import history_signature, read_history

            now = history_signature(db, store)
            return None if now == seen else (now, read_history(db, store))

        self.look_up(question, self._take)

    def _take(self, found: tuple[tuple[object, ...], list[HistoryEntry]] | Problem | None) -> None:
        if found is None:
            return
        if isinstance(found, tuple):
            self._seen, self._actions = found
            self.query_one(RowList).empty = EMPTY_TEXT
        else:
            self.query_one(RowList).empty = one_line(str(found))
        self.draw()

    @property
    def _marked(self) -> HistoryEntry | None:
        key = self.query_one(RowList).key
        return next((each for each in self._actions if each.key == key), None)

    # What a person does.

    @on(RowList.Opened)
    def _open(self) -> None:
        from .receipt_screen import ReceiptScreen

        action = self._marked
        if action is None:
            return
        if action.receipt_id is None:
            self.app.notify(one_line(f"{action.what}; {action.undo_obstacle}"), markup=False)
            return
        self.app.push_screen(ReceiptScreen(action.receipt_id, self._title(action)))

    def action_undo(self) -> None:
        """Undo the marked action, or notify why it cannot be undone."""
        action = self._marked
        if action is None:
            return
        if action.receipt_id is None:
            why = action.undo_obstacle or "there is nothing to take back"
            self.app.notify(one_line(why), title="cannot be undone", markup=False)
            return
        store, receipt_id = self.app.places.store, action.receipt_id

        def read() -> CompactionReceipt | None:
            from ....core.actions.session_compaction import read_receipt

            return read_receipt(store, receipt_id)[0]

        def take(found: CompactionReceipt | Problem | None) -> None:
            from ....core.compaction.receipts import CompactionReceipt

            if isinstance(found, CompactionReceipt):
                self.app.session_actions.undo(found, None, self._undone)
                return
            why = f"receipt {receipt_id} cannot be read any more" if found is None else str(found)
            self.app.notify(one_line(why), title="cannot be undone", severity="error", markup=False)

        self.work_out(read, take)

    def _undone(self, found: UndoResult | ActionFailure | Problem) -> None:
        del found
        self._check_results = {}
        self._seen = None
        if self.is_attached:
            self._look()

    def action_check(self) -> None:
        """Dry-run the undo of every receipt and show what prevents it."""
        store = self.app.places.store

        def check() -> dict[str, str]:
            from ....core.actions.session_compaction import check_all_receipts

            return check_all_receipts(store)

        self.app.notify("each receipt is taken back into nowhere …", markup=False)
        self.work_out(check, self._take_checks)

    def _take_checks(self, found: dict[str, str] | Problem) -> None:
        if isinstance(found, dict):
            self._check_results = found
            bad = sum(said != "ok" for said in found.values())
            self.app.notify(f"{len(found)} receipts were tried out, {bad} cannot be undone")
        else:
            self.app.notify(one_line(str(found)), severity="error", markup=False)
        self.draw()

    def action_copy(self) -> None:
        action = self._marked
        if action is not None:
            name = action.receipt_id or action.session_id or action.what
            self.app.copy(name, f"receipt {name}")

    # Drawing.

    def _title(self, action: HistoryEntry) -> str:
        sessions = self.app.view.sessions if self.app.view else ()
        known = (each.title for each in sessions if each.session_id == action.session_id)
        return next(known, (action.session_id or "ctxtop")[:8])

    def draw(self) -> None:
        if not self.is_attached:
            return
        pane = self.query_one(RowList)
        sessions = self.app.view.sessions if self.app.view else ()
        titles = {each.session_id: each.title for each in sessions}
        shown = filter_history(self._actions, titles, self.words)
        if self.words and not shown:
            pane.empty = f"no receipt has the words “{self.words}”; Esc shows all"
        elif self._seen is not None:
            pane.empty = EMPTY_TEXT
        columns = history_columns(pane.row_width, titles, self._check_results, self.app.now_ms())
        pane.show_header(header_line(columns))
        pane.show_rows([Row(each.key, history_line(columns, each)) for each in shown])
        count = len(self._actions)
        pane.border_title = f"Receipts: {count:,}" if count else "Receipts"
        freed = sum(each.freed_tokens or 0 for each in shown if each.undo_obstacle is None)
        stands = f"≈ {tokens(freed)} tokens freed by what stands" if freed else ""
        pane.border_subtitle = Content(f"/{self.words}" if self.words else stands)
