"""The archive: which sessions it has, and their files."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from ..files import file_operations as files
from ..files.blob_store import (
    ARCHIVE_FOLDER,
    ChunkedBlobStore,
    ChunkedFile,
    chunk_store,
    remove_unreferenced_chunks,
)
from ..files.chunk_store import MAX_CONTENT_BYTES, BlobError, Manifest, Packing
from ..files.transcript_file import ArchivedStatus, ArchivedTranscript
from ..model.problem import Problem, printable_path
from .archive_mode import ArchiveMode, archive_folder, entries_folder

ENTRY_SUFFIX: Final = ".json"
MAX_ENTRY_BYTES: Final = 16 << 20  # a session with 50,000 files has less

_SAFE_NAME: Final = re.compile(r"[^/\\\0]+")
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")

_INT64_MAX: Final = (1 << 63) - 1
_LAST_MS: Final = 253_402_300_799_999  # of the year 9999, the last that can be written as a date

_Bytes = Annotated[int, msgspec.Meta(ge=0, le=MAX_CONTENT_BYTES)]
_TimeNs = Annotated[int, msgspec.Meta(ge=-_INT64_MAX, le=_INT64_MAX)]  # as SQLite stores them
_TimeMs = Annotated[int, msgspec.Meta(ge=0, le=_LAST_MS)]


class NotArchivedError(Exception):
    """A session was not archived; the message says why and what to do."""


class ArchivedPart(msgspec.Struct, frozen=True):
    """One file of a session, as it was when it was archived."""

    path: str  # below projects/
    blob: str  # name of its content among the archive's blobs
    size: _Bytes
    mtime_ns: _TimeNs
    device: int
    inode: int
    ctime_ns: _TimeNs

    def __post_init__(self) -> None:
        """Raise ValueError if a number is none that a file can have."""
        if not all(0 <= number < 1 << 64 for number in (self.device, self.inode)):
            raise ValueError("a file's number has more than 64 bits")

    @property
    def status(self) -> ArchivedStatus:
        return ArchivedStatus(self.size, self.mtime_ns, self.device, self.inode, self.ctime_ns)


class SkippedFile(msgspec.Struct, frozen=True):
    """A file of a session that could not be archived."""

    path: str  # below projects/; of a name that is not UTF-8, as it is printed
    why: str


class ArchivedSession(msgspec.Struct, frozen=True):
    session_id: str
    mode: ArchiveMode
    at: _TimeMs  # when it was archived
    parts: tuple[ArchivedPart, ...]  # the session's own transcript first
    skipped: tuple[SkippedFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of its files, not compressed."""
        return sum(part.size for part in self.parts)

    @property
    def last_written_ns(self) -> int:
        return self.parts[0].mtime_ns


def is_safe_session_id(session_id: str) -> bool:
    return _SAFE_ID.fullmatch(session_id) is not None


def is_safe_path(path: str, session_id: str) -> bool:
    """Whether a path is of a session's files: `<project>/<session>.jsonl`, or in its folder.

    Agents of old clients have a file beside it.
    """
    names = path.split("/")
    if len(names) < 2 or not all(_SAFE_NAME.fullmatch(name) for name in names):
        return False
    if any(name in {".", ".."} for name in names):
        return False
    owner = names[1]
    if len(names) > 2:
        return owner.lower() == session_id.lower()
    is_agent = owner.startswith("agent-") and owner.endswith(".jsonl")
    return is_agent or owner.lower() == f"{session_id}.jsonl".lower()


