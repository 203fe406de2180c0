"""What was said to a session at a threshold: remembered in empty files, each made once.

Of several hooks at once the one that makes the file says it. A file `.again` beside it
re-arms: what is said then is the next number.
"""

from __future__ import annotations

import os
import re
import time

from .log import SAFELY, log_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

FOLDER: Final = "said"

KEPT_S: Final = 30 * 24 * 3600.0
"""As long as the client keeps its transcripts."""

MOST_ARMINGS: Final = 1000
"""Of one threshold in one session; a session is compacted a few times."""

_AGAIN: Final = ".again"
_NAME: Final = re.compile(r"[^\w.@-]")
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | SAFELY


class Said:
    """What one session was told at one threshold; each method raises OSError."""

    def __init__(self, store: Path, session_id: str, threshold: str) -> None:
        name = _NAME.sub("_", f"{session_id[:64]}-{threshold}")
        self._folder: Final = f"{log_folder(str(store))}/{FOLDER}"
        self._path: Final = f"{self._folder}/{name}"
        self._number = self._last()

    def announced_at(self) -> int | None:
        """Say when it was said (ms since 1970); None where it was not, or may be again."""
        if not self._number or os.path.lexists(self._file(self._number) + _AGAIN):
            return None
        try:
            return os.lstat(self._file(self._number)).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            return None

    def rearm(self) -> None:
        """Let it be said again."""
        if self._number:
            self._make(self._file(self._number) + _AGAIN, 0)

    def claim(self) -> bool:
        """Say whether it is ours to say: another hook may have been faster."""
        try:
            self._make(self._file(self._number + 1), os.O_EXCL)
        except FileExistsError:
            return False
        return True

    def _file(self, number: int) -> str:
        return f"{self._path}.{number}"

    def _last(self) -> int:
        number = 0
        while number < MOST_ARMINGS and os.path.lexists(self._file(number + 1)):
            number += 1
        return number

    def _make(self, path: str, how: int) -> None:
        try:
            descriptor = os.open(path, _FLAGS | how, 0o600)
        except FileNotFoundError:
            os.makedirs(self._folder, 0o700, exist_ok=True)
            descriptor = os.open(path, _FLAGS | how, 0o600)
        os.close(descriptor)


def forget_old(store: Path) -> None:
    """Remove what was said to sessions that are long over."""
    now = time.time()
    with os.scandir(f"{log_folder(str(store))}/{FOLDER}") as entries:
        old = [each.path for each in entries if now - each.stat().st_mtime > KEPT_S]
    for path in old:
        os.unlink(path)
