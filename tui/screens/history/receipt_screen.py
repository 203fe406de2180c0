"""One receipt: what was done, its operations, its checks, and undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ....core.compaction.plan import Operation
from ....core.compaction.receipts import ApplyMode, CompactionReceipt
from ....core.compaction.undo import UndoResult
from ....core.transcript.sanitize import one_line
from ...text.formats import duration, fit_left, fit_right, percent, plural, shorten_middle, tokens
from ...text.plan_report import format_bytes
from ...text.plan_text import HARM_NAMES, OperationChange
from ...widgets.row_list import Row, RowList, Rows
from ...widgets.text_pane import Pager
from ..page import Page
from .receipt_history import RECEIPT_STATE_TEXTS, check_text

if TYPE_CHECKING:
    from ....core.actions.session_access import ActionFailure
    from ....core.model.problem import Problem


_STATE_CELLS: Final = 8
_LINE_CELLS: Final = 7
_TOKENS_CELLS: Final = 9
_LEVEL_CELLS: Final = 11
_LEVEL_FROM_CELLS: Final = 96


def applied_header(width: int) -> Content:
    return Content.styled(_applied_cells("", "line", "level", "what", "tokens", width), "$quiet")


class AppliedState(StrEnum):
    """How an operation stands, as its row begins."""

    APPLIED = "✓"
    MARKED = "▸ undo"
    UNDONE = "undone"


_STATE_STYLES: Final = {
    AppliedState.APPLIED: "$foreground",
    AppliedState.MARKED: "bold $accent",
    AppliedState.UNDONE: "$quiet",
}


def applied_operation_line(operation: Operation, state: AppliedState, width: int) -> Content:
    line = "" if operation.line is None else f"{operation.line:,}"
    freed = f"{operation.tokens_saved:,}" if operation.tokens_saved else "–"
    said = _applied_cells(state, line, HARM_NAMES[operation.level], operation.what, freed, width)
    return Content.styled(said, _STATE_STYLES[state])


def _applied_cells(state: str, line: str, level: str, what: str, freed: str, width: int) -> str:
    head = f"{fit_left(state, _STATE_CELLS)} {fit_right(line, _LINE_CELLS)} "
    if width >= _LEVEL_FROM_CELLS:
        head += f"{fit_left(level, _LEVEL_CELLS)} "
    room = max(0, width - len(head) - _TOKENS_CELLS - 1)
    return f"{head}{fit_left(what, room)} {fit_right(freed, _TOKENS_CELLS)}"


LABEL_CELLS: Final = 9

CHECK_CELLS: Final = 36  # of one check with its words


def receipt_summary(
    receipt: CompactionReceipt, obstacle: str | None, when: str, width: int
) -> Content:
    """Return what was done and the state of the receipt, one fact per line."""
    return Content("\n").join(
        Content.styled(fit_left(label, LABEL_CELLS), "$quiet") + said
        for label, said in _summary_facts(receipt, obstacle, when, max(0, width - LABEL_CELLS))
    )


def check_lines(checks: Sequence[str], ticked: int, width: int) -> Content:
    """Draw the checks in columns, the first `ticked` of them with their tick."""
    columns = max(1, width // CHECK_CELLS)
    height = -(-len(checks) // columns)
    rows = []
    for line in range(height):
        cells = []
        for place in range(line, len(checks), height):
            words = f"{checks[place]:<3} {check_text(checks[place])}"
            if place < ticked:
                cell = Content.styled("✓ ", "$level-calm") + Content(
                    fit_left(words, CHECK_CELLS - 2)
                )
            else:
                cell = Content.styled(f"· {fit_left(words, CHECK_CELLS - 2)}", "$quiet")
            cells.append(cell)
        rows.append(Content("").join(cells))
    return Content("\n").join(rows)


def _summary_facts(
    receipt: CompactionReceipt, why_not: str | None, when: str, width: int
) -> Iterator[tuple[str, Content]]:
    plan = receipt.plan
    by = f"by itself: {one_line(receipt.automatic)}" if receipt.automatic else "you asked for it"
    yield "done", Content(shorten_middle(f"{when}, {by} · receipt {receipt.receipt_id}", width))
    what = {
        ApplyMode.FORK: f"a fork, {receipt.new_session_id}; the session stays as it was",
        ApplyMode.IN_PLACE: "in the session itself; a copy of what it was is kept",
        ApplyMode.APPEND: "at the session's end; nothing of it was rewritten",
    }
    yield "where", Content(shorten_middle(what[receipt.mode], width))
    share = percent(plan.saved_share)
    sizes = f"≈ {tokens(plan.before_tokens)} → ≈ {tokens(plan.after_tokens)}, {share} less"
    files = f"file {format_bytes(plan.bytes_before)} → {format_bytes(plan.bytes_after)}"
    yield "context", Content(shorten_middle(f"{sizes} · {files}", width))
    if receipt.mode is not ApplyMode.FORK and receipt.backup:
        yield (
            "copy",
            Content(shorten_middle(f"{receipt.backup[:12]}… of {receipt.transcript}", width)),
        )
    # A command is never cut: it is to be copied.
    yield "go on", Content.styled(one_line(receipt.resume_command), "bold $accent")
    undone = len(receipt.now.undone) if receipt.now else 0
    state = RECEIPT_STATE_TEXTS[receipt.state]
    if undone and undone < len(plan.operations):
        state = f"{undone} of {len(plan.operations)} operations are undone"
    if why_not and not undone:
        state = f"cannot be undone: {one_line(why_not)}"
    checks = f" · ✓ {plural(len(receipt.verified), 'check')} held" if receipt.verified else ""
    shown = shorten_middle(state, max(0, width - len(checks)))
    yield "state", Content.assemble((shown, "bold $foreground"), (checks, "$level-calm"))


TICK_INTERVAL_S: Final = 0.04  # between two ticks: each is seen to come, and none is waited for
PREVIEW_LINES: Final = 3  # lines of a text below the list; Enter shows all
SHOWN_CHANGES: Final = 10  # changes of one operation that are read to be shown
PADDING_CELLS: Final = 4  # cells of the page's padding and its scroll bar


class ReceiptScreen(Page):
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
        self._receipt: CompactionReceipt | None = None
        self._why_not: str | None = None
        self._marked: set[int] = set()
        self._ticked = ticked
        self._ticking: Timer | None = None

    def compose_page(self) -> Iterable[Widget]:
        yield Static(id="done")
        yield Static(id="ticks")
        yield RowList(id="operations", number="", name="Operations")
        yield Pager(Static(id="change"), id="words")

    def on_mount(self) -> None:
        self.query_one(RowList).empty = "the receipt is being read …"
        self.query_one(Rows).focus()

    def on_screen_resume(self) -> None:
        """Read it again: it may have been taken back meanwhile."""
        super().on_screen_resume()
        self._read()

    def _read(self) -> None:
        store, receipt_id = self.app.places.store, self._receipt_id

        def read() -> tuple[CompactionReceipt | None, str | None]:
            from ....core.actions.session_compaction import read_receipt

            return read_receipt(store, receipt_id)

        self.work_out(read, self._take)

    def _take(self, found: tuple[CompactionReceipt | None, str | None] | Problem) -> None:
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
            self._ticking = self.set_interval(TICK_INTERVAL_S, self._tick)

    def _tick(self) -> None:
        count = len(self._receipt.verified) if self._receipt else 0
        self._ticked = (self._ticked or 0) + 1
        if self._ticked >= count and self._ticking is not None:
            self._ticking.stop()
        self._draw_ticks()

    # What a person does.

    def action_mark(self) -> None:
        number = self._number
        if number is None or self._receipt is None:
            return
        undone = self._receipt.now.undone if self._receipt.now else ()
        if number not in undone:
            self._marked ^= {number}
            self._draw()

    def action_undo(self) -> None:
        """Undo the marked operations, or all of them if none is marked."""
        if self._receipt is not None:
            numbers = sorted(self._marked) or None
            self.app.session_actions.undo(self._receipt, numbers, self._undone)

    def _undone(self, found: UndoResult | ActionFailure | Problem) -> None:
        del found
        self._marked = set()
        if self.is_attached:
            self._read()

    def action_check(self) -> None:
        """Dry-run the undo and notify whether it would succeed."""
        receipt, store = self._receipt, self.app.places.store
        if receipt is None:
            return

        def check() -> str:
            from ....core.actions.session_compaction import try_undo
            from ....core.store.database import state_folder

            refusal = try_undo(receipt, state_folder(store))
            if refusal is None:
                return "it can be taken back byte for byte: that was tried out"
            return f"{refusal.check}: {refusal.why}: {refusal.what_to_do}"

        self.work_out(check, lambda said: self.app.notify(one_line(str(said)), markup=False))

    def action_copy(self) -> None:
        if self._receipt is not None:
            self.app.copy(self._receipt.resume_command, "the command that goes on with it")

    @on(RowList.Opened)
    def _open(self) -> None:
        self.action_show()

    def action_show(self) -> None:
        from ...text.plan_report import FULL_TEXT_LINES
        from ..page import ReadingScreen

        number = self._number
        if number is None or self._receipt is None:
            return
        operation = self._receipt.plan.operations[number]
        crumbs = (self._title, f"receipt {self._receipt_id}", operation.what)
        self._read_change(
            number,
            FULL_TEXT_LINES,
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

        self._read_change(number, PREVIEW_LINES, put)

    def _read_change(self, number: int, lines: int, show: Callable[[Content], object]) -> None:
        from ..page import text_width

        receipt, store = self._receipt, self.app.places.store
        width = text_width(self.size.width)
        if receipt is None:
            return
        operation = receipt.plan.operations[number]

        def read() -> list[OperationChange]:
            from .receipt_history import read_applied_changes

            return read_applied_changes(receipt, operation, store, SHOWN_CHANGES)

        def take(found: list[OperationChange] | Problem) -> None:
            show(_changes_content(operation, found, width, lines))

        self.work_out(read, take)

    # Drawing.

    @property
    def _number(self) -> int | None:
        key = self.query_one(RowList).key
        return int(key) if key is not None else None

    def _draw(self) -> None:
        receipt = self._receipt
        if receipt is None or not self.is_attached:
            return
        width = max(0, self.size.width - PADDING_CELLS)
        when = f"{duration(self.app.now_ms() - receipt.at)} ago"
        self.query_one("#done", Static).update(receipt_summary(receipt, self._why_not, when, width))
        self._draw_ticks()
        pane = self.query_one(RowList)
        pane.show_header(applied_header(pane.row_width))
        pane.show_rows(
            [
                Row(
                    str(number),
                    applied_operation_line(each, self._state_of(number), pane.row_width),
                )
                for number, each in enumerate(receipt.plan.operations)
            ]
        )
        marked = f" · {len(self._marked)} marked" if self._marked else ""
        pane.border_title = f"Operations: {len(receipt.plan.operations):,}{marked}"
        self._show_beside()

    def _state_of(self, number: int) -> AppliedState:
        if self._receipt and self._receipt.now and number in self._receipt.now.undone:
            return AppliedState.UNDONE
        return AppliedState.MARKED if number in self._marked else AppliedState.APPLIED

    def _draw_ticks(self) -> None:
        if self._receipt is not None and self.is_attached:
            width = max(0, self.size.width - PADDING_CELLS)
            checks = self._receipt.verified
            ticked = len(checks) if self._ticked is None else self._ticked
            drawn = check_lines(checks, ticked, width)
            self.query_one("#ticks", Static).update(drawn)

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self._draw()


def _changes_content(
    operation: Operation, found: list[OperationChange] | Problem, width: int, lines: int
) -> Content:
    from ...text.plan_report import change_lines

    if isinstance(found, list):
        return change_lines(operation, found, width, lines)
    return Content.styled(one_line(str(found)), "$level-warning")
