"""Adds the archive's transcripts to a listing of the folder: those that Claude Code deleted."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ...core.archive.archive_mode import ArchiveMode, entries_folder
from ...core.files.transcript_file import ArchivedStatus, ArchivedTranscript, attach_archive
from ...core.store.database import state_folder
from ...core.store.writer import Writer
from ..locations.discover import META_SUFFIX, ClaudeFolder, FolderListing, FoundFile, classify_path

if TYPE_CHECKING:
    from ...core.archive.archive_index import ArchivedPart, ArchivedSession, TranscriptArchive


class PossibleArchive:
    """The archive beside a store. Nothing of it is loaded while it has no session."""

    def __init__(self, state: Path) -> None:
        self._state: Final = state

    @cached_property
    def loaded(self) -> TranscriptArchive:
        from ...core.archive.archive_index import TranscriptArchive

        return TranscriptArchive(self._state)

    def parts(self) -> Mapping[str, tuple[ArchivedSession, ArchivedPart]]:
        """Return the archived files as `TranscriptArchive` does; raises OSError likewise."""
        try:
            entries_folder(self._state).stat()
        except FileNotFoundError:
            return {}
        return self.loaded.parts()

    def open(self, relative: str) -> ArchivedTranscript | None:
        return self.loaded.open(relative) if self.parts() else None

    def status(self, relative: str) -> ArchivedStatus | None:
        return self.loaded.status(relative) if self.parts() else None


class ArchivedFiles:
    """What the archive has of a projects folder; used by the collector's thread alone."""

    def __init__(self, folder: ClaudeFolder, writer: Writer) -> None:
        self.archive: Final = PossibleArchive(state_folder(writer.path))
        self._projects: Final = str(folder.projects)
        self._writer: Final = writer
        self._marked = writer.archived_files()
        self._missing: dict[str, tuple[ArchiveMode, ArchivedPart]] = {}  # of the last listing
        attach_archive(folder.projects, self.archive)

    def add_missing(self, listing: FolderListing, known: AbstractSet[str]) -> FolderListing:
        """Add what is only in the archive; of sessions kept as summaries what is not `known`."""
        missing = self._missing = self._find_missing(listing)
        if not missing:
            return listing
        whole = {path: part for path, (mode, part) in missing.items() if mode is ArchiveMode.ALL}
        found = {
            path: self._found(part)
            for path, (_, part) in missing.items()
            if path in whole or path not in known
        }
        transcripts = [each for path, each in found.items() if classify_path(path)]
        metas = [each for path, each in found.items() if path.endswith(META_SUFFIX)]
        return replace(
            listing,
            transcripts=[*listing.transcripts, *transcripts],
            metas=[*listing.metas, *metas],
        )

    def find(self, relative: str) -> FoundFile | None:
        """Return a transcript that the archive has whole."""
        archived = self.archive.parts().get(relative)
        if archived is None or archived[0].mode is not ArchiveMode.ALL:
            return None
        return self._found(archived[1])

    def has_only_summaries(self, relative: str) -> bool:
        archived = self.archive.parts().get(relative)
        return archived is not None and archived[0].mode is ArchiveMode.SUMMARIES

    def mark_missing(self) -> frozenset[str]:
        """Store what was added to the last listing; return the sessions that changed."""
        archived = {path: mode.value for path, (mode, _) in self._missing.items()}
        if archived == self._marked:
            return frozenset()
        changed = {
            path: archived.get(path, "")
            for path in archived.keys() | self._marked.keys()
            if archived.get(path) != self._marked.get(path)
        }
        self._marked = archived
        return self._writer.mark_archived(changed)

    def _find_missing(self, listing: FolderListing) -> dict[str, tuple[ArchiveMode, ArchivedPart]]:
        parts = self.archive.parts()
        if not parts:
            return {}
        there = {_place_in_project(found.relative) for found in listing.transcripts}
        there |= {_place_in_project(found.relative) for found in listing.metas}
        return {
            path: (session.mode, part)
            for path, (session, part) in parts.items()
            # Not by its whole path: the client may have moved it to another project.
            if _is_read(path)
            and _place_in_project(path) not in there
            and not listing.is_below_unreadable(path)
        }

    def _found(self, part: ArchivedPart) -> FoundFile:
        return FoundFile(
            self._projects,
            part.path,
            part.size,
            part.mtime_ns,
            part.inode,
            part.ctime_ns,
            is_on_disk=False,
        )


def _is_read(path: str) -> bool:
    name = PurePosixPath(path).name
    return classify_path(path) is not None or name.endswith(META_SUFFIX)


def _place_in_project(path: str) -> str:
    return path.partition("/")[2]
