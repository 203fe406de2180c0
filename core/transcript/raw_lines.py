"""Raw transcript lines: complete last lines, lone surrogates, short keys, timestamps."""

import json
import re
from datetime import UTC, datetime
from typing import Final

import msgspec

from ..files.digests import blake2b
from ..lazy_pattern import lazy_pattern

KEY_BYTES: Final = 8  # SQLite's largest integer: a million ids collide in 1 of 37 million files


def text_key(text: str) -> int:
    """Return a signed 64-bit key that is the same on every machine."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=KEY_BYTES).digest()
    return int.from_bytes(digest, "big", signed=True)


_ESCAPE: Final = lazy_pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""One escape, or both of a surrogate pair."""


def replace_lone_surrogates(json: str) -> str:
    """Escape U+FFFD in place of each lone surrogate, which strict JSON parsers reject.

    No other byte of the line moves.
    """
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape["lone"] else escape[0], json)


MAX_LINE_BYTES: Final = 64 * 1024 * 1024  # held in memory; the longest line seen has 4.6 MB
LINE_PADDING: Final = b"\0 \t\r"  # a crash can leave NUL bytes (claude-code-formats 1.7)
_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def complete_line_length(data: bytes) -> int:
    """Return how many bytes of a last line are a whole JSON object and its padding in front.

    0 for half a line, and for any other value: `12` may be the beginning of `123`, but no object
    is the beginning of another one.
    """
    line = data.rstrip(LINE_PADDING)
    text = line.lstrip(LINE_PADDING)
    if not (text.startswith(b"{") and text.endswith(b"}")):
        return 0
    return len(line) if _is_object(text) else 0


def _is_object(text: bytes) -> bool:
    try:
        _object.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A lone surrogate or an invalid UTF-8 byte does not keep a line from being read.
        try:
            return isinstance(json.loads(text.decode("utf-8", "replace")), dict)
        except (ValueError, RecursionError):
            return False
    return True


_TIMESTAMP_CHARS: Final = len("2026-11-20T10:00:00.000Z")


def timestamp_to_ms(timestamp: str | None) -> int | None:
    """Convert the client's ISO 8601 time to milliseconds since 1970; None if it is none."""
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def ms_to_timestamp(at_ms: int) -> str:
    """Write milliseconds since 1970 as the client does: 2026-11-20T10:00:00.000Z."""
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_span(timestamps: list[str]) -> tuple[int | None, int | None, int | None]:
    """Return the first, the earliest and the latest of these times, in ms since 1970.

    All are None if no time can be read.
    """
    if not timestamps:
        return None, None, None
    moments = [
        timestamp_to_ms(timestamps[0]),
        timestamp_to_ms(min(timestamps)),
        timestamp_to_ms(max(timestamps)),
    ]
    ends = "".join(timestamps)[_TIMESTAMP_CHARS - 1 :: _TIMESTAMP_CHARS]
    is_usual = set(map(len, timestamps)) == {_TIMESTAMP_CHARS} and set(ends) == {"Z"}
    if None in moments or not is_usual:
        # Only times in the client's own format sort as text does.
        moments = list(map(timestamp_to_ms, timestamps))
    known = [moment for moment in moments if moment is not None]
    return (known[0], min(known), max(known)) if known else (None, None, None)
