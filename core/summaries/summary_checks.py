"""Check whether a summary may replace the messages that it summarises.

Sources: compaction.md 4.2 (Q7, Q8, Q13, Q14) and 5.3, requirements 001-14 and R001-03.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .key_messages import NOT_TYPED_PREFIXES
from .lost_artifacts import shared_basenames
from .mentions import MentionIndex
from .render import SUMMARY_MARKER, parse_summary
from .summary_facts import FactKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .summary_facts import SummaryFact


MAX_SOURCE_SHARE: Final = 0.5
"""Of the source's tokens: a summary that has more is none (compaction.md 5.3)."""

MODEL_MIN_NAMED_SHARE: Final = 0.5
"""Of the changed files and constraints that a model's own words must name. It was given all of
them; the rest is added from the tool calls."""


class SummaryFlaw(msgspec.Struct, frozen=True):
    """Why a summary is refused."""

    check: str
    """`empty`, `longer`, `artifacts`, `constraints`, `stale` or `contaminated`."""
    reason: str


def find_summary_flaws(
    text: str, tokens: int, source_tokens: int, facts: Iterable[SummaryFact], min_share: float = 1.0
) -> tuple[SummaryFlaw, ...]:
    """Return what is wrong with a summary of these facts; empty if it can be used.

    `min_share` is the share of changed files and of constraints that must be named, 0..1.
    """
    if not text.strip():
        return (SummaryFlaw("empty", "the summary says nothing"),)
    known = tuple(facts)
    found: list[SummaryFlaw] = []
    if tokens > MAX_SOURCE_SHARE * source_tokens:
        why = f"{tokens:,} tokens for a source of {source_tokens:,}"
        found.append(SummaryFlaw("longer", why))
    said = MentionIndex([text])
    for check, wanted in (
        ("artifacts", _changed_files_named(known, said)),
        ("constraints", _constraints_named(known, said)),
    ):
        there = sum(wanted)
        if wanted and there < min_share * len(wanted):
            found.append(SummaryFlaw(check, f"{there} of {len(wanted)} are named"))
    return (*found, *_stale_todos(text, known), *_compaction_prompts(text))


def find_missing_facts(text: str, facts: Sequence[SummaryFact]) -> tuple[SummaryFact, ...]:
    """Return the facts that a model's text lacks; quotes and states are always included."""
    said = MentionIndex([text])
    shared = shared_basenames(each.key for each in facts if each.kind is FactKind.FILE)
    exact = {FactKind.PROMPT, FactKind.TODO, FactKind.RUNNING, FactKind.HINT, FactKind.CONSTRAINT}
    return tuple(
        each
        for each in facts
        if each.kind in exact
        or (each.kind is FactKind.FILE and not said.has_path(each.key, shared))
        or (each.kind in {FactKind.ERROR, FactKind.DONE} and not said.has_sentence(each.key))
    )


def _changed_files_named(facts: Sequence[SummaryFact], said: MentionIndex) -> list[bool]:
    shared = shared_basenames(each.key for each in facts if each.kind is FactKind.FILE)
    changed = [each for each in facts if each.kind is FactKind.FILE and not _only_read(each)]
    return [said.has_path(each.key, shared) for each in changed]


def _only_read(each: SummaryFact) -> bool:
    done = each.text.removeprefix(each.key)
    return not any(word in done for word in ("edited", "written", "created", "deleted"))


def _constraints_named(facts: Sequence[SummaryFact], said: MentionIndex) -> list[bool]:
    return [
        said.has_sentence(each.key.strip('"')) for each in facts if each.kind is FactKind.CONSTRAINT
    ]


def _stale_todos(text: str, facts: Sequence[SummaryFact]) -> list[SummaryFlaw]:
    """Find what is done and yet listed as open, in a summary whose lists can be read (Q13)."""
    done = {each.key for each in facts if each.kind is FactKind.DONE}
    open_ = [
        each for each in parse_summary(text) if each.kind is FactKind.TODO and each.key in done
    ]
    return [SummaryFlaw("stale", f"listed as open, and done: {each.key[:80]}") for each in open_]


def _compaction_prompts(text: str) -> list[SummaryFlaw]:
    """Find a compaction's own prompt, given as something that was said (Q14)."""
    own = text.removeprefix(SUMMARY_MARKER)
    spoken = next((words for words in NOT_TYPED_PREFIXES[:4] if words in own), None)
    return (
        [SummaryFlaw("contaminated", f"holds a compaction's own words: {spoken}")] if spoken else []
    )
