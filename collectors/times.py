"""The client's times."""

from __future__ import annotations

from datetime import UTC, datetime


def to_ms(timestamp: str | None) -> int | None:
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
