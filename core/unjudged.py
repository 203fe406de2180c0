"""Which contexts have grown since they were judged, and are full enough to matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from .store import warning_queries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from .policy.layers import Policies
    from .store.warning_queries import HotRow

AT_ONCE: Final = 200
"""Sessions judged in one transaction: a live commit of another ctxtop waits for no more."""


class Batch(msgspec.Struct, frozen=True):
    """What one transaction is to judge: the contexts of some sessions."""

    sessions: frozenset[str]
    contexts: frozenset[tuple[str, str | None]]
    files: tuple[tuple[int, int], ...]
    """Numbers, and how far each was read."""


def batches(
    db: sqlite3.Connection, policies: Policies, only: Iterable[str] | None = None
) -> list[Batch]:
    """Find what has grown since it was judged and is full enough to have reached a line.

    In all sessions, or in those named.
    """
    floors = [policy.lowest_threshold_tokens for policy in policies.all]
    known = [floor for floor in floors if floor is not None]
    if not known:
        return []
    by_session: dict[str, list[HotRow]] = {}
    for row in warning_queries.hot(db, min(known), only):
        by_session.setdefault(row.session_id, []).append(row)
    ids = sorted(by_session)
    return [
        _batch([row for each in ids[start : start + AT_ONCE] for row in by_session[each]])
        for start in range(0, len(ids), AT_ONCE)
    ]


def _batch(rows: Sequence[HotRow]) -> Batch:
    return Batch(
        frozenset(row.session_id for row in rows),
        frozenset((row.session_id, row.agent_id) for row in rows),
        tuple(sorted({(row.file_id, row.size) for row in rows})),
    )
