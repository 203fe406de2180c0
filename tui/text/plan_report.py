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
from ...core.transcript.sanitize import one_line
from .formats import fit_right, percent, plural, shorten_middle, tokens
from .gauge import MIN_GAUGE_CELLS, PERCENT_CELLS, gauge
from .plan_text import (
    HARM_DESCRIPTIONS,
    HARM_NAMES,
    NOTHING_TO_GAIN,
    OperationChange,
    break_even_after,
    change_heading,
    screen_advice,
    signed_lines,
)

if TYPE_CHECKING:
    from ...core.model.session import Session


BAR_LABEL_CELLS: Final = 7
NUMBER_CELLS: Final = 9  # room for ≈, the count and its unit
MAX_BAR_CELLS: Final = 100  # cells; a longer one is not read more exactly
MAX_REFUSALS: Final = 2  # that are said; the first is what is to be done first
QUESTION_TITLE_CELLS: Final = 60

MAX_REFUSAL_LINES: Final = 2  # of each one
_KILO: Final = 1000


def plan_lines(
    plan: CompactionPlan | None,
    context: Context,
    width: int,
    *,
    is_stale: bool,
    target_tokens: int | None,
) -> Content:
    """Draw it in lines of `width` cells; an old plan is dim until the next one is there.

    `target_tokens` is the size that the context is to come to.
    """
    if plan is None:
        now = context.tokens
        return Content("\n").join([_bar("now", now, context, width), Content(""), Content("")])
    lines = [
        _bar("now", plan.before_tokens, context, width),
        _bar("after", plan.after_tokens, context, width),
        *(Content(shorten_middle(each, width)) for each in _facts(plan, width)),
        *_refusal_lines(plan.refused, width),
        *(Content(shorten_middle(each, width)) for each in _target_missed(plan, target_tokens)),
    ]
    drawn = Content("\n").join(lines)
    return Content.styled(drawn.plain, "$quiet") if is_stale else drawn


def savings_text(plan: CompactionPlan) -> str:
    """Format how much a plan frees of the context and of the file."""
    less = plan.bytes_saved
    size = f"file {'−' if less >= 0 else '+'}{format_bytes(abs(less))}"
    return f"frees ≈ {tokens(plan.tokens_saved)} tokens, {percent(plan.saved_share)} · {size}"


def break_even_text(plan: CompactionPlan) -> str:
    """Format after how many requests a plan has paid for the cache it invalidates."""
    short, long = plan.break_even_requests, plan.break_even_requests_1h
    if plan.before_tokens == plan.after_tokens:
        return "the context stays, and so does its cache"
    if short is None:
        return "pays back never"
    if max(short, long or 0.0) <= 0:
        return "pays back at once"
    hour = "" if long is None else f" (an hour's cache: {break_even_after(long)})"
    return f"pays back {break_even_after(short)}{hour}"


def harm_text(plan: CompactionPlan) -> str:
    """Format the plan's harm level and the most that the model loses by it."""
    if not plan.operations:
        return "takes nothing"
    own = [each.level for each in plan.operations if each.strategy != reasoning.THINKING_AFTER]
    most = max(own, default=plan.harm)
    said = f"takes level {int(plan.harm)}, {HARM_NAMES[plan.harm]}: {HARM_DESCRIPTIONS[most]}"
    # Rule T: a mild change can cost thoughts, which is more harm than was asked for.
    return said if most == plan.harm else f"{said}, and the thoughts that are bound to it"


def format_bytes(count: int) -> str:
    """Round a number of bytes: 950 B, 21 kB, 3.4 MB."""
    if count < _KILO:
        return f"{count} B"
    if count < _KILO * _KILO:
        return f"{count / _KILO:.0f} kB"
    return f"{count / _KILO / _KILO:.1f} MB"


def refusal_text(refusal: Refusal) -> str:
    """Format a refusal for the screen: why, and what to do there."""
    sign = "nothing to do" if refusal.check in NOTHING_TO_GAIN else "refused"
    return one_line(f"{sign}: {refusal.why}; {screen_advice(refusal)}")


