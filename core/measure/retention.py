"""When Claude Code will delete a session's files: its sweep goes by their age alone.

Seen in client 2.1.329: once a day, five seconds after a start, it deletes transcripts that were
last written more than `cleanupPeriodDays` ago, each with all in its folder. What is in a transcript
does not count, nor in which project: the client that sweeps applies its own settings to all.
"""

from collections.abc import Iterable
from typing import Final

from ..model.config_records import SettingsFileRecord
from .effective_config import resolve_settings

DAY_MS: Final = 24 * 3600 * 1000
DEFAULT_DAYS: Final = 30  # (claude-code-formats 1.1)
CLEANUP_SETTING: Final = "cleanupPeriodDays"
SOON_DAYS: Final = 7  # few enough to say so where nobody asked


def cleanup_days(files: Iterable[SettingsFileRecord]) -> int:
    """Return the shortest period of any folder, in days: that folder's client sweeps all."""
    known = list(files)
    folders = {None, *(file.project for file in known)}
    return min(_days_in(known, folder) for folder in folders)


def _days_in(files: list[SettingsFileRecord], folder: str | None) -> int:
    setting = resolve_settings(files, folder).get(CLEANUP_SETTING)
    days = setting.value if setting else None
    # A value that the client rejects pauses the sweep, until it is mended.
    return days if isinstance(days, int) and days >= 1 else DEFAULT_DAYS


def deletion_time(mtime_ns: int, days: int) -> int:
    """Return from when on a file may be deleted, in ms since 1970."""
    return mtime_ns // 1_000_000 + days * DAY_MS


def days_left(deleted_at: int | None, now_ms: int) -> int | None:
    """Return the whole days until a deletion; 0 if it may happen at any time."""
    return None if deleted_at is None else max(0, (deleted_at - now_ms) // DAY_MS)
