"""A plan at a glance: the window now and then, what it frees and costs, and what is in its way."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from textual.content import Content

from ..core.compaction.strategies import thinking_after
from ..core.context import ContextState
from .formats import fit_right, middle, one_line, percent, plural, tokens
from .gauge import PERCENT_CELLS, SHORTEST, gauge
from .plan_words import HARMS, LEVELS, NOTHING, paid_after, what_to_do

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ..core.compaction.plan import Plan, Refusal
    from ..core.context import Context
    from ..core.sessions import Session

LABEL_CELLS: Final = 7
NUMBER_CELLS: Final = 9
"""Room for ≈, the count and its unit."""

LONGEST_BAR: Final = 100
"""Cells; a longer one is not read more exactly."""

REFUSALS: Final = 2
"""That are said; the first is what is to be done first."""

TITLE_CELLS: Final = 60

REFUSAL_LINES: Final = 2
"""Of each one."""

_KILO: Final = 1000


def plan_lines(
    plan: Plan | None, context: Context, width: int, *, is_stale: bool, target_tokens: int | None
) -> Content:
    """Draw it in lines of `width` cells; an old plan is dim until the next one is there.

    `aimed` are the tokens that the context is to come to.
    """
    if plan is None:
        now = context.tokens
        return Content("\n").join([_bar("now", now, context, width), Content(""), Content("")])
    lines = [
        _bar("now", plan.before_tokens, context, width),
        _bar("after", plan.after_tokens, context, width),
        *(Content(middle(each, width)) for each in _facts(plan, width)),
        *_refused(plan.refused, width),
        *(Content(middle(each, width)) for each in _missed(plan, target_tokens)),
    ]
    drawn = Content("\n").join(lines)
    return Content.styled(drawn.plain, "$quiet") if is_stale else drawn


def saved_words(plan: Plan) -> str:
    """Say what of the context it frees, and what of the file."""
    freed = plan.before_tokens - plan.after_tokens
    share = percent(freed / plan.before_tokens if plan.before_tokens else 0.0)
    less = plan.bytes_before - plan.bytes_after
    size = f"file {'−' if less >= 0 else '+'}{size_words(abs(less))}"
    return f"frees ≈ {tokens(freed)} tokens, {share} · {size}"


def price_words(plan: Plan) -> str:
    """Say after how many requests it has paid for the cache that it makes cold."""
    short, long = plan.break_even_requests, plan.break_even_requests_1h
    if plan.before_tokens == plan.after_tokens:
        return "the context stays, and so does its cache"
    if short is None:
        return "pays back never"
    if max(short, long or 0.0) <= 0:
        return "pays back at once"
    hour = "" if long is None else f" (an hour's cache: {paid_after(long)})"
    return f"pays back {paid_after(short)}{hour}"


def harm_words(plan: Plan) -> str:
    """Say the most that it takes from the model."""
    if not plan.operations:
        return "takes nothing"
    own = [each.level for each in plan.operations if each.strategy != thinking_after.NAME]
    most = max(own, default=plan.harm)
    said = f"takes level {int(plan.harm)}, {LEVELS[plan.harm]}: {HARMS[most]}"
    # Rule T: a mild change can cost thoughts, which is more harm than was asked for.
    return said if most == plan.harm else f"{said}, and the thoughts that are bound to it"


def size_words(count: int) -> str:
    """Round a number of bytes: 950 B, 21 kB, 3.4 MB."""
    if count < _KILO:
        return f"{count} B"
    if count < _KILO * _KILO:
        return f"{count / _KILO:.0f} kB"
    return f"{count / _KILO / _KILO:.1f} MB"


def refusal_words(refusal: Refusal) -> str:
    """Say on the screen why it is refused, and what to do there."""
    sign = "nothing to do" if refusal.check in NOTHING else "refused"
    return one_line(f"{sign}: {refusal.why}; {what_to_do(refusal)}")


def in_place_words(plan: Plan, session: Session, projects: Path) -> str:
    """Say what is about to be done to a session itself, before a person confirms it."""
    freed = plan.before_tokens - plan.after_tokens
    care = "A copy of what it is now is kept, every check has to pass, and u takes it back."
    if plan.only_appends:
        care = "Nothing of it is rewritten: lines come to its end, and u takes them back."
    return (
        f"“{middle(session.title, TITLE_CELLS)}” itself is changed:"
        f" {plural(len(plan.operations), 'operation')}, ≈ {tokens(freed)} tokens less for the"
        f" model.\n\n{one_line(str(projects / session.path))}\n\n{care}"
    )


def _bar(label: str, count: int | None, context: Context, width: int) -> Content:
    cells = max(SHORTEST, min(width - LABEL_CELLS - PERCENT_CELLS - NUMBER_CELLS, LONGEST_BAR))
    # The same marks as on the fleet's bar, for another fill.
    shown = replace(context, tokens=count, state=ContextState.ESTIMATED)
    number = fit_right(f"≈ {tokens(count)}", NUMBER_CELLS)
    head = Content.styled(f"{label:<{LABEL_CELLS}}", "$quiet")
    return head + gauge(shown, cells) + Content.styled(number, "bold $foreground")


def _facts(plan: Plan, width: int) -> list[str]:
    saved, price, harm = saved_words(plan), price_words(plan), harm_words(plan)
    if len(saved) + len(price) + len(" · ") <= width:
        return [f"{saved} · {price}", harm]
    return [saved, price, harm]


def _missed(plan: Plan, target_tokens: int | None) -> list[str]:
    """Say what keeps the plan from its target."""
    if target_tokens is None or plan.refused or plan.after_tokens <= target_tokens:
        return []
    stays = "".join(f"; ≈ {tokens(each.tokens)} stay: {each.why}" for each in plan.protected[:1])
    return [f"short of the target, ≈ {tokens(target_tokens)}{stays}"]


def _refused(refused: Sequence[Refusal], width: int) -> list[Content]:
    said = [wrap(f"✗ {refusal_words(each)}", max(width, SHORTEST)) for each in refused[:REFUSALS]]
    lines = [line for each in said for line in each[:REFUSAL_LINES]]
    return [Content.styled(middle(line, width), "bold $level-warning") for line in lines]
