"""What the settings ask of the archive, and which sessions are due."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ..measure.retention import DAY_MS, deletion_time
from ..policy.policy import Policy
from ..store.queries.archive_queries import ArchivableRow
from .archive_index import ArchiveLimits
from .archive_mode import ArchiveMode

MIB: Final = 1 << 20
MIN_MARGIN_MS: Final = 3 * DAY_MS
"""Before a deletion a session is archived, or a quarter of the period before it: ctxtop does not
run every day."""

SETTLED_MS: Final = 3600 * 1000  # not written to for so long: the client touches open ones hourly


class ArchiveSettings(msgspec.Struct, frozen=True):
    mode: ArchiveMode
    limits: ArchiveLimits


def read_archive_settings(policy: Policy) -> ArchiveSettings:
    """Read them from the policy of all projects: only the person sets them."""
    keep_days = policy.count("archive.keep_days")
    return ArchiveSettings(
        ArchiveMode(policy.text("archive.mode")),
        ArchiveLimits(
            max_bytes=policy.count("archive.max_size") * MIB,
            keep_ms=keep_days * DAY_MS if keep_days else None,
        ),
    )


def due_sessions(sessions: Iterable[ArchivableRow], days: int, now_ms: int) -> list[ArchivableRow]:
    """Return the sessions that Claude Code will delete soon, the next one first."""
    margin = max(MIN_MARGIN_MS, days * DAY_MS // 4)
    due = [
        each
        for each in sessions
        if deletion_time(each.mtime_ns, days) - now_ms <= margin
        and now_ms - each.mtime_ns // 1_000_000 >= SETTLED_MS
    ]
    return sorted(due, key=lambda each: each.mtime_ns)
