"""The sessions, one line each, under their projects where they are grouped."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from textual.content import Content

from ..selection import HEADING, Heading
from ..session_columns import lay_out
from ..session_rows import Flags, heading_line, session_line
from ..session_words import cache_words, shown_age
from .row_list import LateRow, RowList

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...core.levels import Line
    from ...core.sessions import Session
    from ..selection import Arrangement, Entry, Order
    from ..session_columns import Layout

PAGE: Final = 1_000
"""Rows that are laid out at a time: nobody reads further, and each costs time at every change."""

MORE: Final = f"{HEADING}{HEADING}more"
"""The key of the row that shows the next page: a heading's, of a project that cannot be."""

_PLAIN: Final = Flags()


class SessionPane(RowList):
    """Pane 1."""

    def __init__(self, *, id: str, number: str, name: str) -> None:  # noqa: A002 -- Textual's
        super().__init__(id=id, number=number, name=name)
        self._drawn: dict[str, LateRow] = {}
        self._most = PAGE

    @property
    def session_id(self) -> str | None:
        """The marked session; None where a heading is marked."""
        key = self.key
        return None if key is None or key.startswith(HEADING) else key

    @property
    def project(self) -> str | None:
        """The project whose heading is marked."""
        key = self.key
        is_heading = key is not None and key.startswith(HEADING) and key != MORE
        return key.removeprefix(HEADING) if key and is_heading else None

    def show_more(self) -> None:
        """Lay out one page more from the next drawing on."""
        self._most += PAGE

    def mark_heading(self, project: str) -> None:
        """Mark a project's heading."""
        self.highlight(f"{HEADING}{project}")

    def show(self, entries: Sequence[Entry], arrangement: Arrangement, now_ms: int) -> None:
        """Draw these in this order; a line that says what it said is kept."""
        page = entries[: self._most]
        sessions = (each for each in page if not isinstance(each, Heading))
        layout, room = lay_out(self.row_width), self.row_width
        self.show_header(layout.header(_common_lines(sessions), arrangement.order))
        rows = [
            self._kept(
                _heading(entry, room)
                if isinstance(entry, Heading)
                else _line(entry, layout, arrangement, now_ms)
            )
            for entry in page
        ]
        if len(entries) > self._most:
            rows.append(_more(len(entries) - self._most))
        self._drawn = {row.key: row for row in rows}
        self.show_rows(rows)

    def order_at(self, x: int) -> Order | None:
        """Say what a click on the head sorts by."""
        return lay_out(self.row_width).order_at(x)

    def _kept(self, row: LateRow) -> LateRow:
        before = self._drawn.get(row.key)
        return before if before is not None and before.looks_like(row) else row


def _heading(heading: Heading, room: int) -> LateRow:
    return LateRow(heading.key, (heading, room), partial(heading_line, heading, room))


def _more(count: int) -> LateRow:
    words = f"… {count:,} more: ⏎ shows the next {min(count, PAGE):,}, / filters"
    return LateRow(MORE, words, lambda: Content.styled(words, "$quiet"))


def _line(session: Session, layout: Layout, how: Arrangement, now_ms: int) -> LateRow:
    name = session.session_id
    flags = _PLAIN
    if how.selected or how.pins:
        flags = Flags(name in how.selected, name in how.pins)
    # All that a line shows.
    look = session, layout, flags, shown_age(session, now_ms), cache_words(session, now_ms)
    return LateRow(name, look, partial(session_line, session, layout, now_ms, flags))


def _common_lines(sessions: Iterable[Session]) -> tuple[Line, ...]:
    """Name the marks that stand in one place in every bar."""
    # Sessions of one kind share their lines, and to compare what lines hold takes long.
    shared = {id(lines): lines for lines in (session.context.thresholds for session in sessions)}
    every = set(shared.values())
    if not every:
        return ()
    first, *others = every
    return tuple(line for line in first if all(line in lines for lines in others))
