"""Copies a session's files into the archive, a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

import msgspec

from ..files import file_operations as files
from ..model.problem import printable_path
from .archive_index import (
    ArchivedPart,
    ArchivedSession,
    NotArchivedError,
    SkippedFile,
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


class _UnreadableError(Exception):
    """A file, not the archive, cannot be read; the message says why."""

    def __init__(self, error: OSError) -> None:
        super().__init__(_reason(error))
        self.errno: Final = error.errno


class SessionFiles(msgspec.Struct, frozen=True):
    """What is archived of a session; paths are below projects/."""

    session_id: str
    path: str  # of its own transcript
    agent_paths: tuple[str, ...] = ()  # of its agents', in any folder


def list_session_files(
    projects: Path, session: SessionFiles
) -> tuple[list[str], list[SkippedFile]]:
    """List a session's files: its transcript first, its agents', and all in its folder.

    No link is followed, and only regular files are listed. Those that the archive cannot name or
    reach are listed apart. Raises NotArchivedError.
    """
    own = projects / session.path
    unreached: list[SkippedFile] = []

    def skip(place: Path, why: str) -> None:
        name = place.relative_to(projects).as_posix()
        unreached.append(SkippedFile(printable_path(name), why))

    beside = [each for each in session.agent_paths if (projects / each).is_file()]
    walked = _walk(own.with_suffix(""), MAX_FOLDER_LEVELS, skip)
    inside = [path.relative_to(projects).as_posix() for path in walked]
    found = dict.fromkeys((session.path, *beside, *sorted(inside)))
    if len(found) + len(unreached) > MAX_SESSION_FILES:
        raise NotArchivedError(f"{session.session_id} has more than {MAX_SESSION_FILES:,} files")
    listed: list[str] = []
    for each in found:
        if why := _unnameable_reason(each, session.session_id):
            skip(projects / each, why)
        else:
            listed.append(each)
    return listed, unreached


def _unnameable_reason(path: str, session_id: str) -> str | None:
    if not _is_utf8(path):
        return "its name is not UTF-8"
    if "\\" in path:
        return "its name has a backslash"
    return None if is_safe_path(path, session_id) else "it is not in the session's folder"


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _walk(folder: Path, levels: int, skip: Callable[[Path, str], None]) -> Iterator[Path]:
    if folder.is_symlink():
        return
    try:
        with os.scandir(folder) as entries:
            children = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        skip(folder, _reason(error))
        return
    if levels == 0:
        if children:
            skip(folder, f"it is more than {MAX_FOLDER_LEVELS} folders deep")
        return
    for entry in children:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), levels - 1, skip)
        elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(
            files.TEMPORARY_SUFFIX
        ):
            yield Path(entry.path)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def is_up_to_date(
    archive: TranscriptArchive, projects: Path, session: SessionFiles, mode: ArchiveMode
) -> bool:
    """Whether the archive has a session's transcript as it is now, and no less than asked for.

    No part of the copy may be missing, and no skipped file may have become readable.
    Raises NotArchivedError.
    """
    archived = archive.sessions().get(session.session_id)
    if archived is None or (mode is ArchiveMode.ALL and archived.mode is not ArchiveMode.ALL):
        return False
    own = archived.parts[0]
    return (
        own.path == session.path
        and _is_unchanged(projects / own.path, own)
        and not any(map(archive.find_damage, archived.parts))
        and not (archived.skipped and _could_add(projects, session, archived.skipped))
    )


def _could_add(projects: Path, session: SessionFiles, skipped: Iterable[SkippedFile]) -> bool:
    """Whether a file that was skipped can be archived by now."""
    _, unreached = list_session_files(projects, session)
    places = {each.path for each in unreached}
    return any(
        each.path not in places
        and _unnameable_reason(each.path, session.session_id) is None
        and os.access(projects / each.path, os.R_OK)
        for each in skipped
    )


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
    listed, skipped = list_session_files(projects, session)
    for relative in listed:
        known = before.get(relative)
        if known is not None and archive.find_damage(known):
            known = None
        if known is not None and _is_unchanged(projects / relative, known):
            parts.append(known)
            continue
        try:
            with _opened(projects / relative) as file:
                status = os.fstat(file.fileno())
                blocks = _read_blocks(file, status.st_size)
                blob = yield from archive.blobs.put_in_steps(blocks, owner)
                _require_unchanged(file, status, relative)
        except FileNotFoundError:
            if relative == session.path:
                raise
        except _UnreadableError as error:
            skipped.append(_skip_unreadable(session, relative, error))
            if known is not None:
                parts.append(known)  # an earlier copy is better than none
        else:
            parts.append(_make_part(relative, blob, status))
    return _save(archive, session, ArchiveMode.ALL, now_ms, parts, skipped)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a session's file. Raises FileNotFoundError and _UnreadableError."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(files.open_regular_file(path))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _UnreadableError(error) from error
        yield file


def _read_blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    try:
        yield from files.read_blocks(file, size)
    except OSError as error:
        raise _UnreadableError(error) from error


def _skip_unreadable(session: SessionFiles, relative: str, error: _UnreadableError) -> SkippedFile:
    """Raises OSError for the session's own transcript, without which nothing is shown."""
    if relative == session.path:
        raise OSError(error.errno, f"{relative} cannot be read: {error}") from error
    return SkippedFile(relative, str(error))


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
    listed, unreached = list_session_files(projects, session)
    skipped = [each for each in unreached if PurePosixPath(each.path).suffix in _MAY_HAVE_LINES]
    for relative in listed:
        is_transcript = relative.endswith(".jsonl")
        if not is_transcript and not relative.endswith(".meta.json"):
            continue
        try:
            with _opened(projects / relative) as file:
                status = os.fstat(file.fileno())
                keeps = kept_lines(relative) if is_transcript else _keep_line
                blob = archive.blobs.put_sparse(_kept_pieces(file, status.st_size, keeps), owner)
                _require_unchanged(file, status, relative)
        except FileNotFoundError:
            if relative == session.path:
                raise
        except _UnreadableError as error:
            skipped.append(_skip_unreadable(session, relative, error))
        else:
            parts.append(_make_part(relative, blob, status))
    return _save(archive, session, ArchiveMode.SUMMARIES, now_ms, parts, skipped)


_MAY_HAVE_LINES: Final = frozenset({"", ".jsonl", ".json"})  # transcripts, and folders of them


def _kept_pieces(file: BinaryIO, size: int, keeps: KeepLine) -> Iterator[bytes | int]:
    """Yield kept lines, and the sizes of the gaps between them."""
    offset = gap = 0
    for line in _read_lines(file, size):
        kept = keeps(offset, line)
        if kept is None:
            gap += len(line)
        else:
            yield from _gaps(gap)
            yield kept
            gap = 0
        offset += len(line)
    yield from _gaps(gap)


def _read_lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    try:
        yield from files.read_lines(file, size)
    except OSError as error:
        raise _UnreadableError(error) from error


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
    skipped: Iterable[SkippedFile],
) -> ArchivedSession:
    archived = ArchivedSession(session.session_id, mode, now_ms, tuple(parts), tuple(skipped))
    archive.save(archived)
    return archived
