"""Finding a passage by words: BM25 over the paragraphs of a context.

Written here: the libraries for it (bm25s, rank-bm25) bring numpy, for forty lines.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter, defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PASSAGE_CHARS: Final = 800
"""A paragraph of more is cut at its lines: what a model takes in at once."""

K1: Final = 1.5
B: Final = 0.75
"""As everywhere (Robertson, Zaragoza 2009: k1 1.2 to 2, b 0.75)."""

_WORD: Final = re.compile(r"[A-Za-z가-힣]+|\d+")


def words_of(text: str) -> list[str]:
    """Split a text into lowercase words; camelCase and snake_case names are split too."""
    return [word.casefold() for word in _WORD.findall(re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text))]


@lru_cache(maxsize=300_000)
def counted_words(passage: str) -> tuple[tuple[tuple[str, int], ...], int]:
    """Count the words of a passage, once for all the contexts that hold it."""
    counted = Counter(words_of(passage))
    return tuple(counted.items()), counted.total()


def passages_of(texts: Iterable[str]) -> Iterator[str]:
    """Cut texts into paragraphs, and long ones at their lines."""
    for text in texts:
        for paragraph in text.split("\n\n"):
            held: list[str] = []
            size = 0
            for line in paragraph.splitlines():
                if held and size + len(line) > PASSAGE_CHARS:
                    yield "\n".join(held)
                    held, size = [], 0
                held.append(line)
                size += len(line) + 1
            if held:
                yield "\n".join(held)


class Index:
    """Passages that can be asked for by words."""

    def __init__(self, passages: Iterable[str]) -> None:
        self.passages: Final = [each for each in dict.fromkeys(passages) if each.strip()]
        self._places: Final[dict[str, list[tuple[int, int]]]] = defaultdict(list)
        self._sizes: Final[list[int]] = []
        for place, passage in enumerate(self.passages):
            counted, size = counted_words(passage)
            self._sizes.append(size)
            for word, count in counted:
                self._places[word].append((place, count))
        mean = sum(self._sizes) / len(self._sizes) if self._sizes else 1.0
        self._lengths: Final = [K1 * (1 - B + B * size / mean) for size in self._sizes]

    def best(self, question: str, count: int) -> list[str]:
        """Return the best passages for a question by BM25; ties go to the earlier passage."""
        scores: dict[int, float] = defaultdict(float)
        total, lengths = len(self.passages), self._lengths
        for word in set(words_of(question)):
            places = self._places.get(word, ())
            rarity = math.log(1 + (total - len(places) + 0.5) / (len(places) + 0.5))
            for place, times in places:
                scores[place] += rarity * times * (K1 + 1) / (times + lengths[place])
        ranked = heapq.nsmallest(count, scores, key=lambda place: (-scores[place], place))
        return [self.passages[place] for place in ranked]
