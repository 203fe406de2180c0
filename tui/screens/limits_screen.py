"""The limits page: the windows of the plan, who used them, and what each session reaches first."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ...core.transcript.sanitize import one_line
from ..page_kit.page import ReadingScreen, RefreshingQuery, text_width
from ..text.formats import fit_left
from ..text.limits_report import NO_LIMITS, limit_facts, reached_first
from ..text.limits_text import long_window_name
from ..text.text_lines import (
    hanging_lines,
    heading,
    join_lines,
    labeled_lines,
    quiet,
    section_heading,
)

if TYPE_CHECKING:
    from ...core.model.problem import Problem
    from ...core.model.session import Session
    from ...core.readers.limits_reader import LimitsReport
    from ..base.messages import FleetView


TITLE_CELLS: Final = 40
READING: Final = "reading what used the limits …"


class LimitsScreen(ReadingScreen):
    def __init__(self) -> None:
        super().__init__("limits", content=quiet(READING))
        self._query: RefreshingQuery[LimitsReport] | None = None

    def show_view(self, view: FleetView) -> None:
        if self._query is None:
            self._query = RefreshingQuery(self, self._make_query, self._show_report)
        self._query.refresh_soon()

    def _make_query(self) -> Callable[[sqlite3.Connection], LimitsReport]:
        from ...collectors.claude_code.limits_report_reader import read_limits_with_causes

        now_ms, places = self.app.now_ms(), self.app.places
        prices = self.app.feed.policies.common.strings_by_name("price")
        return lambda db: read_limits_with_causes(
            db, places.folder.projects, places.store, prices, now_ms
        )

    def _show_report(self, report: LimitsReport | Problem) -> None:
        from ...core.model.problem import Problem

        if isinstance(report, Problem):
            self.show(Content(one_line(str(report))))
            return
        sessions = self.app.view.sessions if self.app.view else ()
        width = text_width(self.size.width)
        self.show(join_lines(*limits_lines(report, sessions, self.app.now_ms(), width)))


def limits_lines(
    report: LimitsReport, sessions: Sequence[Session], now_ms: int, width: int
) -> Iterator[Content]:
    """Write the whole page; a session's title is data, and sanitized."""
    if not report.limits:
        yield Content(NO_LIMITS)
        return
    titles = {each.session_id: each.title for each in sessions}
    for place, limit in enumerate(report.limits):
        if place:
            yield Content("")
        yield heading(long_window_name(limit.window))
        yield from labeled_lines(limit_facts(report, limit, titles, now_ms), width)
    first = list(reached_first(report.limits, sessions, now_ms))
    if first:
        yield from section_heading("Reached first")
        for title, text in first:
            yield from hanging_lines(
                Content(f"  {fit_left(title, TITLE_CELLS)}  "), Content(text), width
            )
