"""Level 7: a summary in the place of all but the newest messages, appended behind a boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...conversation import Piece, PieceKind
from ...redaction import redact
from ...summaries.budget import Budget, Summary, budget_of
from ...summaries.earlier import earlier_facts
from ...summaries.gather import Source, gather
from ...summaries.history import history
from ...summaries.providers.provider import ProviderError
from ...summaries.providers.written import write
from ...summaries.settings import EVERYTHING, Choice
from ...summaries.verify import flaws
from ..keep import keep_last
from ..plan import Harm, Operation, Refusal
from ..whole import appended_operation

if TYPE_CHECKING:
    from ...summaries.fact import Fact
    from ...summaries.providers.written import Commission
    from ...summaries.templates import Template
    from ..keep import Tail
    from ..whole import Whole

NAME: Final = "summarise"
LEVEL: Final = Harm.SUMMARY

FEWEST_AWAY: Final = 3
"""Messages that must leave (001-24, R001-04: preserve + 3)."""


def facts_of(whole: Whole, tail: Tail) -> tuple[Fact, ...]:
    """Gather what a summary of all before the tail may hold."""
    seen = history(whole.entries)
    kept = frozenset(entry.offset for entry in tail.kept)
    return gather(Source(tuple(seen), kept, whole.transcript), earlier_facts(seen))


def summarise(
    whole: Whole,
    keep: int,
    template: Template,
    budget: Budget | None = None,
    choice: Choice = EVERYTHING,
) -> Operation | Refusal:
    """Plan a summary by rules, with the last `keep` messages word for word.

    The budget is min(8 % of what leaves, 12k tokens) where none is given, and the person's
    messages besides. Refused where too little leaves, or where the summary is no good.
    """
    tail = keep_last(whole.sent, keep)
    source = whole.tokens(tail.away)
    facts = choice.of(facts_of(whole, tail))
    made = choice.sum_up(facts, template, budget or budget_of(source))
    return place(whole, tail, made, facts)


def summarise_with(
    whole: Whole,
    keep: int,
    template: Template,
    commission: Commission,
    budget: Budget | None = None,
    choice: Choice = EVERYTHING,
) -> Operation | Refusal:
    """Plan a summary that a named model writes; refused where it fails, and nothing changes."""
    tail = keep_last(whole.sent, keep)
    source = whole.tokens(tail.away)
    facts = choice.of(facts_of(whole, tail))
    chosen = budget or budget_of(source)
    try:
        made = write(commission, facts, tail.away, source, template, chosen)
    except ProviderError as error:
        said, name = str(error), commission.provider.name
        why = said if said.startswith(name) else f"{name}: {said}"
        return Refusal("provider", why, "nothing was changed; try again, or leave --provider out")
    return place(whole, tail, made, facts)


def place(whole: Whole, tail: Tail, made: Summary, facts: tuple[Fact, ...]) -> Operation | Refusal:
    """Put a summary in the place of what leaves; refused where it does not stand for it."""
    if tail.messages_away < FEWEST_AWAY:
        least = tail.messages_kept + FEWEST_AWAY
        return Refusal(
            "too_few",
            f"Not enough messages to compact. Need at least {least} messages.",
            "keep fewer messages, or let the session grow",
        )
    held = [each for each in facts if each in made.facts]
    wrong = flaws(made.text, made.tokens, whole.tokens(tail.away), held)
    if wrong:
        return Refusal(
            f"summary_{wrong[0].check}",
            f"the summary is no good: {wrong[0].why}",
            "give it another budget, or use a lower level",
        )
    what = (
        f"{tail.messages_away} messages → a summary of ≈ {made.tokens:,} tokens,"
        f" {tail.messages_kept} messages kept"
    )
    why = f"{made.left_out} of {len(facts)} facts did not fit" if made.left_out else "all facts fit"
    return appended_operation(
        whole, Piece(PieceKind.SUMMARY, redact(made.text)), tail.kept, LEVEL, (NAME, what, why)
    )
