"""Make a session smaller: choose the options, see the plan, and apply it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ....core.compaction.plan import (
    DEFAULT_OPTIONS,
    DEFAULT_TARGET_SHARE,
    Operation,
    PlanOptions,
    target_tokens,
)
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ...messages import FleetView
from ...text.formats import shorten_middle
from ...text.plan_report import plan_lines
from ...text.plan_text import NOTHING_TO_GAIN, OperationChange, screen_advice
from ...widgets.row_list import RowList, Rows
from ...widgets.text_pane import Pager
from .action_page import IN_PLACE_CHECK_S, ActionPage
from .compact_panes import (
    ApplyBar,
    OperationPane,
    OperationRow,
    PlanOptionsBar,
    operation_rows,
    toggle_all,
    toggle_row,
)
from .compaction_planner import CompactionPlanner, OperationKey, PlannedCompaction, PlanRequest

if TYPE_CHECKING:
    from ....core.model.problem import Problem


PLAN_DELAY_S: Final = 0.15  # after the last touch of a slider a plan begins: sliding asks once
REPLAN_DELAY_S: Final = 2.0
"""A session that grew is planned anew so long after its last line that was seen."""

MIN_PREVIEW_LINES: Final = 3
"""Lines of a text that is shown beside the list at the least; Enter shows all."""

PREVIEW_HEADER_LINES: Final = 6
"""Lines that are no text of it: what it is, where, and what was left out."""

SHOWN_CHANGES: Final = 10  # changes of one operation that are read to be shown


class CompactScreen(ActionPage):
    """Nothing is written before a person presses one of its buttons."""

    CSS_PATH = "compact.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (78, "-wide"), (160, "-broad")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space", "switch", "On/off", tooltip="this operation or strategy on or off", id="switch"
        ),
        Binding("a", "all", "All", show=False, tooltip="all operations on or off", id="all"),
        Binding(
            "right", "show", "Text", show=False, tooltip="its text, and what replaces it", id="text"
        ),
        Binding("minus", "level(-1)", "Milder", show=False, tooltip="a level less", id="milder"),
        Binding(
            "plus,equals_sign",
            "level(1)",
            "Harder",
            show=False,
            tooltip="a level more",
            id="harder",
        ),
        Binding(
            "comma",
            "target(-1)",
            "Smaller",
            show=False,
            tooltip="a smaller target",
            id="smaller_target",
        ),
        Binding(
            "full_stop",
            "target(1)",
            "Larger",
            show=False,
            tooltip="a larger target",
            id="larger_target",
        ),
        Binding("y", "copy", "Copy", show=False, tooltip="copy the plan's operations", id="copy"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session, "compact")
        self._options = _default_options(session)
        self._left_out: frozenset[OperationKey] = frozenset()
        self._planned: PlannedCompaction | None = None
        self._share: float | None = None
        self._timer: Timer | None = None

    def compose_page(self) -> Iterable[Widget]:
        """Lay out what is asked for, the plan, and what can be done with it."""
        yield PlanOptionsBar(self._options, self.session.context.window.tokens)
        yield Static(id="sums")
        with Container(id="plan"):
            yield OperationPane(id="operations")
            yield Pager(Static(id="change"), id="words")
        yield ApplyBar()

    def on_mount(self) -> None:
        """Begin to plan."""
        self._planner = CompactionPlanner(self.app)
        self.query_one(OperationPane).empty = "the transcript is being read …"
        self.query_one(Rows).focus()
        self._draw()
        self._plan()
        self.set_interval(IN_PLACE_CHECK_S, self.recheck_in_place)

    def on_unmount(self) -> None:
        self._planner.stop()

    # What is asked for.

    @on(PlanOptionsBar.Changed)
    def _change_options(self, event: PlanOptionsBar.Changed) -> None:
        self._options = event.options
        self.clear_failure()
        self.schedule_plan()

    def action_level(self, steps: int) -> None:
        """Move the level slider, wherever the focus is."""
        self.query_one(PlanOptionsBar).move_slider("level", steps)

    def action_target(self, steps: int) -> None:
        """Aim at more or less, wherever the focus is."""
        self.query_one(PlanOptionsBar).move_slider("target", steps)

    # Planning.

    def show_view(self, view: FleetView) -> None:
        """Follow the session: what grew is planned anew, what is open is not changed itself."""
        known = next((each for each in view.sessions if each.session_id == self.session_id), None)
        if known is None or known == self.session:
            return
        before, self.session = self.session, known
        if known.title != before.title:
            self.set_crumbs(known.title, "compact")
        if known.last_activity_at != before.last_activity_at or known.path != before.path:
            self.is_stale = True
            self.schedule_plan(REPLAN_DELAY_S)
        if (known.live, known.status) != (before.live, before.status):
            self.check_in_place()
        self._draw()

    def schedule_plan(self, seconds: float = PLAN_DELAY_S) -> None:
        """Plan as soon as nobody slides any more."""
        self.is_stale = True
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(seconds, self._plan)
        self._draw_sums()

    def _plan(self) -> None:
        if self.is_writing:
            self.schedule_plan(REPLAN_DELAY_S)
            return
        self.is_stale = True
        wish = PlanRequest(self.session, self._options, self._left_out)
        self._planner.plan(wish, self._take_plan, self._show_progress)
        self._draw_sums()

    def _show_progress(self, share: float) -> None:
        if self.is_attached:
            self._share = share
            self._draw_sums()

    def _take_plan(self, found: PlannedCompaction | Problem) -> None:
        if not self.is_attached:
            return
        self._share = None
        if isinstance(found, PlannedCompaction):
            self._planned, self.plan = found, found.plan
            self.problem, self.is_stale = "", False
            self.query_one(PlanOptionsBar).show_prompts(found.prompts)
            if any(each.check == "changed" for each in found.plan.refused):
                self.schedule_plan(REPLAN_DELAY_S)
        else:
            self.problem, self.is_stale = str(found), True
        self._draw()
        if not self._in_place_checked:
            self.check_in_place()

    # Operations.

    @on(OperationPane.Switched)
    def _switch(self, event: OperationPane.Switched) -> None:
        self._switch_item(event.item)

    def action_switch(self) -> None:
        """Leave the marked operation or strategy out, or take it in again."""
        self.query_one(OperationPane).switch_marked()

    def action_all(self) -> None:
        """Leave everything out, or take everything in again."""
        if self._planned and self._planned.offered:
            self._set_left_out(toggle_all(self._planned))

    def _switch_item(self, item: OperationRow) -> None:
        if item.can_switch:
            self._set_left_out(toggle_row(item, self._left_out))
        elif item.protected:
            self.show_message(f"it stays: {item.protected.why}")
        else:
            self.show_message("it follows from the others and goes with them")

    def _set_left_out(self, left_out: frozenset[OperationKey]) -> None:
        self._left_out = left_out
        self.clear_failure()
        planned = self._planned
        if planned is not None:
            # The box answers at once; the sums follow as soon as they are worked out.
            self._planned = replace(planned, request=replace(planned.request, left_out=left_out))
        self._plan()
        self._draw()

    @on(RowList.Highlighted, "#operations")
    def _mark(self) -> None:
        self._show_change()

    def _show_change(self) -> None:
        item = self.query_one(OperationPane).marked
        words = self.query_one("#words")
        if not words.display:
            return
        change = self.query_one("#change", Static)
        if item is None:
            change.update("")
        elif item.protected is not None:
            change.update(Content.styled(one_line(f"It stays: {item.protected.why}."), "$quiet"))
        elif item.is_header:
            change.update(_strategy_text(item))
        else:
            (operation,) = item.operations
            self._read_change(operation, self._lines_beside, self._put_beside)

    @property
    def _lines_beside(self) -> int:
        """Lines of each text, before and after, that there is room for."""
        return max(
            MIN_PREVIEW_LINES, (self.query_one("#words").size.height - PREVIEW_HEADER_LINES) // 2
        )

    def _put_beside(self, operation: Operation, content: Content) -> None:
        item = self.query_one(OperationPane).marked
        if item is not None and item.operations == (operation,):
            self.query_one("#change", Static).update(content)

    @on(RowList.Opened, "#operations")
    def _open(self) -> None:
        self.action_show()

    def action_show(self) -> None:
        """Show the whole text of the marked operation, and what stands in its place."""
        from ...text.plan_report import FULL_TEXT_LINES

        item = self.query_one(OperationPane).marked
        if item is None or item.protected is not None:
            return
        if item.is_header:
            self._switch_item(item)
            return
        (operation,) = item.operations
        self._read_change(operation, FULL_TEXT_LINES, self._read_whole)

    def _read_whole(self, operation: Operation, content: Content) -> None:
        from ..page import ReadingScreen

        title, session_id = self.session.title, self.session_id
        crumbs = (title, "compact", operation.what)
        self.app.push_screen(ReadingScreen(*crumbs, content=content, session_id=session_id))

    def _read_change(
        self, operation: Operation, lines: int, show: Callable[[Operation, Content], None]
    ) -> None:
        from ...text.plan_report import FULL_TEXT_LINES, change_lines
        from ..page import MAX_TEXT_CELLS, text_width

        room = self.query_one("#words").scrollable_content_region.width or self.size.width
        width = (
            min(room, MAX_TEXT_CELLS) if lines < FULL_TEXT_LINES else text_width(self.size.width)
        )

        def take(found: list[OperationChange] | Problem) -> None:
            if not self.is_attached:
                return
            if isinstance(found, list):
                show(operation, change_lines(operation, found, width, lines))
            else:
                show(operation, Content.styled(one_line(str(found)), "$level-warning"))

        self._planner.read_changes(self.session, [operation], SHOWN_CHANGES, take)

    def action_copy(self) -> None:
        """Copy what the plan would do."""
        if self._planned is not None:
            said = [
                f"{each.strategy}\t{each.line or ''}\t{each.what}\t{each.tokens_saved}"
                for each in self._planned.plan.operations
            ]
            self.app.copy("\n".join(said), f"{len(said)} operations")

    # Drawing.

    def _draw(self) -> None:
        if not self.is_attached:
            return
        self._draw_sums()
        self._draw_operations()
        self.draw_buttons()

    def _draw_sums(self) -> None:
        planned = self._planned
        width = max(0, self.size.width - 2)
        drawn = plan_lines(
            planned.plan if planned else None,
            self.session.context,
            width,
            is_stale=self.is_stale,
            target_tokens=self._options.target_tokens(self.session.context.window.tokens),
        )
        self.query_one("#sums", Static).update(drawn)
        pane = self.query_one(OperationPane)
        pane.border_subtitle = Content(shorten_middle(self._status_text(), max(0, width - 20)))

    def _status_text(self) -> str:
        if self.is_stale and not self.problem:
            share = "" if self._share is None else f", {self._share:.0%} read"
            return f"it is being worked out{share} …"
        if self._planned is None:
            return ""
        return f"plan {self._planned.plan.plan_id} · nothing is written yet"

    def _draw_operations(self) -> None:
        pane = self.query_one(OperationPane)
        planned = self._planned
        pane.empty = one_line(self.problem) if self.problem else _empty_text(planned)
        items = operation_rows(planned) if planned else []
        count = len(planned.offered) if planned else 0
        left_out = sum(
            len(each.operations) for each in items if each.box == "[ ]" and not each.is_header
        )
        pane.border_title = f"Operations: {count - left_out:,} of {count:,} on" if count else "Plan"
        pane.show(items)
        self._show_change()

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self._draw()


def _default_options(session: Session) -> PlanOptions:
    """Aim at half of what fits; where the session is below that, at all that may go."""
    now, half = session.context.tokens, target_tokens(session.context.window.tokens)
    is_below = now is not None and now <= half
    level, keep = DEFAULT_OPTIONS.max_level.value, DEFAULT_OPTIONS.min_turns
    return PlanOptions(level=level, target=None if is_below else DEFAULT_TARGET_SHARE, keep=keep)


def _strategy_text(item: OperationRow) -> Content:
    first = item.operations[0]
    whys = list(dict.fromkeys(one_line(each.why) for each in item.operations))
    said = [
        Content.styled(first.strategy, "bold $foreground"),
        *map(Content, whys[:MIN_PREVIEW_LINES]),
    ]
    return Content("\n").join([*said, Content.styled("space switches all of them", "$quiet")])


def _empty_text(planned: PlannedCompaction | None) -> str:
    if planned is None:
        return "the transcript is being read …"
    refused = next((each for each in planned.plan.refused if each.check in NOTHING_TO_GAIN), None)
    return f"Nothing would go: {screen_advice(refused)}." if refused else "Nothing would go."
