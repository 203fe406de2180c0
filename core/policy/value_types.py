"""The types of policy values: how each is parsed from a file or a variable, and formatted.

A parser takes a file's value, or the text of a variable, and raises InvalidValueError. Functions
that have parameters (a range, the choices) return a parser.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import time
from typing import Any, Final

import msgspec

from ..lazy_pattern import lazy_pattern
from ..model.claude_models import parse_price
from ..model.context_window import OUTPUT_RESERVE, TRIGGER_BUFFER
from ..model.levels import Threshold

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
Parser = Callable[[object], PolicyValue]

MAX_LIST_ITEMS: Final = 50  # of a list or a table: no window has room for more thresholds
MAX_TEXT_CHARS: Final = 200  # of a text: the longest model's name has 60
MAX_TOKENS: Final = 100_000_000  # a hundred times the largest window that there is
MAX_KEY_CHORDS: Final = 8  # keys of one binding: nobody remembers more


class InvalidValueError(ValueError):
    """A value that its key does not take; the message says which ones it does."""


class PartlyValidError(InvalidValueError):
    """A list that forbids things, with names in it that mean nothing here."""

    def __init__(self, expected: str, unclear: str, safe: tuple[str, ...]) -> None:
        super().__init__(expected)
        self.unclear: Final = unclear  # the part that is not valid
        self.safe: Final = safe  # what applies: the known names, and what the others may mean


def boolean(raw: object) -> bool:
    word = str(raw).lower()
    if word not in {"true", "on", "yes", "1", "false", "off", "no", "0"}:
        raise InvalidValueError("true or false")
    return word in {"true", "on", "yes", "1"}


def integer(least: int, most: int, none_word: str = "") -> Callable[[object], float | str]:
    """Parse whole numbers in a range; `none_word` is also accepted and means no number."""
    return _number_parser(int, f"a whole number from {least} to {most}", least, most, none_word)


def number(least: float, most: float, none_word: str = "") -> Callable[[object], float | str]:
    """Parse numbers in a range; `none_word` is also accepted and means no number.

    Where 1 is the most it is a share, which may also be written as a percentage.
    """
    return _number_parser(float, f"a number from {least:g} to {most:g}", least, most, none_word)


def _number_parser(
    kind: type[int | float], expected: str, least: float, most: float, none_word: str
) -> Callable[[object], float | str]:
    def parse(raw: object) -> float | str:
        if none_word and raw == none_word:
            return none_word
        value = to_share(raw) if kind is float and most == 1 else to_number(raw)
        if value is None or value != kind(value) or not least <= value <= most:
            raise InvalidValueError(f"{expected} or {none_word!r}" if none_word else expected)
        return kind(value)

    return parse


def text(raw: object) -> str:
    if not isinstance(raw, str) or not raw.strip() or len(raw) > MAX_TEXT_CHARS:
        raise InvalidValueError(f"text of 1 to {MAX_TEXT_CHARS} characters")
    return raw


def choice(*choices: str) -> Callable[[object], str]:
    """Parse one of these words."""

    def parse(raw: object) -> str:
        if not isinstance(raw, str) or raw not in choices:
            raise InvalidValueError(f"one of {', '.join(choices)}")
        return raw

    return parse


def choice_list(*choices: str) -> Parser:
    """Parse a list of some words, each at most once, in an order that may matter."""

    def parse(raw: object) -> tuple[str, ...]:
        items = tuple(str(each) for each in list_items(raw))
        if len(set(items)) != len(items) or not set(items) <= set(choices):
            raise InvalidValueError(f"a list of {', '.join(choices)}, each once")
        return items

    return parse


def forbidden_list(
    choices: Sequence[str], if_unclear: Sequence[str], aliases: Mapping[str, str]
) -> Parser:
    """Parse a list of what a person forbids; `aliases` are other names of some choices.

    A name that is unknown allows nothing that was forbidden: the error holds the known names,
    and `if_unclear` with them.
    """

    def parse(raw: object) -> tuple[str, ...]:
        items = _split(raw)
        names = [aliases.get(str(each), str(each)) for each in items or ()]
        known = dict.fromkeys(name for name in names if name in choices)
        unknown = [name for name in names if name not in choices]
        if items is None or unknown or len(items) > MAX_LIST_ITEMS:
            raise PartlyValidError(
                f"a list of {', '.join(choices)}",
                ", ".join(unknown) or str(raw),
                tuple(dict.fromkeys((*known, *if_unclear))),
            )
        return tuple(known)

    return parse


def ratio_range(raw: object) -> tuple[float, ...]:
    """Parse two ratios, the lower one first."""
    items = list_items(raw)
    ratios = tuple(ratio for each in items if (ratio := to_share(each)) is not None)
    if len(ratios) != len(items) or len(ratios) != 2:
        raise InvalidValueError("two ratios, e.g. 0.5, 0.7")
    if not 0 <= ratios[0] <= ratios[1] <= 1:
        raise InvalidValueError("two ratios from 0 to 1, the lower one first")
    return ratios


def ratio_list(raw: object) -> tuple[float, ...]:
    """Parse ratios above 0; returns each once, rising. An empty list is none."""
    items = list_items(raw)
    ratios = {ratio for each in items if (ratio := to_share(each)) is not None and 0 < ratio <= 1}
    if len(ratios) != len(items):
        raise InvalidValueError("ratios above 0 and up to 1, each once, e.g. 0.8, 0.95")
    return tuple(sorted(ratios))


def _table_of(parse_value: Parser, expected: str) -> Callable[[object], dict[str, Any]]:
    """Parse a table, or name=value with commas; `expected` describes it in an error."""

    def parse(raw: object) -> dict[str, Any]:
        return {name: parse_value(value) for name, value in _table_items(raw, expected)}

    return parse


def choice_by_name(*choices: str) -> Parser:
    """Parse a table of names and one of these words each."""
    return _table_of(choice(*choices), f"a table of names and {' or '.join(choices)}")


MIN_WINDOW_OVERRIDE: Final = OUTPUT_RESERVE + TRIGGER_BUFFER + 1
"""In tokens. The client keeps the rest free: a smaller window has no room for a conversation."""

windows_by_model: Final = _table_of(
    integer(MIN_WINDOW_OVERRIDE, MAX_TOKENS),
    "a table of models and tokens, e.g. claude-opus-5=200000",
)

_PRICES_EXPECTED: Final = (
    "a table of models and dollars per million tokens: input/output, or"
    " input/output/cache write/1-hour cache write/cache read, e.g. claude-opus-5=5/25"
)


def _price(raw: object) -> str:
    price = str(raw).strip()
    try:
        parse_price(price)
    except ValueError:
        raise InvalidValueError(_PRICES_EXPECTED) from None
    return price


prices_by_model: Final = _table_of(_price, _PRICES_EXPECTED)  # by the beginning of a model's name

_CHORD: Final = lazy_pattern(r"[!-~]|(?:[a-z]+\+)*(?:[!-+\--~]|[a-z][a-z0-9_]{1,40})")


def key_chords(raw: object) -> str:
    """Parse keys of the keyboard, as Textual names them: o, ctrl+o, f5, question_mark."""
    keys = tuple(str(each).strip() for each in list_items(raw))
    if not 0 < len(keys) <= MAX_KEY_CHORDS or not all(_CHORD.fullmatch(key) for key in keys):
        raise InvalidValueError(f"1 to {MAX_KEY_CHORDS} keys, e.g. o, ctrl+o")
    return ",".join(keys)


class QuietHours(msgspec.Struct, frozen=True):
    """Minutes since midnight, local time; the end itself is not quiet."""

    start: int
    end: int

    def __str__(self) -> str:
        return "-".join(f"{each // 60:02}:{each % 60:02}" for each in (self.start, self.end))

    def contains(self, now: time) -> bool:
        """Whether a time of day is in the quiet hours, which may run past midnight."""
        minute = now.hour * 60 + now.minute
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


_QUIET_HOURS: Final = lazy_pattern(r"([01]?\d|2[0-3]):([0-5]\d)\s*-\s*([01]?\d|2[0-3]):([0-5]\d)")


def parse_quiet_hours(text: str) -> QuietHours | None:
    """Parse `22:00-07:00`; None if it is something else."""
    match = _QUIET_HOURS.fullmatch(text.strip())
    if match is None:
        return None
    from_hour, from_minute, to_hour, to_minute = map(int, match.groups())
    return QuietHours(from_hour * 60 + from_minute, to_hour * 60 + to_minute)


def quiet_hours(none_word: str) -> Callable[[object], str]:
    """Parse two times of the day, or the word for none, and return them in one format."""

    def parse(raw: object) -> str:
        if raw == none_word:
            return none_word
        hours = parse_quiet_hours(raw) if isinstance(raw, str) else None
        if hours is None:
            raise InvalidValueError(f"two times of day, e.g. 22:00-07:00, or {none_word!r}")
        return str(hours)

    return parse


def _table_items(raw: object, expected: str) -> list[tuple[str, object]]:
    """Split a table, or comma-separated name=value pairs, into pairs."""
    if isinstance(raw, str):
        parts = [str(each).rpartition("=") for each in list_items(raw)]
        pairs: list[tuple[object, object]] = [(name, value) for name, _, value in parts]
    else:
        pairs = list(raw.items()) if isinstance(raw, Mapping) else [("", "")]
    if len(pairs) > MAX_LIST_ITEMS or any(not str(name).strip() for name, _ in pairs):
        raise InvalidValueError(expected)
    return [(str(name).strip(), value) for name, value in pairs]


def list_items(raw: object) -> Sequence[object]:
    """Split a list, or comma-separated text; raises InvalidValueError."""
    items = _split(raw)
    if items is None:
        raise InvalidValueError("a list")
    if len(items) > MAX_LIST_ITEMS:
        raise InvalidValueError(f"a list of at most {MAX_LIST_ITEMS}")
    return items


def _split(raw: object) -> Sequence[object] | None:
    """Split a list, or comma-separated text; None if it is neither."""
    if isinstance(raw, str):
        return [each.strip() for each in raw.split(",") if each.strip()]
    return raw if isinstance(raw, (list, tuple)) else None


def to_number(raw: object) -> float | None:
    """Convert a number, or a text with one: variables have nothing else."""
    if isinstance(raw, bool):
        return None
    if isinstance(raw, str):
        try:
            raw = float(raw)
        except ValueError:
            return None
    if not isinstance(raw, (int, float)):
        return None
    # Before it becomes a float: a TOML integer has no bound.
    return float(raw) if abs(raw) <= MAX_TOKENS and math.isfinite(raw) else None


def to_share(raw: object) -> float | None:
    """Convert 0.6, "0.6" or "60%"; None if it is something else."""
    if isinstance(raw, str) and raw.rstrip().endswith("%"):
        percent = to_number(raw.rstrip().removesuffix("%"))
        return None if percent is None else percent / 100
    return to_number(raw)


def to_json_value(value: PolicyValue) -> object:
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
