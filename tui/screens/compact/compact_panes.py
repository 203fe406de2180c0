"""The compact page's panes: the options, the operations, and the buttons that apply them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Static

from ....core.compaction.plan import (
    CONDENSE,
    CUT,
    LAST_PROMPT,
    OFFERED_LEVELS,
    REVERT,
    ROLLOVER,
    SUMMARIZE,
    WHOLE_STRATEGIES,
    Operation,
    PlanOptions,
    ProtectedTokens,
    Refusal,
)
from ....core.transcript.sanitize import one_line
from ...text.formats import fit_left, fit_right, plural, shorten, tokens
from ...text.listing import Row
from ...text.plan_text import (
    BOX_OFF,
    BOX_ON,
    BOX_SOME,
    DEPENDENT_SIGN,
    HARM_NAMES,
    PROTECTED_SIGN,
    screen_advice,
)
from ...text.tables import Column
from ...widgets.controls import Choice, Slider, SliderScale
from ...widgets.row_list import RowList
from .compaction_planner import OperationKey, PlannedCompaction, PromptChoice, operation_key

BOX_CELLS: Final = 3  # a click within them switches
_TOKENS_CELLS: Final = 9
_LINE_CELLS: Final = 7
_REASON_FROM_CELLS: Final = 96  # width from which there is room for the reason
MAX_CACHED_ROWS: Final = 20_000  # drawn rows: a switch changes a few, and a plan has thousands


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One row: a strategy's heading, an operation, or what is protected."""

    key: str
    box: str
    operations: tuple[Operation, ...] = ()  # what it switches, or shows
    is_header: bool = False
    protected: ProtectedTokens | None = None

    @property
    def can_switch(self) -> bool:
        return self.box in {BOX_ON, BOX_OFF, BOX_SOME}

    @property
    def keys(self) -> frozenset[OperationKey]:
        return frozenset(map(operation_key, self.operations))


def operation_rows(
    planned: PlannedCompaction,
    in_order: Callable[[Iterable[Operation]], list[Operation]] = list,
) -> list[OperationRow]:
    """Lay a plan out: what can be switched by level and strategy, what follows, what stays.

    `in_order` sorts the operations of each strategy.
    """
    left_out, plan = planned.request.left_out, planned.plan
    ordered = sorted(planned.offered, key=lambda each: (each.level, each.strategy, each.line or 0))
    rows: list[OperationRow] = []
    for strategy, group in groupby(ordered, key=lambda each: each.strategy):
        own = tuple(in_order(group))
        boxes = [BOX_OFF if operation_key(each) in left_out else BOX_ON for each in own]
        box = boxes[0] if len(set(boxes)) == 1 else BOX_SOME
        rows.append(OperationRow(f"s:{strategy}", box, own, is_header=True))
        rows += [
            OperationRow(f"o:{each.strategy}:{each.line}:{number}", box, (each,))
            for number, (each, box) in enumerate(zip(own, boxes, strict=True))
        ]
    offered = set(map(operation_key, planned.offered))
    bound = [each for each in plan.operations if operation_key(each) not in offered]
    rows += [
        OperationRow(f"b:{each.strategy}:{number}", DEPENDENT_SIGN, (each,))
        for number, each in enumerate(bound)
    ]
    stays = plan.protected
    rows += [OperationRow(f"p:{each.why}", PROTECTED_SIGN, protected=each) for each in stays]
    return rows


def operation_columns(width: int) -> list[Column[Operation, str]]:
    """Describe the columns; `operation_row_line` draws them."""
    what, reason = _text_cells(width)
    columns: list[Column[Operation, str]] = [
        Column("on", lambda _: "", cells=BOX_CELLS, tooltip="click to leave out, or to include"),
        Column(
            "line",
            lambda each: str(each.line),
            right=True,
            cells=_LINE_CELLS,
            tooltip="the line of the transcript",
            sort_key=lambda each: each.line,
        ),
        Column(
            "what",
            lambda each: each.what,
            cells=what,
            tooltip="what is removed or shortened, by strategy",
            sort_key=lambda each: each.what,
        ),
        Column(
            "tokens",
            lambda each: f"{each.tokens_saved:,}",
            right=True,
            cells=_TOKENS_CELLS,
            tooltip="what it takes out of the context",
            sort_key=lambda each: each.tokens_saved,
        ),
        Column(" reason", lambda each: each.why, cells=reason, tooltip="why it can go"),
    ]
    return [column for column in columns if column.cells]


