"""What a value of the policy may be, and how it is read from a file's value or from a word."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from ..levels import Base, Level, Op, Threshold
from ..prices import parse_price
from ..quiet_hours import read_hours

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = (
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

MOST_ITEMS: Final = 50
"""Of a list or a table: no window has room for more thresholds."""

TEXT_CHARS: Final = 200
"""Of a text: the longest model's name has 60."""

MOST_TOKENS: Final = 100_000_000
"""A hundred times the largest window that there is."""

MOST_CHORDS: Final = 8
"""Keys of one binding: nobody remembers more."""

_CHORD: Final = re.compile(r"[!-~]|(?:[a-z]+\+)*(?:[!-+\--~]|[a-z][a-z0-9_]{1,40})")

ACTIONS: Final = (
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

_USUAL_ACTIONS: Final = {
    Level.NOTICE: "reassure",
    Level.WARNING: "suggest",
    Level.LIGHT: "compact",
    Level.MEDIUM: "compact",
    Level.HIGH: "offer_compact",
    Level.AGGRESSIVE: "compact",
    Level.EMERGENCY: "alert",
    Level.OVERFLOW: "recover",
}


class BadValueError(ValueError):
    """A value that its key does not take; the message says which ones it does."""


class Kind(Protocol):
    """What a key takes."""

    def parse(self, raw: object) -> Value:
        """Read a file's value, or the words of a variable; raises BadValueError."""
        raise NotImplementedError


class Flag(msgspec.Struct, frozen=True):
    """Yes or no."""

    def parse(self, raw: object) -> bool:
        """Read it."""
        found = raw if isinstance(raw, bool) else _FLAGS.get(str(raw).lower())
        if found is None:
            raise BadValueError("true or false")
        return found


_FLAGS: Final = {"true": True, "on": True, "yes": True, "1": True} | {
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


class Whole(msgspec.Struct, frozen=True):
    """A whole number within bounds, or a word that stands for none."""

    least: int
    most: int
    none_word: str = ""

    def parse(self, raw: object) -> int | str:
        """Read it."""
        if self.none_word and raw == self.none_word:
            return self.none_word
        number = _number(raw)
        if number is None or number != int(number) or not self.least <= number <= self.most:
            raise BadValueError(
                f"a whole number from {self.least} to {self.most}" + _or(self.none_word)
            )
        return int(number)


class Number(msgspec.Struct, frozen=True):
    """A number within bounds, or a word that stands for none."""

    least: float
    most: float
    none_word: str = ""

    def parse(self, raw: object) -> float | str:
        """Read it."""
        if self.none_word and raw == self.none_word:
            return self.none_word
        number = _number(raw)
        if number is None or not self.least <= number <= self.most:
            raise BadValueError(
                f"a number from {self.least:g} to {self.most:g}" + _or(self.none_word)
            )
        return number


class Text(msgspec.Struct, frozen=True):
    """Any words on one line."""

    def parse(self, raw: object) -> str:
        """Read it."""
        if not isinstance(raw, str) or not raw.strip() or len(raw) > TEXT_CHARS:
            raise BadValueError(f"a text of 1 to {TEXT_CHARS} characters")
        return raw


class Hours(msgspec.Struct, frozen=True):
    """Two times of the day, or a word that stands for none."""

    none_word: str

    def parse(self, raw: object) -> str:
        """Read them; written the same way whoever said them."""
        if raw == self.none_word:
            return self.none_word
        found = read_hours(raw) if isinstance(raw, str) else None
        if found is None:
            raise BadValueError(f"two times of the day, e.g. 22:00-07:00, or {self.none_word!r}")
        return str(found)


class Chords(msgspec.Struct, frozen=True):
    """Keys of the keyboard, as Textual names them: o, ctrl+o, f5, question_mark."""

    def parse(self, raw: object) -> str:
        """Read a list, or words with commas between them."""
        keys = tuple(str(each).strip() for each in _items(raw))
        if not 0 < len(keys) <= MOST_CHORDS or not all(_CHORD.fullmatch(key) for key in keys):
            raise BadValueError(f"1 to {MOST_CHORDS} keys, e.g. o, ctrl+o")
        return ",".join(keys)


class Word(msgspec.Struct, frozen=True):
    """One of some words."""

    choices: tuple[str, ...]

    def parse(self, raw: object) -> str:
        """Read it."""
        if not isinstance(raw, str) or raw not in self.choices:
            raise BadValueError(f"one of {', '.join(self.choices)}")
        return raw


class Words(msgspec.Struct, frozen=True):
    """Some of some words, each once, in an order that may matter."""

    choices: tuple[str, ...]

    def parse(self, raw: object) -> tuple[str, ...]:
        """Read it."""
        items = tuple(str(each) for each in _items(raw))
        if len(set(items)) != len(items) or not set(items) <= set(self.choices):
            raise BadValueError(f"a list of {', '.join(self.choices)}, each once")
        return items


class Span(msgspec.Struct, frozen=True):
    """Two ratios, the lower one first."""

    def parse(self, raw: object) -> tuple[float, ...]:
        """Read it."""
        numbers = tuple(n for each in _items(raw) if (n := _number(each)) is not None)
        if len(numbers) != len(_items(raw)) or len(numbers) != 2:
            raise BadValueError("two ratios, e.g. 0.5, 0.7")
        if not 0 <= numbers[0] <= numbers[1] <= 1:
            raise BadValueError("two ratios from 0 to 1, the lower one first")
        return numbers


class Sizes(msgspec.Struct, frozen=True):
    """Tokens by model: a table, or model=tokens with commas."""

    def parse(self, raw: object) -> dict[str, int]:
        """Read it."""
        pairs = _pairs(raw, "a table of models and tokens, e.g. claude-opus-5=200000")
        tokens = Whole(1, MOST_TOKENS)
        return {name: int(tokens.parse(size)) for name, size in pairs}


class Prices(msgspec.Struct, frozen=True):
    """Dollars for a million tokens by the beginning of a model's name."""

    def parse(self, raw: object) -> dict[str, str]:
        """Read it."""
        found = {name: str(price).strip() for name, price in _pairs(raw, _PRICES)}
        try:
            for price in found.values():
                parse_price(price)
        except ValueError:
            raise BadValueError(_PRICES) from None
        return found


_PRICES: Final = (
    "a table of models and dollars for a million tokens: input/output, or"
    " input/output/cache write/for an hour/cache read, e.g. claude-opus-5=5/25"
)


def _pairs(said: object, allowed: str) -> list[tuple[str, object]]:
    """Take a table, or name=value with commas, apart."""
    if isinstance(said, str):
        named = [str(each).rpartition("=") for each in _items(said)]
        pairs: list[tuple[object, object]] = [(name, value) for name, _, value in named]
    else:
        pairs = list(said.items()) if isinstance(said, Mapping) else [("", "")]
    if len(pairs) > MOST_ITEMS or any(not str(name).strip() for name, _ in pairs):
        raise BadValueError(allowed)
    return [(str(name).strip(), value) for name, value in pairs]


class Labels(msgspec.Struct, frozen=True):
    """One of some words by name: a table, or name=word with commas."""

    choices: tuple[str, ...]

    def parse(self, raw: object) -> dict[str, str]:
        """Read it."""
        pairs = _pairs(raw, f"a table of names and {' or '.join(self.choices)}")
        word = Word(self.choices)
        return {name: word.parse(each) for name, each in pairs}


class Thresholds(msgspec.Struct, frozen=True):
    """A list of tables, or of words like 0.8:warning, >0.9:high:compact, 1.0@trigger:high."""

    def parse(self, raw: object) -> tuple[Threshold, ...]:
        """Read it."""
        found = tuple(_threshold(each) for each in _items(raw))
        if len({each.name for each in found}) != len(found):
            raise BadValueError("a list of thresholds, each once")
        return found


_FIELDS: Final = frozenset({"at", "level", "action", "op", "of"})
_ALLOWED: Final = (
    "a list of thresholds, e.g. 0.8:warning or { at = 0.8, level = 'warning' }; levels are "
    + ", ".join(Level)
)


def _threshold(said: object) -> Threshold:
    told = _told(said) if isinstance(said, str) else said
    if not isinstance(told, Mapping) or not set(told) <= _FIELDS:
        raise BadValueError(_ALLOWED)
    at = _number(told.get("at"))
    try:
        level, of = Level(told.get("level", "")), Base(told.get("of", Base.WINDOW))
        op = Op(told.get("op", Op.AT_LEAST))
    except ValueError:
        raise BadValueError(_ALLOWED) from None
    most = MOST_TOKENS if of is Base.TOKENS else 2
    if at is None or not 0 < at <= most:
        raise BadValueError(f"thresholds above 0 and up to {most} of the {of}")
    action = told.get("action", _USUAL_ACTIONS[level])
    if action not in ACTIONS:
        raise BadValueError(f"thresholds whose action is one of {', '.join(ACTIONS)}")
    return Threshold(at, level, action, op, of)


def _told(word: str) -> dict[str, object]:
    where, *said = (part.strip() for part in word.split(":"))
    number, _, base = where.lstrip(">= ").partition("@")
    told: dict[str, object] = {"at": number.strip()}
    if where.startswith(">") and not where.startswith(">="):
        told["op"] = Op.ABOVE.value
    if base:
        told["of"] = base.strip()
    names = ("level", "action")
    if len(said) > len(names):
        raise BadValueError(_ALLOWED)
    return told | dict(zip(names, said, strict=False))


def _items(said: object) -> Sequence[object]:
    if isinstance(said, str):
        items: Sequence[object] = [each.strip() for each in said.split(",") if each.strip()]
    elif isinstance(said, (list, tuple)):
        items = said
    else:
        raise BadValueError("a list")
    if len(items) > MOST_ITEMS:
        raise BadValueError(f"a list of at most {MOST_ITEMS}")
    return items


def _number(said: object) -> float | None:
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
    return float(said) if abs(said) <= MOST_TOKENS and math.isfinite(said) else None


def _or(word: str) -> str:
    return f" or {word!r}" if word else ""


def plain(value: Value) -> object:
    """Give a value as JSON and TOML have it."""
    if isinstance(value, tuple):
        return [msgspec.to_builtins(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value


def words(value: Value) -> str:
    """Write a value for a person, as a variable takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(threshold_words(e) if isinstance(e, Threshold) else str(e) for e in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={size}" for name, size in value.items())
    return str(value)


def threshold_words(threshold: Threshold) -> str:
    """Write a threshold as a variable takes it, and a file's list as well."""
    return f"{threshold.name}:{threshold.level}:{threshold.action}"
