"""Copies a session's files into the archive, a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from ..files import file_operations as files
from .archive_index import (
    ArchivedPart,
    ArchivedSession,
    TranscriptArchive,
    is_safe_path,
    is_safe_session_id,
)
from .archive_mode import ArchiveMode

MAX_FOLDER_LEVELS: Final = 8  # below a session's folder; the client nests to three
MAX_SESSION_FILES: Final = 20_000  # the largest session seen has 600
GAP_BYTES: Final = 1 << 20  # of one gap, which is read as one blank line

KeepLine = Callable[[int, bytes], bytes | None]
"""What is kept of a line at a byte offset, padded to its length; None if nothing is."""


class NotArchivedError(Exception):
    """A session was not archived; the message says why and what to do."""


class SessionFiles(msgspec.Struct, frozen=True):
    """What is archived of a session; paths are below projects/."""

    session_id: str
    path: str  # of its own transcript
    agent_paths: tuple[str, ...] = ()  # of its agents', in any folder


def list_session_files(projects: Path, session: SessionFiles) -> list[str]:
    """List a session's files: its transcript first, its agents', and all in its folder.

    No link is followed, and only regular files are listed. Raises OSError.
    """
    own = projects / session.path
    folder = own.with_suffix("")
    beside = [each for each in session.agent_paths if (projects / each).is_file()]
    inside = [path.relative_to(projects).as_posix() for path in _walk(folder, MAX_FOLDER_LEVELS)]
    found = dict.fromkeys((session.path, *beside, *sorted(inside)))
    if len(found) > MAX_SESSION_FILES:
        raise NotArchivedError(f"{session.session_id} has more than {MAX_SESSION_FILES:,} files")
    return [each for each in found if is_safe_path(each, session.session_id)]


def _walk(folder: Path, levels: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            children = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    if folder.is_symlink():
        return
    for entry in children:
        if entry.is_dir(follow_symlinks=False):
            if levels > 1:
                yield from _walk(Path(entry.path), levels - 1)
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(
            files.TEMPORARY_SUFFIX
        ):
            yield Path(entry.path)


def is_up_to_date(
    archive: TranscriptArchive, projects: Path, session: SessionFiles, mode: ArchiveMode
) -> bool:
    """Whether the archive has a session's transcript as it is now, and no less than asked for."""
    archived = archive.sessions().get(session.session_id)
    if archived is None or (mode is ArchiveMode.ALL and archived.mode is not ArchiveMode.ALL):
        return False
    own = archived.parts[0]
    return own.path == session.path and _is_unchanged(projects / own.path, own)


def _is_unchanged(path: Path, part: ArchivedPart) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns, status.st_ino) == (
        part.size,
        part.mtime_ns,
        part.inode,
    )


def archive_in_steps(
    archive: TranscriptArchive, projects: Path, session: SessionFiles, now_ms: int
) -> Generator[None, None, ArchivedSession]:
    """Archive a session's whole files, a chunk with each step; files that did not change are kept.

    Raises NotArchivedError, and OSError if a file or the archive cannot be used.
    """
    _require_safe(session)
    before = _archived_parts(archive, session, ArchiveMode.ALL)
    owner = Path(session.path).stem  # as the client spells it
    parts: list[ArchivedPart] = []
    for relative in list_session_files(projects, session):
        known = before.get(relative)
        if known is not None and _is_unchanged(projects / relative, known):
            parts.append(known)
            continue
        try:
            with files.open_regular_file(projects / relative) as file:
                status = os.fstat(file.fileno())
                blocks = files.read_blocks(file, status.st_size)
                blob = yield from archive.blobs.put_in_steps(blocks, owner)
                _require_unchanged(file, status, relative)
        except FileNotFoundError:
            if relative == session.path:
                raise
            continue
        parts.append(_make_part(relative, blob, status))
    return _save(archive, session, ArchiveMode.ALL, now_ms, parts)


