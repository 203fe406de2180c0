"""One receipt: what was done, its operations, its checks, and undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ....core.compaction.plan import Operation
from ....core.compaction.receipts import ApplyMode, CompactionReceipt
from ....core.compaction.undo import UndoResult
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...entities.receipt_history import RECEIPT_STATE_TEXTS, check_text, read_applied_changes
from ...page_kit.page import BROAD_CELLS, MAX_TEXT_CELLS, Page, ReadingScreen, text_width
from ...text.compaction_text import kept_text
from ...text.formats import (
    duration,
    fit_left,
    format_bytes,
    plural,
    shorten,
    tokens,
)
from ...text.listing import Row
from ...text.plan_report import FULL_TEXT_LINES, change_lines, preview_lines
from ...text.plan_text import HARM_NAMES, OperationChange, plan_reduction_text, target_text
from ...text.tables import ANY_WIDTH, Cell, Column
from ...text.text_lines import ScreenColumn, grow_columns, item_line
from ...widgets.row_list import RowList, Rows
from ...widgets.text_pane import Pager

if TYPE_CHECKING:
    from ....core.actions.session_access import ActionFailure
    from ....core.model.problem import Problem


_STATE_CELLS: Final = 8
_LINE_CELLS: Final = 7
_TOKENS_CELLS: Final = 9
_LEVEL_CELLS: Final = 11
_LEVEL_FROM_CELLS: Final = 96  # width from which there is room for the level


class AppliedState(StrEnum):
    APPLIED = "✓"
    MARKED = "▸ undo"
    UNDONE = "undone"


_STATE_STYLES: Final = {
    AppliedState.APPLIED: "$foreground",
    AppliedState.MARKED: "bold $accent",
    AppliedState.UNDONE: "$quiet",
}


NumberedOperation = tuple[int, Operation]  # its place in the plan


def applied_columns(
    width: int, state_of: Callable[[int], AppliedState]
) -> list[ScreenColumn[NumberedOperation]]:
    columns: list[ScreenColumn[NumberedOperation]] = [
        Column("", lambda row: Cell(state_of(row[0])), cells=_STATE_CELLS, tooltip="its state"),
        Column(
            "line",
            lambda row: Cell("" if row[1].line is None else f"{row[1].line:,}"),
            right=True,
            cells=_LINE_CELLS,
            tooltip="the line of the transcript",
            sort_key=lambda row: row[1].line,
        ),
        Column(
            "level",
            lambda row: Cell(HARM_NAMES[row[1].level]),
            cells=_LEVEL_CELLS,
            priority=1,
            tooltip="how much is lost",
            sort_key=lambda row: row[1].level,
        ),
        Column(
            "what",
            lambda row: Cell(row[1].what),
            grows_to=ANY_WIDTH,
            tooltip="what was removed or shortened",
            sort_key=lambda row: row[1].what,
        ),
        Column(
            "tokens",
            lambda row: Cell(f"{row[1].tokens_saved:,}" if row[1].tokens_saved else "–"),
            right=True,
            cells=_TOKENS_CELLS,
            tooltip="what it took out of the context",
            sort_key=lambda row: row[1].tokens_saved,
        ),
    ]
    shown = [each for each in columns if not each.priority or width >= _LEVEL_FROM_CELLS]
    return grow_columns(shown, (), width)


LABEL_CELLS: Final = 9
CHECK_CELLS: Final = 36  # of one check with its description


def check_lines(checks: Sequence[str], ticked: int, width: int) -> Content:
    """Render the checks in columns, the first `ticked` of them with their tick."""
    columns = max(1, width // CHECK_CELLS)
    height = -(-len(checks) // columns)

    def cell(number: int) -> Content:
        text = fit_left(f"{checks[number]:<3} {check_text(checks[number])}", CHECK_CELLS - 2)
        if number >= ticked:
            return Content.styled(f"· {text}", "$quiet")
        return Content.styled("✓ ", "$level-calm") + Content(text)

    rows = (map(cell, range(first, len(checks), height)) for first in range(height))
    return Content("\n").join(Content("").join(row) for row in rows)


def receipt_summary(
    receipt: CompactionReceipt, obstacle: str | None, when: str, width: int
) -> Content:
    return Content("\n").join(
        Content.styled(fit_left(label, LABEL_CELLS), "$quiet") + text
        for label, text in _summary_facts(receipt, obstacle, when, max(0, width - LABEL_CELLS))
    )


def _summary_facts(
    receipt: CompactionReceipt, obstacle: str | None, when: str, width: int
) -> Iterator[tuple[str, Content]]:
    def fit(text: str) -> Content:
        return Content(shorten(text, width))

    plan = receipt.plan
    by = f"automatic: {one_line(receipt.automatic)}" if receipt.automatic else "requested by you"
    yield "done", fit(f"{when}, {by} · receipt {receipt.receipt_id}")
    where = {
        ApplyMode.FORK: f"a fork, {receipt.new_session_id}; the session is unchanged",
        ApplyMode.IN_PLACE: "in the session itself; a backup is kept",
        ApplyMode.APPEND: "appended to the session; no line was rewritten",
    }
    yield "where", fit(where[receipt.mode])
    less = plan_reduction_text(plan)
    sizes = f"≈ {tokens(plan.before_tokens)} → ≈ {tokens(plan.after_tokens)}, {less}"
    files = f"file {format_bytes(plan.bytes_before)} → {format_bytes(plan.bytes_after)}"
    yield "context", fit(f"{sizes} · {files}")
    if target := target_text(plan):
        yield "target", fit(target)
    if plan.summary and (kept := kept_text(plan.summary.kept, plan.summary.lost)):
        yield "kept", fit(kept)
    if receipt.mode is not ApplyMode.FORK and receipt.backup:
        yield "copy", fit(f"{receipt.backup[:12]}… of {receipt.transcript}")
    # A command is never cut: people copy it.
    yield "resume", Content.styled(one_line(receipt.resume_command), "bold $accent")
    undone = len(receipt.now.undone) if receipt.now else 0
    state = RECEIPT_STATE_TEXTS[receipt.state]
    if undone and undone < len(plan.operations):
        state = f"{undone} of {len(plan.operations)} operations are undone"
    if obstacle and not undone:
        state = f"cannot be undone: {one_line(obstacle)}"
    checks = f" · ✓ {plural(len(receipt.verified), 'check')} held" if receipt.verified else ""
    shown = shorten(state, max(0, width - len(checks)))
    yield "state", Content.assemble((shown, "bold $foreground"), (checks, "$level-calm"))


TICK_INTERVAL_S: Final = 0.04  # short enough not to wait for, long enough to see each tick
SHOWN_CHANGES: Final = 10  # changes of one operation that are read to be shown
PADDING_CELLS: Final = 4  # of the page's padding and its scroll bar


class ReceiptScreen(Page):
    CSS_PATH = "receipt.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (BROAD_CELLS, "-broad")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    KEYS_IF_ROOM = ("text", "copy")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("space", "mark", "Mark", "mark for undo", "mark"),
        bind_hidden("right", "show", "Text", "show its text before and after", "text"),
        bind("u", "undo", "Undo", "undo the marked operations, or all", "undo"),
        bind("v", "check", "Check", "test whether it can be undone", "check"),
        bind_hidden("y", "copy", "Copy", "copy the resume command", "copy"),
    ]

    def __init__(self, receipt_id: str, title: str, ticked: int | None = None) -> None:
        """Show a receipt; `ticked` checks have their tick at first, all if it is None."""
        super().__init__(title, f"receipt {receipt_id}")
        self._receipt_id: Final = receipt_id
        self._title: Final = title
        self._receipt: CompactionReceipt | None = None
        self._obstacle: str | None = None
        self._marked: set[int] = set()
        self._ticked = ticked
        self._tick_timer: Timer | None = None

    def compose_page(self) -> Iterable[Widget]:
        yield Static(id="done")
        yield Static(id="ticks")
        with Container(id="body"):
            yield RowList(id="operations", name="Operations", empty="reading the receipt …")
            yield Pager(Static(id="change"), id="words")

    def on_screen_resume(self) -> None:
        """Read it again: it may have been undone meanwhile."""
        super().on_screen_resume()
        self._read()

    def _read(self) -> None:
        store, receipt_id = self.app.places.store, self._receipt_id

        def read() -> tuple[CompactionReceipt | None, str | None]:
            from ....core.actions.session_compaction import read_receipt

            return read_receipt(store, receipt_id)

        self.work_out(read, self._show_receipt)

    def _show_receipt(self, result: tuple[CompactionReceipt | None, str | None] | Problem) -> None:
        if not isinstance(result, tuple) or result[0] is None:
            why = str(result) if not isinstance(result, tuple) else "it can no longer be read"
            self.row_list.empty = one_line(why)
            return
        is_first = self._receipt is None
        self._receipt, self._obstacle = result
        if is_first:
            self._begin_ticking()
        self._draw()

    def _begin_ticking(self) -> None:
        if self.app.animation_level == "none":
            self._ticked = None
        if self._ticked is not None:
            # Without a number of repeats: a busy machine drops beats, and each tick must be drawn.
            self._tick_timer = self.set_interval(TICK_INTERVAL_S, self._tick)

    def _tick(self) -> None:
        count = len(self._receipt.verified) if self._receipt else 0
        self._ticked = (self._ticked or 0) + 1
        if self._ticked >= count and self._tick_timer is not None:
            self._tick_timer.stop()
        self._draw_ticks()

    def action_mark(self) -> None:
        number = self._number
        if number is not None and self._state_of(number) is not AppliedState.UNDONE:
            self._marked ^= {number}
            self._draw()

    def action_undo(self) -> None:
        """Undo the marked operations, or all of them if none is marked."""
        if self._receipt is not None:
            numbers = sorted(self._marked) or None
            self.app.session_actions.undo(self._receipt, numbers, self._undone)

    def _undone(self, _result: UndoResult | ActionFailure | Problem) -> None:
        self._marked = set()
        if self.is_attached:
            self._read()

    def action_check(self) -> None:
        receipt, store = self._receipt, self.app.places.store
        if receipt is None:
            return

        def check() -> str:
            from ....core.actions.session_compaction import try_undo
            from ....core.store.database import state_folder

            refusal = try_undo(receipt, state_folder(store))
            if refusal is None:
                return "tested: it can be undone byte for byte"
            return str(refusal)

        self.work_out(check, lambda text: self.app.toast(str(text)))

    def action_copy(self) -> None:
        if self._receipt is not None:
            self.app.copy(self._receipt.resume_command, "the resume command")

    @on(RowList.Opened)
    def action_show(self) -> None:
        number = self._number
        if number is None or self._receipt is None:
            return
        what = self._receipt.plan.operations[number].what
        crumbs = (self._title, f"receipt {self._receipt_id}", what)
        self._read_change(
            number,
            text_width(self.size.width),
            FULL_TEXT_LINES,
            lambda content: self.app.push_screen(ReadingScreen(*crumbs, content=content)),
        )

    @on(RowList.Highlighted)
    def _show_preview(self) -> None:
        number, pane = self._number, self.query_one("#words")
        if number is None or not pane.display:
            return

        def show(content: Content) -> None:
            if number == self._number:
                self.query_one("#change", Static).update(content)

        width = min(pane.scrollable_content_region.width, MAX_TEXT_CELLS)
        self._read_change(number, width, preview_lines(pane.size.height), show)

    def _read_change(
        self, number: int, width: int, lines: int, show: Callable[[Content], object]
    ) -> None:
        receipt, store = self._receipt, self.app.places.store
        if receipt is None:
            return
        operation = receipt.plan.operations[number]

        def take(found: list[OperationChange] | Problem) -> None:
            show(change_lines(operation, found, width, lines))

        self.work_out(lambda: read_applied_changes(receipt, operation, store, SHOWN_CHANGES), take)

    @property
    def _number(self) -> int | None:
        key = self.row_list.key
        return int(key) if key is not None else None

    @on(Rows.RoomChanged)
    def _draw(self) -> None:
        receipt = self._receipt
        if receipt is None or not self.is_attached:
            return
        width = max(0, self.size.width - PADDING_CELLS)
        when = f"{duration(self.app.now_ms() - receipt.at)} ago"
        summary = receipt_summary(receipt, self._obstacle, when, width)
        self.query_one("#done", Static).update(summary)
        self._draw_ticks()
        pane = self.row_list
        row_width, operations = pane.row_width, receipt.plan.operations
        columns = applied_columns(row_width, self._state_of)
        pane.show_columns(columns)
        pane.show_rows(
            [
                Row(
                    str(row[0]),
                    item_line(columns, row).stylize(_STATE_STYLES[self._state_of(row[0])]),
                )
                for row in pane.in_order(enumerate(operations))
            ]
        )
        marked = f" · {len(self._marked)} marked" if self._marked else ""
        pane.border_title = f"Operations: {len(operations):,}{marked}"
        self._show_preview()

    def _state_of(self, number: int) -> AppliedState:
        if self._receipt and self._receipt.now and number in self._receipt.now.undone:
            return AppliedState.UNDONE
        return AppliedState.MARKED if number in self._marked else AppliedState.APPLIED

    def _draw_ticks(self) -> None:
        if self._receipt is not None and self.is_attached:
            width = max(0, self.size.width - PADDING_CELLS)
            checks = self._receipt.verified
            ticked = len(checks) if self._ticked is None else self._ticked
            self.query_one("#ticks", Static).update(check_lines(checks, ticked, width))
