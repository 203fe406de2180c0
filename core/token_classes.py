"""What a text consists of, as its tokens in cl100k_base tell: words by length, marks, space."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from .tokens import encode, token_bytes


class TokenClass(IntEnum):
    """What a token is; Claude's tokenizers cut each class in a way of their own.

    The classes were chosen on real sessions: the length of words and of runs of marks
    tells most of how many of Claude's tokens one of cl100k_base is.
    """

    WORD_2 = 0
    """Up to two letters, and so on; a space before them belongs to them."""
    WORD_4 = 1
    WORD_7 = 2
    WORD_LONG = 3
    DIGITS = 4
    MARK_1 = 5
    """One character that is neither letter, digit nor space."""
    MARK_2 = 6
    MARKS = 7
    """Longer runs of them, and what mixes them with letters."""
    MARKS_LINE = 8
    """Marks and the line's end after them."""
    LINE = 9
    """Space with a line's end."""
    SPACE = 10
    OTHER = 11
    """Anything beyond ASCII."""


Counts = tuple[int, ...]
"""How many tokens of each class, in their order."""

_LAST_OF_ASCII: Final = 127
_WORDS: Final = ((2, TokenClass.WORD_2), (4, TokenClass.WORD_4), (7, TokenClass.WORD_7))


def class_counts(text: str) -> Counts:
    """Count a text's tokens in cl100k_base by class."""
    # A class a byte: bytes are made and counted faster than anything else.
    classes = b"".join(bytes(map(_classes.__getitem__, ids)) for ids in encode(text))
    return tuple(map(classes.count, TokenClass))


def class_of(token: bytes) -> TokenClass:
    """Say which class a token is of."""
    if any(byte > _LAST_OF_ASCII for byte in token):
        return TokenClass.OTHER
    text = token.decode("ascii")
    said, ends_line = text.strip(), "\n" in text
    if not said:
        return TokenClass.LINE if ends_line else TokenClass.SPACE
    if said.isdigit():
        return TokenClass.DIGITS
    if said.isalpha():
        return next((c for longest, c in _WORDS if len(said) <= longest), TokenClass.WORD_LONG)
    if ends_line:
        return TokenClass.MARKS_LINE
    return {1: TokenClass.MARK_1, 2: TokenClass.MARK_2}.get(len(said), TokenClass.MARKS)


class _Classes(dict[int, TokenClass]):
    """Classes by token id, each found when it is met first: all of them would take 0.2 s."""

    def __missing__(self, token: int) -> TokenClass:
        found = self[token] = class_of(token_bytes(token))
        return found


_classes: Final = _Classes()
