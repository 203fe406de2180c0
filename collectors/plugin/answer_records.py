"""What hook answers told a session: a log record of each, and the announced thresholds.

An announced threshold is an empty file that is created exclusively: of several hooks at once, the
one that creates it announces. A file `.again` beside it re-arms the threshold; the next
announcement has the next number.
"""

from __future__ import annotations

import os
import re
import time
from typing import Final

from .plugin_log import SAFE_OPEN_FLAGS, append_record, encode_json, log_folder, log_path

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final


ANSWERS_LOG: Final = "answers.jsonl"


def record_answer(store: Path, feature: str, **given: object) -> None:
    """Append a record; a fault is noted beside the log."""
    line = encode_json({name: value for name, value in given.items() if value is not None})
    append_record(log_path(str(store), ANSWERS_LOG), feature, line.encode("utf-8", "replace"))


ANNOUNCEMENTS_FOLDER: Final = "said"

ANNOUNCEMENT_RETENTION_S: Final = 30 * 24 * 3600.0
"""As long as the client keeps its transcripts."""

MAX_ANNOUNCEMENTS: Final = 1000
"""Of one threshold in one session; a session is compacted a few times."""

_REARMED_SUFFIX: Final = ".again"
_UNSAFE_CHARACTER: Final = re.compile(r"[^\w.@-]")
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | SAFE_OPEN_FLAGS


class ThresholdAnnouncement:
    """What one session was told at one threshold; each method raises OSError."""

    def __init__(self, store: Path, session_id: str, threshold: str) -> None:
        name = _UNSAFE_CHARACTER.sub("_", f"{session_id[:64]}-{threshold}")
        self._folder: Final = f"{log_folder(str(store))}/{ANNOUNCEMENTS_FOLDER}"
        self._path: Final = f"{self._folder}/{name}"
        self._number = self._last()

    def announced_at(self) -> int | None:
        """Return when it was announced (ms since 1970); None if never, or if rearmed since."""
        if not self._number or os.path.lexists(self._file(self._number) + _REARMED_SUFFIX):
            return None
        try:
            return os.lstat(self._file(self._number)).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None

    def rearm(self) -> None:
        """Allow the threshold to be announced again."""
        if self._number:
            self._make(self._file(self._number) + _REARMED_SUFFIX, 0)

    def claim(self) -> bool:
        """Record the announcement as made; False if another hook was faster."""
        try:
            self._make(self._file(self._number + 1), os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def _file(self, number: int) -> str:
        return f"{self._path}.{number}"

    def _last(self) -> int:
        number = 0
        while number < MAX_ANNOUNCEMENTS and os.path.lexists(self._file(number + 1)):
            number += 1
        return number

    def _make(self, path: str, how: int) -> None:
        try:
            descriptor = os.open(path, _FLAGS | how, 0o600)
        except FileNotFoundError:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            descriptor = os.open(path, _FLAGS | how, 0o600)
        os.close(descriptor)


def remove_old_announcements(store: Path) -> None:
    """Remove what was said to sessions that are long over."""
    now = time.time()
    with os.scandir(f"{log_folder(str(store))}/{ANNOUNCEMENTS_FOLDER}") as entries:
        old = [
            each.path for each in entries if now - each.stat().st_mtime > ANNOUNCEMENT_RETENTION_S
        ]
    for path in old:
        os.unlink(path)
