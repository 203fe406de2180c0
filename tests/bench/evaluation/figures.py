"""All metrics of one session and one way to compact it, and how they are added up."""

from __future__ import annotations

import json
import re
import statistics
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop.core.measure.token_estimate import Estimator
from ctxtop.core.measure.tokens import CachedPartCounter
from ctxtop.core.model.conversation import remove_dropped_thinking
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.line_decoder import SYNTHETIC_MODEL
from ctxtop.core.transcript.visible_messages import visible_entries

from ...planned import view_of
from .entities import HEAVY, density, entity_retention, inflated, weights
from .kept import (
    artifact_precision,
    artifact_recall,
    constraints_kept,
    constraints_of,
    decisions_kept,
    decisions_of,
    user_text_kept,
)
from .ledgers import break_even, context_tokens, tokens_before_change
from .passages import Index, passages_of
from .probes import Kind, Probe, is_answered, negative_probes, probes_of
from .share import Share, together
from .texts import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ctxtop.core.model.conversation import Entry

OVERHEAD: Final = 21_000
"""Tokens of the system prompt and the tools, where the cache is reckoned (compaction.md 1.1)."""

LEAKS_ASKED: Final = 20
"""Negative probes of a session: enough to see that something leaks."""


_NO_CONTENT: Final = re.compile(rb'"content":\s*\[\s*\]')


class Case(msgspec.Struct, frozen=True):
    """A session to be judged, with what is asked of it; made once, for all ways."""

    name: str
    path: Path
    original: list[Entry]
    tokens: CachedPartCounter
    size: int
    """Tokens of the conversation."""
    bytes: int
    """Of the file."""
    weighed: dict[str, int]
    probes: tuple[Probe, ...]
    """Those that O itself answers."""
    strange: tuple[Probe, ...]
    """Those that nothing may answer."""
    rules: tuple[str, ...]
    decisions: tuple[str, ...]
    density: float
    """Different things named per 1,000 tokens."""
    overhead: int
    """Tokens of the system prompt and the tools."""


class Figures(msgspec.Struct, frozen=True):
    """What one way to compact did to one session, or to several."""

    context: Share = Share()
    """Tokens freed, of those before."""
    file: Share = Share()
    """Bytes freed, of those before."""
    user: Share = Share()
    entities: Share = Share()
    heavy: Share = Share()
    """Entities that were referred to twice or more."""
    artifacts: Share = Share()
    precision: Share = Share()
    rules: Share = Share()
    decisions: Share = Share()
    probes: Share = Share()
    needles: Share = Share()
    """Of the probes those that were planted."""
    leaks: Share = Share()
    grown: int = 0
    """Lines that say more than before."""
    empty: int = 0
    """Messages of the file without content: an API refuses them."""
    density: tuple[float, ...] = ()
    """Things named per token, against before."""
    break_even: tuple[float, ...] = ()
    """Requests until a warm cache has paid, by session that was changed."""
    freed_of_whole: tuple[float, ...] = ()
    """Share of all tokens, with the system prompt and the tools, by session."""
    freed_of_conversation: tuple[float, ...] = ()
    """The same without them: of what can be freed at all."""
    refused: int = 0
    sessions: int = 0

    @property
    def median_of_whole(self) -> Share:
        return _median(self.freed_of_whole)

    @property
    def median_of_conversation(self) -> Share:
        return _median(self.freed_of_conversation)

    @property
    def paid_after(self) -> float | None:
        """Median of the requests after which it pays."""
        return statistics.median(self.break_even) if self.break_even else None

    @property
    def denser(self) -> float | None:
        """Median of how much denser the context became."""
        return statistics.median(self.density) if self.density else None


def _median(shares: Sequence[float]) -> Share:
    return Share(statistics.median(shares), 1) if shares else Share()


def sent_from(path: Path) -> list[Entry]:
    """List what the model would be sent if a transcript were resumed now."""
    sent = visible_entries(read_entries(path))
    return remove_dropped_thinking(sent, _model_of(sent))


@lru_cache
def counter_for(model: str | None) -> CachedPartCounter:
    """Count for a model with what ctxtop ships, nothing learnt; no piece twice in a run."""
    return CachedPartCounter(Estimator({}).for_model(model))


def counter_of(entries: Sequence[Entry]) -> CachedPartCounter:
    """Count for the model of a conversation."""
    return counter_for(_model_of(entries))


def index_of(entries: Sequence[Entry]) -> Index:
    """Make the passages of a context searchable."""
    return Index(passages_of(texts_of(entries)))


