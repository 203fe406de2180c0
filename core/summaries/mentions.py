"""Whether a text speaks of something: by its name, or by most of a sentence's words."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final

from .names import names_in, path_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST: Final = 0.5
"""Of a sentence's weight that must be exceeded. Of the decisions in the recorded sessions'
segments those above it are in the summaries in other words, and those below are not."""

PASSAGE: Final = 3
"""Sentences or lines that are looked at together: over a whole summary of 4,000 words the
words of any sentence about the same work are found, each said of something else."""

ENTITY_WEIGHT: Final = 3
"""A name or a quoted word weighs as much as so many words: it is what a sentence is about."""

STEM: Final = 6
"""Letters by which a word is known again in another form: decide, decided, deciding."""

_END: Final = re.compile(r"\n|(?<=[.!?])\s")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_QUOTED: Final = re.compile(r"`([^`\n]{2,80})`|\"([^\"\n]{2,40})\"")
_HANGUL: Final = re.compile(r"[가-힣]+")

_EMPTY: Final = (
    "about after again also always and any are because been before being but can cannot chose"
    " chosen could decided decision did does doing don done each every for from going had has"
    " have here how instead into its just let like make may more most must need never not now"
    " off only onto opted our out over please rather should since some such sure than that the"
    " their them then there these they this those though thus too under use used using very"
    " want was were what when where which while who why will with would you your"
)
_EMPTY_WORDS: Final = frozenset(_EMPTY.split())
"""Words that stand in every text, and the cues themselves: they tell nothing apart."""


class Mentions:
    """A text that is asked many times whether it speaks of something; capitals do not count."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text: Final = "\n".join(texts).casefold()

    def has_name(self, name: str) -> bool:
        """Say whether a name stands there whole: not as a part of a longer word."""
        return _stands_in(self._text, name.casefold())

    def has_path(self, path: str, shared: frozenset[str] = frozenset()) -> bool:
        """Say whether a file is named: by its basename, or with its folder where it needs that.

        `shared` are the basenames (casefolded) that several files have: `index.ts` alone
        does not say which.
        """
        parts = path_parts(path)
        if not parts:
            return False
        if parts[-1].casefold() not in shared or len(parts) == 1:
            return self.has_name(parts[-1])
        return self.has_name("/".join(parts[-2:])) or self.has_name("\\".join(parts[-2:]))

    def has_sentence(self, sentence: str) -> bool:
        """Say whether a sentence is kept: word for word, or most of it in one passage.

        Names and quoted words weigh ENTITY_WEIGHT, other words 1 and empty words nothing;
        in some PASSAGE of the text there must be more than MOST of the whole weight.
        A sentence of empty words alone is kept only word for word.
        """
        plain = " ".join(sentence.casefold().split())
        if plain.rstrip(".!?…") in self._flat:
            return True
        entities = {each.casefold() for each in _entities(sentence)}
        words = _stems(plain) - {stem for each in entities for stem in _stems(each)}
        found: Counter[int] = Counter()
        for places, weight in (
            *((self._lines_naming(each), ENTITY_WEIGHT) for each in entities),
            *((self._lines_with(each), 1) for each in words),
        ):
            for passage in {line - back for line in places for back in range(PASSAGE)}:
                found[passage] += weight
        whole = ENTITY_WEIGHT * len(entities) + len(words)
        return max(found.values(), default=0) > MOST * whole

    @cached_property
    def _flat(self) -> str:
        return " ".join(self._text.split())

    @cached_property
    def _lines(self) -> list[str]:
        return [line for line in _END.split(self._text) if line and not line.isspace()]

    @cached_property
    def _places(self) -> dict[str, set[int]]:
        places: dict[str, set[int]] = {}
        for number, line in enumerate(self._lines):
            for word in _WORD.findall(line):
                places.setdefault(word[:STEM], set()).add(number)
        return places

    def _lines_with(self, stem: str) -> Iterable[int]:
        if not _HANGUL.match(stem):
            return self._places.get(stem, ())
        # Korean puts its particles at the word's end: without them it is found inside others.
        return [number for number, line in enumerate(self._lines) if stem in line]

    def _lines_naming(self, name: str) -> Iterable[int]:
        if name not in self._text:
            return ()
        return [number for number, line in enumerate(self._lines) if _stands_in(line, name)]


def _stems(plain: str) -> set[str]:
    stems = set()
    for word in _WORD.findall(plain):
        if _HANGUL.match(word):
            stems.add(word[:-1])
        elif word not in _EMPTY_WORDS:
            stems.add(word[:STEM])
    return stems


def _entities(sentence: str) -> set[str]:
    quoted = {one or other for one, other in _QUOTED.findall(sentence)}
    inside = " ".join(quoted)
    return quoted | {name for name in names_in(sentence) if name not in inside}


def _stands_in(text: str, wanted: str) -> bool:
    place = text.find(wanted)
    while place >= 0:
        if not (_is_inside(text, place - 1) or _is_inside(text, place + len(wanted))):
            return True
        place = text.find(wanted, place + 1)
    return False


def _is_inside(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")
