"""Make a session smaller: choose the options, see the plan, and apply it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import BindingType
from textual.containers import Container
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from ....core.actions.pause_rules import plan_costs
from ....core.compaction import plan
from ....core.compaction.compression_level import due_compression
from ....core.model.pause_ways import PauseWay
from ....core.model.session import Session
from ....core.transcript.sanitize import one_line
from ...base.keymap import bind, bind_hidden
from ...base.messages import FleetView
from ...page_kit.page import BROAD_CELLS, MAX_TEXT_CELLS, ReadingScreen, text_width
from ...text.formats import shorten
from ...text.pause_text import cost_line
from ...text.plan_report import (
    FULL_TEXT_LINES,
    MIN_PREVIEW_LINES,
    change_lines,
    plan_lines,
    preview_lines,
)
from ...text.plan_text import BOX_OFF, NOTHING_TO_GAIN, OperationChange, screen_advice
from ...widgets.row_list import RowList, Rows
from ...widgets.text_pane import Pager
from ..compact import compact_panes
from .action_page import IN_PLACE_CHECK_S, ActionPage
from .compaction_planner import CompactionPlanner, OperationKey, PlannedCompaction, PlanRequest

if TYPE_CHECKING:
    from ....core.model.problem import Problem
    from ....core.policy.policy import Policy


PLAN_DELAY_S: Final = 0.15  # after the last touch of a slider a plan begins: sliding asks once
REPLAN_DELAY_S: Final = 2.0  # a session that grew is planned again so long after its last line

SHOWN_CHANGES: Final = 10  # changes of one operation that are read to be shown


class CompactScreen(ActionPage):
    """Nothing is written before a person presses one of its buttons."""

    CSS_PATH = "compact.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (78, "-wide"), (BROAD_CELLS, "-broad")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    KEYS_IF_ROOM = ("ask_client", "all", "text", "copy")
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("space", "switch", "On/off", "turn this operation or strategy on or off", "switch"),
        bind_hidden("a", "all", "All", "turn all operations on or off", "all"),
        bind_hidden("right", "show", "Text", "show its text before and after", "text"),
        bind_hidden("minus", "slide('level', -1)", "Milder", "lower level", "milder"),
        bind_hidden("plus,equals_sign", "slide('level', 1)", "Harder", "higher level", "harder"),
        bind_hidden("comma", "slide('target', -1)", "Smaller", "smaller target", "smaller_target"),
        bind_hidden("full_stop", "slide('target', 1)", "Larger", "larger target", "larger_target"),
        bind_hidden("y", "copy", "Copy", "copy the plan's operations", "copy"),
    ]

    def __init__(self, session: Session, by_policy: plan.PlanOptions | None = None) -> None:
        """Begin with the options of the policy's strategy, if it names one, else by levels."""
        super().__init__(session, "compact")
        self._by_level: Final = _default_options(session)
        self._options = by_policy or self._by_level
        self._left_out: frozenset[OperationKey] = frozenset()
        self._planned: PlannedCompaction | None = None
        self._share: float | None = None  # of the reading that is done
        self._timer: Timer | None = None

    def compose_page(self) -> Iterable[Widget]:
        window = self.session.context.window.tokens
        yield compact_panes.PlanOptionsBar(self._options, self._by_level, window)
        yield Static(id="sums")
        with Container(id="plan"):
            yield compact_panes.OperationPane()
            yield Pager(Static(id="change"), id="words")
        yield compact_panes.ApplyBar()

    def on_mount(self) -> None:
        self._planner = CompactionPlanner(self.app)
        self.query_one(Rows).focus()
        self._draw()
        self._plan()
        self.set_interval(IN_PLACE_CHECK_S, self.recheck_in_place)

    def on_unmount(self) -> None:
        self._planner.stop()

    @property
    def _marked(self) -> compact_panes.OperationRow | None:
        return self.query_one(compact_panes.OperationPane).marked

    # Options.

    @on(compact_panes.PlanOptionsBar.Changed)
    def _change_options(self, event: compact_panes.PlanOptionsBar.Changed) -> None:
        self._options = event.options
        self.failure = ""
        self.schedule_plan()

    def action_slide(self, name: str, steps: int) -> None:
        """Move a slider, wherever the focus is."""
        self.query_one(compact_panes.PlanOptionsBar).move_slider(name, steps)

    # Planning.

    def show_view(self, view: FleetView) -> None:
        """Plan again if the session grew; check again whether it may be changed in place."""
        known = view.session(self.session_id)
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
        """Plan as soon as the sliders are at rest."""
        self.is_stale = True
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(seconds, self._plan)
        self._draw_sums()

    def _plan(self) -> None:
        if self.running is not None:
            self.schedule_plan(REPLAN_DELAY_S)
            return
        self.is_stale = True
        request = PlanRequest(self.session, self._options, self._left_out)
        self._planner.plan(request, self._take_plan, self._show_progress)
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
            self.query_one(compact_panes.PlanOptionsBar).show_prompts(found.prompts)
            if any(each.check == "changed" for each in found.plan.refused):
                self.schedule_plan(REPLAN_DELAY_S)
        else:
            self.problem, self.is_stale = str(found), True
        self._draw()
        if not self._in_place_checked:
            self.check_in_place()

    # Operations.

    @on(compact_panes.OperationPane.BoxClicked)
    def action_switch(self) -> None:
        """Leave the marked operation or strategy out, or include it again."""
        if self._marked is not None:
            self._switch_row(self._marked)

    def action_all(self) -> None:
        """Leave everything out, or include everything again."""
        if self._planned and self._planned.offered:
            self._set_left_out(compact_panes.toggle_all(self._planned))

    def _switch_row(self, row: compact_panes.OperationRow) -> None:
        if row.can_switch:
            self._set_left_out(compact_panes.toggle_row(row, self._left_out))
        elif row.protected:
            self.app.toast(f"protected: {row.protected.why}")
        else:
            self.app.toast("depends on the others and is removed with them")

    def _set_left_out(self, left_out: frozenset[OperationKey]) -> None:
        self._left_out = left_out
        self.failure = ""
        planned = self._planned
        if planned is not None:
            # The box changes at once; the sums follow as soon as they are computed.
            self._planned = replace(planned, request=replace(planned.request, left_out=left_out))
        self._plan()
        self._draw()

    @on(RowList.Highlighted, "#operations")
    def _show_change(self) -> None:
        row, pane = self._marked, self.query_one("#words")
        if not pane.display:
            return
        change = self.query_one("#change", Static)
        if row is None:
            change.update("")
        elif row.protected is not None:
            change.update(Content.styled(one_line(f"It stays: {row.protected.why}."), "$quiet"))
        elif row.is_header:
            change.update(_strategy_text(row))
        else:
            (operation,) = row.operations
            self._read_change(operation, preview_lines(pane.size.height), self._show_preview)

    def _show_preview(self, operation: plan.Operation, content: Content) -> None:
        row = self._marked
        if row is not None and row.operations == (operation,):
            self.query_one("#change", Static).update(content)

    @on(RowList.Opened, "#operations")
    def action_show(self) -> None:
        """Show the complete text of the marked operation, and what replaces it."""
        row = self._marked
        if row is None or row.protected is not None:
            return
        if row.is_header:
            self._switch_row(row)
            return
        (operation,) = row.operations
        self._read_change(operation, FULL_TEXT_LINES, self._open_change)

    def _open_change(self, operation: plan.Operation, content: Content) -> None:
        title, session_id = self.session.title, self.session_id
        crumbs = (title, "compact", operation.what)
        self.app.push_screen(ReadingScreen(*crumbs, content=content, session_id=session_id))

    def _read_change(
        self, operation: plan.Operation, lines: int, show: Callable[[plan.Operation, Content], None]
    ) -> None:
        room = self.query_one("#words").scrollable_content_region.width or self.size.width
        is_preview = lines < FULL_TEXT_LINES
        width = min(room, MAX_TEXT_CELLS) if is_preview else text_width(self.size.width)

        def take(found: list[OperationChange] | Problem) -> None:
            if self.is_attached:
                show(operation, change_lines(operation, found, width, lines))

        self._planner.read_changes(self.session, [operation], SHOWN_CHANGES, take)

    def action_copy(self) -> None:
        if self._planned is not None:
            lines = [
                f"{each.strategy}\t{each.line or ''}\t{each.what}\t{each.tokens_saved}"
                for each in self._planned.plan.operations
            ]
            self.app.copy("\n".join(lines), f"{len(lines)} operations")

    # Drawing.

    @on(Rows.RoomChanged)
    def _draw(self) -> None:
        if self.is_attached:
            self._draw_sums()
            self._draw_operations()
            self.draw_buttons()

    def _draw_sums(self) -> None:
        context, width = self.session.context, max(0, self.size.width - 2)
        policy = self.app.feed.policies.acting.for_project(self.session.project_root)
        drawn = plan_lines(
            self._planned.plan if self._planned else None,
            context,
            width,
            is_stale=self.is_stale,
            compression=due_compression(policy, context),
            cost=self._cost_text(policy),
        )
        self.query_one("#sums", Static).update(drawn)
        status = shorten(self._status_text(), max(0, width - 20))
        self.query_one(compact_panes.OperationPane).border_subtitle = Content(status)

    def _cost_text(self, policy: Policy) -> str:
        costs = self._planned and plan_costs(self.session, policy, self._planned.plan)
        return cost_line(costs, PauseWay.PLAN, self.app.now_ms()) if costs else ""

    def _status_text(self) -> str:
        if self.is_stale and not self.problem:
            share = "" if self._share is None else f", {self._share:.0%} read"
            return f"planning{share} …"
        if self._planned is None:
            return ""
        return f"plan {self._planned.plan.plan_id} · not applied yet"

    def _draw_operations(self) -> None:
        pane = self.query_one(compact_panes.OperationPane)
        planned = self._planned
        pane.empty = one_line(self.problem) if self.problem else _empty_text(planned)
        pane.show_columns(compact_panes.operation_columns(pane.row_width))
        rows = compact_panes.operation_rows(planned, pane.in_order) if planned else []
        count = len(planned.offered) if planned else 0
        left_out = sum(row.box == BOX_OFF and not row.is_header for row in rows)
        pane.border_title = f"Operations: {count - left_out:,} of {count:,} on" if count else "Plan"
        pane.show(rows)
        self._show_change()


