"""The language in which every page is filtered and searched.

word "two words" key:value         each must be met
-word !word -key:value             must not be met
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..transcript.sanitize import one_line

MAX_QUOTED_CHARS: Final = 24  # characters of an invalid word that are repeated
_PART: Final = re.compile(
    r'(?P<no>[-!]?)(?P<key>(?:[^\s":]+:)?)(?:"(?P<quoted>[^"]*)"?|(?P<bare>\S*))'
)


@dataclass(frozen=True, slots=True)
class FilterWord:
    key: str  # with its colon; empty if there is none
    value: str
    is_negated: bool
    is_quoted: bool

    @property
    def text(self) -> str:
        """The whole word, if its key is not a key: a path, a time or a title may have a colon."""
        return self.key + self.value


def split_filter(typed: str) -> list[FilterWord]:
    """Split a filter into words; a sign alone is not a word yet."""
    parts = [
        FilterWord(
            part["key"],
            part["quoted"] or part["bare"] or "",
            bool(part["no"]),
            part["quoted"] is not None,
        )
        for part in _PART.finditer(typed)
    ]
    return [each for each in parts if each.text]


def invalid_word(word: str, choices: Iterable[str]) -> str:
    """Return the error message for a word; `choices` are the valid ones."""
    *most, last = choices
    said = f"{', '.join(most)} or {last}" if most else last
    return f"{one_line(word)[:MAX_QUOTED_CHARS]} is not valid. Use {said}"


Fields = Mapping[str, str]  # the texts of an entry, case-folded, by key


def fields_filter(typed: str, flags: Iterable[str] = ()) -> Callable[[Fields], bool]:
    """Return a test whether an entry's fields meet every word.

    `flags` are keys without a value, met by entries that have such a field.
    """
    flag_keys = frozenset(flags)
    words = split_filter(typed.casefold())

    def is_met(word: FilterWord, fields: Fields) -> bool:
        name = word.key.removesuffix(":")
        if word.key and name in fields:
            return word.value in fields[name]
        if name in flag_keys and not word.value:
            return False
        return any(word.text in each for each in fields.values())

    return lambda fields: all(is_met(word, fields) is not word.is_negated for word in words)
