"""A plan at a glance, and the text of one operation before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from textual.content import Content

from ...core.compaction.plan import CompactionPlan, Operation, Refusal
from ...core.compaction.strategies import reasoning
from ...core.model.context import Context, ContextState
from ...core.model.problem import Problem
from ...core.transcript.sanitize import one_line
from . import plan_text
from .formats import fit_right, format_bytes, plural, reduction, shorten, tokens
from .gauge import MIN_GAUGE_CELLS, PERCENT_CELLS, gauge
from .text_lines import join_lines, quiet

if TYPE_CHECKING:
    from ...core.compaction.compression_level import DueCompression
    from ...core.model.session import Session


def plan_lines(
    plan: CompactionPlan | None,
    context: Context,
    width: int,
    *,
    is_stale: bool,
    compression: DueCompression | None = None,
    cost: str = "",
) -> Content:
    """Draw a plan in lines of `width` cells; a stale one is dim until the next one is there.

    The level of compression that is due now is named with its reason, if there is one. `cost`
    says when it pays off.
    """
    if plan is None:
        now = _bar("now", context.tokens, context, width)
        return join_lines(now, Content(""), Content(""))
    drawn = join_lines(
        _bar("now", plan.before_tokens, context, width),
        _bar("after", plan.after_tokens, context, width),
        *_limit_lines(compression),
        *(Content(shorten(each, width)) for each in _facts(plan, width, cost)),
        *(Content(shorten(each, width)) for each in _due_lines(compression)),
        *_refusal_lines(plan.refused, width),
        *(Content(shorten(each, width)) for each in _target_lines(plan)),
    )
    return quiet(drawn.plain) if is_stale else drawn


def _limit_lines(compression: DueCompression | None) -> Iterator[Content]:
    if compression and (drawn := plan_text.limit_gauge(compression)):
        label = quiet(f"{'limit':<{BAR_LABEL_CELLS}}")
        yield label + Content.styled(f"{drawn.bar}  {drawn.text}", drawn.style)


def _due_lines(compression: DueCompression | None) -> Iterator[str]:
    if compression and compression.level:
        yield f"due: {compression.level} compression ({compression.reason})"


def savings_text(plan: CompactionPlan) -> str:
    less = plan.bytes_saved
    size = f"file {'−' if less >= 0 else '+'}{format_bytes(abs(less))}"
    share = f"{reduction(plan.saved_share)} of the context"
    return f"frees ≈ {tokens(plan.tokens_saved)} tokens, {share} · {size}"


def break_even_text(plan: CompactionPlan) -> str:
    short, long = plan.break_even_requests, plan.break_even_requests_1h
    if plan.before_tokens == plan.after_tokens:
        return "the context and its cache stay the same"
    if short is None:
        return "never breaks even"
    if max(short, long or 0.0) <= 0:
        return "breaks even at once"
    hour = "" if long is None else f" (with the 1-hour cache: {plan_text.break_even_after(long)})"
    return f"breaks even {plan_text.break_even_after(short)}{hour}"


def harm_text(plan: CompactionPlan) -> str:
    if not plan.operations:
        return "loses nothing"
    own = [each.level for each in plan.operations if each.strategy != reasoning.THINKING_AFTER]
    most = max(own, default=plan.harm)
    level = f"{int(plan.harm)}, {plan_text.HARM_NAMES[plan.harm]}"
    text = f"up to level {level}: {plan_text.HARM_DESCRIPTIONS[most]}"
    # Rule T: a mild change can cost thoughts, which is more harm than was asked for.
    return text if most == plan.harm else f"{text}, and the thinking that depends on it"


def refusal_text(refusal: Refusal) -> str:
    sign = "nothing to do" if refusal.check in plan_text.NOTHING_TO_GAIN else "refused"
    return one_line(f"{sign}: {refusal.why}; {plan_text.screen_advice(refusal)}")


def in_place_question(plan: CompactionPlan, session: Session, projects: Path) -> str:
    care = "A backup is kept, every check must pass, and u undoes it."
    if plan.only_appends:
        care = "No line is rewritten: lines are appended, and u removes them."
    return (
        f"“{shorten(session.title, 60)}” itself is changed:"
        f" {plural(len(plan.operations), 'operation')}, ≈ {tokens(plan.tokens_saved)} tokens less"
        f" for the model.\n\n{one_line(str(projects / session.path))}\n\n{care}"
    )


BAR_LABEL_CELLS: Final = 7
NUMBER_CELLS: Final = 9  # room for ≈, the count and its unit
MAX_BAR_CELLS: Final = 100  # a longer bar is not read more exactly


def _bar(label: str, count: int | None, context: Context, width: int) -> Content:
    room = width - BAR_LABEL_CELLS - PERCENT_CELLS - NUMBER_CELLS
    cells = max(MIN_GAUGE_CELLS, min(room, MAX_BAR_CELLS))
    # The same marks as on the fleet's bar, for another fill, and by the window as the target is.
    window = replace(context.window, limit=None)
    shown = replace(context, tokens=count, state=ContextState.ESTIMATED, window=window)
    number = fit_right(f"≈ {tokens(count)}", NUMBER_CELLS)
    head = quiet(f"{label:<{BAR_LABEL_CELLS}}")
    return head + gauge(shown, cells) + Content.styled(number, "bold $foreground")


def _facts(plan: CompactionPlan, width: int, cost: str) -> list[str]:
    savings, price = savings_text(plan), cost or break_even_text(plan)
    line = f"{savings} · {price}"
    return [*([line] if len(line) <= width else [savings, price]), harm_text(plan)]


def _target_lines(plan: CompactionPlan) -> Iterator[str]:
    """Describe the steps towards the target, and what keeps the plan from it."""
    yield from plan_text.step_texts(plan)
    if text := plan_text.target_text(plan):
        yield f"target: {text}"
        if plan.misses_target and not plan.steps:
            yield "The strategy condense goes further: the oldest turns become a digest."
    if text := plan_text.trigger_text(plan.target):
        yield text


MAX_REFUSALS: Final = 2  # the first names what to do first
MAX_REFUSAL_LINES: Final = 2  # of each one


def _refusal_lines(refused: Sequence[Refusal], width: int) -> Iterator[Content]:
    for refusal in refused[:MAX_REFUSALS]:
        lines = wrap(f"✗ {refusal_text(refusal)}", max(width, MIN_GAUGE_CELLS))
        for line in lines[:MAX_REFUSAL_LINES]:
            yield Content.styled(shorten(line, width), "bold $level-warning")


MAX_CHANGES: Final = 10  # of one operation; a way back removes hundreds of lines
FULL_TEXT_LINES: Final = 400  # of a text that is read whole
MIN_PREVIEW_LINES: Final = 3  # of a text that is shown beside the list; Enter shows all
_PREVIEW_HEADER_LINES: Final = 6  # that describe a change: what it is, where, what was left out


def preview_lines(height: int) -> int:
    """Return the lines of each text, before and after, in a pane of so many lines."""
    return max(MIN_PREVIEW_LINES, (height - _PREVIEW_HEADER_LINES) // 2)


def change_lines(
    operation: Operation,
    changes: Sequence[plan_text.OperationChange] | Problem,
    width: int,
    lines: int,
) -> Content:
    if isinstance(changes, Problem):
        return Content.styled(one_line(str(changes)), "$level-warning")
    strategy = f"{operation.strategy}, level {int(operation.level)}: {one_line(operation.why)}"
    savings = f"{operation.tokens_saved:,} tokens, {operation.bytes_saved:,} bytes"
    parts = [
        Content.styled(one_line(operation.what), "bold $foreground"),
        quiet(f"{strategy} · frees {savings}"),
    ]
    for each in changes[:MAX_CHANGES]:
        parts += _change(each, width, lines)
    if operation.summary:
        parts += _longer_summaries(operation.summary.longer_texts, width, lines)
    left = len(operation.edits) - min(len(changes), MAX_CHANGES)
    if left > 0:
        parts.append(quiet(f"… {left:,} more changes of this kind"))
    return join_lines(*parts)


def _longer_summaries(texts: Sequence[str], width: int, lines: int) -> Iterator[Content]:
    """Show the summaries of the other levels: each next one is made of the one before it."""
    for level, text in enumerate(texts, 1):
        yield Content.styled(f"level {level} of {len(texts) + 1}, not used", "$accent")
        yield from map(quiet, plan_text.signed_lines("·", text, lines, width))


def _change(change: plan_text.OperationChange, width: int, lines: int) -> Iterator[Content]:
    yield Content.styled(one_line(plan_text.change_heading(change)), "$accent")
    for sign, text, style in (
        ("-", change.before, "$level-high"),
        ("+", change.after, "$level-calm"),
    ):
        if text is not None:
            shown = plan_text.signed_lines(sign, text, lines, width)
            yield from (Content.styled(line, style) for line in shown)
