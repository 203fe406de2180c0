"""The types of policy values, and how each is parsed from a file or a variable."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import time
from typing import Final, Protocol

import msgspec

from ..measure.levels import Level, Threshold, ThresholdBase, ThresholdOp
from ..measure.models import parse_price

_QUIET_HOURS: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")

_MINUTES_PER_HOUR: Final = 60


class QuietHours(msgspec.Struct, frozen=True):
    """Minutes since midnight, local time; the end no longer belongs to it."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"{_format_time_of_day(self.start)}-{_format_time_of_day(self.end)}"

    def contains(self, now: time) -> bool:
        """Whether a time of day is in the quiet hours, which may run past midnight."""
        minute = now.hour * _MINUTES_PER_HOUR + now.minute
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def parse_quiet_hours(text: str) -> QuietHours | None:
    """Read `22:00-07:00`; None where it is something else."""
    found = _QUIET_HOURS.fullmatch(text.strip())
    if found is None:
        return None
    from_hour, from_minute, to_hour, to_minute = map(int, found.groups())
    return QuietHours(
        from_hour * _MINUTES_PER_HOUR + from_minute, to_hour * _MINUTES_PER_HOUR + to_minute
    )


def _format_time_of_day(minute: int) -> str:
    return f"{minute // _MINUTES_PER_HOUR:02}:{minute % _MINUTES_PER_HOUR:02}"


PolicyValue = (
    bool
    | int
    | float
    | str
    | tuple[str, ...]
    | tuple[float, ...]
    | tuple[Threshold, ...]
    | Mapping[str, int]
    | Mapping[str, str]
)

MAX_LIST_ITEMS: Final = 50  # of a list or a table: no window has room for more thresholds
MAX_TEXT_CHARS: Final = 200  # of a text: the longest model's name has 60
MAX_TOKENS: Final = 100_000_000  # a hundred times the largest window that there is
MAX_KEY_CHORDS: Final = 8  # keys of one binding: nobody remembers more
_CHORD: Final = re.compile(r"[!-~]|(?:[a-z]+\+)*(?:[!-+\--~]|[a-z][a-z0-9_]{1,40})")

THRESHOLD_ACTIONS: Final = (
    "reassure",
    "inform",
    "suggest",
    "warn",
    "offer_compact",
    "compact",
    "native",
    "alert",
    "recover",
)

_DEFAULT_ACTIONS: Final = {
    Level.NOTICE: "reassure",
    Level.WARNING: "suggest",
    Level.LIGHT: "compact",
    Level.MEDIUM: "compact",
    Level.HIGH: "offer_compact",
    Level.AGGRESSIVE: "compact",
    Level.EMERGENCY: "alert",
    Level.OVERFLOW: "recover",
}


class InvalidValueError(ValueError):
    """A value that its key does not take; the message says which ones it does."""


class ValueType(Protocol):
    """What a key takes."""

    def parse(self, raw: object) -> PolicyValue:
        """Read a file's value, or the words of a variable; raises InvalidValueError."""
        raise NotImplementedError


class BoolType(msgspec.Struct, frozen=True):
    """Yes or no."""

    def parse(self, raw: object) -> bool:
        """Read it."""
        found = raw if isinstance(raw, bool) else _BOOL_WORDS.get(str(raw).lower())
        if found is None:
            raise InvalidValueError("true or false")
        return found


