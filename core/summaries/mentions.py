"""Whether a text speaks of something: by its name, or by most of a sentence's words."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from .names import names_in, path_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST: Final = 0.6
"""Of a sentence's weight: it says more than half in other words, and a long summary holds
every third word of any sentence by chance."""

ENTITY_WEIGHT: Final = 3
"""A name or a quoted word weighs as much as so many words: it is what a sentence is about."""

STEM: Final = 6
"""Letters by which a word is known again in another form: decide, decided, deciding."""

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_QUOTED: Final = re.compile(r"`([^`\n]{2,80})`|\"([^\"\n]{2,40})\"")
_HANGUL: Final = re.compile(r"[가-힣]+")

_EMPTY_WORDS: Final = frozenset(
    (
        "about after again also always and any are because been before being but can cannot chose"
        " chosen could decided decision did does doing don done each every for from going had has"
        " have here how instead into its just let like make may more most must need never not now"
        " off only onto opted our out over please rather should since some such sure than that the"
        " their them then there these they this those though thus too under use used using very"
        " want was were what when where which while who why will with would you your"
    ).split()  # noqa: SIM905 -- a hundred quotes more would hide the words
)
"""Words that stand in every text, and the cues themselves: they tell nothing apart."""


class Mentions:
    """A text that is asked many times whether it speaks of something; capitals do not count."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._text: Final = "\n".join(texts).casefold()

    def has_name(self, name: str) -> bool:
        """Say whether a name stands there whole: not as a part of a longer word."""
        wanted = name.casefold()
        place = self._text.find(wanted)
        while place >= 0:
            end = place + len(wanted)
            if not (_is_inside(self._text, place - 1) or _is_inside(self._text, end)):
                return True
            place = self._text.find(wanted, place + 1)
        return False

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
        """Say whether a sentence is kept: word for word, or by MOST of the weight of its words.

        Names and quoted words weigh ENTITY_WEIGHT, other words 1; empty words nothing.
        A sentence of empty words alone is kept only word for word.
        """
        plain = " ".join(sentence.casefold().split())
        if plain.rstrip(".!?…") in self._flat:
            return True
        entities = _entities(sentence)
        words = _stems(plain) - {stem for each in entities for stem in _stems(each.casefold())}
        weight = ENTITY_WEIGHT * len(entities) + len(words)
        found = ENTITY_WEIGHT * sum(self.has_name(each) for each in entities)
        found += sum(self._has_stem(each) for each in words)
        return bool(weight) and found >= MOST * weight

    @cached_property
    def _flat(self) -> str:
        return " ".join(self._text.split())

    @cached_property
    def _all_stems(self) -> frozenset[str]:
        return frozenset(word[:STEM] for word in _WORD.findall(self._text))

    def _has_stem(self, stem: str) -> bool:
        # Korean puts its particles at the word's end: without them it is found inside others.
        return stem in self._text if _HANGUL.match(stem) else stem in self._all_stems


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


def _is_inside(text: str, place: int) -> bool:
    return 0 <= place < len(text) and (text[place].isalnum() or text[place] == "_")
