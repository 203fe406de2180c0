"""Notes that one hook leaves for the next: small files, each taken once."""

from __future__ import annotations

import os
import re
import time

from .log import FOLDER_MODE, SAFELY, log_folder
from .whole import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Final

FOLDER: Final = "notes"

KEPT_S: Final = 30 * 24 * 3600.0
"""A note that nobody came for stays this long: as long as the client keeps its transcripts."""

LARGEST: Final = 256 * 1024
"""Bytes; what a budget of steering allows is a tenth."""

_NAME: Final = re.compile(r"[\w.-]{1,150}")


def leave(store: Path, name: str, content: bytes) -> None:
    """Write a note, in the place of an older one; raises OSError."""
    path = _path(store, name)
    folder = os.path.dirname(path)
    os.makedirs(folder, FOLDER_MODE, exist_ok=True)
    _forget_old(folder)
    write_whole(path, content)


def is_left(store: Path, name: str) -> bool:
    """Say whether there is a note of this name."""
    return os.path.lexists(_path(store, name))


def take(store: Path, name: str) -> bytes | None:
    """Read a note and remove it; of several that come at once one has it, the others None."""
    path = _path(store, name)
    mine = f"{path}.{os.getpid()}-{time.time_ns()}"
    try:
        # Whoever renames it has it.
        os.rename(path, mine)
    except FileNotFoundError:
        return None
    try:
        descriptor = os.open(mine, os.O_RDONLY | SAFELY)
        with open(descriptor, "rb") as file:
            return file.read(LARGEST)
    finally:
        os.unlink(mine)


def _path(store: Path, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"no name of a note: {name[:40]!r}")
    return f"{log_folder(str(store))}/{FOLDER}/{name}"


def _forget_old(folder: str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > KEPT_S:
                os.unlink(entry.path)
