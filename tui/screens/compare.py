"""Two summaries beside each other, with what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from ..compare_lines import Compared, compared
from ..formats import middle, one_line
from ..summary_report import fact_lines
from ..summary_rows import who_said
from ..widgets.text_pane import TextPane
from .page import Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.widget import Widget

    from ...collectors.folder import Trouble
    from ...core.store.rows import SummaryRow
    from ...core.text_difference import Difference
    from ..summary_report import Known

COMPARING: Final = "comparing …"

FACTS: Final = 3
"""Lines of facts above each text."""


class CompareScreen(Page):
    """Side by side where there is room, else one above the other; both scroll together."""

    CSS_PATH = "compare.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual's
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "go(1)", "Next", tooltip="the next difference", id="next"),
        Binding("N", "go(-1)", "Before", tooltip="the difference before", id="before"),
        Binding(
            "tab", "app.focus_next", "Other", show=False, tooltip="the other text", id="other_text"
        ),
        Binding("equals_sign,enter", "leave", "Back", show=False, tooltip="back", id="done"),
        Binding("y", "copy", "Copy", tooltip="copy the text with the focus", id="copy"),
    ]

    def __init__(
        self,
        rows: tuple[SummaryRow, SummaryRow],
        known: tuple[Known, Known],
        *,
        crumbs: Sequence[str],
    ) -> None:
        super().__init__(*crumbs, f"{who_said(rows[0])} = {who_said(rows[1])}")
        self._rows: Final = rows
        self._known: Final = known
        self._found: Difference | None = None
        self._shown: Compared | None = None
        self._at = -1

    def compose_page(self) -> Iterable[Widget]:
        """Lay out the two texts."""
        yield Static(COMPARING, id="headline", markup=False)
        with Horizontal(id="sides"):
            for side in ("left", "right"):
                with Vertical(classes="side"):
                    yield Static(classes="facts", markup=False)
                    yield TextPane(id=side)

    def on_mount(self) -> None:
        """Ask what differs: that takes longer than a frame."""
        from ...core.text_difference import difference

        one, other = self._rows
        self.query_one("#left").focus()
        self.look_up(lambda _: difference(one.text, other.text), self._take)

    @property
    def sides(self) -> tuple[TextPane, TextPane]:
        """The panes of both texts."""
        return self.query_one("#left", TextPane), self.query_one("#right", TextPane)

    def _take(self, found: Difference | Trouble) -> None:
        from ...core.text_difference import Difference

        if not isinstance(found, Difference):
            self.query_one("#headline", Static).update(one_line(str(found)))
            return
        self._found = found
        self._lay_out()

    @on(TextPane.Resized)
    def _lay_out(self) -> None:
        self._draw_facts()
        found, width = self._found, min(pane.line_width for pane in self.sides)
        if found is not None and width > 0:
            self.look_up(lambda _: compared(found, width), self._show)

    def _show(self, shown: Compared | Trouble) -> None:
        if not isinstance(shown, Compared):
            return
        first = self._shown is None
        self._shown = shown
        left, right = self.sides
        left.show(shown.left)
        right.show(shown.right)
        self._draw_headline()
        if first and shown.difference_starts:
            self.action_go(1)

    def _draw_headline(self) -> None:
        shown = self._shown
        if shown is None:
            return
        at = f"{self._at + 1} of " if self._at >= 0 and shown.difference_starts else ""
        self.query_one("#headline", Static).update(
            Content.styled(f"{at}{shown.headline}", "$foreground")
        )

    def _draw_facts(self) -> None:
        now_ms = self.app.now_ms()
        facts = self.query(".facts").results(Static)
        for static, row, known in zip(facts, self._rows, self._known, strict=True):
            lines = fact_lines(row, known, max(1, static.size.width), now_ms)
            static.update(Content("\n").join(lines[:FACTS]))

    @on(TextPane.Scrolled)
    def _scroll_along(self, event: TextPane.Scrolled) -> None:
        for pane in self.sides:
            if pane is not event.pane and round(pane.scroll_offset.y) != event.line:
                pane.jump(event.line)

    def action_go(self, by: int) -> None:
        """Go to another difference; after the last comes the first."""
        shown = self._shown
        if shown is None or not shown.difference_starts:
            return
        self._at = (self._at + by) % len(shown.difference_starts) if self._at >= 0 or by > 0 else -1
        self._at = self._at % len(shown.difference_starts)
        for pane in self.sides:
            pane.go_to_line(shown.difference_starts[self._at])
        self._draw_headline()

    def action_copy(self) -> None:
        """Copy the text with the focus, or the older one."""
        row = self._rows[1 if self.sides[1].has_focus else 0]
        self.app.copy(row.text, middle(who_said(row), 40))
