"""Claude Code's folder: which transcripts are in it."""

from __future__ import annotations

import os
import stat
from functools import cached_property
from pathlib import Path, PurePath
from sys import intern
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.store.facts import FileKind, SourceFile
from .regular import NOT_REGULAR

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSCRIPT: Final = ".jsonl"
META: Final = ".meta.json"
AGENT: Final = "agent-"
JOURNAL: Final = "journal.jsonl"

DEEPEST: Final = 8
"""Levels below projects/; the client nests to 5, a loop of mounts would not end."""


class Trouble(msgspec.Struct, frozen=True):
    """Something that could not be read: where, what, and what to do."""

    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}; {self.fix}"


class FoundFile(msgspec.Struct, frozen=True, gc=False):
    """A file below projects/ and what the folder says of it."""

    projects: str
    relative: str
    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = 0
    """0 where it was not asked for."""

    @property
    def path(self) -> Path:
        """Where it stands; there may be 100,000 files, and few are opened."""
        return Path(self.projects, self.relative)


class Finding(msgspec.Struct, frozen=True):
    """What is in the folder, newest first, and what could not be looked into."""

    transcripts: list[FoundFile] = []
    metas: list[FoundFile] = []
    unreadable: list[str] = []
    """Paths below projects/ of what is there and could not be looked at."""
    problems: list[Trouble] = []

    def is_below_unreadable(self, relative: str) -> bool:
        """Return whether a path lies below one that could not be looked at."""
        return any(PurePath(relative).is_relative_to(place) for place in self.unreadable)


class ClaudeFolder(msgspec.Struct, frozen=True, dict=True):
    """The folder with all links resolved once: nothing below it is followed out of it."""

    root: Path

    @cached_property
    def projects(self) -> Path:
        """Where the transcripts are."""
        return (self.root / "projects").resolve()

    @cached_property
    def sessions(self) -> Path:
        """The registry of running sessions."""
        return (self.root / "sessions").resolve()

    def relative(self, path: Path) -> str:
        """Name a path below projects/ as the store does."""
        return path.relative_to(self.projects).as_posix()


def found_file(projects: str, relative: str, status: os.stat_result) -> FoundFile:
    """Describe a file below projects/ by its `stat` result."""
    return FoundFile(
        projects,
        relative,
        status.st_size,
        status.st_mtime_ns,
        status.st_ino,
        status.st_ctime_ns,
    )


def find_files(folder: ClaudeFolder, below: Path | None = None) -> Finding:
    """List the transcripts and agents' meta.json files below projects/ or one of its folders."""
    finding = Finding()
    top = below or folder.projects
    # The system tells of changes behind a link too.
    if top.resolve() == top:
        projects = str(folder.projects)
        before = len(f"{projects}{os.sep}")
        for entry in _walk(folder, str(top), finding, DEEPEST):
            relative = entry.path[before:]
            if os.sep != "/":
                relative = relative.replace(os.sep, "/")
            _sort_in(entry, projects, relative, finding)
    finding.transcripts.sort(key=lambda found: found.mtime_ns, reverse=True)
    return finding


def describe(relative: str) -> SourceFile | None:
    """Tell what a path below projects/ records, or None for what is no transcript.

    An agent's file of the old layout does not name its session; that stands in its lines.
    """
    parts = relative.split("/")
    name = parts[-1]
    if not name.endswith(TRANSCRIPT):
        return None
    stem = name[: -len(TRANSCRIPT)]
    # A project has thousands of files, and its name is kept once.
    project = intern(parts[0])
    if len(parts) == 2:
        if name.startswith(AGENT):
            return SourceFile(relative, FileKind.AGENT, project, "", stem[len(AGENT) :])
        return SourceFile(relative, FileKind.SESSION, project, stem.lower())
    if name.startswith(AGENT) and parts[2:3] == ["subagents"]:
        agent_id = stem[len(AGENT) :]
        return SourceFile(relative, FileKind.AGENT, project, parts[1].lower(), agent_id)
    if name == JOURNAL and parts[2:4] == ["subagents", "workflows"]:
        return SourceFile(relative, FileKind.JOURNAL, project, parts[1].lower())
    return None


def is_moved(known: SourceFile, found: FoundFile) -> bool:
    """Return whether a file is the known one, moved: nothing is left at its old path."""
    named = describe(found.relative)
    return (
        named is not None
        and named.kind is known.kind
        and named.agent_id == known.agent_id
        # An old agent's path does not name its session.
        and named.session_id in {"", known.session_id}
        and known.path.rpartition("/")[2] == found.relative.rpartition("/")[2]
        and not os.path.lexists(Path(found.projects, known.path))
    )


def _sort_in(entry: os.DirEntry[str], projects: str, relative: str, finding: Finding) -> None:
    is_meta = _is_meta(relative)
    if not is_meta and describe(relative) is None:
        return
    if not _is_text(relative):
        what = "has a name that is not UTF-8"
        finding.problems.append(Trouble(_shown(relative), what, "it is left alone; rename it"))
        return
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as error:
        finding.unreadable.append(relative)
        finding.problems.append(unreadable(relative, error))
        return
    if not stat.S_ISREG(status.st_mode):
        finding.problems.append(
            Trouble(relative, NOT_REGULAR, "it is left alone; remove it if it is yours")
        )
        return
    found = found_file(projects, relative, status)
    if is_meta:
        finding.metas.append(found)
    else:
        finding.transcripts.append(found)


def _is_meta(relative: str) -> bool:
    parts = relative.split("/")
    name = parts[-1]
    return name.startswith(AGENT) and name.endswith(META) and parts[2:3] == ["subagents"]


def _is_text(relative: str) -> bool:
    try:
        relative.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(place: str) -> str:
    """Replace what of a file's name is not UTF-8: the store takes only text."""
    return os.fsencode(place).decode("utf-8", "replace")


def _walk(
    folder: ClaudeFolder, top: str, finding: Finding, depth: int
) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(top) as entries:
            children = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        finding.unreadable.append(folder.relative(Path(top)))
        finding.problems.append(unreadable(top, error))
        return
    for entry in children:
        if entry.is_dir(follow_symlinks=False):
            if depth > 1:
                yield from _walk(folder, entry.path, finding, depth - 1)
        else:
            yield entry


def unreadable(where: str, error: OSError) -> Trouble:
    """Say in one line why a place could not be read."""
    return Trouble(
        _shown(where),
        f"cannot be read ({error.strerror or error})",
        "check its permissions; ctxtop tries again by itself",
    )
