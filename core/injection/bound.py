"""A number of tokens that no estimate of a text exceeds, found without a table."""

from __future__ import annotations

import re
from math import ceil
from typing import Final

LETTER: Final = 0.88
"""Tokens of a letter that stands alone as one token of cl100k_base, in the generation of
tokenizers that takes more of it; longer tokens take less by letter (core/tokenizer.py,
MEASURED: the weight of a class by the fewest characters of it)."""

MARK: Final = 1.24
"""Of a digit or a mark, with the line's end after it."""

SPACE: Final = 1.17
"""Of a space that no word takes along."""

TAKEN_SPACE: Final = 0.3
"""Of a space before a word, which is a token of its own only where two letters after it are one
together: they weigh that much less."""

LINE: Final = 1.51
"""Of a line's end."""

OTHER: Final = 1.64
"""Of a byte of what is not ASCII."""

_LETTERS: Final = re.compile(r"[A-Za-z]+")
_MARKS: Final = re.compile(r"[!-@\[-`{-~]+")
_TAKEN: Final = re.compile(r" (?=[A-Za-z])")


def most_tokens(text: str) -> int:
    """Count the tokens that a text has at the most, by the estimates of all models.

    Loading the table of `core.tokens` takes longer than a hook may; of prose this is about
    three times the estimate. What was learnt on this machine is not in it.
    """
    letters, marks = _length(_LETTERS, text), _length(_MARKS, text)
    spaces, taken, lines = text.count(" "), len(_TAKEN.findall(text)), text.count("\n")
    size = len(text.encode("utf-8", "replace"))
    return ceil(
        LETTER * letters
        + MARK * marks
        + SPACE * (spaces - taken)
        + TAKEN_SPACE * taken
        + LINE * lines
        + OTHER * (size - letters - marks - spaces - lines)
    )


def _length(pattern: re.Pattern[str], text: str) -> int:
    return sum(map(len, pattern.findall(text)))
