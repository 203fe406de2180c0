"""Names that a conversation uses for things: paths, symbols, options; no hashes, no keys."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

SHORTEST_NAME: Final = 8
"""Characters (compaction.md 4.6); shorter ones stand in any text by chance."""

LONGEST_NAME: Final = 160
"""Characters: a longer one is data, not a name."""

NAMES_HELD: Final = 8_192
"""Tokens of which it is remembered whether they are names: about 2 MB."""

PASTED: Final = "pasted_content"
"""The tag in which the client puts what was pasted into a prompt."""

_PASTED_TAG: Final = re.compile(rf"</?{PASTED}\b[^<>]{{0,200}}>")

_TOKEN: Final = re.compile(rf"[\w./\\$@-]{{{SHORTEST_NAME},}}")
_HUMP: Final = re.compile(r"[a-z0-9][A-Z]")
_OWNER: Final = re.compile(
    r"^(?:self|this|cls)\.|^\.{2,}(?![/\\])|^\.(?=\w+(?:\.|[a-z0-9][A-Z]))|^//+"
)
_LANGUAGES_OWN: Final = re.compile(
    r"(?:console|JSON|Math|Object|Array|Promise|Number|String|document|window|\w)\.|/dev/|\d"
)
"""How names begin that every program uses, that a loop gives, or that are no name."""
_NO_PATH: Final = re.compile(r"\w@|\\\W|\.\.\.")
"""An address, a pattern of a search, and what was left out."""
_TWO_WORDS: Final = re.compile(r"[A-Za-z]+/[A-Za-z]+")
_JOINT: Final = re.compile(r"[./\\-]+")
_WORD: Final = re.compile(r"[^\W\d_]{2}")
_NUMBERED: Final = re.compile(r"[0-9a-fA-F]{7,}|[\d_.:TZ+-]+|v?\d[\w.-]*")
_SECRET: Final = re.compile(
    r"(?:sk|pk|rk)[-_](?:live|test|ant|proj|[A-Za-z0-9]{16})|gh[pousr]_|github_pat_|glpat-|xox[a-z]-"
    r"|AKIA|ASIA|eyJ[\w-]{8}|(?:toolu|msg|req|call|srvtoolu|resp|chatcmpl)_"
)
"""How keys begin, and the ids that an API gives: neither is a name of anything."""

_MIXED_CHARS: Final = 24
"""From here on, small and capital letters with digits between them are a key or a hash."""

_DECLARED: Final = re.compile(
    r"(?:\b(?:def|class|function|fn|func|struct|interface|type|enum|trait|module|namespace)"
    r"|^(?:export )?(?:const|let|var))\s+([A-Za-z_$][\w$]+)",
    re.MULTILINE,
)
"""Of variables those of a module alone: the others do not live long."""


def names_in(text: str) -> set[str]:
    """Find the names that a text uses: 8 characters or more, with the look of a name.

    A name has a path separator, a dot, an underscore or a camel hump inside
    (compaction.md 4.6); hashes, ids, versions, numbers and keys are left out.
    """
    said = without_paste_tags(text)
    return {name for token in set(_TOKEN.findall(said)) if (name := _name(token))}


def without_paste_tags(text: str) -> str:
    """Leave the tags around pasted texts out; the texts stay."""
    return _PASTED_TAG.sub(" ", text) if PASTED in text else text


def typed_words(text: str) -> str:
    """Return a prompt without what was pasted; all of it where nothing else was said."""
    if PASTED not in text:
        return text
    opens, closes = f"<{PASTED}", f"</{PASTED}>"
    typed, at = [], 0
    while (start := text.find(opens, at)) >= 0 and (end := text.find(closes, start)) >= 0:
        typed.append(text[at:start])
        at = end + len(closes)
    words = without_paste_tags(" ".join((*typed, text[at:])))
    return words if words.strip() else without_paste_tags(text)


def names_in_order(text: str) -> Iterator[str]:
    """Give the names of `names_in` in the order in which they first stand in a text."""
    seen: set[str] = set()
    for found in _TOKEN.finditer(without_paste_tags(text)):
        name = _name(found[0])
        if name and name not in seen:
            seen.add(name)
            yield name


def declared_in(text: str) -> set[str]:
    """Find the functions, classes and constants that a piece of code declares."""
    return {name for token in set(_DECLARED.findall(text)) if (name := _name(token))}


def hides_secret(text: str) -> bool:
    """Say whether a text holds what looks like a key: such a one is not kept."""
    return any(
        _SECRET.match(token) or _is_random(token.rpartition("=")[2])
        for token in re.split(r"[\s'\"`(),;=]+", text)
        if len(token) >= SHORTEST_NAME
    )


def path_parts(path: str) -> list[str]:
    """Take a path apart, of whichever system it is."""
    return [part for part in re.split(r"[/\\]+", path) if part not in {"", "."}]


def _name(token: str) -> str | None:
    # A session says the same names again and again.
    return _judged(token) if len(token) <= LONGEST_NAME else _judge(token)


def _judge(token: str) -> str | None:
    name = _OWNER.sub("", token.lstrip("-").rstrip(".-/\\"))
    if not SHORTEST_NAME <= len(name) <= LONGEST_NAME or not _looks_like_one(name):
        return None
    if _LANGUAGES_OWN.match(name) or _NO_PATH.search(name):
        return None
    parts = [part for part in _JOINT.split(name) if part]
    if not parts or any(_SECRET.match(part) or _is_random(part) for part in parts):
        return None
    if all(_NUMBERED.fullmatch(part) or not _WORD.search(part) for part in parts):
        return None
    # One part that is a hash (a build's file, a temporary folder) makes the whole passing.
    return None if any(len(part) >= SHORTEST_NAME and _is_hash(part) for part in parts) else name


_judged: Final = lru_cache(NAMES_HELD)(_judge)


def _looks_like_one(name: str) -> bool:
    inside = name[1:-1]
    if "_" in inside or _HUMP.search(name):
        return True
    if "/" in inside or "\\" in inside:
        return not _TWO_WORDS.fullmatch(name)
    return "." in inside or name.startswith((".", "@"))


def _is_hash(part: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-fA-F]+", part)) and any(each.isdigit() for each in part)


def _is_random(part: str) -> bool:
    if len(part) < _MIXED_CHARS or "_" in part or "/" in part:
        return False
    digits = sum(each.isdigit() for each in part)
    return digits >= len(part) // 8 and part.lower() != part
