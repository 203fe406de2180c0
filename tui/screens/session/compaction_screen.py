"""A session's compactions: the list of all, and a page for what one retained and lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ....core.model.session import Session
from ....core.model.stored_rows import CompactionRow
from ....core.summaries.compaction_report import RetainedAndLost
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...entities.compactions import (
    NO_SUMMARY,
    NOTHING_LOST,
    READING_RETAINED,
    REPORT_PENDING,
    TRANSCRIPT_GONE,
    CompactionItem,
    ReportedCompaction,
    _compaction_header,
    _size_bars,
    group_compaction_items,
    is_content_known,
    retained_and_lost_listing,
)
from ...page_kit.page import Page, ReadingScreen
from ...text import compaction_text, formats
from ...text.compaction_text import CONTENT_UNKNOWN
from ...text.markdown_text import markdown_lines
from ...text.text_lines import heading, join_lines, quiet
from ...widgets.row_list import RowList, Rows
from ...widgets.text_pane import Pager

if TYPE_CHECKING:
    from ....core.model.problem import Problem


class CompactionDetailScreen(Page):
    """Shows at once what is reported, then what was retained, which is read from the transcript."""

    CSS_PATH = "compaction_detail.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "copy", "Copy as prompt", "copy what was lost as a prompt", "copy"),
        bind_hidden("1", "rows", "Kept, lost", "what was kept and lost", "lens_rows"),
        bind("2", "summary", "Summary", "read the summary", "lens_summary"),
    ]

    def __init__(self, session: Session, compaction: ReportedCompaction) -> None:
        at = compaction.row.at
        name = f"compaction of {formats.month_day_time(at)}" if at else "compaction"
        super().__init__(session.title, name, session_id=session.session_id)
        self._session: Final = session
        self._compaction: Final = compaction
        self._retained_and_lost: RetainedAndLost | None = None
        self._note = READING_RETAINED

    def compose_page(self) -> Iterable[Widget]:
        yield Static(id="sizes", markup=False)
        yield Static(id="how", markup=False)
        with Horizontal(id="body"):
            yield RowList(id="rows", number="¹", name="Kept and lost")
            with Pager(id="beside"):
                yield Static(id="detail", markup=False)

    def on_mount(self) -> None:
        self.query_one("#beside").border_title = "² The summary"
        self.action_rows()
        self.draw()
        projects, row = self.app.places.folder.projects, self._compaction.row
        self.look_up(lambda db: _read_retained_and_lost(db, projects, row), self._show_retained)

    def _show_retained(self, found: RetainedAndLost | Problem | str) -> None:
        rows = self.query_one(RowList)
        is_untouched = not rows.rows.highlighted
        if isinstance(found, RetainedAndLost):
            self._retained_and_lost, self._note = found, ""
        else:
            self._note = one_line(str(found))
        self.draw()
        if is_untouched:
            rows.highlight_first()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    @on(Rows.RoomChanged)
    def draw(self) -> None:
        if not self.is_attached:
            return
        compaction, width = self._compaction, self.size.width
        bars = _size_bars(compaction.row, self._session.context.window.tokens, width - 2)
        self.query_one("#sizes", Static).update(bars)
        self.query_one("#how", Static).update(_compaction_header(compaction, self.app.now_ms()))
        rows = self.query_one(RowList)
        groups = group_compaction_items(
            compaction.report, self._retained_and_lost, compaction.steering
        )
        folders = self._session.project_root, self._session.cwd
        listing = retained_and_lost_listing(groups, rows.row_width or width, self._empty, *folders)
        rows.empty = listing.empty
        rows.show_header(quiet(self._note) if self._note else listing.head)
        rows.show_rows(listing.rows)
        self.query_one("#detail", Static).update(self._summary)

    @property
    def _is_known(self) -> bool:
        return is_content_known(self._compaction.report, self._retained_and_lost)

    @property
    def _empty(self) -> str:
        if self._compaction.report is None and self._retained_and_lost is None:
            return REPORT_PENDING
        return NOTHING_LOST if self._is_known else CONTENT_UNKNOWN

    @property
    def _summary(self) -> Content:
        summary = self._compaction.row.summary
        if not summary:
            return quiet(NO_SUMMARY)
        beside = self.query_one("#beside").scrollable_content_region.width
        return join_lines(*markdown_lines(summary, beside or self.size.width - 2))

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        item = event.widget.item
        if isinstance(item, CompactionItem):
            where = "" if item.line is None else f"line {item.line} of the transcript"
            kept = heading("kept" if item.is_retained else "lost")
            used = Content(f"{item.text} ({item.how})" if item.how else item.text)
            self._read(join_lines(kept, used, quiet(where)))

    def action_rows(self) -> None:
        self.query_one(RowList).rows.focus()

    def action_summary(self) -> None:
        """Focus the summary, or open it where it has no room."""
        beside = self.query_one("#beside")
        if beside.display:
            beside.focus()
        else:
            self._read(self._summary)

    def action_copy(self) -> None:
        report = self._compaction.report
        prompt = compaction_text.forgotten_prompt(report.forgotten) if report else ""
        if prompt:
            self.app.copy(prompt, "what was lost, as a prompt")
        else:
            nothing = "nothing that could be restored was lost"
            self.notify(nothing if self._is_known else CONTENT_UNKNOWN, markup=False)

    def _read(self, content: Content) -> None:
        crumbs = self._crumbs[1:]
        self.app.push_screen(ReadingScreen(*crumbs, content=content, session_id=self.session_id))


def _read_retained_and_lost(
    db: sqlite3.Connection, projects: Path, row: CompactionRow
) -> RetainedAndLost | str:
    from ....collectors.claude_code.transcripts.replaced_content import read_retained_and_lost

    try:
        return read_retained_and_lost(db, projects, row) or TRANSCRIPT_GONE
    except OSError as error:
        return f"what was kept cannot be read: {error.strerror or error}"
