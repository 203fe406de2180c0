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


def facts_of(conversation: Whole, tail: Tail) -> tuple[Fact, ...]:
    """Gather what a summary of all before the tail may hold."""
    seen = history(conversation.entries)
    kept = frozenset(entry.offset for entry in tail.retained)
    return gather(Source(tuple(seen), kept, conversation.transcript_path), earlier_facts(seen))


def summarise(
    conversation: Whole,
    keep_messages: int,
    template: Template,
    budget: Budget | None = None,
    fact_selection: Choice = EVERYTHING,
) -> Operation | Refusal:
    """Plan a summary by rules, with the last `keep` messages word for word.

    The budget is min(8 % of what leaves, 12k tokens) where none is given, and the person's
    messages besides. Refused where too little leaves, or where the summary is no good.
    """
    tail = keep_last(conversation.visible_entries, keep_messages)
    source = conversation.tokens(tail.removed)
    facts = fact_selection.select(facts_of(conversation, tail))
    made = fact_selection.build_summary(facts, template, budget or budget_of(source))
    return place(conversation, tail, made, facts)


def summarise_with(
    conversation: Whole,
    keep_messages: int,
    template: Template,
    model_options: Commission,
    budget: Budget | None = None,
    fact_selection: Choice = EVERYTHING,
) -> Operation | Refusal:
    """Plan a summary that a named model writes; refused where it fails, and nothing changes."""
    tail = keep_last(conversation.visible_entries, keep_messages)
    source = conversation.tokens(tail.removed)
    facts = fact_selection.select(facts_of(conversation, tail))
    chosen = budget or budget_of(source)
    try:
        made = write(model_options, facts, tail.removed, source, template, chosen)
    except ProviderError as error:
        said, name = str(error), model_options.provider.name
        why = said if said.startswith(name) else f"{name}: {said}"
        return Refusal("provider", why, "nothing was changed; try again, or leave --provider out")
    return place(conversation, tail, made, facts)


def place(
    conversation: Whole, tail: Tail, summary: Summary, facts: tuple[Fact, ...]
) -> Operation | Refusal:
    """Put a summary in the place of what leaves; refused where it does not stand for it."""
    if tail.removed_messages < FEWEST_AWAY:
        least = tail.retained_messages + FEWEST_AWAY
        return Refusal(
            "too_few",
            f"Not enough messages to compact. Need at least {least} messages.",
            "keep fewer messages, or let the session grow",
        )
    held = [each for each in facts if each in summary.facts]
    wrong = flaws(summary.text, summary.tokens, conversation.tokens(tail.removed), held)
    if wrong:
        return Refusal(
            f"summary_{wrong[0].check}",
            f"the summary is no good: {wrong[0].reason}",
            "give it another budget, or use a lower level",
        )
    what = (
        f"{tail.removed_messages} messages → a summary of ≈ {summary.tokens:,} tokens,"
        f" {tail.retained_messages} messages kept"
    )
    why = (
        f"{summary.omitted} of {len(facts)} facts did not fit"
        if summary.omitted
        else "all facts fit"
    )
    return appended_operation(
        conversation,
        Piece(PieceKind.SUMMARY, redact(summary.text)),
        tail.retained,
        LEVEL,
        (NAME, what, why),
    )