def case_of(
    name: str,
    path: Path,
    *,
    needles: Iterable[Probe] = (),
    rules: Iterable[str] | None = None,
    other: Sequence[Entry] = (),
) -> Case:
    """Read a session and make its questions; `other` is a session whose things must not show."""
    original = sent_from(path)
    counter = counter_of(original)
    index = index_of(original)
    asked = [*needles, *probes_of(original)]
    size = context_tokens(original, counter.tokens)
    return Case(
        name=name,
        path=path,
        original=original,
        tokens=counter,
        size=size,
        bytes=path.stat().st_size,
        weighed=weights(original),
        probes=tuple(probe for probe in asked if is_answered(probe, index)),
        strange=tuple(
            probe
            for probe in negative_probes(original, other, LEAKS_ASKED)
            if not is_answered(probe, index)
        ),
        rules=tuple(constraints_of(original) if rules is None else rules),
        decisions=tuple(decisions_of(original)),
        density=density(original, size),
        overhead=_overhead(path),
    )


def _overhead(path: Path) -> int:
    with view_of(path) as view:
        return view.overhead_tokens


def judge(case: Case, compacted: Sequence[Entry], data: bytes) -> Figures:
    """Compute all figures of a compacted context; `data` is its file, empty if it has none."""
    counter = case.tokens.tokens
    size = context_tokens(compacted, counter)
    index = index_of(compacted)
    answered = {probe: is_answered(probe, index) for probe in case.probes}
    planted = [kept for probe, kept in answered.items() if probe.kind is Kind.PLANTED]
    unchanged = tokens_before_change(case.original, compacted, counter)
    paid = break_even(case.size + OVERHEAD, unchanged + OVERHEAD, case.size - size)
    before = case.density
    return Figures(
        context=Share(case.size - size, case.size),
        file=Share(case.bytes - len(data), case.bytes) if data else Share(),
        user=user_text_kept(case.original, compacted),
        entities=entity_retention(case.weighed, compacted),
        heavy=entity_retention(case.weighed, compacted, HEAVY),
        artifacts=artifact_recall(case.original, compacted),
        precision=artifact_precision(case.original, compacted),
        rules=constraints_kept(case.rules, compacted),
        decisions=decisions_kept(case.decisions, compacted),
        probes=Share(sum(answered.values()), len(answered)),
        needles=Share(sum(planted), len(planted)),
        leaks=Share(sum(is_answered(each, index) for each in case.strange), len(case.strange)),
        grown=len(inflated(case.original, compacted, counter)),
        empty=_empty(data),
        density=(density(compacted, size) / before,) if before else (),
        break_even=(paid,) if paid is not None else (),
        freed_of_whole=((case.size - size) / (case.size + case.overhead),),
        freed_of_conversation=((case.size - size) / case.size,),
        sessions=1,
    )


def untouched(case: Case) -> Figures:
    """Return the figures of a refused session: nothing is freed, everything is kept."""
    whole = judge(case, case.original, case.path.read_bytes())
    return msgspec.structs.replace(whole, refused=1, density=(), break_even=())


def total(figures: Sequence[Figures]) -> Figures:
    """Add up the figures of sessions."""
    return Figures(
        context=together(each.context for each in figures),
        file=together(each.file for each in figures),
        user=together(each.user for each in figures),
        entities=together(each.entities for each in figures),
        heavy=together(each.heavy for each in figures),
        artifacts=together(each.artifacts for each in figures),
        precision=together(each.precision for each in figures),
        rules=together(each.rules for each in figures),
        decisions=together(each.decisions for each in figures),
        probes=together(each.probes for each in figures),
        needles=together(each.needles for each in figures),
        leaks=together(each.leaks for each in figures),
        grown=sum(each.grown for each in figures),
        empty=sum(each.empty for each in figures),
        density=tuple(value for each in figures for value in each.density),
        break_even=tuple(value for each in figures for value in each.break_even),
        freed_of_whole=tuple(value for each in figures for value in each.freed_of_whole),
        freed_of_conversation=tuple(
            value for each in figures for value in each.freed_of_conversation
        ),
        refused=sum(each.refused for each in figures),
        sessions=sum(each.sessions for each in figures),
    )


def _model_of(entries: Sequence[Entry]) -> str | None:
    answers = (each.model for each in reversed(entries) if each.model)
    return next((model for model in answers if model != SYNTHETIC_MODEL), None)


def _empty(data: bytes) -> int:
    lines = (line for line in data.split(b"\n") if _NO_CONTENT.search(line))
    return sum(_content_of(line) == [] for line in lines)


def _content_of(line: bytes) -> object:
    try:
        said = json.loads(line)["message"]["content"]
    except (ValueError, KeyError, TypeError):
        return None
    return said