class TranscriptArchive:
    """The archive beside a store. Its methods raise OSError if it cannot be used."""

    def __init__(self, state_folder: Path) -> None:
        self._state: Final = state_folder
        self.folder: Final = archive_folder(state_folder)
        self._entries: Final = entries_folder(state_folder)
        self.blobs: Final = ChunkedBlobStore(
            state_folder / ARCHIVE_FOLDER, chunk_store(state_folder, Packing.SMALL)
        )
        self._changed_ns: int | None = None
        self._sessions: Mapping[str, ArchivedSession] = {}
        self._parts: Mapping[str, tuple[ArchivedSession, ArchivedPart]] = {}
        self.problems: tuple[Problem, ...] = ()

    def sessions(self) -> Mapping[str, ArchivedSession]:
        """Return the archived sessions by id; those that cannot be read are `problems`."""
        self._refresh()
        return self._sessions

    def parts(self) -> Mapping[str, tuple[ArchivedSession, ArchivedPart]]:
        """Return the archived files by their path below projects/."""
        self._refresh()
        return self._parts

    def status(self, relative: str) -> ArchivedStatus | None:
        found = self.parts().get(relative)
        return found[1].status if found else None

    def open(self, relative: str) -> ArchivedTranscript | None:
        found = self.parts().get(relative)
        if found is None:
            return None
        part = found[1]
        manifest = self._read_manifest(part)
        file = ArchivedTranscript(ChunkedFile(self.blobs.chunks, manifest))
        file.status = part.status
        return file

    def _read_manifest(self, part: ArchivedPart) -> Manifest:
        manifest = self.blobs.read_manifest(part.blob)
        if manifest is None:
            raise BlobError(0, "the copy is stored whole", str(self.blobs.path(part.blob)))
        if manifest.size != part.size:
            raise BlobError(0, "the copy has another size", str(self.blobs.path(part.blob)))
        return manifest

    def find_damage(self, part: ArchivedPart) -> str | None:
        """Return why a copy is not whole, without reading its content; None if it seems whole."""
        try:
            manifest = self._read_manifest(part)
        except OSError as error:
            return error.strerror or str(error)
        is_whole = all(map(self.blobs.chunks.has, manifest.chunks))
        return None if is_whole else "a part of the copy is gone"

    def save(self, session: ArchivedSession) -> None:
        """Write a session's entry. Raises NotArchivedError if it could not be read again."""
        path, known = self._entry_path(session.session_id), self.sessions()
        data = msgspec.json.encode(session)
        try:
            _decode_entry(data, path.stem)
        except ValueError as error:
            raise NotArchivedError(f"its entry could not be read again: {error}") from error
        files.write_file_atomically(path, data)
        if session.session_id in known:
            return
        # Reading all entries again after each one would take minutes for a thousand sessions.
        self._sessions = {**known, session.session_id: session}
        self._parts = {**self._parts, **{part.path: (session, part) for part in session.parts}}
        self._changed_ns = self._entries.stat().st_mtime_ns

    def remove(self, session_ids: Iterable[str], now_ms: int) -> None:
        """Remove sessions, and the blobs that no other one has."""
        for session_id in session_ids:
            files.remove_if_present(self._entry_path(session_id))
        self._changed_ns = None
        named = {part.blob for each in self.sessions().values() for part in each.parts}
        if not self.problems:
            # Nobody knows what an unreadable entry needs: then nothing else is removed.
            self.blobs.remove(self.blobs.names() - named)
            remove_unreferenced_chunks(self._state, now_ms)

    def total_bytes(self) -> int:
        """Return the compressed size of all that is archived."""
        return self.blobs.total_bytes() if self.folder.is_dir() else 0

    def _entry_path(self, session_id: str) -> Path:
        return self._entries / f"{session_id}{ENTRY_SUFFIX}"

    def _refresh(self) -> None:
        try:
            changed_ns = self._entries.stat().st_mtime_ns
        except FileNotFoundError:
            changed_ns = 0
        if changed_ns == self._changed_ns:
            return
        problems: list[Problem] = []
        read = {each.session_id: each for each in self._read_entries(problems)}
        self._sessions, self.problems = read, tuple(problems)
        self._parts = {part.path: (each, part) for each in read.values() for part in each.parts}
        self._changed_ns = changed_ns

    def _read_entries(self, problems: list[Problem]) -> Iterator[ArchivedSession]:
        for path in sorted(self._entries.glob(f"[!.]*{ENTRY_SUFFIX}")):
            where = printable_path(str(path))
            try:
                with files.open_regular_file(path) as file:
                    yield _decode_entry(file.read(MAX_ENTRY_BYTES + 1), path.stem)
            except _ForeignEntryError as error:
                problems.append(Problem(where, str(error), "delete it: ctxtop did not write it"))
            except (OSError, ValueError, RecursionError) as error:  # DecodeError is a ValueError
                why = f"the archive cannot read it ({error})"
                problems.append(Problem(where, why, "restore it from a backup, or delete it"))


