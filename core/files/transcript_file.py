"""Opens transcripts, also those that Claude Code deleted and the archive has."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import msgspec

from .safe_open import open_regular


class ArchivedStatus(msgspec.Struct, frozen=True):
    """What `os.stat` said of a transcript when it was archived."""

    st_size: int
    st_mtime_ns: int
    st_dev: int = 0
    st_ino: int = 0
    st_ctime_ns: int = 0

    @property
    def st_mtime(self) -> float:
        return self.st_mtime_ns / 1e9


FileStatus = os.stat_result | ArchivedStatus


class ArchivedTranscript(io.BufferedReader):
    """A transcript in the archive, which no file on the disk is."""

    status: ArchivedStatus


class TranscriptSource(Protocol):
    """Has transcripts that are no longer in their folder."""

    def open(self, relative: str) -> ArchivedTranscript | None:
        """Open a transcript by its path below projects/; None if it has none. Raises OSError."""
        ...

    def status(self, relative: str) -> ArchivedStatus | None: ...


_sources: Final[dict[Path, TranscriptSource]] = {}
"""The archive of each projects folder. Transcripts are opened by path in many places, none of
which has a store at hand."""


def attach_archive(projects: Path, source: TranscriptSource) -> None:
    """Read transcripts of this projects folder from `source` where their files are gone."""
    _sources[projects] = source


def open_transcript(path: Path | str, buffering: int = 0) -> BinaryIO:
    """Open a transcript as `open_regular` does; one that is gone is read from the archive."""
    try:
        return open_regular(path, buffering)
    except (FileNotFoundError, NotADirectoryError):
        found = _find_source(path)
        archived = found[0].open(found[1]) if found else None
        if archived is None:
            raise
        return archived


def _find_source(path: Path | str) -> tuple[TranscriptSource, str] | None:
    place = Path(path)
    for projects, source in _sources.items():
        if place.is_relative_to(projects):
            return source, place.relative_to(projects).as_posix()
    return None


def transcript_status(file: BinaryIO) -> FileStatus:
    """Return the status of a transcript that `open_transcript` opened."""
    return file.status if isinstance(file, ArchivedTranscript) else os.fstat(file.fileno())


def transcript_size(path: Path) -> int:
    """Return a transcript's size in bytes, also of one in the archive. Raises OSError."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        found = _find_source(path)
        archived = found[0].status(found[1]) if found else None
        if archived is None:
            raise
        return archived.st_size
