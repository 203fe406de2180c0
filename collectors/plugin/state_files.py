"""Small files that one hook leaves for the next: written atomically, taken once."""

from __future__ import annotations

import os
import re
import time

from .plugin_log import FILE_MODE, FOLDER_MODE, SAFE_OPEN_FLAGS, log_folder

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

MAX_NOTE_BYTES: Final = 256 * 1024
"""Bytes; what a budget of steering allows is a tenth."""

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
