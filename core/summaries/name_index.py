"""Which names and facts a text holds, and how many parts of a conversation hold each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from .mentions import contains_secret, find_names_in_order

_WORD: Final = re.compile(r"[\w./\\$@-]{3,}")  # what a name or a fact is made of
_WORD_MARKS: Final = "_./\\$@-"  # marks inside a word
_OWNER_PREFIX: Final = re.compile(r"(?:self|this|cls)\.|//")  # before a word, and no part of it
WORD_CACHE_SIZE: Final = 16_384
"""Words that are remembered without what stands around them: about 3 MB."""

_TRAILING_MARKS: Final = "-./\\"  # marks of a sentence or an option at the end of a word
_WORD_JOINTS: Final = re.compile(r"[-@]|\.\.+|\\+[nrt]?")
"""Between the parts of an id, before a version, in a range, and where a line end is written as
an escape: a part is a fact of its own."""

_MAX_LOST_PER_TOKEN: Final = 2 / 1_000
"""Of what an operation may make unnamed, by the tokens that it frees: measured, a conversation
names 5 to 20 things in 1,000 tokens, and 98 % of their weight is to stay (compaction.md 7.8)."""

_FACT: Final = re.compile(
    r"(?P<code>E[A-Z]{4,12}|[A-Z]{1,4}\d{3,5}|[A-Z][A-Za-z]+(?:Error|Exception))"
    r"|(?P<variable>[A-Z][A-Z0-9]*_[A-Z0-9_]+)"
    r"|(?P<opaque>v?\d+\.\d+\.\d+(?:-[\w.]+)?|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40})"
    r"|(?P<port>\d{2,5})"
    r"|(?P<constant>[A-Za-z][\w-]{3,39})"
)
"""Error codes and classes, environment variables, versions and hashes; ports and quoted
constants by what stands around them (compaction.md 4.2, Q3). Names are `find_names_in_order`'s."""

_PORT_PREFIXES: Final = ("localhost:", "127.0.0.1:", "0.0.0.0:", "ort ", "--port ", "--port=")
"""How a port is told from other numbers: by what stands before it."""

_SCHEMES: Final = ("https://", "http://")
_URL: Final = re.compile(r"[^\s\"'<>`\])\\]+")
_URL_END: Final = ".,;:!?)"
_QUOTES: Final = "\"'`"

FACT_CONTEXT_CHARS: Final = 40
"""Of the words before such a fact; where they are few, half as many behind it."""


class NameIndex:
    """How many pieces hold each word."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._held: Final = Counter[str]()
        for text in texts:
            self._held.update(split_words(text))
        self._ever: Final = self._held.copy()

    def unique_names(self, text: str, kept_text: str = "") -> list[str]:
        """List what a piece's text names and no other piece does, nor what is kept of it.

        What most pieces held comes first; of equals facts, for they are short and are found
        nowhere again, then names, in the order in which they stand. A number or a hash comes
        with the words before it: alone it says nothing.
        """
        found = self._found(text, kept_text)
        return sorted(found, key=lambda shown: -self._ever[found[shown]])

    def allows_loss(self, before: str, after: str, saved_tokens: int) -> bool:
        """Whether a change loses few enough names for the tokens that it frees."""
        lost = sum(max(1, self._ever[word]) for word in self._found(before, after).values())
        return lost <= _MAX_LOST_PER_TOKEN * saved_tokens

    def _found(self, text: str, kept: str) -> dict[str, str]:
        """Map each name or fact found only in this text, as displayed, to its counted word."""
        still = split_words(kept)
        lone = {word for word in split_words(text) if self._held[word] <= 1} - still
        if not lone:
            return {}
        return find_names_and_facts(text, lone)

    def replace_text(self, before: str, after: str) -> None:
        """Learn that a piece says something else now."""
        old, new = split_words(before), split_words(after)
        self._held.subtract(old - new)
        self._held.update(new - old)


@lru_cache(maxsize=16)
def split_words(text: str) -> frozenset[str]:
    """Split a text into possible names; joined words are also split into their parts."""
    found = {_strip_word(word) for word in set(_WORD.findall(text))}
    parts = (_WORD_JOINTS.split(word) for word in found if _WORD_JOINTS.search(word))
    return frozenset(found.union(*parts))


@lru_cache(maxsize=WORD_CACHE_SIZE)
def _strip_word(word: str) -> str:
    owner = _OWNER_PREFIX.match(word)
    return (word[owner.end() :] if owner else word).rstrip(_TRAILING_MARKS)


def find_names_and_facts(text: str, words: Iterable[str]) -> dict[str, str]:
    """Find which words are facts or names: as displayed, facts first.

    Each is mapped to the word under which it is counted.
    """
    facts: dict[str, str] = {}
    names: dict[str, str] = {}
    shown_to = 0
    for place, _, word in sorted((_find_word(text, each), -len(each), each) for each in words):
        if place < shown_to:
            # It is a part of what was shown.
            continue
        if fact := _fact_at(text, place, word):
            if not contains_secret(fact):
                facts.setdefault(fact, word)
        elif name := next(find_names_in_order(word), None):
            names.setdefault(name, word)
        else:
            continue
        shown_to = place + len(word)
    told = split_words("\n".join(facts))
    return facts | {name: word for name, word in names.items() if word not in told}


def decoded_text(value: object, call_id: str | None) -> str:
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
        if call_id == (block.get("tool_use_id") or (block.get("input") and block.get("id")))
        for text in _strings([block.get(name) for name in ("text", "content", "input")])
    )


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _find_word(text: str, word: str) -> int:
    """Find where a word stands whole; anywhere, where it is always a part of others."""
    first = place = text.find(word)
    while place >= 0:
        end = place + len(word)
        after = text[end : end + 1]
        if not (
            _is_word_character(text[place - 1 : place])
            or (after != "." and _is_word_character(after))
        ):
            return place
        place = text.find(word, place + 1)
    return first


def _is_word_character(sign: str) -> bool:
    return sign.isalnum() or (sign != "" and sign in _WORD_MARKS)


def _fact_at(text: str, place: int, word: str) -> str | None:
    """Return the fact as a stub displays it; None if the word is no fact."""
    scheme = next((each for each in _SCHEMES if text.endswith(each, 0, place)), None)
    if scheme:
        address = _URL.match(text, place)
        return f"{scheme}{address[0].rstrip(_URL_END) if address else word}"
    found = _FACT.fullmatch(word)
    if found is None:
        return None
    kind, end = found.lastgroup, place + len(word)
    if kind == "opaque" or (kind == "port" and text.endswith(_PORT_PREFIXES, 0, place)):
        return _fact_with_context(text, place, end)
    if kind == "constant":
        quoted = text[place - 1 : place] in _QUOTES and text[end : end + 1] in _QUOTES
        return word if quoted and text[end : end + 1] else None
    return None if kind == "port" else word


def _fact_with_context(text: str, start: int, end: int) -> str:
    """Return an opaque fact with the words around it on its line."""
    first = max(text.rfind("\n", 0, start) + 1, start - FACT_CONTEXT_CHARS)
    before, after = text[first:start], ""
    if first and text[first - 1] != "\n":
        # The word that the window cuts is left out.
        before = before.partition(" ")[2] if " " in before else before
    if len(before) < FACT_CONTEXT_CHARS // 2:
        after = text[end : end + FACT_CONTEXT_CHARS // 2].partition("\n")[0]
        whole = text[end + len(after) : end + len(after) + 1] in {"", "\n"}
        after = after if whole else after.rpartition(" ")[0]
    return f"{before.lstrip()}{text[start:end]}{after.rstrip()}"
