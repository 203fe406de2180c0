"""Reads single values from JSON of any client version; a value of another type is missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from ....core.transcript.raw_lines import timestamp_to_ms
from ....core.transcript.sanitize import sanitize_title

MAX_JSON_ITEMS: Final = 100
"""Of a list or an object; the longest that were seen have about 30."""

MAX_JSON_DEPTH: Final = 8
"""Levels of an object that is kept whole."""

MAX_JSON_CHARS: Final = 8 * 1024
"""Characters of such an object as JSON; a log line of claude-memory has about 600."""

_MAX_SECONDS: Final = 1e11
"""Less than this is a time in seconds, more is one in milliseconds: the year 5138, or 1973."""

_MAX_MS: Final = 1 << 53


class InvalidJsonError(ValueError):
    """Bytes that are no JSON; the message says why, in one line."""


def decode_json(data: bytes) -> Any:  # noqa: ANN401 -- any JSON
    """Decode bytes; raises InvalidJsonError."""
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except UnicodeDecodeError as error:
        raise InvalidJsonError("is not UTF-8") from error
    except RecursionError as error:
        raise InvalidJsonError("is nested too deeply") from error
    except msgspec.DecodeError as error:
        raise InvalidJsonError(f"is not JSON: {sanitize_title(str(error))}") from error


def as_object(value: object) -> dict[str, Any]:
    """Return a dict as it is; {} for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """Return a list's first `MAX_JSON_ITEMS` items; [] for anything else."""
    return value[:MAX_JSON_ITEMS] if isinstance(value, list) else []


def as_title(value: object) -> str | None:
    """Return a text or a number as one sanitized line; None for anything else or a blank."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return sanitize_title(str(value)) or None


def as_int(value: object) -> int | None:
    """Return an integer that fits the store's 64 bits; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < 1 << 63 else None


def as_float(value: object) -> float | None:
    """Return a number as a float; None for anything else, including a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def as_bool(value: object) -> bool | None:
    """Return a bool as it is; None for anything else."""
    return value if isinstance(value, bool) else None


def as_ms(value: object) -> int | None:
    """Return a time as ms since 1970; accepts ISO 8601, seconds and milliseconds."""
    if isinstance(value, str):
        return timestamp_to_ms(value)
    seen = as_float(value)
    if seen is None or not 0 <= seen < _MAX_MS:
        return None
    return round(seen * 1000) if seen < _MAX_SECONDS else round(seen)


def as_titles(values: Iterable[object], *keys: str) -> tuple[str, ...]:
    """Return the titles among the values; for an object, the first of its `keys` that has one."""
    found = (
        _first_title(value, keys) if isinstance(value, dict) else as_title(value)
        for value in values
    )
    return tuple(each for each in found if each)


def _first_title(value: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((found for key in keys if (found := as_title(value.get(key)))), None)


def encode_bounded(value: object) -> str | None:
    """Encode an object that is kept whole, with its texts cleaned; None where it is too long."""
    text = msgspec.json.encode(_sanitized(value, MAX_JSON_DEPTH)).decode()
    return text if len(text) <= MAX_JSON_CHARS else None


def _sanitized(value: object, levels: int) -> object:
    if isinstance(value, str):
        return sanitize_title(value)
    if isinstance(value, (list, dict)) and not levels:
        return None
    if isinstance(value, list):
        return [_sanitized(each, levels - 1) for each in as_list(value)]
    if isinstance(value, dict):
        some = list(value.items())[:MAX_JSON_ITEMS]
        return {sanitize_title(str(key)): _sanitized(each, levels - 1) for key, each in some}
    if isinstance(value, int) and not isinstance(value, bool):
        return as_int(value)
    return value