_BOOL_WORDS: Final = {"true": True, "on": True, "yes": True, "1": True} | {
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


class IntType(msgspec.Struct, frozen=True):
    """A whole number within bounds, or a word that stands for none."""

    least: int
    most: int
    none_word: str = ""

    def parse(self, raw: object) -> int | str:
        """Read it."""
        if self.none_word and raw == self.none_word:
            return self.none_word
        number = _parse_number(raw)
        if number is None or number != int(number) or not self.least <= number <= self.most:
            raise InvalidValueError(
                f"a whole number from {self.least} to {self.most}" + _or_word(self.none_word)
            )
        return int(number)


class FloatType(msgspec.Struct, frozen=True):
    """A number within bounds, or a word that stands for none."""

    least: float
    most: float
    none_word: str = ""

    def parse(self, raw: object) -> float | str:
        """Read it."""
        if self.none_word and raw == self.none_word:
            return self.none_word
        number = _parse_number(raw)
        if number is None or not self.least <= number <= self.most:
            raise InvalidValueError(
                f"a number from {self.least:g} to {self.most:g}" + _or_word(self.none_word)
            )
        return number


class TextType(msgspec.Struct, frozen=True):
    """Any words on one line."""

    def parse(self, raw: object) -> str:
        """Read it."""
        if not isinstance(raw, str) or not raw.strip() or len(raw) > MAX_TEXT_CHARS:
            raise InvalidValueError(f"a text of 1 to {MAX_TEXT_CHARS} characters")
        return raw


class QuietHoursType(msgspec.Struct, frozen=True):
    """Two times of the day, or a word that stands for none."""

    none_word: str

    def parse(self, raw: object) -> str:
        """Read them; written the same way whoever said them."""
        if raw == self.none_word:
            return self.none_word
        found = parse_quiet_hours(raw) if isinstance(raw, str) else None
        if found is None:
            raise InvalidValueError(
                f"two times of the day, e.g. 22:00-07:00, or {self.none_word!r}"
            )
        return str(found)


class KeyChordsType(msgspec.Struct, frozen=True):
    """Keys of the keyboard, as Textual names them: o, ctrl+o, f5, question_mark."""

    def parse(self, raw: object) -> str:
        """Read a list, or words with commas between them."""
        keys = tuple(str(each).strip() for each in _list_items(raw))
        if not 0 < len(keys) <= MAX_KEY_CHORDS or not all(_CHORD.fullmatch(key) for key in keys):
            raise InvalidValueError(f"1 to {MAX_KEY_CHORDS} keys, e.g. o, ctrl+o")
        return ",".join(keys)


class ChoiceType(msgspec.Struct, frozen=True):
    """One of some words."""

    choices: tuple[str, ...]

    def parse(self, raw: object) -> str:
        """Read it."""
        if not isinstance(raw, str) or raw not in self.choices:
            raise InvalidValueError(f"one of {', '.join(self.choices)}")
        return raw


class ChoiceListType(msgspec.Struct, frozen=True):
    """Some of some words, each once, in an order that may matter."""

    choices: tuple[str, ...]

    def parse(self, raw: object) -> tuple[str, ...]:
        """Read it."""
        items = tuple(str(each) for each in _list_items(raw))
        if len(set(items)) != len(items) or not set(items) <= set(self.choices):
            raise InvalidValueError(f"a list of {', '.join(self.choices)}, each once")
        return items


class RatioRangeType(msgspec.Struct, frozen=True):
    """Two ratios, the lower one first."""

    def parse(self, raw: object) -> tuple[float, ...]:
        """Read it."""
        numbers = tuple(n for each in _list_items(raw) if (n := _parse_number(each)) is not None)
        if len(numbers) != len(_list_items(raw)) or len(numbers) != 2:
            raise InvalidValueError("two ratios, e.g. 0.5, 0.7")
        if not 0 <= numbers[0] <= numbers[1] <= 1:
            raise InvalidValueError("two ratios from 0 to 1, the lower one first")
        return numbers


class TokensByModelType(msgspec.Struct, frozen=True):
    """Tokens by model: a table, or model=tokens with commas."""

    def parse(self, raw: object) -> dict[str, int]:
        """Read it."""
        pairs = _table_items(raw, "a table of models and tokens, e.g. claude-opus-5=200000")
        tokens = IntType(1, MAX_TOKENS)
        return {name: int(tokens.parse(size)) for name, size in pairs}


class PricesByModelType(msgspec.Struct, frozen=True):
    """Dollars for a million tokens by the beginning of a model's name."""

    def parse(self, raw: object) -> dict[str, str]:
        """Read it."""
        found = {name: str(price).strip() for name, price in _table_items(raw, _PRICES_EXPECTED)}
        try:
            for price in found.values():
                parse_price(price)
        except ValueError:
            raise InvalidValueError(_PRICES_EXPECTED) from None
        return found


_PRICES_EXPECTED: Final = (
    "a table of models and dollars for a million tokens: input/output, or"
    " input/output/cache write/for an hour/cache read, e.g. claude-opus-5=5/25"
)


def _table_items(said: object, allowed: str) -> list[tuple[str, object]]:
    """Split a table, or comma-separated name=value pairs, into pairs."""
    if isinstance(said, str):
        named = [str(each).rpartition("=") for each in _list_items(said)]
        pairs: list[tuple[object, object]] = [(name, value) for name, _, value in named]
    else:
        pairs = list(said.items()) if isinstance(said, Mapping) else [("", "")]
    if len(pairs) > MAX_LIST_ITEMS or any(not str(name).strip() for name, _ in pairs):
        raise InvalidValueError(allowed)
    return [(str(name).strip(), value) for name, value in pairs]


class ChoiceByNameType(msgspec.Struct, frozen=True):
    """One of some words by name: a table, or name=word with commas."""

    choices: tuple[str, ...]

    def parse(self, raw: object) -> dict[str, str]:
        """Read it."""
        pairs = _table_items(raw, f"a table of names and {' or '.join(self.choices)}")
        word = ChoiceType(self.choices)
        return {name: word.parse(each) for name, each in pairs}


class ThresholdListType(msgspec.Struct, frozen=True):
    """A list of tables, or of words like 0.8:warning, >0.9:high:compact, 1.0@trigger:high."""

    def parse(self, raw: object) -> tuple[Threshold, ...]:
        """Read it."""
        found = tuple(_parse_threshold(each) for each in _list_items(raw))
        if len({each.name for each in found}) != len(found):
            raise InvalidValueError("a list of thresholds, each once")
        return found


_THRESHOLD_FIELDS: Final = frozenset({"at", "level", "action", "op", "of"})
_THRESHOLDS_EXPECTED: Final = (
    "a list of thresholds, e.g. 0.8:warning or { at = 0.8, level = 'warning' }; levels are "
    + ", ".join(Level)
)


def _parse_threshold(said: object) -> Threshold:
    told = _split_threshold(said) if isinstance(said, str) else said
    if not isinstance(told, Mapping) or not set(told) <= _THRESHOLD_FIELDS:
        raise InvalidValueError(_THRESHOLDS_EXPECTED)
    at = _parse_number(told.get("at"))
    try:
        level, of = (
            Level(told.get("level", "")),
            ThresholdBase(told.get("of", ThresholdBase.WINDOW)),
        )
        op = ThresholdOp(told.get("op", ThresholdOp.AT_LEAST))
    except ValueError:
        raise InvalidValueError(_THRESHOLDS_EXPECTED) from None
    most = MAX_TOKENS if of is ThresholdBase.TOKENS else 2
    if at is None or not 0 < at <= most:
        raise InvalidValueError(f"thresholds above 0 and up to {most} of the {of}")
    action = told.get("action", _DEFAULT_ACTIONS[level])
    if action not in THRESHOLD_ACTIONS:
        raise InvalidValueError(f"thresholds whose action is one of {', '.join(THRESHOLD_ACTIONS)}")
    return Threshold(at, level, action, op, of)


def _split_threshold(word: str) -> dict[str, object]:
    where, *said = (part.strip() for part in word.split(":"))
    number, _, base = where.lstrip(">= ").partition("@")
    told: dict[str, object] = {"at": number.strip()}
    if where.startswith(">") and not where.startswith(">="):
        told["op"] = ThresholdOp.ABOVE.value
    if base:
        told["of"] = base.strip()
    names = ("level", "action")
    if len(said) > len(names):
        raise InvalidValueError(_THRESHOLDS_EXPECTED)
    return told | dict(zip(names, said, strict=False))


def _list_items(said: object) -> Sequence[object]:
    if isinstance(said, str):
        items: Sequence[object] = [each.strip() for each in said.split(",") if each.strip()]
    elif isinstance(said, (list, tuple)):
        items = said
    else:
        raise InvalidValueError("a list")
    if len(items) > MAX_LIST_ITEMS:
        raise InvalidValueError(f"a list of at most {MAX_LIST_ITEMS}")
    return items


def _parse_number(said: object) -> float | None:
    """Read a number; a word may be one, as variables have nothing else."""
    if isinstance(said, bool):
        return None
    if isinstance(said, str):
        try:
            said = float(said)
        except ValueError:
            return None
    if not isinstance(said, (int, float)):
        return None
    # Before it becomes a float: a TOML integer has no bound.
    return float(said) if abs(said) <= MAX_TOKENS and math.isfinite(said) else None


def _or_word(word: str) -> str:
    return f" or {word!r}" if word else ""


def to_json_value(value: PolicyValue) -> object:
    """Convert a value to the types of JSON and TOML."""
    if isinstance(value, tuple):
        return [msgspec.to_builtins(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def format_value(value: PolicyValue) -> str:
    """Write a value for a person, as a variable takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(format_threshold(e) if isinstance(e, Threshold) else str(e) for e in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={size}" for name, size in value.items())
    return str(value)


def format_threshold(threshold: Threshold) -> str:
    """Write a threshold as a variable takes it, and a file's list as well."""
    return f"{threshold.name}:{threshold.level}:{threshold.action}"
