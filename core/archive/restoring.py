"""Brings a session's files back from the archive, byte for byte."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import msgspec

from ..files import file_operations as files
from .archive_index import ArchivedPart, ArchivedSession, TranscriptArchive
from .archive_mode import ArchiveMode


class NotRestoredError(Exception):
    """A session was not restored; the message says why and what to do."""


class RestoreConflictError(NotRestoredError):
    """A file is there already, with another content."""


class RestoredSession(msgspec.Struct, frozen=True):
    session_id: str
    path: str  # of its transcript, below projects/
    restored: tuple[str, ...]  # files that were written
    unchanged: tuple[str, ...]  # files that were there with the same content
    size: int  # bytes of all of them


def restore_session(archive: TranscriptArchive, projects: Path, session_id: str) -> RestoredSession:
    """Write a session's files where they were, all of them or none.

    Their time is the present: with their old one the client would delete them at its next start.
    Raises NotRestoredError, and OSError if a file cannot be written.
    """
    session = _require_whole(archive, session_id)
    missing = [part for part in session.parts if not _is_there(projects, part)]
    with ExitStack() as undo:
        # The transcript last: a client that sees it finds the rest.
        for part in reversed(missing):
            _write(archive, projects, part)
            undo.callback(files.remove_if_present, projects / part.path)
        undo.pop_all()
    written = {part.path for part in missing}
    return RestoredSession(
        session_id,
        session.parts[0].path,
        tuple(part.path for part in session.parts if part.path in written),
        tuple(part.path for part in session.parts if part.path not in written),
        session.size,
    )


def _require_whole(archive: TranscriptArchive, session_id: str) -> ArchivedSession:
    session = archive.sessions().get(session_id)
    if session is None:
        raise NotRestoredError(f"{session_id} is not in the archive: see `ctxtop archive list`")
    if session.mode is not ArchiveMode.ALL:
        raise NotRestoredError(
            f"only the summaries of {session_id} were kept, as archive.mode asked for:"
            " its conversation cannot be restored"
        )
    return session


def _is_there(projects: Path, part: ArchivedPart) -> bool:
    """Whether a file is there already; raises RestoreConflictError if its content differs."""
    path = projects / part.path
    _require_real_folders(projects, path)
    if not os.path.lexists(path):
        return False
    try:
        digest, size = files.hash_file(path)
    except OSError as error:
        raise RestoreConflictError(f"{path} is in the way: {error.strerror or error}") from error
    if (digest, size) != (part.blob, part.size):
        raise RestoreConflictError(
            f"{path} exists and differs from the archived file: nothing was written; move it away"
        )
    return True


def _require_real_folders(projects: Path, path: Path) -> None:
    for folder in path.relative_to(projects).parents:
        place = projects / folder
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise RestoreConflictError(f"{place} is not a folder: nothing is written through it")


def _write(archive: TranscriptArchive, projects: Path, part: ArchivedPart) -> None:
    path = projects / part.path
    files.make_private_folder(path.parent)
    with archive.blobs.open_blocks(part.blob) as blocks:
        temporary = files.write_temporary(path, blocks)
    try:
        # Unlike a rename this fails if the name was taken meanwhile.
        path.hardlink_to(temporary)
    except FileExistsError as error:
        raise RestoreConflictError(f"{path} was created meanwhile: it is left as it is") from error
    finally:
        files.remove_if_present(temporary)
    files.sync_folder(path.parent)
