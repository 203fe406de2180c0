"""The strategies that change a conversation as a whole: summary, cut, revert and rollover."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from ..compaction.conversation_planning import Make
from ..compaction.plan import Operation, Refusal
from ..compaction.plan_options import (
    CUT,
    LAST_PROMPT,
    REVERT,
    ROLLOVER,
    TEMPLATES_BY_SECTIONS,
    PlanOptions,
)
from ..compaction.strategies.summary_and_cut import (
    plan_cut,
    plan_revert,
    plan_rollover,
    sent_prompts,
    summarise_by_rules,
    summarise_with_model,
)
from ..compaction.summary_boundary import Conversation
from ..compaction.transcript_view import TranscriptView, VisibleBlock
from ..store.database import summary_cache_folder
from ..summaries.providers.model_providers import make_provider
from ..summaries.providers.model_summary import ModelSummaryOptions, SummaryCache
from ..summaries.providers.provider import ProviderName, ProviderRetry
from ..summaries.summary_budget import SummaryBudget
from ..summaries.summary_facts import find_template
from ..summaries.summary_settings import (
    CHEAP_MODEL_ALIAS,
    SESSION_MODEL_ALIAS,
    SummarySettings,
    read_summary_settings,
)
from ..transcript.sanitize import one_line
from .session_access import NotPlannedError, SessionAccess

MAX_NAMED_PROMPTS: Final = 5
"""The newest, of those that can be gone back to."""

PROMPT_LABEL_CHARS: Final = 30
"""Characters of a prompt, by which a person knows it."""


def whole_operation_maker(
    options: PlanOptions,
    access: SessionAccess,
    on_message: Callable[[str], None],
    on_view: Callable[[TranscriptView], None],
) -> Make:
    """Return the function that plans the operation; `on_message` receives a model's warnings.

    Raises NotPlannedError if a model has to be named.
    """
    settings = read_summary_settings(access.policy)
    template = settings.template
    if options.template is not None:
        template = find_template(TEMPLATES_BY_SECTIONS.get(options.template, options.template))
    budget = settings.budget if options.budget is None else SummaryBudget(options.budget)
    keep = settings.keep_messages if options.keep is None else options.keep
    commission = _summary_commission(options, settings, access, on_message)

    def make(whole: Conversation, view: TranscriptView) -> Operation | Refusal:
        on_view(view)
        if options.whole_strategy == CUT:
            return plan_cut(whole, options.keep_turns or 0)
        if options.whole_strategy == REVERT:
            return _revert_to_prompt(view, options.to or "")
        if options.whole_strategy == ROLLOVER:
            return plan_rollover(whole, view, template, budget, settings.selection)
        if commission is None:
            return summarise_by_rules(whole, keep, template, budget, settings.selection)
        return summarise_with_model(whole, keep, template, commission, budget, settings.selection)

    return make


def _revert_to_prompt(view: TranscriptView, to: str) -> Operation | Refusal:
    prompts = sent_prompts(view)
    if to == LAST_PROMPT and prompts:
        return plan_revert(view, prompts[-1].line)
    if to.isdecimal():
        return plan_revert(view, int(to))
    meant = {each.line for each in prompts if to and (each.entry.uuid or "").startswith(to)}
    if len(meant) == 1:
        return plan_revert(view, meant.pop())
    newest = ", ".join(_prompt_label(each) for each in prompts[: -MAX_NAMED_PROMPTS - 1 : -1])
    why = f"{len(meant)} prompts begin with {to!r}" if to else "it needs a prompt to go back to"
    return Refusal("no_prompt", why, f"say --to LINE: {newest}" if prompts else "there is none")


def _prompt_label(prompt: VisibleBlock) -> str:
    said = one_line(prompt.part.text)
    return (
        f"{prompt.line}"
        f" “{said[:PROMPT_LABEL_CHARS]}{'…' if len(said) > PROMPT_LABEL_CHARS else ''}”"
    )


def _summary_commission(
    options: PlanOptions,
    settings: SummarySettings,
    access: SessionAccess,
    on_message: Callable[[str], None],
) -> ModelSummaryOptions | None:
    name = ProviderName(options.provider or ProviderName.NONE)
    provider = make_provider(name, os.environ)
    if provider is None:
        return None
    named = options.model or settings.model
    if name is ProviderName.OPENAI and named in {CHEAP_MODEL_ALIAS, SESSION_MODEL_ALIAS}:
        raise NotPlannedError(f"--provider {name} needs --model NAME: no model of it is known")
    return ModelSummaryOptions(
        provider=provider,
        session_id=access.session.session_id,
        model=options.model or settings.resolve_model(access.session.model),
        cache=SummaryCache(summary_cache_folder(access.store)) if settings.use_cache else None,
        max_words=settings.max_words,
        retry=ProviderRetry(attempt_timeout_s=settings.timeout_s),
        warn=on_message,
    )
