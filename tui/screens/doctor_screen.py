"""The doctor page: the checks of `ctxtop doctor` as they end, and the fix of a failed one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget

from ...core.transcript.sanitize import one_line
from ..base.background_queries import WorkerThread
from ..base.keymap import bind
from ..page_kit.page import Page, ReadingScreen
from ..text.formats import fit_left, shorten
from ..text.listing import Row
from ..text.text_lines import join_lines, quiet
from ..widgets.row_list import RowList, Rows

if TYPE_CHECKING:
    from ...core.model.problem import Problem
    from ..doctor.doctor_check import DoctorCheck


_NAME_CELLS: Final = 18
_INDENT_CELLS: Final = _NAME_CELLS + 3

_SIGNS: Final[dict[str, tuple[str, str]]] = {
    "ok": ("✓", "$level-calm"),
    "note": ("!", "bold $level-notice"),
    "failed": ("✗", "bold $level-emergency"),
}  # by the state of a check


def check_line(check: DoctorCheck, width: int) -> Content:
    """Write a check in lines of `width` cells; what to do about a finding is the second line."""
    sign, style = _SIGNS[check.state]
    is_finding = check.state != "ok"
    room = width - _INDENT_CELLS
    detail = shorten(one_line(check.detail), max(1, room))
    line = Content.assemble(
        (f"{sign} ", style),
        (f"{fit_left(check.name, _NAME_CELLS)} ", "bold" if is_finding else "$foreground"),
        (detail, "" if is_finding else "$quiet"),
    )
    if not is_finding or not check.fix:
        return line
    fix = shorten(one_line(check.fix), max(1, room - 2))
    return line + Content.assemble((f"\n{'':<{_INDENT_CELLS}}→ ", "$accent"), (fix, "$accent"))


def _check_details(check: DoctorCheck) -> Content:
    sign, style = _SIGNS[check.state]
    lines = [
        Content.styled(f"{sign} {check.name}", style),
        Content(""),
        Content(one_line(check.detail)),
    ]
    if check.fix:
        label = "hint" if check.state == "ok" else "what to do"
        lines += [Content(""), quiet(label), Content(one_line(check.fix))]
    return join_lines(*lines)


class DoctorScreen(Page):
    CSS_PATH = "doctor.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("full_stop", "again", "Again", "check again", "check_again", key_display="."),
        bind("y", "copy", "Copy", "copy the fix or the finding", "copy"),
        bind("n", "next_wrong", "Next finding", "next failed check or note", "next_wrong"),
    ]

    def __init__(self) -> None:
        super().__init__("doctor")
        self._checks: list[DoctorCheck] = []
        self._previous: list[DoctorCheck] = []  # of the run before, until they are replaced
        self._is_done = True

    def compose_page(self) -> Iterable[Widget]:
        yield RowList(id="doctor", name="Doctor", empty="running the first check …")

    def on_mount(self) -> None:
        self._worker = WorkerThread("ctxtop doctor", self.app)
        self.action_again()

    def on_unmount(self) -> None:
        self._worker.stop()

    def action_again(self) -> None:
        if not self._is_done:
            return
        self._is_done = False
        self._previous, self._checks = self._checks, []
        app = self.app

        def run_checks() -> None:
            from ..doctor.all_checks import each_check

            for check in each_check(app.places):
                app.call_later(self._add, check)

        self._worker.submit(run_checks, self._end)
        self._draw()

    def _add(self, check: DoctorCheck) -> None:
        if self.is_attached:
            self._checks.append(check)
            self._draw()

    def _end(self, problem: Problem | None) -> None:
        self._is_done = True
        if not self.is_attached:
            return
        self._previous = []
        if problem is not None:
            from ..doctor.doctor_check import failed

            self._checks.append(failed(problem.where, problem.what, problem.fix))
        self._draw()

    @property
    def _shown(self) -> list[DoctorCheck]:
        # Checks always come in the same order.
        return [*self._checks, *self._previous[len(self._checks) :]]

    @on(Rows.RoomChanged)
    def _draw(self) -> None:
        pane, width = self.row_list, self.row_list.row_width
        pane.show_rows(
            [
                Row(f"{number} {each.name}", check_line(each, width))
                for number, each in enumerate(self._shown)
            ]
        )
        states = Counter[str](each.state for each in self._checks)
        counts = (f"{states[state]} {sign}" for state, (sign, _) in _SIGNS.items() if states[state])
        title = Content(" · ".join(["Doctor", *counts]))
        pane.set_titles(title, Content("" if self._is_done else "checking …"))

    @property
    def _marked(self) -> DoctorCheck | None:
        marked, shown = self.row_list.rows.highlighted, self._shown
        return shown[marked] if marked is not None and marked < len(shown) else None

    def action_copy(self) -> None:
        check = self._marked
        if check is not None:
            fix = check.fix
            self.app.copy(one_line(fix or check.detail), "what to do" if fix else "what was found")

    def action_next_wrong(self) -> None:
        """Mark the next check that found something, wrapping around at the end."""
        rows, shown = self.row_list.rows, self._shown
        start = 0 if rows.highlighted is None else rows.highlighted + 1
        places = [*range(start, len(shown)), *range(start)]
        rows.highlighted = next((n for n in places if shown[n].state != "ok"), rows.highlighted)

    @on(RowList.Opened)
    def _open(self) -> None:
        check = self._marked
        if check is not None:
            self.app.push_screen(ReadingScreen("doctor", check.name, content=_check_details(check)))