def in_place_question(plan: CompactionPlan, session: Session, projects: Path) -> str:
    """Format the question that asks the user to confirm changing the session itself."""
    care = "A copy of what it is now is kept, every check has to pass, and u takes it back."
    if plan.only_appends:
        care = "Nothing of it is rewritten: lines come to its end, and u takes them back."
    return (
        f"“{shorten_middle(session.title, QUESTION_TITLE_CELLS)}” itself is changed:"
        f" {plural(len(plan.operations), 'operation')}, ≈ {tokens(plan.tokens_saved)} tokens less"
        f" for the model.\n\n{one_line(str(projects / session.path))}\n\n{care}"
    )


def _bar(label: str, count: int | None, context: Context, width: int) -> Content:
    cells = max(
        MIN_GAUGE_CELLS, min(width - BAR_LABEL_CELLS - PERCENT_CELLS - NUMBER_CELLS, MAX_BAR_CELLS)
    )
    # The same marks as on the fleet's bar, for another fill.
    shown = replace(context, tokens=count, state=ContextState.ESTIMATED)
    number = fit_right(f"≈ {tokens(count)}", NUMBER_CELLS)
    head = Content.styled(f"{label:<{BAR_LABEL_CELLS}}", "$quiet")
    return head + gauge(shown, cells) + Content.styled(number, "bold $foreground")


def _facts(plan: CompactionPlan, width: int) -> list[str]:
    saved, price, harm = savings_text(plan), break_even_text(plan), harm_text(plan)
    if len(saved) + len(price) + len(" · ") <= width:
        return [f"{saved} · {price}", harm]
    return [saved, price, harm]


def _target_missed(plan: CompactionPlan, target_tokens: int | None) -> list[str]:
    """Return a line on what keeps the plan from its target; empty if it is reached."""
    if target_tokens is None or plan.refused or plan.after_tokens <= target_tokens:
        return []
    stays = "".join(f"; ≈ {tokens(each.tokens)} stay: {each.why}" for each in plan.protected[:1])
    return [f"short of the target, ≈ {tokens(target_tokens)}{stays}"]


def _refusal_lines(refused: Sequence[Refusal], width: int) -> list[Content]:
    said = [
        wrap(f"✗ {refusal_text(each)}", max(width, MIN_GAUGE_CELLS))
        for each in refused[:MAX_REFUSALS]
    ]
    lines = [line for each in said for line in each[:MAX_REFUSAL_LINES]]
    return [Content.styled(shorten_middle(line, width), "bold $level-warning") for line in lines]


MAX_CHANGES: Final = 10
"""Changes of one operation that are shown; a way back removes hundreds of lines."""


FULL_TEXT_LINES: Final = 400  # lines of a text that is read whole


def change_lines(
    operation: Operation, found: Sequence[OperationChange], width: int, lines: int
) -> Content:
    """Show what an operation changes; of each text so many lines."""
    parts = [
        Content.styled(one_line(operation.what), "bold $foreground"),
        Content.styled(
            f"{operation.strategy}, level {int(operation.level)}: {one_line(operation.why)}"
            f" · frees {operation.tokens_saved:,} tokens, {operation.bytes_saved:,} bytes",
            "$quiet",
        ),
    ]
    for each in found[:MAX_CHANGES]:
        parts += _change(each, width, lines)
    count = len(operation.edits)
    left = count - min(len(found), MAX_CHANGES)
    if left > 0:
        parts.append(Content.styled(f"… {left:,} more changes of this kind", "$quiet"))
    return Content("\n").join(parts)


def _change(change: OperationChange, width: int, lines: int) -> Iterator[Content]:
    yield Content.styled(one_line(change_heading(change)), "$accent")
    for sign, text, style in (
        ("-", change.before, "$level-high"),
        ("+", change.after, "$level-calm"),
    ):
        if text is not None:
            shown = signed_lines(sign, text, lines, width)
            yield from (Content.styled(line, style) for line in shown)
