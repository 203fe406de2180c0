"""The history page: every action, whether it can be undone, and undo."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget

from ....core.transcript.filter_language import fields_filter
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView
from ...page_kit.page import FilteredPage
from ...text.formats import NOTHING, age, date_time, tokens
from ...text.listing import Row
from ...text.tables import ANY_WIDTH, Cell, Column
from ...text.text_lines import ScreenColumn, grow_columns, item_line
from ...widgets.controls import FilterBar
from ...widgets.row_list import RowList

if TYPE_CHECKING:
    from ....core.actions.session_access import ActionFailure
    from ....core.compaction.receipts import CompactionReceipt
    from ....core.compaction.undo import UndoResult
    from ....core.model.problem import Problem
    from ...entities.receipt_history import HistoryEntry


def history_columns(
    entries: Sequence[HistoryEntry],
    width: int,
    titles: Mapping[str, str],
    check_results: Mapping[str, str],
    now_ms: int,
) -> list[ScreenColumn[HistoryEntry]]:
    """Lay out lines; `check_results` has the dry-run results of receipts by id."""

    def title(entry: HistoryEntry) -> Cell:
        session_id = entry.session_id or ""
        return Cell(one_line(titles.get(session_id, (session_id or NOTHING)[:8])))

    def state(entry: HistoryEntry) -> Cell:
        return Cell(one_line(check_results.get(entry.receipt_id or "") or entry.state))

    columns: list[ScreenColumn[HistoryEntry]] = [
        Column(
            "ago",
            lambda entry: Cell(age(entry.at, now_ms)),
            right=True,
            cells=7,
            tooltip="how long ago",
            sort_key=lambda entry: entry.at,
        ),
        Column(
            "when",
            lambda entry: Cell(date_time(entry.at)),
            cells=16,
            priority=2,
            tooltip="the date and time",
            sort_key=lambda entry: entry.at,
        ),
        Column(
            "session",
            title,
            cells=24,
            grows_to=ANY_WIDTH,
            tooltip="the session that was changed",
            sort_key=lambda entry: title(entry).text.casefold(),
        ),
        Column(
            "how",
            lambda entry: Cell(entry.mode),
            cells=16,
            tooltip="a fork, in place, or by Claude Code",
            sort_key=lambda entry: entry.mode,
        ),
        Column(
            "what",
            _what_cell,
            cells=24,
            priority=1,
            grows_to=ANY_WIDTH,
            tooltip="what was done, and why if ctxtop did it automatically",
        ),
        Column(
            "freed",
            _freed_cell,
            right=True,
            cells=8,
            tooltip="tokens that it took out of the context",
            sort_key=lambda entry: entry.freed_tokens,
        ),
        Column(
            "state",
            state,
            cells=16,
            tooltip="whether it is in force, and whether it can be undone",
            sort_key=lambda entry: state(entry).text,
        ),
    ]
    return grow_columns(columns, entries, width)


def _what_cell(entry: HistoryEntry) -> Cell:
    # The reason of an automatic change comes first: what does not fit is cut at its end.
    reason = "" if entry.requested_by in {"you", ""} else f"{entry.requested_by}: "
    return Cell(one_line(f"{reason}{entry.what}"))


def _freed_cell(entry: HistoryEntry) -> Cell:
    freed = entry.freed_tokens
    return Cell(NOTHING if freed is None else f"≈ {tokens(freed)}")


def history_line(columns: Iterable[ScreenColumn[HistoryEntry]], entry: HistoryEntry) -> Content:
    style = "$foreground" if entry.undo_obstacle is None else "$quiet"
    return item_line(columns, entry).stylize(style)


def filter_history(
    entries: Iterable[HistoryEntry], titles: Mapping[str, str], words: str
) -> list[HistoryEntry]:
    matches = fields_filter(words)

    def text(entry: HistoryEntry) -> str:
        fields = (
            titles.get(entry.session_id or ""), entry.session_id, entry.receipt_id, entry.mode,
            entry.what, entry.requested_by, entry.state,
        )  # fmt: skip
        return " ".join(field for field in fields if field).casefold()

    return [entry for entry in entries if matches({"": text(entry)})]


REFRESH_S: Final = 2.0  # between two looks for new actions, of this ctxtop or another one

EMPTY_TEXT: Final = (
    "No changes yet.\nc on a session plans a compaction. Changes are listed here,"
    " and u undoes them."
)


class ReceiptsScreen(FilteredPage):
    KEYS_IF_ROOM = ("copy",)
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("u", "undo", "Undo", "undo the selected change", "undo"),
        bind("v", "check", "Check", "test whether each change can be undone", "check"),
        bind_hidden("y", "copy", "Copy", "copy the receipt's id", "copy"),
    ]

    def __init__(self) -> None:
        super().__init__("history")
        self._entries: list[HistoryEntry] = []
        self._signature: tuple[object, ...] | None = None
        self._check_results: dict[str, str] = {}

    def compose_page(self) -> Iterable[Widget]:
        yield RowList(id="actions", name="History", empty="reading the history …")
        yield FilterBar("a title, fork, in place, undone, a receipt's id …")

    def on_mount(self) -> None:
        self.set_interval(REFRESH_S, self._read)

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self._read_again()

    def show_view(self, view: FleetView) -> None:
        """Redraw, because sessions may have new titles."""
        self.draw()

    def _read_again(self) -> None:
        self._signature = None
        self._read()

    def _read(self) -> None:
        store, signature = self.app.places.store, self._signature

        def query(db: sqlite3.Connection) -> tuple[tuple[object, ...], list[HistoryEntry]] | None:
            from ...entities.receipt_history import history_signature, read_history

            now = history_signature(db, store)
            return None if now == signature else (now, read_history(db, store))

        self.look_up(query, self._show_entries)

    def _show_entries(
        self, result: tuple[tuple[object, ...], list[HistoryEntry]] | Problem | None
    ) -> None:
        if result is None:
            return
        if isinstance(result, tuple):
            self._signature, self._entries = result
            self.row_list.empty = EMPTY_TEXT
        else:
            self.row_list.empty = one_line(str(result))
        self.draw()

    @property
    def _marked(self) -> HistoryEntry | None:
        key = self.row_list.key
        return next((entry for entry in self._entries if entry.key == key), None)

    @on(RowList.Opened)
    def _open(self) -> None:
        from .receipt_screen import ReceiptScreen

        entry = self._marked
        if entry is None:
            return
        if entry.receipt_id is None:
            self.app.toast(f"{entry.what}; {entry.undo_obstacle}")
            return
        title = self.app.title_of(entry.session_id or "ctxtop")
        self.app.push_screen(ReceiptScreen(entry.receipt_id, title))

    def action_undo(self) -> None:
        """Undo the marked action, or notify why it cannot be undone."""
        entry = self._marked
        if entry is None:
            return
        if entry.receipt_id is None:
            self.app.toast(entry.undo_obstacle or "there is nothing to undo", "cannot be undone")
            return
        store, receipt_id = self.app.places.store, entry.receipt_id

        def read() -> CompactionReceipt | None:
            from ....core.actions.session_compaction import read_receipt

            return read_receipt(store, receipt_id)[0]

        def undo(receipt: CompactionReceipt | Problem | None) -> None:
            from ....core.compaction.receipts import CompactionReceipt

            if isinstance(receipt, CompactionReceipt):
                self.app.session_actions.undo(receipt, None, self._undone)
                return
            why = str(receipt or f"receipt {receipt_id} can no longer be read")
            self.app.toast(why, "cannot be undone", "error")

        self.work_out(read, undo)

    def _undone(self, _result: UndoResult | ActionFailure | Problem) -> None:
        self._check_results = {}
        if self.is_attached:
            self._read_again()

    def action_check(self) -> None:
        store = self.app.places.store

        def check() -> dict[str, str]:
            from ....core.actions.session_compaction import check_all_receipts

            return check_all_receipts(store)

        self.app.toast("testing every undo …")
        self.work_out(check, self._show_check_results)

    def _show_check_results(self, results: dict[str, str] | Problem) -> None:
        if isinstance(results, dict):
            self._check_results = results
            failed = sum(result != "ok" for result in results.values())
            self.app.toast(f"{len(results)} receipts tested, {failed} cannot be undone")
        else:
            self.app.toast(str(results), severity="error")
        self.draw()

    def action_copy(self) -> None:
        entry = self._marked
        if entry is not None:
            name = entry.receipt_id or entry.session_id or entry.what
            self.app.copy(name, f"receipt {name}")

    def draw(self) -> None:
        if not self.is_attached:
            return
        pane = self.row_list
        titles = {session.session_id: session.title for session in self.app.sessions}
        shown = filter_history(self._entries, titles, self.words)
        if self.words and not shown:
            pane.empty = f"no receipt matches “{self.words}”; Esc shows all"
        elif self._signature is not None:
            pane.empty = EMPTY_TEXT
        columns = history_columns(
            shown, pane.row_width, titles, self._check_results, self.app.now_ms()
        )
        pane.show_columns(columns)
        pane.show_rows(
            [Row(entry.key, history_line(columns, entry)) for entry in pane.in_order(shown)]
        )
        count = len(self._entries)
        pane.border_title = f"History: {count:,}" if count else "History"
        freed = sum(entry.freed_tokens or 0 for entry in shown if entry.undo_obstacle is None)
        summary = f"≈ {tokens(freed)} tokens freed" if freed else ""
        pane.border_subtitle = Content(f"/{self.words}" if self.words else summary)
