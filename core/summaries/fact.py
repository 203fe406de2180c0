"""One thing that a summary holds, and from where in the transcript it was taken."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

ITEM_CHARS: Final = 600
"""Of a fact that is one line: the longest sentence (cues.LONGEST_SENTENCE) fits whole."""


class Part(StrEnum):
    """What kinds of things there are, in the order of compaction.md 5.2."""

    WRITTEN = "written"
    """What a model wrote, where one was asked."""
    GOAL = "goal"
    PROMPT = "prompt"
    """A person's message, word for word."""
    CONSTRAINT = "constraint"
    DECISION = "decision"
    FILE = "file"
    ERROR = "error"
    DONE = "done"
    TODO = "todo"
    NEXT = "next"
    RUNNING = "running"
    ANCHOR = "anchor"
    """A message that matters most, word for word."""
    NAME = "name"
    EARLIER = "earlier"
    """What a compaction of the client's own said."""
    HINT = "hint"
    """Where what was removed still stands."""


QUOTED: Final = frozenset({Part.WRITTEN, Part.PROMPT, Part.ANCHOR, Part.EARLIER})
"""Parts whose texts keep their lines; all others are one line each."""


class Fact(msgspec.Struct, frozen=True):
    """One thing that is kept."""

    kind: Part
    text: str
    """As it is said; a quoted one word for word."""
    key: str
    """By which it is known again: a path, a sentence, an id. The newest of one key stands."""
    line: int = 0
    """Of the transcript, from 1; 0 where it has no single one."""
    weight: float = 0.0
    """How much it matters, 0..1: what weighs least goes first."""


def fact(kind: Part, text: str, line: int, weight: float, key: str | None = None) -> Fact:
    """Make a fact; what is no quote is made one line."""
    said = text if kind in QUOTED else one_line(text)
    return Fact(kind, said, key if key is not None else said, line, weight)


def one_line(text: str, chars: int = ITEM_CHARS) -> str:
    """Make a text one line, no longer than `chars`."""
    line = " ".join(text[: 4 * chars].split())
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def as_data(text: str) -> str:
    """Take from a program's or a page's text what a model could take for its own frame's marks."""
    return text.replace("<", "‹").replace(">", "›")


def merge(older: Iterable[Fact], newer: Iterable[Fact]) -> tuple[Fact, ...]:
    """Put facts together: of those with one part and key the newest stands, in the first's place.

    Merging the same facts again changes nothing.
    """
    found: dict[tuple[Part, str], Fact] = {}
    for each in (*older, *newer):
        found[each.kind, each.key] = each
    return tuple(found.values())
