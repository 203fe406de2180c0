"""The files of a log: which there are, which is which, and when one may go."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from ..plugin.log import ROTATE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...core.store.log_facts import Log

HEAD_BYTES: Final = 64 * 1024
"""Where the first line stands, by which a file is known under any name."""

LATE_S: Final = 3600.0
"""How long a writer may still come to a renamed file: six times a hook's longest life
(reference: claude-code-formats 4.1)."""

KEPT_S: Final = 14 * 24 * 3600.0
"""A part that was read stays this long: a store that is made again reads it again."""

KEPT_BYTES: Final = 16 * ROTATE_BYTES
"""Of one log at the most; the oldest go first."""

_ROTATED: Final = re.compile(r"\.\d{20}-\d+")


class FoundPart(msgspec.Struct, frozen=True):
    """A file of a log, and what the folder says of it."""

    path: Path
    is_rotated: bool
    size: int
    mtime_ns: int

    @property
    def key(self) -> tuple[str, int, int]:
        """What changes when there is something to read."""
        return (self.path.name, self.size, self.mtime_ns)


def find_parts(folder: Path, log: Log) -> list[FoundPart]:
    """List a log's files, oldest first.

    Raises OSError where the folder cannot be read; one that is not there has none.
    """
    try:
        with os.scandir(folder) as entries:
            found = [part for entry in entries if (part := _part(entry, log))]
    except FileNotFoundError:
        return []
    return sorted(found, key=lambda part: (not part.is_rotated, part.path.name))


def _part(entry: os.DirEntry[str], log: Log) -> FoundPart | None:
    if not entry.name.startswith(log):
        return None
    ending = entry.name[len(log) :]
    if ending and not _ROTATED.fullmatch(ending):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        # Renamed meanwhile: the next look finds it under its new name.
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return FoundPart(Path(entry.path), bool(ending), status.st_size, status.st_mtime_ns)


def head_mark(file: BinaryIO) -> str | None:
    """Hash a file's first line; None while there is none."""
    head = file.read(HEAD_BYTES)
    line, end, _ = head.lstrip(b"\r\n").partition(b"\n")
    if not end and len(head) < HEAD_BYTES:
        return None
    return hashlib.blake2b(line, digest_size=16).hexdigest()


def done_with(parts: Iterable[FoundPart], now_s: float) -> list[FoundPart]:
    """Choose the renamed files that may be removed, where all of them were read."""
    gone: list[FoundPart] = []
    newer = 0
    for part in sorted(parts, key=lambda part: part.path.name, reverse=True):
        newer += part.size
        quiet_s = now_s - part.mtime_ns / 1e9
        if quiet_s > KEPT_S or (quiet_s > LATE_S and newer > KEPT_BYTES):
            gone.append(part)
    return gone
