"""Making one session smaller: what is asked for, the plan as it is worked out, and applying it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static

from ...core.compaction.receipts import Mode
from ...core.compaction.target import target_tokens
from ..aiming import USUAL, Aims
from ..applying import mode_in_place, why_not_in_place
from ..formats import middle, one_line
from ..operation_rows import all_switched, items_of, switched
from ..plan_report import in_place_words, plan_lines, refusal_words
from ..plan_words import NOTHING, what_to_do
from ..planner import Planned, Planner, Wish
from ..widgets.aims_bar import AimsBar
from ..widgets.apply_bar import ApplyBar, Standing
from ..widgets.operation_pane import OperationPane
from ..widgets.row_list import RowList, Rows
from .page import Page

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from textual.timer import Timer
    from textual.widget import Widget

    from ...collectors.asking.outcome import Outcome
    from ...collectors.folder import Trouble
    from ...core.compaction.plan import Operation, Refusal
    from ...core.compaction.receipts import Receipt
    from ...core.compaction.stage import Stage
    from ...core.sessions import Session
    from ..applying import NotDone
    from ..operation_changes import Change
    from ..operation_rows import Item
    from ..planner import Mark
    from ..view import View

SOON_S: Final = 0.15
"""After the last touch of a slider a plan begins: sliding asks once."""

REST_S: Final = 2.0
"""A session that grew is planned anew so long after its last line that was seen."""

LOOK_S: Final = 10.0
"""How often it is looked whether the session may be changed itself by now."""

BESIDE: Final = 3
"""Lines of a text that is shown beside the list at the least; Enter shows all."""

HEADS: Final = 6
"""Lines that are no text of it: what it is, where, and what was left out."""

SHOWN_CHANGES: Final = 10
"""Changes of one operation that are read to be shown."""


class CompactScreen(Page):
    """Nothing is written before a person presses one of its buttons."""

    CSS_PATH = "compact.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (78, "-wide"), (160, "-broad")]  # noqa: RUF012 -- Textual's
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space", "switch", "On/off", tooltip="this operation or strategy on or off", id="switch"
        ),
        Binding("a", "all", "All", tooltip="all operations on or off", id="all"),
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
        Binding("f", "fork", "Fork", tooltip="write a fork; the session stays as it is", id="fork"),
        Binding("i", "in_place", "In place", tooltip="change the session itself", id="in_place"),
        Binding("d", "ask", "/compact", tooltip="let Claude Code do it: /compact", id="ask_client"),
        Binding("y", "copy", "Copy", show=False, tooltip="copy the plan's operations", id="copy"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session.title, "compact", session_id=session.session_id)
        self._session = session
        self._aims = Aims(target=_first_target(session))
        self._left_out: frozenset[Mark] = frozenset()
        self._planned: Planned | None = None
        self._trouble = ""
        self._failure = ""
        """How the last act ended, where it failed; till something else is wanted."""
        self._is_old = True
        self._share: float | None = None
        self._in_place: Refusal | None = None
        self._looked = False
        self._stages: list[str] = []
        self._timer: Timer | None = None

    def compose_page(self) -> Iterable[Widget]:
        """Lay out what is asked for, the plan, and what can be done with it."""
        yield AimsBar(self._aims, self._session.context.window.tokens)
        yield Static(id="sums")
        with Container(id="plan"):
            yield OperationPane(id="operations")
            yield VerticalScroll(Static(id="change"), id="words")
        yield ApplyBar()

    def on_mount(self) -> None:
        """Begin to plan."""
        self._planner = Planner(self.app.places, self.app.post_message)
        self.query_one(OperationPane).empty = "the transcript is being read …"
        self.query_one(Rows).focus()
        self._draw()
        self._plan()
        self.set_interval(LOOK_S, self._look_in_place)

    def on_unmount(self) -> None:
        """Let go of the transcript."""
        self._planner.stop()

    # What is asked for.

    @on(AimsBar.Changed)
    def _aim(self, event: AimsBar.Changed) -> None:
        self._aims, self._failure = event.aims, ""
        self._plan_soon()

    def action_level(self, steps: int) -> None:
        """Take more or less, wherever the focus is."""
        self.query_one(AimsBar).slide("level", steps)

    def action_target(self, steps: int) -> None:
        """Aim at more or less, wherever the focus is."""
        self.query_one(AimsBar).slide("target", steps)

    # Planning.

    def show_view(self, view: View) -> None:
        """Follow the session: what grew is planned anew, what is open is not changed itself."""
        known = next((each for each in view.sessions if each.session_id == self.session_id), None)
        if known is None or known == self._session:
            return
        before, self._session = self._session, known
        if known.title != before.title:
            self.rename(known.title, "compact")
        if known.last_activity_at != before.last_activity_at or known.path != before.path:
            self._is_old = True
            self._plan_soon(REST_S)
        if (known.live, known.status) != (before.live, before.status):
            self._look_in_place()
        self._draw()

    def _plan_soon(self, seconds: float = SOON_S) -> None:
        self._is_old = True
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(seconds, self._plan)
        self._draw_sums()

    def _plan(self) -> None:
        if self._is_writing:
            self._plan_soon(REST_S)
            return
        self._is_old = True
        wish = Wish(self._session, self._aims, self._left_out)
        self._planner.plan(wish, self._take, self._hear)
        self._draw_sums()

    def _hear(self, share: float) -> None:
        if self.is_attached:
            self._share = share
            self._draw_sums()

    def _take(self, found: Planned | Trouble) -> None:
        if not self.is_attached:
            return
        self._share = None
        if isinstance(found, Planned):
            self._planned, self._trouble, self._is_old = found, "", False
            self.query_one(AimsBar).show_prompts(found.prompts)
            if any(each.check == "changed" for each in found.plan.refused):
                self._plan_soon(REST_S)
        else:
            self._trouble, self._is_old = str(found), True
        self._draw()
        if not self._looked:
            self._look_in_place()

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
            self._leave_out(all_switched(self._planned))

    def _switch_item(self, item: Item) -> None:
        if item.can_switch:
            self._leave_out(switched(item, self._left_out))
        elif item.protected:
            self._say(f"it stays: {item.protected.why}")
        else:
            self._say("it follows from the others and goes with them")

    def _leave_out(self, left_out: frozenset[Mark]) -> None:
        self._left_out, self._failure = left_out, ""
        planned = self._planned
        if planned is not None:
            # The box answers at once; the sums follow as soon as they are worked out.
            self._planned = replace(planned, wish=replace(planned.wish, left_out=left_out))
        self._plan()
        self._draw()

    @on(RowList.Marked, "#operations")
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
        elif item.is_head:
            change.update(_head_words(item))
        else:
            (operation,) = item.operations
            self._read_change(operation, self._lines_beside, self._put_beside)

    @property
    def _lines_beside(self) -> int:
        """Lines of each text, before and after, that there is room for."""
        return max(BESIDE, (self.query_one("#words").size.height - HEADS) // 2)

    def _put_beside(self, operation: Operation, content: Content) -> None:
        item = self.query_one(OperationPane).marked
        if item is not None and item.operations == (operation,):
            self.query_one("#change", Static).update(content)

    @on(RowList.Opened, "#operations")
    def _open(self) -> None:
        self.action_show()

    def action_show(self) -> None:
        """Show the whole text of the marked operation, and what stands in its place."""
        from ..change_lines import LONG

        item = self.query_one(OperationPane).marked
        if item is None or item.protected is not None:
            return
        if item.is_head:
            self._switch_item(item)
            return
        (operation,) = item.operations
        self._read_change(operation, LONG, self._read_whole)

    def _read_whole(self, operation: Operation, content: Content) -> None:
        from .reading import ReadingScreen

        title, session_id = self._session.title, self.session_id
        crumbs = (title, "compact", operation.what)
        self.app.push_screen(ReadingScreen(*crumbs, content=content, session_id=session_id))

    def _read_change(
        self, operation: Operation, lines: int, show: Callable[[Operation, Content], None]
    ) -> None:
        from ..change_lines import LONG, change_lines
        from .reading import MARGINS, WIDEST

        room = self.query_one("#words").scrollable_content_region.width or self.size.width
        width = min(room, WIDEST) if lines < LONG else min(self.size.width - MARGINS, WIDEST)

        def take(found: list[Change] | Trouble) -> None:
            if not self.is_attached:
                return
            if isinstance(found, list):
                show(operation, change_lines(operation, found, width, lines))
            else:
                show(operation, Content.styled(one_line(str(found)), "$level-warning"))

        self._planner.look(self._session, [operation], SHOWN_CHANGES, take)

    # Applying.

    @property
    def _is_writing(self) -> bool:
        return self.app.acts.running(self._session.session_id) is not None

    @on(Button.Pressed)
    def _press(self, event: Button.Pressed) -> None:
        event.stop()
        act = {
            "fork": self.action_fork,
            "in_place": self.action_in_place,
            "ask": self.action_ask,
            "leave": self.action_leave,
        }[event.button.id or "leave"]
        act()

    def action_fork(self) -> None:
        """Write a fork: the session itself stays as it is."""
        self._apply(Mode.FORK)

    def action_in_place(self) -> None:
        """Change the session itself, where nobody has it open and a person confirms it."""
        from .confirm import ConfirmScreen

        ready = self._ready()
        if ready is None:
            return
        if self._in_place is not None:
            self._say(f"not in place: {self._in_place.why}; {what_to_do(self._in_place)}")
            return
        plan = ready.plan
        what = in_place_words(plan, self._session, self.app.places.folder.projects)
        mode = mode_in_place(plan)

        def answer(yes: bool | None) -> None:  # noqa: FBT001 -- Textual's form
            if yes:
                self._apply(mode)

        title, action = "Write in place", "Change the session itself"
        screen = ConfirmScreen(title, Content(what), action)
        self.app.push_screen(screen, answer)

    def action_ask(self) -> None:
        """Let Claude Code compact it, with words of a person's."""
        from .ask_client import AskClientScreen

        def answer(words: str | None) -> None:
            if words is not None:
                self.app.acts.ask_client(self._session, words, self._asked)
                self._draw_buttons()

        self.app.push_screen(AskClientScreen(self._session), answer)

    def _asked(self, found: Outcome | NotDone | Trouble) -> None:
        if self.is_attached:
            self._plan_soon()
            self._draw_buttons()

    def action_copy(self) -> None:
        """Copy what the plan would do."""
        if self._planned is not None:
            said = [
                f"{each.strategy}\t{each.line or ''}\t{each.what}\t{each.tokens_saved}"
                for each in self._planned.plan.operations
            ]
            self.app.copy("\n".join(said), f"{len(said)} operations")

    def _ready(self) -> Planned | None:
        """Give the plan that may be carried out; else say why there is none."""
        planned = self._planned
        if self._is_writing:
            self._say(f"wait: {self.app.acts.running(self._session.session_id)}")
        elif self._is_old or planned is None:
            self._say(self._trouble or "wait: the plan is still worked out")
        elif planned.plan.refused:
            self._say(refusal_words(planned.plan.refused[0]))
        elif not planned.plan.operations:
            self._say("nothing is on: space takes an operation in")
        else:
            return planned
        return None

    def _apply(self, mode: Mode) -> None:
        ready = self._ready()
        if ready is None:
            return
        self._stages, self._failure = [], ""
        self.app.acts.apply(self._session, ready.plan, mode, self._hear_stage, self._applied)
        self._draw_buttons()

    def _hear_stage(self, stage: Stage) -> None:
        self._stages.append(stage.value)
        if self.is_attached:
            self._draw_buttons()

    def _applied(self, found: Receipt | NotDone | Trouble) -> None:
        from ...core.compaction.receipts import Receipt
        from .receipt import ReceiptScreen

        if not self.is_attached:
            return
        self._stages = []
        self._looked = False
        if isinstance(found, Receipt):
            if self.app.screen is self:
                self.app.push_screen(ReceiptScreen(found.receipt_id, self._session.title))
        else:
            self._failure = "; ".join(getattr(found, "why", None) or (str(found),))
        self._plan_soon()
        self._draw()

    def _look_in_place(self) -> None:
        """Look whether the session may be changed itself."""
        if self._is_writing or self._planned is None:
            return
        self._looked = True
        places, session = self.app.places, self._session

        def question(db: sqlite3.Connection) -> Refusal | None:
            del db
            return why_not_in_place(places, session)

        self.look_up(question, self._take_in_place)

    def _take_in_place(self, found: Refusal | Trouble | None) -> None:
        from ...core.compaction.plan import Refusal

        if found is None or isinstance(found, Refusal):
            self._in_place = found
        else:
            self._in_place = Refusal("file", str(found), "a fork may do")
        self._draw_buttons()

    # Drawing.

    def _draw(self) -> None:
        if not self.is_attached:
            return
        self._draw_sums()
        self._draw_operations()
        self._draw_buttons()

    def _draw_sums(self) -> None:
        planned = self._planned
        width = max(0, self.size.width - 2)
        drawn = plan_lines(
            planned.plan if planned else None,
            self._session.context,
            width,
            is_old=self._is_old,
            aimed=self._aims.tokens(self._session.context.window.tokens),
        )
        self.query_one("#sums", Static).update(drawn)
        pane = self.query_one(OperationPane)
        pane.border_subtitle = Content(middle(self._state(), max(0, width - 20)))

    def _state(self) -> str:
        if self._is_old and not self._trouble:
            share = "" if self._share is None else f", {self._share:.0%} read"
            return f"it is being worked out{share} …"
        if self._planned is None:
            return ""
        return f"plan {self._planned.plan.plan_id} · nothing is written yet"

    def _draw_operations(self) -> None:
        pane = self.query_one(OperationPane)
        planned = self._planned
        pane.empty = one_line(self._trouble) if self._trouble else _empty(planned)
        items = items_of(planned) if planned else []
        count = len(planned.offered) if planned else 0
        left_out = sum(
            len(each.operations) for each in items if each.box == "[ ]" and not each.is_head
        )
        pane.border_title = f"Operations: {count - left_out:,} of {count:,} on" if count else "Plan"
        pane.show(items)
        self._show_change()

    def _draw_buttons(self) -> None:
        if not self.is_attached:
            return
        planned = self._planned
        running = self.app.acts.running(self._session.session_id)
        self.query_one(ApplyBar).show(
            Standing(
                can_apply=planned is not None
                and not self._is_old
                and not planned.plan.refused
                and bool(planned.plan.operations),
                in_place=self._in_place,
                running=running,
                stages=tuple(self._stages) if running else (),
                trouble=self._trouble or self._failure,
            )
        )

    def _say(self, words: str) -> None:
        self.app.notify(one_line(words), markup=False)

    @on(Rows.RoomChanged)
    def _draw_for_room(self) -> None:
        self._draw()


def _first_target(session: Session) -> int:
    """Aim at half of what fits; where the session is below that, at all that may go."""
    now, half = session.context.tokens, target_tokens(session.context.window.tokens)
    return 0 if now is not None and now <= half else USUAL.target


def _head_words(item: Item) -> Content:
    first = item.operations[0]
    whys = list(dict.fromkeys(one_line(each.why) for each in item.operations))
    said = [Content.styled(first.strategy, "bold $foreground"), *map(Content, whys[:BESIDE])]
    return Content("\n").join([*said, Content.styled("space switches all of them", "$quiet")])


def _empty(planned: Planned | None) -> str:
    if planned is None:
        return "the transcript is being read …"
    if any(each.check in NOTHING for each in planned.plan.refused):
        return "Nothing would go. Allow a higher level, a smaller target, or fewer turns kept."
    return "Nothing would go."
