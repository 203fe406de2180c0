"""Finds the transcripts and agents' meta.json files in Claude Code's folder."""

import os
import re
import stat
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePath
from sys import intern
from typing import Final

import msgspec

from ...core.files.safe_open import NOT_REGULAR_FILE
from ...core.lazy_pattern import lazy_pattern
from ...core.model.problem import Problem, printable_path, unreadable_problem
from ...core.model.transcript_records import FileKind, SourceFile

MOUNT_TABLE: Final = Path("/proc/self/mountinfo")

_SILENT_FILE_SYSTEMS: Final = lazy_pattern(
    r"nfs\d?|cifs|smb\d?|smbfs|fuse\..*|9p|virtiofs|vboxsf|prl_fs|afs|ceph|glusterfs|lustre|davfs"
)
"""Network and shared file systems do not report what another machine writes.
`fuseblk` is a local disk."""


def file_system_type(place: Path) -> str | None:
    """Return the type of a folder's file system; None if the system does not list it."""
    try:
        lines = MOUNT_TABLE.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    kind, depth = None, -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        # If two file systems are mounted on one point, the later one covers the other.
        if len(point.parts) >= depth and place.is_relative_to(point):
            kind, depth = after.split()[0], len(point.parts)
    return kind


def needs_polling(place: Path) -> bool:
    kind = file_system_type(place)
    return kind is not None and _SILENT_FILE_SYSTEMS.fullmatch(kind) is not None


TRANSCRIPT_SUFFIX: Final = ".jsonl"
META_SUFFIX: Final = ".meta.json"
AGENT_PREFIX: Final = "agent-"

MAX_FOLDER_LEVELS: Final = 8  # below projects/; the client nests to 5, mounts may loop


class FoundFile(msgspec.Struct, frozen=True, gc=False):
    projects: str
    relative: str
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = 0  # 0 where it was not asked for
    is_on_disk: bool = True  # False: only the archive has it

    @property
    def path(self) -> Path:
        # Not stored: there may be 100,000 files, and few are opened.
        return Path(self.projects, self.relative)


class FolderListing(msgspec.Struct, frozen=True):
    """The files of the folder, newest first, and what could not be read."""

    transcripts: list[FoundFile] = []
    metas: list[FoundFile] = []
    unreadable: list[str] = []  # paths below projects/
    problems: list[Problem] = []

    def is_below_unreadable(self, relative: str) -> bool:
        return any(PurePath(relative).is_relative_to(place) for place in self.unreadable)


class ClaudeFolder(msgspec.Struct, frozen=True, dict=True):
    """Claude Code's folder with its links resolved once; below it no link is followed."""

    root: Path

    @cached_property
    def projects(self) -> Path:
        return (self.root / "projects").resolve()

    @cached_property
    def sessions(self) -> Path:
        return (self.root / "sessions").resolve()

    def relative(self, path: Path) -> str:
        """Return a path below projects/ as the store names it."""
        return path.relative_to(self.projects).as_posix()


def make_found_file(projects: str, relative: str, status: os.stat_result) -> FoundFile:
    return FoundFile(
        projects, relative, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns
    )


def find_files(folder: ClaudeFolder, below: Path | None = None) -> FolderListing:
    listing = FolderListing()
    top = below or folder.projects
    # The system reports changes behind links, too.
    if top.resolve() == top:
        projects = str(folder.projects)
        start = len(projects) + 1
        for entry in _walk(folder, str(top), listing, MAX_FOLDER_LEVELS):
            relative = entry.path[start:]
            if os.sep != "/":
                relative = relative.replace(os.sep, "/")
            _add_to_listing(entry, projects, relative, listing)
    listing.transcripts.sort(key=lambda found: found.mtime_ns, reverse=True)
    return listing


def classify_path(relative: str) -> SourceFile | None:
    """Return a transcript's kind and ids, without a session for an agent in the old layout."""
    parts = relative.split("/")
    name = parts[-1]
    if not name.endswith(TRANSCRIPT_SUFFIX):
        return None
    stem = name[: -len(TRANSCRIPT_SUFFIX)]
    # A project may have thousands of files, which share its name.
    project = intern(parts[0])
    agent_id = stem[len(AGENT_PREFIX) :] if name.startswith(AGENT_PREFIX) else None
    if len(parts) == 2:
        if agent_id is None:
            return SourceFile(relative, FileKind.SESSION, project, stem.lower())
        return SourceFile(relative, FileKind.AGENT, project, "", agent_id)
    if agent_id is not None and parts[2:3] == ["subagents"]:
        return SourceFile(relative, FileKind.AGENT, project, parts[1].lower(), agent_id)
    if name == "journal.jsonl" and parts[2:4] == ["subagents", "workflows"]:
        return SourceFile(relative, FileKind.JOURNAL, project, parts[1].lower())
    return None


def is_moved(known: SourceFile, found: FoundFile) -> bool:
    """Return whether a file is the known one after a move: its old path no longer exists."""
    source = classify_path(found.relative)
    return (
        source is not None
        and source.kind is known.kind
        and source.agent_id == known.agent_id
        # An old agent's path does not name its session.
        and source.session_id in {"", known.session_id}
        and known.path.rpartition("/")[2] == found.relative.rpartition("/")[2]
        and not os.path.lexists(Path(found.projects, known.path))
    )


def _add_to_listing(
    entry: os.DirEntry[str], projects: str, relative: str, listing: FolderListing
) -> None:
    parts = relative.split("/")
    is_agent_file = parts[-1].startswith(AGENT_PREFIX) and parts[2:3] == ["subagents"]
    is_meta = is_agent_file and relative.endswith(META_SUFFIX)
    if not is_meta and classify_path(relative) is None:
        return
    try:
        relative.encode()
    except UnicodeEncodeError:
        what = "has a name that is not UTF-8"
        listing.problems.append(Problem(printable_path(relative), what, "it is skipped; rename it"))
        return
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        listing.unreadable.append(relative)
        listing.problems.append(unreadable_problem(relative, error))
        return
    if not stat.S_ISREG(status.st_mode):
        listing.problems.append(
            Problem(relative, NOT_REGULAR_FILE, "it is skipped; remove it if it is yours")
        )
        return
    found = make_found_file(projects, relative, status)
    (listing.metas if is_meta else listing.transcripts).append(found)


def _walk(
    folder: ClaudeFolder, top: str, listing: FolderListing, depth: int
) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(top) as entries:
            children = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        listing.unreadable.append(folder.relative(Path(top)))
        listing.problems.append(unreadable_problem(top, error))
        return
    for entry in children:
        if entry.is_dir(follow_symlinks=False):
            if depth > 1:
                yield from _walk(folder, entry.path, listing, depth - 1)
        else:
            yield entry