@lru_cache(maxsize=MAX_CACHED_ROWS)
def operation_row_line(row: OperationRow, width: int) -> Content:
    line, style, reason = "", "$quiet", ""
    if row.protected is not None:
        what, freed = f"protected: {row.protected.why}", _rounded(row.protected.tokens)
    elif row.is_header:
        first, count = row.operations[0], len(row.operations)
        what = f"{first.strategy}: {count:,} {'operation' if count == 1 else 'operations'}"
        freed = _rounded(sum(each.tokens_saved for each in row.operations))
        reason = f"level {int(first.level)}, {HARM_NAMES[first.level]}"
        style = "bold $level-calm"
    else:
        (operation,) = row.operations
        what, reason, style = f"  {operation.what}", operation.why, "$foreground"
        freed = f"{operation.tokens_saved:,}" if operation.tokens_saved else "–"
        line = "" if operation.line is None else f"{operation.line:,}"
    text = _operation_cells(row.box, line, what, freed, reason, width)
    return Content.styled(text, "$quiet" if row.box == BOX_OFF else style)


def _rounded(count: int) -> str:
    return f"≈ {tokens(count)}" if count else "–"


def _operation_cells(box: str, line: str, what: str, freed: str, why: str, width: int) -> str:
    room, reason = _text_cells(width)
    end = f"  {fit_left(why, reason - 1)}" if reason else ""
    return (
        f"{box} {fit_right(line, _LINE_CELLS)} {fit_left(what, room)}"
        f" {fit_right(freed, _TOKENS_CELLS)}{end}"
    )


def _text_cells(width: int) -> tuple[int, int]:
    """Return the cells for what is done and for the reason, with a blank before it."""
    room = max(0, width - BOX_CELLS - _LINE_CELLS - _TOKENS_CELLS - 3)
    reason = room * 2 // 5 if width >= _REASON_FROM_CELLS else 0
    return (room - reason - 2, reason + 1) if reason else (room, 0)


def toggle_row(row: OperationRow, left_out: frozenset[OperationKey]) -> frozenset[OperationKey]:
    """Switch an operation, or all of a strategy; on if any of them is off."""
    return left_out | row.keys if row.box == BOX_ON else left_out - row.keys


def toggle_all(planned: PlannedCompaction) -> frozenset[OperationKey]:
    """Leave all operations out, or if some are left out, none."""
    all_keys = frozenset(map(operation_key, planned.offered))
    return frozenset() if planned.request.left_out else all_keys


READING_TEXT: Final = "reading the transcript …"


class OperationPane(RowList):
    """Shows operations, and posts a request to switch the marked one."""

    class BoxClicked(Message):
        pass

    def __init__(self) -> None:
        super().__init__(id="operations", name="Operations", empty=READING_TEXT)
        self._operation_rows: dict[str, OperationRow] = {}

    @property
    def marked(self) -> OperationRow | None:
        return self._operation_rows.get(self.key or "")

    def show(self, rows: Sequence[OperationRow]) -> None:
        """Draw these rows; unchanged ones are kept."""
        width = self.row_width
        self._operation_rows = {row.key: row for row in rows}
        self.show_rows([Row(row.key, operation_row_line(row, width)) for row in rows])

    def on_click(self, event: events.Click) -> None:
        """Post BoxClicked; the rows have marked the row below it."""
        found = self.clicked(event)
        if found and found[1] < BOX_CELLS:
            self.post_message(self.BoxClicked())


MAX_KEPT: Final = 40
MAX_TURNS: Final = 60  # keeping more makes nothing smaller
BY_LEVEL: Final = "by level"  # the ladder: least harm first, and no more than reaches the target
PLAN_STRATEGIES: Final = (BY_LEVEL, *WHOLE_STRATEGIES)
TARGET_SCALE: Final = SliderScale(0, 95, 5)  # percent of the window
DEFAULT_CUT_TURNS: Final = 10  # newest turns that a cut leaves

