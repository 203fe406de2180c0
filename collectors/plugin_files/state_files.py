"""What one hook leaves for the next: small files, announced thresholds, a record of each answer.

An announced threshold is an empty file that is created exclusively: of several hooks at once, the
one that creates it announces. A file `.again` beside it re-arms the threshold; the next
announcement has the next number.
"""

from __future__ import annotations

import os
import time

from .plugin_log import (
    FILE_MODE,
    FOLDER_MODE,
    append_record,
    encode_json,
    log_folder,
    log_path,
    open_safely,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final


def write_atomically(path: str, content: bytes, mode: int = FILE_MODE) -> None:
    """Write a file of the user's own or replace it; raises OSError."""
    part = f"{path}.{os.getpid()}-{time.time_ns()}.part"
    with open_safely(part, "xb") as file:
        try:
            file.write(content)
            file.flush()
            if mode != FILE_MODE:
                os.fchmod(file.fileno(), mode)
            os.replace(part, path)
        except BaseException:
            os.unlink(part)
            raise


RETENTION_S: Final = 30 * 24 * 3600.0  # as long as the client keeps its transcripts
NOTES_FOLDER: Final = "notes"
MAX_NOTE_BYTES: Final = 256 * 1024  # the budget of steering allows a tenth of it
MAX_NOTE_NAME_CHARS: Final = 150


def leave_note(store: str | Path, name: str, content: bytes) -> None:
    """Write a note or replace it, and remove old notes; raises OSError."""
    path = _note_path(store, name)
    folder = os.path.dirname(path)
    os.makedirs(folder, FOLDER_MODE, exist_ok=True)
    _remove_old_files(folder)
    write_atomically(path, content)


def has_note(store: str | Path, name: str) -> bool:
    return os.path.lexists(_note_path(store, name))


def take_note(store: str | Path, name: str) -> bytes | None:
    """Read a note and remove it; only one of several concurrent callers gets it."""
    path = _note_path(store, name)
    taken = f"{path}.{os.getpid()}-{time.time_ns()}"
    try:
        os.rename(path, taken)
    except FileNotFoundError:
        return None
    try:
        with open_safely(taken, "rb") as file:
            return file.read(MAX_NOTE_BYTES)
    finally:
        os.unlink(taken)


def _note_path(store: str | Path, name: str) -> str:
    # Without re, which takes as long to import as half of Python.
    if not 1 <= len(name) <= MAX_NOTE_NAME_CHARS or _replace_unsafe(name, ".-") != name:
        raise ValueError(f"not a valid note name: {name[:40]!r}")
    return f"{log_folder(str(store))}/{NOTES_FOLDER}/{name}"


def _replace_unsafe(name: str, allowed: str) -> str:
    """Replace what is no letter, digit, underscore or one of the allowed signs."""
    return "".join(sign if sign.isalnum() or sign in f"_{allowed}" else "_" for sign in name)


def _remove_old_files(folder: str) -> None:
    oldest = time.time() - RETENTION_S
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)


def record_answer(store: str | Path, feature: str, **given: object) -> None:
    """Append a record to the log of answers; a fault is noted beside the log."""
    line = encode_json({name: value for name, value in given.items() if value is not None})
    append_record(log_path(str(store), "answers.jsonl"), feature, line.encode("utf-8", "replace"))


MAX_ANNOUNCEMENTS: Final = 1000  # of one threshold in one session, which is compacted a few times
_REARMED_SUFFIX: Final = ".again"


def announcements_folder(store: str | Path) -> str:
    return f"{log_folder(str(store))}/said"


class ThresholdAnnouncement:
    """What one session was told at one threshold; each method raises OSError."""

    def __init__(self, store: str | Path, session_id: str, threshold: str) -> None:
        name = _replace_unsafe(f"{session_id[:64]}-{threshold}", ".@-")
        self._folder: Final = announcements_folder(store)
        self._path: Final = f"{self._folder}/{name}"
        self._number = 0  # of the last announcement
        while self._number < MAX_ANNOUNCEMENTS and os.path.lexists(self._file(self._number + 1)):
            self._number += 1

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
            self._make(self._file(self._number) + _REARMED_SUFFIX, "ab")

    def claim(self) -> bool:
        """Record the announcement as made; False if another hook was faster."""
        try:
            self._make(self._file(self._number + 1), "xb")
        except FileExistsError:
            return False
        return True

    def _file(self, number: int) -> str:
        return f"{self._path}.{number}"

    def _make(self, path: str, mode: str) -> None:
        os.makedirs(self._folder, FOLDER_MODE, exist_ok=True)
        open_safely(path, mode).close()


def remove_old_announcements(store: str | Path) -> None:
    """Remove what was announced in sessions that are long over."""
    _remove_old_files(announcements_folder(store))
