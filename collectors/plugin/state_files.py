"""What one hook leaves for the next: small files, announced thresholds, a record of each answer.

An announced threshold is an empty file that is created exclusively: of several hooks at once, the
one that creates it announces. A file `.again` beside it re-arms the threshold; the next
announcement has the next number.
"""

from __future__ import annotations

import os
import re
import time

from .plugin_log import (
    FILE_MODE,
    FOLDER_MODE,
    SAFE_OPEN_FLAGS,
    append_record,
    encode_json,
    log_folder,
    log_path,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final


_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE_OPEN_FLAGS


def write_atomically(path: str, content: bytes, mode: int = FILE_MODE) -> None:
    """Put a file of the user's own in the place of an older one; raises OSError.

    It is written under another name first; what is left of that when writing fails is removed.
    """
    part = f"{path}.{os.getpid()}-{time.time_ns()}.part"
    descriptor = os.open(part, _CREATE_FLAGS, FILE_MODE)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            if mode != FILE_MODE:
                os.fchmod(file.fileno(), mode)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


NOTES_FOLDER: Final = "notes"

NOTE_RETENTION_S: Final = 30 * 24 * 3600.0
"""A note that nobody came for stays this long: as long as the client keeps its transcripts."""

MAX_NOTE_BYTES: Final = 256 * 1024  # bytes; what a budget of steering allows is a tenth
_NOTE_NAME: Final = re.compile(r"[\w.-]{1,150}")


def leave_note(store: Path, name: str, content: bytes) -> None:
    """Write a note, in the place of an older one; raises OSError."""
    path = _note_path(store, name)
    folder = os.path.dirname(path)
    os.makedirs(folder, FOLDER_MODE, exist_ok=True)
    _remove_old_notes(folder)
    write_atomically(path, content)


def has_note(store: Path, name: str) -> bool:
    return os.path.lexists(_note_path(store, name))


def take_note(store: Path, name: str) -> bytes | None:
    """Read a note and remove it; of several that come at once one has it, the others None."""
    path = _note_path(store, name)
    mine = f"{path}.{os.getpid()}-{time.time_ns()}"
    try:
        # Whoever renames it has it.
        os.rename(path, mine)
    except FileNotFoundError:
        return None
    try:
        descriptor = os.open(mine, os.O_RDONLY | SAFE_OPEN_FLAGS)
        with open(descriptor, "rb") as file:
            return file.read(MAX_NOTE_BYTES)
    finally:
        os.unlink(mine)


def _note_path(store: Path, name: str) -> str:
    if not _NOTE_NAME.fullmatch(name):
        raise ValueError(f"no name of a note: {name[:40]!r}")
    return f"{log_folder(str(store))}/{NOTES_FOLDER}/{name}"


def _remove_old_notes(folder: str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > NOTE_RETENTION_S:
                os.unlink(entry.path)


ANSWERS_LOG: Final = "answers.jsonl"


def record_answer(store: Path, feature: str, **given: object) -> None:
    """Append a record; a fault is noted beside the log."""
    line = encode_json({name: value for name, value in given.items() if value is not None})
    append_record(log_path(str(store), ANSWERS_LOG), feature, line.encode("utf-8", "replace"))


ANNOUNCEMENTS_FOLDER: Final = "said"

ANNOUNCEMENT_RETENTION_S: Final = 30 * 24 * 3600.0  # as long as the client keeps its transcripts
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