def _default_options(session: Session) -> plan.PlanOptions:
    """Aim at the default target, or if the session is below that, at all that may go."""
    context = session.context
    target = plan.default_target(context.window.tokens, context.trigger_tokens)
    is_below = context.tokens is not None and context.tokens <= target.tokens
    level, keep = plan.DEFAULT_OPTIONS.max_level.value, plan.DEFAULT_OPTIONS.min_turns
    share = compact_panes.TARGET_SCALE.nearest(round(100 * target.share)) / 100
    return plan.PlanOptions(level=level, target=None if is_below else share, keep=keep)


def _strategy_text(row: compact_panes.OperationRow) -> Content:
    reasons = dict.fromkeys(one_line(operation.why) for operation in row.operations)
    return Content("\n").join(
        [
            Content.styled(row.operations[0].strategy, "bold $foreground"),
            *map(Content, list(reasons)[:MIN_PREVIEW_LINES]),
            Content.styled("space turns all of them on or off", "$quiet"),
        ]
    )


def _empty_text(planned: PlannedCompaction | None) -> str:
    if planned is None:
        return compact_panes.READING_TEXT
    refused = next((each for each in planned.plan.refused if each.check in NOTHING_TO_GAIN), None)
    return (
        f"Nothing would be removed: {screen_advice(refused)}."
        if refused
        else "Nothing would be removed."
    )
