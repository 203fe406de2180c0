"""What a policy and a person say of a summary: its template, its size, what it may leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from .budget import Budget, Summary
from .fact import Fact, Part
from .levels import hierarchical_summarise
from .providers.asking import MOST_WORDS
from .providers.provider import CHEAP_MODEL
from .templates import FOUR, Template, template_of
from .words import PREFACE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..policy.policy import Policy

KEEP: Final = 10
"""Messages that stay word for word where a policy leaves their number to the client (T-04)."""

CHEAP: Final = "cheap"
SESSION: Final = "session"
"""Words of `summary.model` that stand for a model's id (T-05)."""

_OF_TOOLS: Final = frozenset({Part.ERROR, Part.DONE})
"""What is known from tools' results; which files were changed is known from the calls."""


class Choice(msgspec.Struct, frozen=True):
    """Which facts a summary is chosen from."""

    excluded_kinds: frozenset[Part] = frozenset()
    levels: int = 1
    """Summaries of summaries: each has half the budget of the one before (003-20)."""

    def select(self, facts: Sequence[Fact]) -> tuple[Fact, ...]:
        """Give the facts that may be in it."""
        return tuple(each for each in facts if each.kind not in self.excluded_kinds)

    def build_summary(
        self,
        facts: Sequence[Fact],
        template: Template,
        budget: Budget,
        preface: str = PREFACE,
    ) -> Summary:
        """Choose and write; the last of the levels is the summary."""
        *_, last = hierarchical_summarise(facts, template, budget, self.levels, preface=preface)
        return replace(last, omitted=len(facts) - len(last.facts))


EVERYTHING: Final = Choice()


class SummarySettings(msgspec.Struct, frozen=True):
    """The policy's keys `summary.*`, and how much stays word for word."""

    template: Template = FOUR
    budget: Budget | None = None
    """None for 8 % of what leaves, 12,000 tokens at the most (compaction.md 7.5)."""
    keep_messages: int = KEEP
    """Messages (`compact.preserve_recent`)."""
    model: str = CHEAP
    max_words: int = MOST_WORDS
    """That a model is asked for."""
    use_cache: bool = True
    timeout_s: float = 60.0
    selection: Choice = EVERYTHING

    def resolve_model(self, session_model: str | None) -> str:
        """Name the model that is meant; `session_model` is that of the session."""
        if self.model == CHEAP:
            return CHEAP_MODEL
        if self.model == SESSION:
            return session_model or CHEAP_MODEL
        return self.model


def summary_settings(policy: Policy) -> SummarySettings:
    """Take what concerns summaries from a policy."""
    size = policy.value("summary.max_tokens")
    left_out = set() if policy.flag("summary.preserve_decisions") else {Part.DECISION}
    if not policy.flag("summary.preserve_tool_results"):
        left_out |= _OF_TOOLS
    keep = policy.integer("compact.preserve_recent")
    return SummarySettings(
        template=template_of(policy.text("summary.template")),
        budget=Budget(size) if isinstance(size, int) else None,
        keep_messages=KEEP if keep is None else keep,
        model=policy.text("summary.model"),
        max_words=policy.integer("summary.max_words") or MOST_WORDS,
        use_cache=policy.flag("summary.cache"),
        timeout_s=float(policy.integer("compact.timeout_s") or 1),
        selection=Choice(frozenset(left_out), policy.integer("summary.levels") or 1),
    )
