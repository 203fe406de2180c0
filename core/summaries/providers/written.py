"""A summary that a model wrote, with everything added that it must not lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ...redaction import redact
from ..budget import Budget, Summary, most, sum_up
from ..fact import Part, fact
from ..verify import NAMED, flaws, missing_from
from ..words import WRITTEN_KEY
from .asking import MOST_WORDS, answer_in, shown, wording
from .cache import Cache, Key
from .provider import CHEAP_MODEL, ProviderError, Request
from .retry import DEFAULT, RetrySettings, ask_again

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...conversation import Entry
    from ..fact import Fact
    from ..templates import Template
    from .provider import Provider


def _ignore(_: str) -> None:
    return


class Commission(msgspec.Struct, frozen=True):
    """Who writes, and under what conditions."""

    provider: Provider
    session_id: str
    model: str = CHEAP_MODEL
    cache: Cache | None = None
    """None where nothing is kept (`summary.cache`)."""
    max_words: int = MOST_WORDS
    """That are asked for (`summary.max_words`)."""
    retry: RetrySettings = DEFAULT
    generate: Callable[[Provider, Request, RetrySettings], str] = ask_again
    warn: Callable[[str], None] = _ignore
    """Is told, in one line, what went wrong beside it."""


def write(
    commission: Commission,
    facts: Sequence[Fact],
    away: Sequence[Entry],
    source_tokens: int,
    template: Template,
    budget: Budget,
) -> Summary:
    """Let a model write a summary, judge it, and add the facts that it does not hold.

    Raises ProviderError where no answer came, or where it is empty, longer than half of the
    source or than the budget, or names less than half of the changed files and constraints:
    a worse summary is no success, and changes nothing (R001-03). A good one alone is kept.
    """
    known = sum_up(facts, template, budget).facts
    text = redact(wording(template, known, shown(away, most), commission.max_words))
    request = Request(text, commission.model)
    key = Key(
        commission.session_id,
        commission.provider.name,
        commission.model,
        template.name,
        request.max_tokens,
        text,
    )
    kept = commission.cache.get(key) if commission.cache else None
    said = kept or answer_in(commission.generate(commission.provider, request, commission.retry))
    wrong = flaws(said, most(said), source_tokens, known, NAMED)
    if wrong:
        raise ProviderError(
            f"{commission.provider.name}: the summary is no good: {wrong[0].reason}"
        )
    written = fact(Part.WRITTEN, said, 0, 1.0, WRITTEN_KEY)
    made = sum_up([written, *missing_from(said, facts)], template, budget)
    if written not in made.facts:
        why = f"{most(said):,} tokens do not fit into a budget of {budget.max_tokens:,}"
        raise ProviderError(f"{commission.provider.name}: the summary is too long: {why}")
    if kept is None:
        _keep(commission, key, said)
    return made


def _keep(commission: Commission, key: Key, said: str) -> None:
    if commission.cache is None:
        return
    try:
        commission.cache.put(key, said)
    except OSError as error:
        why = error.strerror or error
        commission.warn(f"{commission.cache.folder}: the summary is not kept: {why}")