_SLIDERS_BY_STRATEGY: Final = {
    BY_LEVEL: ("level", "target", "keep"),
    CONDENSE: ("target",),
    SUMMARIZE: ("keep",),
    CUT: ("turns",),
    REVERT: ("back",),
}


def slider_options(
    strategy: str, values: Mapping[str, int], prompts: Sequence[PromptChoice] = ()
) -> PlanOptions:
    """Return the options that the sliders select; `prompts` are the session's, oldest first.

    `values` are by slider: the level as its place among OFFERED_LEVELS, the target in percent,
    where 0 takes all that the level allows, and how many prompts to go back, where 1 is the newest.
    """
    if strategy == CONDENSE:
        return PlanOptions(strategies=(CONDENSE,), target=values["target"] / 100)
    if strategy == SUMMARIZE:
        return PlanOptions(strategies=(SUMMARIZE,), keep=values["keep"])
    if strategy == CUT:
        return PlanOptions(strategies=(CUT,), keep_turns=values["turns"])
    if strategy == REVERT:
        back = values["back"]
        to = str(prompts[-back].line) if 1 < back <= len(prompts) else LAST_PROMPT
        return PlanOptions(strategies=(REVERT,), to=to)
    if strategy == ROLLOVER:
        return PlanOptions(strategies=(ROLLOVER,))
    target = values["target"] / 100 if values["target"] else None
    level = OFFERED_LEVELS[values["level"]].value
    return PlanOptions(level=level, target=target, keep=values["keep"])


def _level_label(place: int) -> str:
    level = OFFERED_LEVELS[place]
    return f"{int(level)} {HARM_NAMES[level]}"


class PlanOptionsBar(Vertical):
    @dataclass
    class Changed(Message):
        options: PlanOptions

    def __init__(self, options: PlanOptions, by_level: PlanOptions, window_tokens: int) -> None:
        """Begin with `options`; the sliders of a plan by levels begin with `by_level`."""
        super().__init__()
        self._window: Final = window_tokens
        self._prompts: tuple[PromptChoice, ...] = ()
        self._strategy = options.whole_strategy or BY_LEVEL
        self._by_level: Final = by_level
        self._options = options

    def compose(self) -> ComposeResult:
        first = self._by_level
        keep, keep_turns = self._options.keep, self._options.keep_turns
        target = round((first.target or 0) * 100)
        level = SliderScale(0, len(OFFERED_LEVELS) - 1)
        allowed = sum(each <= first.max_level for each in OFFERED_LEVELS) - 1
        kept, turns, back = SliderScale(0, MAX_KEPT), SliderScale(1, MAX_TURNS), SliderScale(1, 2)
        chosen = PLAN_STRATEGIES.index(self._strategy)
        yield Choice(PLAN_STRATEGIES, chosen, id="strategy", name="strategy")
        with Horizontal(id="sliders"):
            yield Slider(
                level,
                allowed,
                _level_label,
                id="level",
                name="level",
            )
            yield Slider(TARGET_SCALE, target, self._target_label, id="target", name="target")
            keep = min(first.min_turns if keep is None else keep, MAX_KEPT)
            yield Slider(kept, keep, self._keep_label, id="keep", name="keep last")
            keep_turns = min(keep_turns or DEFAULT_CUT_TURNS, MAX_TURNS)
            yield Slider(turns, keep_turns, self._keep_label, id="turns", name="keep last")
            yield Slider(back, 1, self._back_label, id="back", name="go back")

    def on_mount(self) -> None:
        self._show_sliders()

    def move_slider(self, name: str, steps: int) -> None:
        """Move a slider by some steps, if it is shown."""
        slider = self.query_one(f"#{name}", Slider)
        if slider.display:
            slider.action_slide(steps)

    def show_prompts(self, prompts: Sequence[PromptChoice]) -> None:
        """Set the prompts to revert to, oldest first; an empty sequence changes nothing."""
        if prompts:
            self._prompts = tuple(prompts)
            # Before the first prompt nothing would be left, and with all turns nothing would go.
            fewer = max(1, len(prompts) - 1)
            self.query_one("#back", Slider).rescale(SliderScale(1, fewer))
            self.query_one("#turns", Slider).rescale(SliderScale(1, min(fewer, MAX_TURNS)))
            self._post_change()

    @on(Choice.Changed)
    def _choose(self, event: Choice.Changed) -> None:
        event.stop()
        self._strategy = event.value
        self._show_sliders()
        self._post_change()

    @on(Slider.Changed)
    def _slide(self, event: Slider.Changed) -> None:
        event.stop()
        self._post_change()

    def _post_change(self) -> None:
        values = {slider.id: slider.value for slider in self.query(Slider) if slider.id}
        options = slider_options(self._strategy, values, self._prompts)
        if options != self._options:
            self._options = options
            self.post_message(self.Changed(options))

    def _show_sliders(self) -> None:
        shown = _SLIDERS_BY_STRATEGY.get(self._strategy, ())
        for slider in self.query(Slider):
            slider.display = slider.id in shown
            slider.refresh()
        self.query_one("#sliders").display = bool(shown)

    def _target_label(self, share: int) -> str:
        if not share:
            return "all it allows"
        return f"{share} % ≈ {tokens(round(share / 100 * self._window))}"

    def _keep_label(self, count: int) -> str:
        return plural(count, "message" if self._strategy == SUMMARIZE else "turn")

    def _back_label(self, count: int) -> str:
        label = plural(count, "prompt")
        if count <= len(self._prompts):
            label += f", before “{self._prompts[-count].text}”"
        return label


