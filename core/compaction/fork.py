"""A session under a new id: its lines, its title, and the files that belong to it."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..files.file_operations import (
    FOLDER_MODE,
    make_private_folder,
    open_regular_file,
    remove_if_present,
    sync_folder,
    write_temporary,
)
from ..files.json_spans import JsonPointerError, JsonSpan, member_spans, replace_spans
from ..transcript.conversation import Entry, PartKind
from ..transcript.line_decoder import NotJsonError, UnexpectedShapeError, decode_line
from .rewritten_lines import LineTransform

MAX_TITLE_CHARS: Final = 100
"""Of a first prompt that stands for a title (client 2.1.329)."""

_TITLE_LINE: Final = re.compile(rb'\{"type":\s*"(custom-title|ai-title)"')

_COMPACTED_SUFFIX: Final = re.compile(r" \(compacted(?: (\d+))?\)$")


def fork_title(transcript: Path, entries: Sequence[Entry]) -> str | None:
    """Return a title for a session's fork; None if the session has none. Raises OSError."""
    with open_regular_file(transcript) as file:
        title = _recorded_title(file) or _first_prompt(entries)
    if title is None:
        return None
    counted = _COMPACTED_SUFFIX.search(title)
    if counted is None:
        return f"{title} (compacted)"
    return f"{title[: counted.start()]} (compacted {int(counted[1] or 1) + 1})"


def title_lines(title: str | None, session_id: str) -> tuple[bytes, ...]:
    """Write the two lines by which the client learns a title: for its list, and its prompt."""
    if title is None:
        return ()
    return tuple(
        json.dumps(
            {"type": type_, name: title, "sessionId": session_id},
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode("utf-8", "backslashreplace")
        + b"\n"
        for type_, name in (("custom-title", "customTitle"), ("agent-name", "agentName"))
    )


def _recorded_title(lines: Iterable[bytes]) -> str | None:
    """Return the last title that a person gave, else the last that the client made."""
    custom = made = None
    for data in lines:
        if _TITLE_LINE.match(data):
            with suppress(NotJsonError, UnexpectedShapeError):
                line = decode_line(data)
                custom = " ".join((line.custom_title or "").split()) or custom
                made = " ".join((line.ai_title or "").split()) or made
    return custom or made


def _first_prompt(entries: Sequence[Entry]) -> str | None:
    said = (
        " ".join(piece.text.split())
        for each in entries
        for piece in each.parts
        if piece.kind is PartKind.PROMPT and not each.sidechain
    )
    return next((text[:MAX_TITLE_CHARS].rstrip() for text in said if text), None)


AGENTS_FOLDER: Final = "subagents"
RESULTS_FOLDER: Final = "tool-results"
PROJECTS_FOLDER: Final = "projects"
HISTORY_FOLDER: Final = "file-history"
"""Folder of Claude Code's own folder: one folder a session, one file a version."""


def fork_transform(session_id: str, new_id: str, title: str | None = None) -> LineTransform:
    """Return how a session's lines are written in its fork; non-objects are copied as they are.

    A last line without a line end gets one: else the client would write its next line into it.
    """
    own, of = json.dumps(new_id).encode(), json.dumps(session_id).encode()

    def added(line: bytes) -> bytes:
        return _with_members(line, member_spans(line), {"sessionId": own})

    def kept(line: bytes) -> bytes:
        line = line if line.endswith(b"\n") else line + b"\n"
        try:
            found = member_spans(line)
        except JsonPointerError:
            return line
        if "sessionId" not in found:
            return line
        if "uuid" not in found:
            return _with_members(line, found, {"sessionId": own})
        uuid = line[found["uuid"].start : found["uuid"].end]
        origin = b'{"sessionId":' + of + b',"messageUuid":' + uuid + b"}"
        if "forkedFrom" in found:
            return _with_members(line, found, {"sessionId": own, "forkedFrom": origin})
        return _with_members(line, found, {"sessionId": own + b',"forkedFrom":' + origin})

    return LineTransform(kept, added, title_lines(title, new_id))


def _with_members(line: bytes, found: dict[str, JsonSpan], new: dict[str, bytes]) -> bytes:
    return replace_spans(line, [(found[name], new[name]) for name in new.keys() & found.keys()])


def copy_session_files(transcript: Path, fork_id: str, session_id: str) -> Path | None:
    """Copy a session's agents and large results to its fork's folder; return it, if there is one.

    The copies are the fork's own: an agent that goes on there writes into its own file. Links
    and whatever is no regular file are left out. Raises OSError.
    """
    source = transcript.with_suffix("")
    target = transcript.with_name(fork_id)
    if source.is_symlink() or not any(
        (source / name).is_dir() for name in (AGENTS_FOLDER, RESULTS_FOLDER)
    ):
        return None
    target.mkdir(FOLDER_MODE)
    rewrite = fork_transform(session_id, fork_id).transform_existing
    for name in (AGENTS_FOLDER, RESULTS_FOLDER):
        for path in _regular_files(source / name):
            copy = target / path.relative_to(source)
            make_private_folder(copy.parent)
            with open_regular_file(path) as file:
                lines = map(rewrite, file) if path.suffix == ".jsonl" else iter(file)
                temporary = write_temporary(copy, lines)
                status = os.fstat(file.fileno())
                os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
            temporary.replace(copy)
    sync_folder(target.parent)
    return target


def link_file_history(transcript: Path, new_id: str) -> Path | None:
    """Link the client's copies of edited files for a fork; return the folder, if there is one.

    The client's branch command links them too: a copy has a version in its name, and is never
    written again. A fork without them could not go back in its files. Raises OSError.
    """
    source = file_history_folder(transcript)
    if source is None or source.is_symlink() or not source.is_dir():
        return None
    target = source.with_name(new_id)
    target.mkdir(FOLDER_MODE)
    for path in _regular_files(source):
        link = target / path.relative_to(source)
        make_private_folder(link.parent)
        link.hardlink_to(path)
    sync_folder(source.parent)
    return target


def file_history_folder(transcript: Path) -> Path | None:
    """Return the folder of a session's file history; None where no such folder can be trusted."""
    projects = transcript.parent.parent
    history = projects.with_name(HISTORY_FOLDER)
    if projects.name != PROJECTS_FOLDER or history.is_symlink():
        return None
    return history / transcript.stem


def remove_fork_files(fork: Path) -> None:
    """Remove what was copied and linked for a fork that did not come about."""
    for folder in (fork.with_suffix(""), file_history_folder(fork)):
        if folder is not None:
            _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in _regular_files(folder):
        remove_if_present(path)
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
