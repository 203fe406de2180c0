"""A session under a new id: its lines, and what belongs to it beside its transcript.

As the client's own branch does it: uuids stay, `sessionId` is the new one, and `forkedFrom`
names the line that each comes from (reference: claude-code-formats 1.7).
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, Final

from .files import FOLDER_MODE, reading, sync_folder, unlink, write_beside
from .image import Written
from .pointer import PointerError, members
from .title import title_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .pointer import Span

AGENTS: Final = "subagents"
RESULTS: Final = "tool-results"
PROJECTS: Final = "projects"
HISTORY: Final = "file-history"
"""Folder of Claude Code's own folder: one folder a session, one file a version."""


def as_fork(session_id: str, new_id: str, title: str | None = None) -> Written:
    """Return how a session's lines are written in its fork; non-objects are copied as they are.

    A last line without a line end gets one: else the client would write its next line into it.
    """
    own, of = json.dumps(new_id).encode(), json.dumps(session_id).encode()

    def added(line: bytes) -> bytes:
        return _with(line, members(line), {"sessionId": own})

    def kept(line: bytes) -> bytes:
        line = line if line.endswith(b"\n") else line + b"\n"
        try:
            found = members(line)
        except PointerError:
            return line
        if "sessionId" not in found:
            return line
        if "uuid" not in found:
            return _with(line, found, {"sessionId": own})
        uuid = line[found["uuid"].start : found["uuid"].end]
        origin = b'{"sessionId":' + of + b',"messageUuid":' + uuid + b"}"
        if "forkedFrom" in found:
            return _with(line, found, {"sessionId": own, "forkedFrom": origin})
        return _with(line, found, {"sessionId": own + b',"forkedFrom":' + origin})

    return Written(kept, added, title_lines(title, new_id))


def _with(line: bytes, found: dict[str, Span], new: dict[str, bytes]) -> bytes:
    for name in sorted(new.keys() & found.keys(), key=lambda each: -found[each].start):
        span = found[name]
        line = line[: span.start] + new[name] + line[span.end :]
    return line


def copy_beside(transcript: Path, fork_id: str, session_id: str) -> Path | None:
    """Copy a session's agents and large results to its fork's folder; gives it, if there is one.

    The copies are the fork's own: an agent that goes on there writes into its own file. Links
    and whatever is no regular file are left out. Raises OSError.
    """
    source = transcript.with_suffix("")
    target = transcript.with_name(fork_id)
    if source.is_symlink() or not any((source / name).is_dir() for name in (AGENTS, RESULTS)):
        return None
    target.mkdir(FOLDER_MODE)
    rewrite = as_fork(session_id, fork_id).transform_existing
    for name in (AGENTS, RESULTS):
        for path in _regular_files(source / name):
            copy = target / path.relative_to(source)
            _make_folders(target, copy.parent)
            with reading(path) as file:
                lines = map(rewrite, file) if path.suffix == ".jsonl" else iter(file)
                temporary = write_beside(copy, lines)
                status = os.fstat(file.fileno())
                os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
            temporary.replace(copy)
    sync_folder(target.parent)
    return target


def link_history(transcript: Path, new_id: str) -> Path | None:
    """Link the client's copies of edited files for a fork; gives the folder, if there is one.

    The client's branch command links them too: a copy has a version in its name, and is never
    written again. A fork without them could not go back in its files. Raises OSError.
    """
    source = history_of(transcript)
    if source is None or source.is_symlink() or not source.is_dir():
        return None
    target = source.with_name(new_id)
    target.mkdir(FOLDER_MODE)
    for path in _regular_files(source):
        link = target / path.relative_to(source)
        _make_folders(target, link.parent)
        link.hardlink_to(path)
    sync_folder(source.parent)
    return target


def history_of(transcript: Path) -> Path | None:
    """Name the folder of a session's file history; None where no such folder can be trusted."""
    projects = transcript.parent.parent
    history = projects.with_name(HISTORY)
    if projects.name != PROJECTS or history.is_symlink():
        return None
    return history / transcript.stem


def remove_copies(fork: Path) -> None:
    """Remove what was copied and linked for a fork that did not come about."""
    for folder in (fork.with_suffix(""), history_of(fork)):
        if folder is not None:
            _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in _regular_files(folder):
        unlink(path)
    folders = sorted((each for each in folder.rglob("*") if each.is_dir()), reverse=True)
    for each in (*folders, folder):
        each.rmdir()


def _regular_files(folder: Path) -> Iterator[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(folder.rglob("*")):
        if any(each.is_symlink() for each in path.parents if each.is_relative_to(folder)):
            continue
        if stat.S_ISREG(path.lstat().st_mode):
            yield path


def _make_folders(root: Path, folder: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if each.is_relative_to(root)]
    for each in reversed(missing):
        if not each.is_dir():
            each.mkdir(FOLDER_MODE)
