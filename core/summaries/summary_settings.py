"""The settings of a summary, as the policy's `summary.*` keys define them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from .model_summary import CHEAP_MODEL, DEFAULT_MAX_WORDS
from .summary_budget import Summary, SummaryBudget, summarise_in_levels
from .summary_facts import (
    FOUR_SECTIONS,
    PREFACE,
    FactKind,
    SummaryFact,
    SummaryTemplate,
    find_template,
)

if TYPE_CHECKING:
    from ..policy.policy import Policy


DEFAULT_KEEP_MESSAGES: Final = 10
"""Messages that stay word for word where a policy leaves their number to the client (T-04)."""

CHEAP_MODEL_ALIAS: Final = "cheap"
SESSION_MODEL_ALIAS: Final = "session"
"""Words of `summary.model` that stand for a model's id (T-05)."""

_TOOL_RESULT_FACTS: Final = frozenset({FactKind.ERROR, FactKind.DONE})
"""What is known from tools' results; which files were changed is known from the calls."""


class FactSelection(msgspec.Struct, frozen=True):
    """Which facts a summary is chosen from."""

    excluded_kinds: frozenset[FactKind] = frozenset()
    levels: int = 1  # summaries of summaries: each has half the budget of the one before (003-20)

    def select(self, facts: Sequence[SummaryFact]) -> tuple[SummaryFact, ...]:
        return tuple(each for each in facts if each.kind not in self.excluded_kinds)

    def build_summary(
        self,
        facts: Sequence[SummaryFact],
        template: SummaryTemplate,
        budget: SummaryBudget,
        preface: str = PREFACE,
    ) -> Summary:
        """Choose and write; the last of the levels is the summary."""
        *_, last = summarise_in_levels(facts, template, budget, self.levels, preface=preface)
        return replace(last, omitted=len(facts) - len(last.facts))


ALL_FACTS: Final = FactSelection()


class SummarySettings(msgspec.Struct, frozen=True):
    """The policy's keys `summary.*`, and how much stays word for word."""

    template: SummaryTemplate = FOUR_SECTIONS
    budget: SummaryBudget | None = None
    """None for 8 % of what leaves, 12,000 tokens at the most (compaction.md 7.5)."""
    keep_messages: int = DEFAULT_KEEP_MESSAGES  # messages (`compact.preserve_recent`)
    model: str = CHEAP_MODEL_ALIAS
    max_words: int = DEFAULT_MAX_WORDS  # that a model is asked for
    use_cache: bool = True
    timeout_s: float = 60.0
    selection: FactSelection = ALL_FACTS

    def resolve_model(self, session_model: str | None) -> str:
        """Name the model that is meant; `session_model` is that of the session."""
        if self.model == CHEAP_MODEL_ALIAS:
            return CHEAP_MODEL
        if self.model == SESSION_MODEL_ALIAS:
            return session_model or CHEAP_MODEL
        return self.model


def read_summary_settings(policy: Policy) -> SummarySettings:
    size = policy.value("summary.max_tokens")
    left_out = set() if policy.flag("summary.preserve_decisions") else {FactKind.DECISION}
    if not policy.flag("summary.preserve_tool_results"):
        left_out |= _TOOL_RESULT_FACTS
    keep = policy.integer("compact.preserve_recent")
    return SummarySettings(
        template=find_template(policy.text("summary.template")),
        budget=SummaryBudget(size) if isinstance(size, int) else None,
        keep_messages=DEFAULT_KEEP_MESSAGES if keep is None else keep,
        model=policy.text("summary.model"),
        max_words=policy.integer("summary.max_words") or DEFAULT_MAX_WORDS,
        use_cache=policy.flag("summary.cache"),
        timeout_s=float(policy.integer("compact.timeout_s") or 1),
        selection=FactSelection(frozenset(left_out), policy.integer("summary.levels") or 1),
    )