class _ForeignEntryError(ValueError):
    """An entry that ctxtop cannot have written."""


def _decode_entry(data: bytes, name: str) -> ArchivedSession:
    """Decode an entry and check what it names. Raises ValueError."""
    if len(data) > MAX_ENTRY_BYTES:
        raise ValueError(f"it has more than {MAX_ENTRY_BYTES:,} bytes")
    session = msgspec.json.decode(data, type=ArchivedSession)
    if not _is_valid(session, name):
        raise _ForeignEntryError("it names files outside of its session")
    return session


def _is_valid(session: ArchivedSession, name: str) -> bool:
    return (
        session.session_id == name
        and is_safe_session_id(name)
        and bool(session.parts)
        and all(is_safe_path(part.path, name) for part in session.parts)
        and all(re.fullmatch(r"[0-9a-f]{64}", part.blob) for part in session.parts)
    )


def find_damaged_sessions(archive: TranscriptArchive) -> list[str]:
    """List the sessions of which a part is missing or cannot be read, without its content."""
    return [
        f"session {session.session_id}: {why}"
        for session in archive.sessions().values()
        if (why := _find_damage(archive, session))
    ]


def _find_damage(archive: TranscriptArchive, session: ArchivedSession) -> str | None:
    found = ((part.path, archive.find_damage(part)) for part in session.parts)
    return next((f"{path}: {why}" for path, why in found if why), None)


class ArchiveLimits(msgspec.Struct, frozen=True):
    max_bytes: int  # compressed
    keep_ms: int | None  # from when a session was archived; None for ever


def expired_sessions(
    archive: TranscriptArchive, limits: ArchiveLimits, now_ms: int
) -> list[ArchivedSession]:
    if limits.keep_ms is None:
        return []
    return [each for each in archive.sessions().values() if now_ms - each.at > limits.keep_ms]


def sessions_to_prune(
    archive: TranscriptArchive, limits: ArchiveLimits, now_ms: int
) -> list[ArchivedSession]:
    """Return the sessions beyond the limits, the one that was written longest ago first."""
    expired = expired_sessions(archive, limits, now_ms)
    oldest = sorted(archive.sessions().values(), key=lambda each: each.last_written_ns)
    total = archive.total_bytes()
    if total <= limits.max_bytes:
        return expired
    kept = [each for each in oldest if each not in expired]
    use = _BlobUse(archive, kept)
    excess = total - limits.max_bytes - sum(map(_BlobUse(archive, oldest).remove, expired))
    while kept and excess > 0:
        expired.append(kept.pop(0))
        excess -= use.remove(expired[-1])
    return expired


class _BlobUse:
    """How many sessions need each manifest and chunk: what is shared is freed with the last."""

    def __init__(self, archive: TranscriptArchive, sessions: Iterable[ArchivedSession]) -> None:
        self._archive: Final = archive
        self._uses: Final = Counter(
            place for session in sessions for place in self._stored(session)
        )

    def remove(self, session: ArchivedSession) -> int:
        """Remove a session; return the bytes that this frees."""
        stored = self._stored(session)
        self._uses.subtract(stored.keys())
        return sum(size for place, size in stored.items() if self._uses[place] == 0)

    def _stored(self, session: ArchivedSession) -> dict[bytes, int]:
        """Return the sizes of a session's manifests and chunks, by their digests."""
        found: dict[bytes, int] = {}
        for blob in {part.blob for part in session.parts}:
            path = self._archive.blobs.path(blob)
            try:
                found[blob.encode()] = path.lstat().st_size
                manifest = self._archive.blobs.read_manifest(blob)
            except OSError:
                continue
            chunks = manifest.chunks if manifest else ()
            found |= {chunk.digest: chunk.stored for chunk in chunks if not chunk.is_gap}
        return found
