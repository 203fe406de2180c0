"""Times as programs read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(at_ms: int | None) -> str | None:
    """Write milliseconds since 1970 as ISO 8601 in UTC."""
    if at_ms is None:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return None
    return f"{moment.isoformat(timespec='milliseconds')[:-6]}Z"
