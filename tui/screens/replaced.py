"""What a summary stands for: what it names, what it leaves out, and the turns themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from ...core.replaced import Replaced, Where
from ..formats import one_line
from ..replaced_lines import Shown, headline, shown
from ..summary_rows import who_said
from ..widgets.text_pane import TextPane
from .page import Page

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from ...collectors.folder import Trouble
    from ...core.store.rows import SummaryRow
    from ...core.summary_list import PlanText
    from ..summary_report import Known

READING: Final = "reading its transcript …"

CRUMB: Final = "what it stands for"


class ReplacedScreen(Page):
    """The things at the left, ✓ named or ✗ left out; the turns that were replaced at the right."""

    CSS_PATH = "compare.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "n", "go(1)", "Next left out", tooltip="the next thing that is left out", id="next"
        ),
        Binding(
            "N",
            "go(-1)",
            "Before",
            show=False,
            tooltip="the one before that is left out",
            id="before",
        ),
        Binding(
            "f",
            "only",
            "Only left out",
            tooltip="only what is left out, or all things",
            id="only_lost",
        ),
        Binding("y", "copy", "Copy", tooltip="copy what is left out, as a prompt", id="copy"),
        Binding("d,enter", "leave", "Back", show=False, tooltip="back", id="done"),
        Binding("1", "pane('things')", "Things", show=False, tooltip="the things", id="pane_1"),
        Binding("2", "pane('turns')", "Turns", show=False, tooltip="the turns", id="pane_2"),
    ]

    def __init__(
        self,
        row: SummaryRow,
        known: Known,
        *,
        crumbs: Sequence[str],
        plans: tuple[PlanText, ...] = (),
    ) -> None:
        super().__init__(*crumbs, who_said(row), CRUMB, session_id=row.session_id)
        self._row: Final = row
        self._known: Final = known
        self._plans: Final = plans
        self._found: Replaced | None = None
        self._shown: Shown | None = None
        self._only: Where | None = None
        self._at = -1

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the things and the turns."""
        yield Static(READING, id="headline", markup=False)
        with Horizontal(id="sides"):
            with Vertical(classes="side", id="things-side"):
                yield TextPane(id="things")
            with Vertical(classes="side", id="turns-side"):
                yield TextPane(id="turns")

    def on_mount(self) -> None:
        """Read the transcript: that takes longer than a frame."""
        self.query_one("#things-side").border_title = "¹ ✓ named  • stayed  ✗ left out"
        self.query_one("#turns-side").border_title = "² What it stands for"
        self.query_one("#things").focus()
        projects = self.app.places.folder.projects
        row, plans = self._row, self._plans

        def read(db: sqlite3.Connection) -> Replaced | str:
            from ...collectors.replacing import NothingReplacedError, read_replaced

            try:
                return read_replaced(db, projects, row, plans, self._tell)
            except NothingReplacedError as error:
                return str(error)

        self.look_up(read, self._take)

    def _tell(self, words: str) -> None:
        def show() -> None:
            if self.is_attached and self._found is None:
                self.query_one("#headline", Static).update(one_line(words))

        self.app.file_worker.call_in_app(show)

    def _take(self, found: Replaced | str | Trouble) -> None:
        if not isinstance(found, Replaced):
            self.query_one("#headline", Static).update(one_line(str(found)))
            self.query_one("#sides").display = False
            return
        self._found = found
        lines = headline(self._row, found)
        self.query_one("#headline", Static).update(
            Content.assemble((lines[0], "$foreground"), "\n", (lines[1], "$level-notice"))
        )
        self._lay_out()

    @on(TextPane.Resized)
    def _lay_out(self) -> None:
        found, only = self._found, self._only
        things, turns = (self.query_one(f"#{each}", TextPane).line_width for each in ("things", "turns"))
        if found is not None and things > 0 and turns > 0:
            self.look_up(lambda _: shown(found, things - 1, turns - 1, only=only), self._show)

    def _show(self, laid: Shown | Trouble) -> None:
        if not isinstance(laid, Shown):
            return
        self._shown = laid
        self.query_one("#things", TextPane).show(laid.item_lines)
        self.query_one("#turns", TextPane).show(laid.turn_lines)

    def action_go(self, by: int) -> None:
        """Go to another thing that is left out."""
        laid = self._shown
        if laid is None or not laid.lost_starts:
            return
        self._at = (self._at + by) % len(laid.lost_starts) if self._at >= 0 or by > 0 else -1
        self._at %= len(laid.lost_starts)
        pane = self.query_one("#things", TextPane)
        pane.go_to(pane.line_passage(laid.lost_starts[self._at]))

    def action_only(self) -> None:
        """Show only what is left out, or all things again."""
        self._only = Where.LOST if self._only is None else None
        self._at = -1
        self._lay_out()

    def action_pane(self, name: str) -> None:
        """Go to the things or to the turns."""
        self.query_one(f"#{name}").focus()

    def action_copy(self) -> None:
        """Copy what is left out, for who wants to tell the model again."""
        found = self._found
        lost = [each for each in found.things if each.where is Where.LOST] if found else []
        if not lost:
            self.notify("nothing is left out", markup=False)
            return
        said = "\n".join(f"- {each.text} (line {each.line})" for each in lost)
        self.app.copy(
            f"The summary does not mention these, which stood before it:\n{said}",
            f"{len(lost)} things that are left out",
        )