def archive_summaries(
    archive: TranscriptArchive,
    projects: Path,
    session: SessionFiles,
    kept_lines: Callable[[str], KeepLine],
    now_ms: int,
) -> ArchivedSession:
    """Archive what `kept_lines` keeps of a session's transcripts, by their paths.

    They stay at their byte offsets, with blank lines in between. Raises as `archive_in_steps`.
    """
    _require_safe(session)
    owner = Path(session.path).stem
    parts: list[ArchivedPart] = []
    for relative in list_session_files(projects, session):
        is_transcript = relative.endswith(".jsonl")
        if not is_transcript and not relative.endswith(".meta.json"):
            continue
        try:
            with files.open_regular_file(projects / relative) as file:
                status = os.fstat(file.fileno())
                keeps = kept_lines(relative) if is_transcript else _keep_line
                blob = archive.blobs.put_sparse(_kept_pieces(file, status.st_size, keeps), owner)
                _require_unchanged(file, status, relative)
        except FileNotFoundError:
            if relative == session.path:
                raise
            continue
        parts.append(_make_part(relative, blob, status))
    return _save(archive, session, ArchiveMode.SUMMARIES, now_ms, parts)


def _kept_pieces(file: BinaryIO, size: int, keeps: KeepLine) -> Iterator[bytes | int]:
    """Yield kept lines, and the sizes of the gaps between them."""
    offset = gap = 0
    for line in files.read_lines(file, size):
        kept = keeps(offset, line)
        if kept is None:
            gap += len(line)
        else:
            yield from _gaps(gap)
            yield kept
            gap = 0
        offset += len(line)
    yield from _gaps(gap)


def _keep_line(_offset: int, line: bytes) -> bytes:
    return line


_ANSWER_FIELDS: Final = (
    "type", "uuid", "parentUuid", "sessionId", "timestamp", "isSidechain", "agentId", "version",
    "cwd", "gitBranch", "requestId", "requestRef",
)  # fmt: skip
_MESSAGE_FIELDS: Final = ("id", "type", "role", "model", "usage", "stop_reason")
_decode_line: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def answer_without_text(line: bytes) -> bytes | None:
    """Return an answer's model and usage, padded to the line's length; None if it has none."""
    try:
        fields = _decode_line(line)
        message = _decode_line(fields["message"])
    except (KeyError, ValueError, RecursionError):
        return None
    kept: dict[str, object] = {name: fields[name] for name in _ANSWER_FIELDS if name in fields}
    answer: dict[str, object] = {name: message[name] for name in _MESSAGE_FIELDS if name in message}
    kept["message"] = answer | {"content": []}
    short = msgspec.json.encode(kept)
    room = len(line) - len(short) - 1
    return None if room < 0 else short + b" " * room + b"\n"


def _gaps(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, GAP_BYTES)
        size -= GAP_BYTES


def _require_safe(session: SessionFiles) -> None:
    is_safe = is_safe_session_id(session.session_id)
    if not is_safe or not is_safe_path(session.path, session.session_id):
        raise NotArchivedError(f"{session.path!r} is not the name of a session's transcript")


def _archived_parts(
    archive: TranscriptArchive, session: SessionFiles, mode: ArchiveMode
) -> dict[str, ArchivedPart]:
    archived = archive.sessions().get(session.session_id)
    if archived is None or archived.mode is not mode:
        return {}
    return {part.path: part for part in archived.parts}


def _require_unchanged(file: BinaryIO, status: os.stat_result, relative: str) -> None:
    """Refuse a file that was rewritten while it was read; what was appended comes next time."""
    now = os.fstat(file.fileno())
    if now.st_size < status.st_size or (
        now.st_size == status.st_size and now.st_mtime_ns != status.st_mtime_ns
    ):
        raise NotArchivedError(f"{relative} was rewritten meanwhile: try again")


def _make_part(relative: str, blob: str, status: os.stat_result) -> ArchivedPart:
    return ArchivedPart(
        relative,
        blob,
        status.st_size,
        status.st_mtime_ns,
        status.st_dev,
        status.st_ino,
        status.st_ctime_ns,
    )


def _save(
    archive: TranscriptArchive,
    session: SessionFiles,
    mode: ArchiveMode,
    now_ms: int,
    parts: Iterable[ArchivedPart],
) -> ArchivedSession:
    archived = ArchivedSession(session.session_id, mode, now_ms, tuple(parts))
    archive.save(archived)
    return archived
