"""Whether ctxtop can do its work here: the checks of `ctxtop doctor`, as they come."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content

from ..doctor_rows import broken_off, check_line, count_words, whole_check
from ..formats import one_line
from ..widgets.row_list import Row, RowList, Rows
from ..worker import Worker
from .page import Page
from .reading import ReadingScreen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.widget import Widget

    from ...collectors.folder import Trouble
    from ..cli.checks import Check
    from ..places import Places

EMPTY: Final = "the first check is being made …"


class DoctorScreen(Page):
    """A line a check; what is wrong says what to do."""

    CSS_PATH = "doctor.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "full_stop", "again", "Again", key_display=".", tooltip="check again", id="check_again"
        ),
        Binding("y", "copy", "Copy", tooltip="copy what to do, or what was found", id="copy"),
        Binding(
            "n", "next_wrong", "Next ✗", tooltip="to the next check that failed", id="next_wrong"
        ),
    ]

    def __init__(self) -> None:
        super().__init__("doctor")
        self._checks: list[Check] = []
        self._before: list[Check] = []
        self._works: Worker | None = None
        self._is_done = True
        self._round = 0

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the checks."""
        yield RowList(id="doctor", number="", name="Doctor")

    def on_mount(self) -> None:
        """Begin to check."""
        self._works = Worker("ctxtop doctor", self.app.post_message)
        self._list.empty = EMPTY
        self._list.rows.focus()
        self.action_again()

    def on_unmount(self) -> None:
        """End the thread."""
        if self._works is not None:
            self._works.stop()

    @property
    def _list(self) -> RowList:
        return self.query_one(RowList)

    def action_again(self) -> None:
        """Check again; what was found before stands until it is found anew."""
        works = self._works
        if works is None or not self._is_done:
            return
        self._is_done, self._round = False, self._round + 1
        self._before, self._checks = self._checks, []
        places, take = self.app.places, partial(self._take, self._round)

        def work() -> None:
            for check in _checks(places):
                works.call_in_app(partial(take, check))

        works.submit(work, self._end)
        self._draw()

    def _take(self, number: int, check: Check) -> None:
        if self.is_attached and number == self._round:
            self._checks.append(check)
            self._draw()

    def _end(self, found: Trouble | None) -> None:
        self._is_done = True
        if not self.is_attached:
            return
        self._before = []
        if found is not None:
            self._checks.append(broken_off(found))
        self._draw()

    @property
    def _shown(self) -> list[Check]:
        # Checks come in the same order: the ones that did not come yet are those of before.
        return [*self._checks, *self._before[len(self._checks) :]]

    def _draw(self) -> None:
        pane, width = self._list, self._list.row_width
        rows = [
            Row(f"{number} {each.name}", check_line(each, width))
            for number, each in enumerate(self._shown)
        ]
        pane.show_rows(rows)
        title = Content(f"Doctor · {count_words(self._checks)}")
        pane.set_titles(title, Content("" if self._is_done else "checking …"))

    @property
    def _marked(self) -> Check | None:
        marked, shown = self._list.rows.highlighted, self._shown
        return shown[marked] if marked is not None and marked < len(shown) else None

    def action_copy(self) -> None:
        """Copy what to do, else what was found."""
        check = self._marked
        if check is not None:
            fix = check.fix
            self.app.copy(one_line(fix or check.detail), "what to do" if fix else "what was found")

    def action_next_wrong(self) -> None:
        """Mark the next check that failed, from the top again after the last."""
        rows, shown = self._list.rows, self._shown
        start = -1 if rows.highlighted is None else rows.highlighted
        for step in range(1, len(shown) + 1):
            place = (start + step) % len(shown)
            if not shown[place].ok:
                rows.highlighted = place
                return

    @on(RowList.Opened)
    def _open(self) -> None:
        check = self._marked
        if check is not None:
            self.app.push_screen(ReadingScreen("doctor", check.name, content=whole_check(check)))

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self._draw()


def _checks(places: Places) -> Iterable[Check]:
    from ..cli.store_checks import each_check

    return each_check(places)
