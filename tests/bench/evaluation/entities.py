"""Q3 and Q9: which of the things that a conversation names are still named."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ctxtop.core.model.conversation import PartKind
from ctxtop.core.summaries.mentions import find_names

from .ledgers import context_tokens
from .share import Share
from .texts import AUTHORED, pieces_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from re import Pattern

    from ctxtop.core.model.conversation import Entry, MessagePart

HEAVY: Final = 3
"""From this weight on a thing was referred to twice after it was first named (Q3's gate)."""

URL_END: Final = ".,;:!?)"
"""Marks that end a sentence and no address."""

_FORMS: Final[tuple[Pattern[str], ...]] = (
    re.compile(r"https?://[^\s\"'<>`\])]+"),
    re.compile(r"\b(?:E[A-Z]{4,12}|[A-Z]{1,4}\d{3,5}|[A-Z][A-Za-z]+(?:Error|Exception))\b"),
    re.compile(r"\bv?\d+\.\d+\.\d+(?:-[\w.]+)?\b"),
    re.compile(
        r"(?:(?<=localhost:)|(?<=127\.0\.0\.1:)|(?<=[Pp]ort )|(?<=--port )|(?<=--port=))\d{2,5}\b"
    ),
    re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"),
    re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"),
    re.compile(r"(?<=[\"'`])[A-Za-z][\w:-]{3,39}(?=[\"'`])"),
)
"""URLs, error codes and classes, versions, ports, hashes, environment variables, quoted
constants; paths and symbols are what `find_names` finds."""


@lru_cache(maxsize=100_000)
def entities_in(text: str) -> frozenset[str]:
    """Find what a text names: the kinds of compaction.md 4.2, Q3."""
    found = find_names(text)
    for form in _FORMS:
        found.update(each.rstrip(URL_END) for each in form.findall(text))
    return frozenset(found)


def weights(original: Sequence[Entry]) -> dict[str, int]:
    """Weigh what a conversation names: 1, and 1 for each later line that refers to it.

    Only the person and the model refer; that a tool prints a name again says nothing.
    """
    weighed: dict[str, int] = {}
    for entry in original:
        met: set[str] = set()
        referred: set[str] = set()
        for piece in entry.parts:
            names = entities_in(text_of(piece))
            met |= names
            if piece.kind in AUTHORED or piece.kind is PartKind.PROMPT:
                referred |= names
        for name in met:
            if name not in weighed:
                weighed[name] = 1
            elif name in referred:
                weighed[name] += 1
    return weighed


def named(entries: Sequence[Entry]) -> set[str]:
    """Find all that a list of entries names."""
    found: set[str] = set()
    for piece in pieces_of(entries):
        found |= entities_in(text_of(piece))
    return found


def entity_retention(
    weighed: Mapping[str, int], compacted: Sequence[Entry], least: int = 1
) -> Share:
    """Return the share of the entities' weight that is still named.

    Entities that weigh less than `least` are left out. A stub that names an entity retains it,
    even if the name has lost its quotation marks.
    """
    there = named(compacted)
    missing = [name for name in weighed if name not in there]
    if missing:
        words = _words(compacted)
        there.update(name for name in missing if name in words)
    counted = {name: weight for name, weight in weighed.items() if weight >= least}
    kept = sum(weight for name, weight in counted.items() if name in there)
    return Share(kept, sum(counted.values()))


def density(entries: Sequence[Entry], tokens: int) -> float:
    """Return the number of distinct entities named per 1,000 tokens (Q9)."""
    return 1000 * len(named(entries)) / tokens if tokens else 0.0


def inflated(
    original: Sequence[Entry], compacted: Sequence[Entry], tokens: Callable[[MessagePart], int]
) -> list[str]:
    """Name the lines that take more tokens than before (Q9: no item grows); summaries are new."""
    before = Counter[str]()
    for entry in original:
        before[entry.uuid or ""] += context_tokens([entry], tokens)
    return [
        entry.uuid
        for entry in compacted
        if entry.uuid in before
        and entry.uuid
        and context_tokens([entry], tokens) > before[entry.uuid]
    ]


def _words(entries: Sequence[Entry]) -> set[str]:
    found: set[str] = set()
    for piece in pieces_of(entries):
        found.update(re.split(r"[\s\"'`,;()\[\]{}<>]+", text_of(piece)))
    return found
