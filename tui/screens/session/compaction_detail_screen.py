"""A compaction's page: the context before and after it, and what was retained and lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ....core.measure.compaction_report import (
    CompactionReport,
    RetainedAndLost,
    SteeringOutcome,
)
from ....core.model.session import Session
from ....core.store.queries.query_rows import CompactionRow
from ....core.transcript.sanitize import one_line
from ...keymap import bind, bind_hidden
from ...text.compaction_text import CONTENT_UNKNOWN, forgotten_prompt
from ...text.formats import month_day_time
from ...text.text_lines import heading, join_lines, quiet
from ...widgets.row_list import RowList, Rows
from ...widgets.text_pane import Pager
from ..page import Page, ReadingScreen
from .compaction_rows import (
    compaction_header,
    find_compaction_item,
    group_compaction_items,
    is_content_known,
    retained_and_lost_listing,
    size_bars,
)

if TYPE_CHECKING:
    from ....core.model.problem import Problem


TRANSCRIPT_GONE: Final = "the transcript holds it no more: what was kept is not known"
NO_SUMMARY: Final = "No summary follows it in the transcript."
READING_RETAINED: Final = "what was kept is being looked up …"
NOTHING_LOST: Final = "Nothing that is looked for stood before it: no file, name, rule or decision."
REPORT_PENDING: Final = "what it forgot is being worked out …"


class CompactionDetailScreen(Page):
    """Shows what is told at once, and what was kept when it is worked out."""

    CSS_PATH = "compaction_detail.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("y", "copy", "Copy as prompt", "copy what was forgotten as a prompt", "copy"),
        bind_hidden("1", "rows", "Kept, forgotten", "what was kept and forgotten", "lens_rows"),
        bind("2", "summary", "Summary", "read the summary", "lens_summary"),
    ]

    def __init__(
        self,
        session: Session,
        row: CompactionRow,
        told: CompactionReport | None,
        asked: Sequence[SteeringOutcome] = (),
    ) -> None:
        name = f"compaction of {month_day_time(row.at)}" if row.at else "compaction"
        super().__init__(session.title, name, session_id=session.session_id)
        self._session: Final = session
        self._row: Final = row
        self._told: Final = told
        self._asked: Final = tuple(asked)
        self._halves: RetainedAndLost | None = None
        self._note = READING_RETAINED

    def compose_page(self) -> Iterable[Widget]:
        yield Static(id="sizes", markup=False)
        yield Static(id="how", markup=False)
        with Horizontal(id="body"):
            yield RowList(id="rows", number="¹", name="Kept and forgotten")
            with Pager(id="beside"):
                yield Static(id="detail", markup=False)

    def on_mount(self) -> None:
        self.query_one("#beside").border_title = "² The summary"
        self.query_one("#rows", RowList).rows.focus()
        self.draw()
        projects, row = self.app.places.folder.projects, self._row
        self.look_up(lambda db: _read_retained_and_lost(db, projects, row), self._take)

    @property
    def is_complete(self) -> bool:
        """What was kept is shown, or why not."""
        return self._note != READING_RETAINED

    def _take(self, found: RetainedAndLost | Problem | str) -> None:
        from ....core.measure.compaction_report import RetainedAndLost

        rows = self.query_one("#rows", RowList)
        is_untouched = not rows.rows.highlighted
        if isinstance(found, RetainedAndLost):
            self._halves, self._note = found, ""
        else:
            self._note = one_line(str(found))
        self.draw()
        if is_untouched:
            rows.highlight_first()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self.draw()

    def draw(self) -> None:
        if not self.is_attached:
            return
        row, told = self._row, self._told
        window, width = self._session.context.window.tokens, self.size.width
        self.query_one("#sizes", Static).update(size_bars(row, window, width - 2))
        self.query_one("#how", Static).update(compaction_header(row, told, self.app.now_ms()))
        rows = self.query_one("#rows", RowList)
        kinds = group_compaction_items(told, self._halves, self._asked)
        listing = retained_and_lost_listing(kinds, rows.row_width or width, self._why_empty())
        rows.empty = listing.empty
        rows.show_header(quiet(self._note) if self._note else listing.head)
        rows.show_rows(listing.rows)
        self.query_one("#detail", Static).update(self._summary)

    def _why_empty(self) -> str:
        if self._told is None and self._halves is None:
            return REPORT_PENDING
        return NOTHING_LOST if is_content_known(self._told, self._halves) else CONTENT_UNKNOWN

    @property
    def _summary(self) -> Content:
        return Content(self._row.summary) if self._row.summary else quiet(NO_SUMMARY)

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        thing = find_compaction_item(
            group_compaction_items(self._told, self._halves, self._asked), event.key
        )
        if thing is None:
            return
        where = "" if thing.line is None else f"line {thing.line} of the transcript"
        said = "kept" if thing.is_retained else "forgotten"
        self._read(join_lines(heading(said), Content(thing.text), quiet(where)))

    def action_rows(self) -> None:
        self.query_one("#rows", RowList).rows.focus()

    def action_summary(self) -> None:
        """Go to the summary, or read it whole where it has no room."""
        beside = self.query_one("#beside")
        if beside.display:
            beside.focus()
        else:
            self._read(self._summary)

    def action_copy(self) -> None:
        prompt = forgotten_prompt(self._told.forgotten) if self._told else ""
        if prompt:
            self.app.copy(prompt, "what was forgotten, as a prompt")
        else:
            known = is_content_known(self._told, self._halves)
            said = "nothing was forgotten that could be given back" if known else CONTENT_UNKNOWN
            self.notify(said, markup=False)

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
