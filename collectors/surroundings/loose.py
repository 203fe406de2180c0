"""Picking what is used out of decoded JSON that any version may have written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..clean import clean_title
from ..times import to_ms

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_ITEMS: Final = 100
"""Of a list or an object; the longest that were seen have about 30."""

DEEPEST: Final = 8
"""Levels of an object that is kept whole."""

LONGEST: Final = 8 * 1024
"""Characters of such an object as JSON; a log line of claude-memory has about 600."""

_SECONDS: Final = 1e11
"""Less than this is a time in seconds, more is one in milliseconds: the year 5138, or 1973."""

_LAST_MS: Final = 1 << 53


class BadJsonError(ValueError):
    """Bytes that are no JSON; the message says why, in one line."""


def decode_json(data: bytes) -> Any:  # noqa: ANN401 -- any JSON
    """Decode bytes; raises BadJsonError."""
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise BadJsonError("is not UTF-8") from error
    except RecursionError as error:
        raise BadJsonError("is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise BadJsonError(f"is not JSON: {clean_title(str(error))}") from error


def fields(value: object) -> dict[str, Any]:
    """Give an object's fields; none of what is no object."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Give a list's first items; none of what is no list."""
    return value[:MOST_ITEMS] if isinstance(value, list) else []


def title(value: object) -> str | None:
    """Give a text in one line, or a number as one."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return clean_title(str(value)) or None


def whole(value: object) -> int | None:
    """Give a number without a fraction that the store can hold."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 1 << 63 else None


def number(value: object) -> float | None:
    """Give a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def flag(value: object) -> bool | None:
    """Give a truth value."""
    return value if isinstance(value, bool) else None


def moment(value: object) -> int | None:
    """Give a time as milliseconds since 1970: ISO 8601, seconds or milliseconds."""
    if isinstance(value, str):
        return to_ms(value)
    seen = number(value)
    if seen is None or not 0 <= seen < _LAST_MS:
        return None
    return round(seen * 1000) if seen < _SECONDS else round(seen)


def titles(values: Iterable[object], *keys: str) -> tuple[str, ...]:
    """Give the texts of a list; of an object in it the first of the named fields."""
    found = (_named(value, keys) if isinstance(value, dict) else title(value) for value in values)
    return tuple(each for each in found if each)


def _named(value: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((found for key in keys if (found := title(value.get(key)))), None)


def kept_json(value: object) -> str | None:
    """Encode an object that is kept whole, with its texts cleaned; None where it is too long."""
    text = msgspec.json.encode(_cleaned(value, DEEPEST)).decode()
    return text if len(text) <= LONGEST else None


def _cleaned(value: object, levels: int) -> object:
    if isinstance(value, str):
        return clean_title(value)
    if isinstance(value, (list, dict)) and not levels:
        return None
    if isinstance(value, list):
        return [_cleaned(each, levels - 1) for each in items(value)]
    if isinstance(value, dict):
        some = list(value.items())[:MOST_ITEMS]
        return {clean_title(str(key)): _cleaned(each, levels - 1) for key, each in some}
    if isinstance(value, int) and not isinstance(value, bool):
        return whole(value)
    return value
