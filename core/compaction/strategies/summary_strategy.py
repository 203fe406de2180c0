"""Level 7: a summary replaces all but the newest messages, appended behind a boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...summaries.extract import ExtractionSource, extract_facts, list_all_entries
from ...summaries.providers.model_summary import write_model_summary
from ...summaries.providers.provider import ProviderError
from ...summaries.render import previous_summary_facts
from ...summaries.summary_budget import Summary, SummaryBudget, default_budget
from ...summaries.summary_checks import find_summary_flaws
from ...summaries.summary_settings import ALL_FACTS, FactSelection
from ...transcript.conversation import MessagePart, PartKind
from ...transcript.redaction import redact
from ..plan import Operation, Refusal, Severity
from ..retained_messages import retain_last_messages
from ..summary_boundary import make_boundary_operation

if TYPE_CHECKING:
    from ...summaries.providers.model_summary import ModelSummaryOptions
    from ...summaries.summary_facts import SummaryFact, SummaryTemplate
    from ..retained_messages import RetainedTail
    from ..summary_boundary import Conversation


SUMMARISE: Final = "summarise"
SUMMARY_SEVERITY: Final = Severity.SUMMARY

MIN_REMOVED_MESSAGES: Final = 3
"""Messages that must leave (001-24, R001-04: preserve + 3)."""


def facts_before_tail(conversation: Conversation, tail: RetainedTail) -> tuple[SummaryFact, ...]:
    """Gather what a summary of all before the tail may hold."""
    seen = list_all_entries(conversation.entries)
    kept = frozenset(entry.offset for entry in tail.retained)
    return extract_facts(
        ExtractionSource(tuple(seen), kept, conversation.transcript_path),
        previous_summary_facts(seen),
    )


def summarise_by_rules(
    conversation: Conversation,
    keep_messages: int,
    template: SummaryTemplate,
    budget: SummaryBudget | None = None,
    fact_selection: FactSelection = ALL_FACTS,
) -> Operation | Refusal:
    """Plan a summary by rules, with the last `keep` messages word for word.

    The budget is min(8 % of what leaves, 12k tokens) where none is given, and the person's
    messages besides. Refused where too little leaves, or where the summary is no good.
    """
    tail = retain_last_messages(conversation.visible_entries, keep_messages)
    source = conversation.tokens(tail.removed)
    facts = fact_selection.select(facts_before_tail(conversation, tail))
    made = fact_selection.build_summary(facts, template, budget or default_budget(source))
    return place_summary(conversation, tail, made, facts)


def summarise_with_model(
    conversation: Conversation,
    keep_messages: int,
    template: SummaryTemplate,
    model_options: ModelSummaryOptions,
    budget: SummaryBudget | None = None,
    fact_selection: FactSelection = ALL_FACTS,
) -> Operation | Refusal:
    """Plan a summary that a named model writes; refused where it fails, and nothing changes."""
    tail = retain_last_messages(conversation.visible_entries, keep_messages)
    source = conversation.tokens(tail.removed)
    facts = fact_selection.select(facts_before_tail(conversation, tail))
    chosen = budget or default_budget(source)
    try:
        made = write_model_summary(model_options, facts, tail.removed, source, template, chosen)
    except ProviderError as error:
        said, name = str(error), model_options.provider.name
        why = said if said.startswith(name) else f"{name}: {said}"
        return Refusal("provider", why, "nothing was changed; try again, or leave --provider out")
    return place_summary(conversation, tail, made, facts)


def place_summary(
    conversation: Conversation, tail: RetainedTail, summary: Summary, facts: tuple[SummaryFact, ...]
) -> Operation | Refusal:
    """Put a summary in the place of what leaves; refused where it does not stand for it."""
    if tail.removed_messages < MIN_REMOVED_MESSAGES:
        least = tail.retained_messages + MIN_REMOVED_MESSAGES
        return Refusal(
            "too_few",
            f"Not enough messages to compact. Need at least {least} messages.",
            "keep fewer messages, or let the session grow",
        )
    held = [each for each in facts if each in summary.facts]
    wrong = find_summary_flaws(
        summary.text, summary.tokens, conversation.tokens(tail.removed), held
    )
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
    return make_boundary_operation(
        conversation,
        MessagePart(PartKind.SUMMARY, redact(summary.text)),
        tail.retained,
        SUMMARY_SEVERITY,
        (SUMMARISE, what, why),
    )