ASK_LABEL: Final = "Ask Claude Code to /compact"
ASK_SHORT_LABEL: Final = "Ask to /compact"
FULL_LABEL_CELLS: Final = 84  # width from which there is room for the long label
FOUR_BUTTONS_CELLS: Final = 72  # and for four buttons; Esc cancels everywhere

_STAGE_TEXTS: Final = {
    "copy": ("backing up", "copied"),
    "write": ("writing", "written"),
    "verify": ("verifying", "verified"),
    "put": ("replacing the file", "replaced"),
}
"""By stage: while it lasts, and when it is over."""


@dataclass(frozen=True, slots=True)
class ApplyState:
    can_apply: bool
    in_place: Refusal | None  # why the session itself cannot be changed
    running: str | None  # what is being done already
    stages: tuple[str, ...]
    problem: str


class ApplyBar(Vertical):
    """Four buttons, and a line with the progress or the reason why one is disabled."""

    def compose(self) -> ComposeResult:
        with Horizontal(id="do"):
            yield Button("Write a fork", id="fork", variant="primary", compact=True)
            yield Button("Write in place", id="in_place", compact=True)
            yield Button(ASK_LABEL, id="ask", compact=True)
            yield Button("Cancel", id="leave", compact=True)
        yield Static(id="why")

    def _button(self, name: str) -> Button:
        return self.query_one(f"#{name}", Button)

    def on_resize(self) -> None:
        """Shorten a label and hide a button if the bar is narrow."""
        width = self.size.width
        self._button("ask").label = ASK_LABEL if width >= FULL_LABEL_CELLS else ASK_SHORT_LABEL
        self._button("leave").display = width >= FOUR_BUTTONS_CELLS

    def show(self, state: ApplyState) -> None:
        is_running = state.running is not None
        can_apply = state.can_apply and not is_running
        self._button("fork").disabled = not can_apply
        self._button("in_place").disabled = not can_apply or state.in_place is not None
        self._button("ask").disabled = is_running
        self.query_one("#why", Static).update(apply_state_line(state, self.size.width - 2))


def apply_state_line(state: ApplyState, width: int) -> Content:
    """Return the progress, the error, or why the plan cannot be applied in place."""
    if state.running is not None:
        if not state.stages:
            return Content.styled(f"{state.running} …", "$accent")
        *over, now = state.stages
        done = "".join(f"✓ {_STAGE_TEXTS[stage][1]}  " for stage in over)
        return Content.assemble((done, "$level-calm"), (f"… {_STAGE_TEXTS[now][0]}", "$accent"))
    if state.problem:
        return Content.styled(f"✗ {one_line(state.problem)}", "bold $level-warning")
    if state.in_place is not None:
        why = f"not in place: {state.in_place.why}; {screen_advice(state.in_place)}"
        return Content.styled(shorten(one_line(why), max(0, width)), "$quiet")
    return Content("")
