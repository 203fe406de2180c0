"""A recovery to be read: what the session ended in, each step, and what the chosen one does."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Final

from textual.content import Content

from .formats import fit, fit_right, middle, one_line, tokens
from .recover_words import ended, hint, unused, what_it_does

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..collectors.recovering import Recovery

STEP_CELLS: Final = 18
SHOWN: Final = 12
"""Operations that are named, the largest."""

SHORTEST: Final = 20


def recovery_lines(recovery: Recovery, width: int) -> Content:
    """Say a recovery in lines of `width` cells."""
    first, *more = (one_line(each) for each in ended(recovery))
    lines = [
        Content.styled(middle(first, width), "bold $level-emergency"),
        *(Content.styled(middle(each, width), "$foreground") for each in more),
        Content(""),
        *_steps(recovery, width),
        Content(""),
        *_operations(recovery, width),
        *_prompt(recovery, width),
    ]
    return Content("\n").join(lines)


def _steps(recovery: Recovery, width: int) -> Iterator[Content]:
    tried = {each.step: each for each in recovery.choice.proposals}
    room = max(SHORTEST, width - STEP_CELLS - 2)
    for step in recovery.steps:
        proposal = tried.get(step)
        name = fit(step.value, STEP_CELLS)
        if proposal is None:
            yield Content.styled(f"· {name}{unused(recovery)}", "$quiet")
            continue
        if proposal.insufficient is None:
            what = middle(what_it_does(recovery, proposal), room)
            yield Content.styled(f"✓ {name}{what}", "bold $level-calm")
            continue
        asks = proposal.insufficient.check == "confirm"
        why = proposal.insufficient.why if asks else f"{proposal.insufficient.why}{hint(proposal)}"
        sign, style = ("?", "bold $level-warning") if asks else ("✗", "$foreground")
        said = f"{why}; a allows it" if asks else why
        first, *more = wrap(one_line(said), room) or [""]
        yield Content.styled(f"{sign} {name}{first}", style)
        for each in more:
            yield Content.styled(f"  {' ' * STEP_CELLS}{each}", style)


def _operations(recovery: Recovery, width: int) -> Iterator[Content]:
    plan = recovery.choice.plan
    if plan is None:
        yield Content.styled("no step suffices", "bold $level-warning")
        yield Content.styled("c makes it smaller in another way, or begin a new session", "$quiet")
        return
    largest = sorted(plan.operations, key=lambda each: -each.tokens_saved)
    for each in largest[:SHOWN]:
        line = "end" if each.line is None else f"{each.line:,}"
        what = fit(one_line(each.what), max(SHORTEST, width - 20))
        yield Content(f"{fit_right(line, 7)}  {what} {fit_right(tokens(each.tokens_saved), 9)}")
    if len(largest) > SHOWN:
        yield Content.styled(f"         and {len(largest) - SHOWN:,} smaller ones", "$quiet")
    yield Content("")
    yield Content.styled("in a fork: the session itself stays as it is, u takes it back", "$quiet")


def _prompt(recovery: Recovery, width: int) -> Iterator[Content]:
    chosen = recovery.choice.chosen
    if chosen and chosen.prompt:
        yield Content("")
        yield Content.styled("to ask again there:", "$quiet")
        for each in wrap(one_line(chosen.prompt), max(SHORTEST, width))[:SHOWN]:
            yield Content(each)
