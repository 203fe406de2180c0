"""The history page: every action, whether it can be undone, and undo."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from ....core.transcript.sanitize import one_line
from ...messages import FleetView
from ...text.formats import duration, fit_left, fit_right, tokens
from ...widgets.filter_bar import FilterBar
from ...widgets.row_list import Row, RowList, Rows
from ..page import FilteredPage

if TYPE_CHECKING:
    from ....core.actions.session_access import ActionFailure
    from ....core.compaction.receipts import CompactionReceipt
    from ....core.compaction.undo import UndoResult
    from ....core.model.problem import Problem
    from .receipt_history import HistoryEntry


_AGE_CELLS: Final = 7
_MODE_CELLS: Final = 16
_FREED_CELLS: Final = 8
_STATE_CELLS: Final = 16
_DETAILS_FROM_CELLS: Final = 100
"""Cells from which on there is room for what was done and by whom."""


def history_header(width: int) -> Content:
    return Content.styled(
        _history_cells("ago", "session", "how", "what", "freed", "state", width), "$quiet"
    )


def history_line(
    action: HistoryEntry, title: str, check_result: str | None, now_ms: int, width: int
) -> Content:
    """Return a row; `check_result` is how it stands where that was tried out."""
    freed = "–" if action.freed_tokens is None else f"≈ {tokens(action.freed_tokens)}"
    state = check_result or action.state
    by = "" if action.requested_by in {"you", ""} else f" (by itself: {action.requested_by})"
    words = _history_cells(
        duration(now_ms - action.at), title, action.mode, f"{action.what}{by}", freed, state, width
    )
    stands = action.undo_obstacle is None
    return Content.styled(words, "$foreground" if stands else "$quiet")


def filter_history(
    actions: Iterable[HistoryEntry], titles: Mapping[str, str], words: str
) -> list[HistoryEntry]:
    """Keep those that have all of some words in what is shown of them."""
    wanted = words.lower().split()

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
        return " ".join(part for part in parts if part).lower()

    return [each for each in actions if all(word in said(each) for word in wanted)]


def _history_cells(
    when: str, session: str, mode: str, what: str, freed: str, state: str, width: int
) -> str:
    fixed = _AGE_CELLS + _MODE_CELLS + _FREED_CELLS + _STATE_CELLS + 4
    room = max(0, width - fixed)
    if width < _DETAILS_FROM_CELLS:
        titled = fit_left(one_line(session), room)
        return (
            f"{fit_right(when, _AGE_CELLS)} {titled} {fit_left(mode, _MODE_CELLS)}"
            f" {fit_right(freed, _FREED_CELLS)}"
            f" {fit_left(one_line(state), _STATE_CELLS)}"
        )
    named = room * 2 // 5
    return (
        f"{fit_right(when, _AGE_CELLS)} {fit_left(one_line(session), named)}"
        f" {fit_left(mode, _MODE_CELLS)}"
        f" {fit_left(one_line(what), room - named - 1)} {fit_right(freed, _FREED_CELLS)}"
        f" {fit_left(one_line(state), _STATE_CELLS)}"
    )


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
        now = self.app.now_ms()
        pane.show_header(history_header(pane.row_width))
        pane.show_rows(
            [
                Row(
                    each.key,
                    history_line(
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
