"""Times as programs read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND_MS: Final = 1_000


def time_of(at_ms: int | None) -> str | None:
    """Write milliseconds since 1970 as ISO 8601 in UTC."""
    if at_ms is None:
        return None
    second, millisecond = divmod(at_ms, _SECOND_MS)
    moment = _to_the_second(second)
    return None if moment is None else f"{moment}.{millisecond:03d}Z"


@lru_cache(maxsize=4_096)  # what happened together is listed together
def _to_the_second(second: int) -> str | None:
    try:
        return (_EPOCH + timedelta(seconds=second)).isoformat()[:19]
    except OverflowError:
        return None
