"""The language in which every page is filtered and searched.

word "two words" key:value         each must be met
-word !word -key:value             must not be met
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from .sanitize import one_line

MAX_QUOTED_CHARS: Final = 24  # characters of an invalid word that are repeated
_PART: Final = re.compile(
    r'(?P<no>[-!]?)(?P<key>(?:[^\s":]+:)?)(?:"(?P<quoted>[^"]*)"?|(?P<bare>\S*))'
)


class FilterWord(msgspec.Struct, frozen=True):
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
    return f"{one_line(word)[:MAX_QUOTED_CHARS]} is not valid. Use {_alternatives(choices)}"


_FILTER_KEY: Final = re.compile(r"[a-z_]{2,}:", re.IGNORECASE)
_ADDRESS_OR_NUMBER: Final = re.compile(r"[\W\d_]")
MIN_LIKENESS: Final = 0.75  # of a mistyped key to a valid one: "rol:" has 0.89, "note:" 0.6


def unknown_filter_error(word: FilterWord, keys: Sequence[str]) -> str:
    """Return the error message for a word that looks like a filter with none of these keys.

    Empty for text with a colon: `http://x`, `std::map`, `port:80` and `Error:`. Without a value, a
    word looks like a filter if it resembles a key. `keys` have their colons.
    """
    key = word.key.lower()
    if key in keys or not _FILTER_KEY.fullmatch(key):
        return ""
    if not word.value:
        from difflib import get_close_matches  # only for a word with a colon

        is_filter = bool(get_close_matches(key, keys, 1, MIN_LIKENESS))
    else:
        is_filter = word.is_quoted or not _ADDRESS_OR_NUMBER.match(word.value)
    if not is_filter:
        return ""
    return f'unknown filter "{one_line(word.key)[:MAX_QUOTED_CHARS]}". Use {_alternatives(keys)}'


def _alternatives(choices: Iterable[str]) -> str:
    *most, last = choices
    return f"{', '.join(most)} or {last}" if most else last


def readable_filter(typed: str) -> str:
    """Replace what SQLite does not take: NUL, and halves of surrogate pairs."""
    return typed.replace("\0", " ").encode("utf-8", "replace").decode()


def fold_text(text: str) -> str:
    """Remove case and accents character by character, so that all offsets stay valid."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


class _FoldedCharacters(dict[int, int]):
    def __missing__(self, code: int) -> int:
        folded = ord(unicodedata.normalize("NFD", chr(code))[0].lower()[0])
        self[code] = folded
        return folded


_FOLDED: Final = _FoldedCharacters()


DAY_MS: Final = 24 * 3600 * 1000
TIME_CHOICES: Final = ("today", "24h", "7d", "2w", "a date such as 2026-11-30")
_UNITS: Final = {"m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_TIME_SPAN: Final = re.compile(r"(\d{1,5})([mhdw])")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def start_of_day(now_ms: int, days: int = 0) -> int:
    """Return the start of the local day of `now_ms`, or of `days` before it, in ms since 1970."""
    here = datetime.fromtimestamp(now_ms / 1000).astimezone()
    day = here.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days)
    return int(day.timestamp() * 1000)


def parse_time(text: str, now_ms: int) -> int | None:
    """Return the start of a period such as `7d` or of a date, in ms since 1970; None if neither."""
    value = text.casefold()
    if value in {"today", "yesterday"}:
        return start_of_day(now_ms, 0 if value == "today" else 1)
    if span := _TIME_SPAN.fullmatch(value):
        return now_ms - int(span[1]) * _UNITS[span[2]]
    try:
        date = datetime.fromisoformat(value) if _DATE.fullmatch(value) else None
        return int(date.astimezone().timestamp() * 1000) if date else None
    except (ValueError, OverflowError, OSError):
        return None


def values_beginning_with(values: Iterable[str], prefixes: Sequence[str]) -> tuple[str, ...]:
    return tuple(value for value in values if value.startswith(tuple(prefixes)))


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
