"""The doctor page: the checks of `ctxtop doctor` as they come, and the fix of a failed one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget

from ...core.transcript.sanitize import one_line
from ..background_queries import WorkerThread
from ..keymap import bind
from ..text.formats import fit_left, shorten_middle
from ..widgets.row_list import Row, RowList, Rows
from .page import Page, ReadingScreen

if TYPE_CHECKING:
    from ...collectors.places import Places
    from ...core.model.problem import Problem
    from ..cli.doctor.machine_checks import DoctorCheck


_NAME_CELLS: Final = 18
_INDENT_CELLS: Final = _NAME_CELLS + 3

OK_SIGN: Final = ("✓", "$level-calm")
FAILED_SIGN: Final = ("✗", "bold $level-emergency")


def check_line(check: DoctorCheck, width: int) -> Content:
    """Write a check for so many cells; what is in ctxtop's way has a second line."""
    sign, style = OK_SIGN if check.ok else FAILED_SIGN
    line = Content.assemble(
        (f"{sign} ", style),
        (f"{fit_left(check.name, _NAME_CELLS)} ", "bold" if not check.ok else "$foreground"),
        (
            shorten_middle(one_line(check.detail), max(1, width - _INDENT_CELLS)),
            "$quiet" if check.ok else "",
        ),
    )
    if check.ok or not check.fix:
        return line
    fix = shorten_middle(one_line(check.fix), max(1, width - _INDENT_CELLS - 2))
    return line + Content.assemble((f"\n{'':<{_INDENT_CELLS}}→ ", "$accent"), (fix, "$accent"))


def aborted_check(problem: Problem) -> DoctorCheck:
    """Return a failed check for a problem that stopped the checks themselves."""
    from ..cli.doctor.machine_checks import failed_check

    return failed_check(problem.where, problem.what, problem.fix)


def count_text(checks: Sequence[DoctorCheck]) -> str:
    wrong = sum(not each.ok for each in checks)
    well = f"{len(checks) - wrong} ✓"
    return f"{well} · {wrong} ✗" if wrong else well


def check_details(check: DoctorCheck) -> Content:
    sign, style = OK_SIGN if check.ok else FAILED_SIGN
    lines = [
        Content.assemble((f"{sign} {check.name}", style)),
        Content(""),
        Content(one_line(check.detail)),
    ]
    if check.fix:
        label = "hint" if check.ok else "what to do"
        lines += [Content(""), Content.styled(label, "$quiet"), Content(one_line(check.fix))]
    return Content("\n").join(lines)


EMPTY_TEXT: Final = "the first check is being made …"


class DoctorScreen(Page):
    """A line a check; what is wrong says what to do."""

    CSS_PATH = "doctor.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("full_stop", "again", "Again", "check again", "check_again", key_display="."),
        bind("y", "copy", "Copy", "copy what to do, or what was found", "copy"),
        bind("n", "next_wrong", "Next ✗", "to the next check that failed", "next_wrong"),
    ]

    def __init__(self) -> None:
        super().__init__("doctor")
        self._checks: list[DoctorCheck] = []
        self._before: list[DoctorCheck] = []
        self._works: WorkerThread | None = None
        self._is_done = True
        self._round = 0

    def compose_page(self) -> Iterable[Widget]:
        yield RowList(id="doctor", number="", name="Doctor")

    def on_mount(self) -> None:
        self._works = WorkerThread("ctxtop doctor", self.app)
        self._list.empty = EMPTY_TEXT
        self._list.rows.focus()
        self.action_again()

    def on_unmount(self) -> None:
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
        app, take = self.app, partial(self._take, self._round)

        def work() -> None:
            for check in _run_checks(app.places):
                app.call_later(take, check)

        works.submit(work, self._end)
        self._draw()

    def _take(self, number: int, check: DoctorCheck) -> None:
        if self.is_attached and number == self._round:
            self._checks.append(check)
            self._draw()

    def _end(self, found: Problem | None) -> None:
        self._is_done = True
        if not self.is_attached:
            return
        self._before = []
        if found is not None:
            self._checks.append(aborted_check(found))
        self._draw()

    @property
    def _shown(self) -> list[DoctorCheck]:
        # Checks come in the same order: the ones that did not come yet are those of before.
        return [*self._checks, *self._before[len(self._checks) :]]

    def _draw(self) -> None:
        pane, width = self._list, self._list.row_width
        rows = [
            Row(f"{number} {each.name}", check_line(each, width))
            for number, each in enumerate(self._shown)
        ]
        pane.show_rows(rows)
        title = Content(f"Doctor · {count_text(self._checks)}")
        pane.set_titles(title, Content("" if self._is_done else "checking …"))

    @property
    def _marked(self) -> DoctorCheck | None:
        marked, shown = self._list.rows.highlighted, self._shown
        return shown[marked] if marked is not None and marked < len(shown) else None

    def action_copy(self) -> None:
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
            self.app.push_screen(ReadingScreen("doctor", check.name, content=check_details(check)))

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self._draw()


def _run_checks(places: Places) -> Iterable[DoctorCheck]:
    from ..cli.doctor.store_checks import each_check

    return each_check(places)
