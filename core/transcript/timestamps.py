"""Converts Claude Code's timestamps to milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_TIMESTAMP_CHARS: Final = len("2026-11-20T10:00:00.000Z")


def timestamp_to_ms(timestamp: str | None) -> int | None:
    """Turn the client's ISO 8601 time into milliseconds since 1970, or None."""
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


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
    if None in moments or any(
        len(stamp) != _TIMESTAMP_CHARS or stamp[-1] != "Z" for stamp in timestamps
    ):
        # Only times that are all written in the client's own way sort as text does.
        moments = [moment for stamp in timestamps if (moment := timestamp_to_ms(stamp)) is not None]
    known = [moment for moment in moments if moment is not None]
    return (known[0], min(known), max(known)) if known else (None, None, None)
