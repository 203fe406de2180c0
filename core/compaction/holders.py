"""Which pieces of a conversation hold a name: what only one holds is lost where that one goes.

An inverted count, made once: how many pieces hold each word. It is kept true while operations
are found, so that of several texts that hold a name the last one to go keeps it in its stub.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from ..summaries.names import names_in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from re import Pattern

_WORD: Final = re.compile(r"(?:\b(?:self|this|cls)\.|//|\\+)?([\w./\\$@-]{3,})")
"""What a name or a fact is made of, without its owner."""

_EDGES: Final = "-./\\"
"""Marks of a sentence or an option at the end of a word."""

_JOINTS: Final = re.compile("[-@]")
"""Between the parts of an id, and before a version: a part is a fact of its own."""

_LOST_PER_TOKEN: Final = 4 / 1_000
"""Of what an operation may make unnamed, by the tokens that it frees: measured, a conversation
names 5 to 20 things in 1,000 tokens, and 98 % of their weight is to stay (compaction.md 7.8)."""

_FACTS: Final[Pattern[str]] = re.compile(
    r"https?://[^\s\"'<>`\])]+"
    r"|\b(?:E[A-Z]{4,12}|[A-Z]{1,4}\d{3,5}|[A-Z][A-Za-z]+(?:Error|Exception))\b"
    r"|\bv?\d+\.\d+\.\d+(?:-[\w.]+)?\b"
    r"|(?:(?<=localhost:)|(?<=\d\.\d\.\d\.\d:)|(?<=[Pp]ort )|(?<=--port[ =]))\d{2,5}\b"
    r"|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"
    r"|(?<=[\"'`])[A-Za-z][\w:-]{3,39}(?=[\"'`])"
)
"""URLs, error codes and classes, versions, ports, hashes, environment variables and quoted
constants (compaction.md 4.2, Q3); paths and symbols are what `names_in_order` gives."""

_OPAQUE: Final = re.compile(r"v?\d|[0-9a-f]{7}")
"""How facts begin that say nothing without the words around them."""

WORDS_CHARS: Final = 40
"""Of the words before such a fact; where they are few, half as many behind it."""

_URL_END: Final = ".,;:!?)"


class Holders:
    """How many pieces hold each word."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._held: Final = Counter[str]()
        for text in texts:
            self._held.update(words_of(text))
        self._ever: Final = self._held.copy()

    def sole(self, text: str, kept: str = "") -> list[str]:
        """List what a piece's text names and no other piece does, nor what is kept of it.

        What most pieces held comes first; of equals facts, for they are short and are found
        nowhere again, then names, in the order in which they stand. A number or a hash comes
        with the words before it: alone it says nothing.
        """
        found = self._found(text, kept)
        return sorted(found, key=lambda shown: -self._ever[found[shown]])

    def allows(self, before: str, after: str, tokens: int) -> bool:
        """Say whether what a change makes unnamed is little beside the tokens that it frees."""
        lost = sum(max(1, self._ever[word]) for word in self._found(before, after).values())
        return lost <= _LOST_PER_TOKEN * tokens

    def _found(self, text: str, kept: str) -> dict[str, str]:
        """Give what stands only here, as it is shown, with the word by which it is counted."""
        still = words_of(kept)
        lone = {word for word in words_of(text) if self._held[word] <= 1} - still
        if not lone:
            return {}
        found: dict[str, str] = {}
        for fact in _FACTS.finditer(text):
            word = _key(fact[0].rstrip(_URL_END))
            if self._held[word] <= 1 and word not in still:
                found.setdefault(_shown(fact), word)
        words = (word for word in _WORD.findall(text) if word.rstrip(_EDGES) in lone)
        shown = set(found.values())
        for name in names_in_order("\n".join(words)):
            word = _key(name)
            if word not in shown:
                found[name] = word
        return found

    def replace(self, before: str, after: str) -> None:
        """Learn that a piece says something else now."""
        old, new = words_of(before), words_of(after)
        self._held.subtract(old - new)
        self._held.update(new - old)


@lru_cache(maxsize=16)
def words_of(text: str) -> frozenset[str]:
    """Take a text apart into what a name can be; what is joined also into its parts."""
    found = {word.rstrip(_EDGES) for word in set(_WORD.findall(text))}
    parts = (_JOINTS.split(word) for word in found if "-" in word or "@" in word)
    return frozenset(found.union(*parts))


def spoken(value: object, call: str | None) -> str:
    """Join the texts of a decoded line's message: of one call or result, or of all others."""
    line = value if isinstance(value, dict) else {}
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return "\n".join(_strings([content, line.get("attachment"), line.get("content")]))
    blocks = [each for each in content if isinstance(each, dict)]
    return "\n".join(
        text
        for block in blocks
        if call == (block.get("tool_use_id") or (block.get("input") and block.get("id")))
        for text in _strings([block.get(name) for name in ("text", "content", "input")])
    )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _shown(fact: re.Match[str]) -> str:
    """Give a fact as a digest says it: an opaque one with the words around it in its line."""
    if not _OPAQUE.match(fact[0]):
        return fact[0].rstrip(_URL_END)
    text, start, end = fact.string, fact.start(), fact.end()
    first = max(text.rfind("\n", 0, start) + 1, start - WORDS_CHARS)
    if start - first < WORDS_CHARS // 2:
        stop = text.find("\n", end)
        end = min(len(text) if stop < 0 else stop, end + WORDS_CHARS // 2)
    before, after = text[first:start], text[fact.end() : end]
    # Words that the window cuts are left out.
    if first and text[first - 1] != "\n":
        before = before.partition(" ")[2] if " " in before else before
    if end < len(text) and text[end] != "\n":
        after = after.rpartition(" ")[0]
    return f"{before.lstrip()}{fact[0]}{after.rstrip()}"


def _key(thing: str) -> str:
    """Give the word by which a thing is counted: its longest."""
    words = [word.rstrip(_EDGES) for word in _WORD.findall(thing)]
    return max(words, key=len, default=thing)
