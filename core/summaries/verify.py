"""Whether a summary is good enough to stand in the place of what it sums up.

Source: compaction.md 4.2 (Q7, Q8, Q13, Q14) and 5.3, requirements 001-14 and R001-03.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .fact import Part
from .forgotten import shared_basenames
from .mentions import Mentions
from .prompts import NOT_A_PERSONS
from .words import OPENING, read_back

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .fact import Fact

MOST_OF_SOURCE: Final = 0.5
"""Of the source's tokens: a summary that has more is none (compaction.md 5.3)."""

NAMED: Final = 0.5
"""Of the changed files and constraints that a model's own words must name. It was given all of
them; the rest is added from the tool calls."""


class Flaw(msgspec.Struct, frozen=True):
    """Why a summary is refused."""

    check: str
    """`empty`, `longer`, `artifacts`, `constraints`, `stale` or `contaminated`."""
    reason: str


def flaws(
    text: str, tokens: int, source_tokens: int, facts: Iterable[Fact], min_share: float = 1.0
) -> tuple[Flaw, ...]:
    """Say what is wrong with a summary of these facts; nothing where it may be used.

    `least` is the share of changed files and of constraints that must be named, 0..1.
    """
    if not text.strip():
        return (Flaw("empty", "the summary says nothing"),)
    known = tuple(facts)
    found: list[Flaw] = []
    if tokens > MOST_OF_SOURCE * source_tokens:
        why = f"{tokens:,} tokens for a source of {source_tokens:,}"
        found.append(Flaw("longer", why))
    said = Mentions([text])
    for check, wanted in (
        ("artifacts", _files_named(known, said)),
        ("constraints", _constraints_said(known, said)),
    ):
        there = sum(wanted)
        if wanted and there < min_share * len(wanted):
            found.append(Flaw(check, f"{there} of {len(wanted)} are named"))
    return (*found, *_stale(text, known), *_contaminated(text))


def missing_from(text: str, facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """Give the facts that a model's words do not hold; quotes and states are always among them."""
    said = Mentions([text])
    shared = shared_basenames(each.key for each in facts if each.kind is Part.FILE)
    exact = {Part.PROMPT, Part.TODO, Part.RUNNING, Part.HINT, Part.CONSTRAINT}
    return tuple(
        each
        for each in facts
        if each.kind in exact
        or (each.kind is Part.FILE and not said.has_path(each.key, shared))
        or (each.kind in {Part.ERROR, Part.DONE} and not said.has_sentence(each.key))
    )


def _files_named(facts: Sequence[Fact], said: Mentions) -> list[bool]:
    shared = shared_basenames(each.key for each in facts if each.kind is Part.FILE)
    changed = [each for each in facts if each.kind is Part.FILE and not _only_read(each)]
    return [said.has_path(each.key, shared) for each in changed]


def _only_read(each: Fact) -> bool:
    done = each.text.removeprefix(each.key)
    return not any(word in done for word in ("edited", "written", "created", "deleted"))


def _constraints_said(facts: Sequence[Fact], said: Mentions) -> list[bool]:
    return [
        said.has_sentence(each.key.strip('"')) for each in facts if each.kind is Part.CONSTRAINT
    ]


def _stale(text: str, facts: Sequence[Fact]) -> list[Flaw]:
    """Find what is done and yet listed as open, in a summary whose lists can be read (Q13)."""
    done = {each.key for each in facts if each.kind is Part.DONE}
    open_ = [each for each in read_back(text) if each.kind is Part.TODO and each.key in done]
    return [Flaw("stale", f"listed as open, and done: {each.key[:80]}") for each in open_]


def _contaminated(text: str) -> list[Flaw]:
    """Find a compaction's own prompt, given as something that was said (Q14)."""
    own = text.removeprefix(OPENING)
    spoken = next((words for words in NOT_A_PERSONS[:4] if words in own), None)
    return [Flaw("contaminated", f"holds a compaction's own words: {spoken}")] if spoken else []
