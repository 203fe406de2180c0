"""The strategies for a whole conversation, as a person asked for them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ..core.compaction.plan import Operation, Refusal
from ..core.compaction.rollover import roll_over
from ..core.compaction.strategies.cut import cut
from ..core.compaction.strategies.revert import revert
from ..core.compaction.strategies.summarise import summarise, summarise_with
from ..core.conversation import PieceKind
from ..core.summaries.budget import Budget
from ..core.summaries.providers.cache import Cache
from ..core.summaries.providers.choose import provider_of
from ..core.summaries.providers.provider import ProviderName
from ..core.summaries.providers.retry import RetrySettings
from ..core.summaries.providers.written import Commission
from ..core.summaries.settings import CHEAP, SESSION
from ..core.summaries.templates import template_of
from .formats import one_line
from .planning import CUT, LAST, REVERT, ROLLOVER, TEMPLATES, NotPlannedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..core.compaction.plan_whole import Make
    from ..core.compaction.view import Slot, View
    from ..core.compaction.whole import Whole
    from ..core.sessions import Session
    from ..core.summaries.settings import SummarySettings
    from .planning import Asked

PROMPTS: Final = 5
"""The newest, of those that can be gone back to."""

WORDS: Final = 30
"""Characters of a prompt, by which a person knows it."""


def make_of(
    options: Asked,
    settings: SummarySettings,
    session: Session,
    cache: Path,
    on_message: Callable[[str], None],
) -> Make:
    """Give what plans it; `tell` hears what a model has to say.

    Raises NotPlannedError where a model would have to be named.
    """
    template = settings.template
    if options.template is not None:
        template = template_of(TEMPLATES.get(options.template, options.template))
    budget = settings.budget if options.budget is None else Budget(options.budget)
    keep = settings.keep_messages if options.keep is None else options.keep
    commission = _commission(options, settings, session, cache, on_message)

    def make(whole: Whole, view: View) -> Operation | Refusal:
        if options.whole_strategy == CUT:
            return cut(whole, options.keep_turns or 0)
        if options.whole_strategy == REVERT:
            return _revert(view, options.to or "")
        if options.whole_strategy == ROLLOVER:
            return roll_over(whole, view, template, budget, settings.selection)
        if commission is None:
            return summarise(whole, keep, template, budget, settings.selection)
        return summarise_with(whole, keep, template, commission, budget, settings.selection)

    return make


def prompts_of(view: View) -> list[Slot]:
    """List the prompts that are sent, oldest first: what can be gone back to."""
    return [
        slot
        for slot in view.blocks
        if slot.part.kind is PieceKind.PROMPT and slot.entry.type == "user"
    ]


def _revert(view: View, to: str) -> Operation | Refusal:
    prompts = prompts_of(view)
    if to == LAST and prompts:
        return revert(view, prompts[-1].line)
    if to.isdecimal():
        return revert(view, int(to))
    meant = {each.line for each in prompts if to and (each.entry.uuid or "").startswith(to)}
    if len(meant) == 1:
        return revert(view, meant.pop())
    newest = ", ".join(_named(each) for each in prompts[: -PROMPTS - 1 : -1])
    why = f"{len(meant)} prompts begin with {to!r}" if to else "it needs a prompt to go back to"
    return Refusal("no_prompt", why, f"say --to LINE: {newest}" if prompts else "there is none")


def _named(prompt: Slot) -> str:
    said = one_line(prompt.part.text)
    return f"{prompt.line} “{said[:WORDS]}{'…' if len(said) > WORDS else ''}”"


def _commission(
    options: Asked,
    settings: SummarySettings,
    session: Session,
    cache: Path,
    on_message: Callable[[str], None],
) -> Commission | None:
    name = ProviderName(options.provider or ProviderName.NONE)
    provider = provider_of(name, os.environ)
    if provider is None:
        return None
    named = options.model or settings.model
    if name is ProviderName.OPENAI and named in {CHEAP, SESSION}:
        raise NotPlannedError(f"--provider {name} needs --model NAME: no model of it is known")
    return Commission(
        provider=provider,
        session_id=session.session_id,
        model=options.model or settings.resolve_model(session.model),
        cache=Cache(cache) if settings.use_cache else None,
        max_words=settings.max_words,
        retry=RetrySettings(attempt_timeout_s=settings.timeout_s),
        warn=on_message,
    )
