"""What agents' own files say now, before anything is in the store: type, end, last words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.injection.past import Outcome, Past
from ..core.injection.past_rows import outcome_of_status
from ..core.injection.tags import tags_in
from ..core.resumed import RESUMED_MS
from .agent_meta import read_meta
from .clean import clean_text
from .folder import AGENT, META, TRANSCRIPT, FoundFile
from .transcripts.agent_returns import (
    NOTIFICATION,
    STARTED,
    read_queue_operation,
    read_return,
    read_sayings,
)
from .transcripts.ends import first_prompt, head_lines, last_words, tail_lines
from .transcripts.lines import NotJsonError, ShapeError, decode_line
from .transcripts.teammates import TAG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .transcripts.agent_returns import Returned
    from .transcripts.lines import Line

SESSIONS: Final = 12
"""Other sessions of the project whose agents are looked at, the newest; the store has the rest."""

AGENTS: Final = 40
"""Agents whose files are read, the newest: a millisecond each."""

TEXT_CHARS: Final = 20_000
"""Of an agent's last words: more is never given."""


class _File(msgspec.Struct, frozen=True):
    path: Path
    mtime_ns: int


class _End(msgspec.Struct, frozen=True):
    outcome: Outcome
    at: int | None


def agents_of_project(session: Path, end_lines: Iterable[bytes]) -> list[Past]:
    """Read the newest agents of a session and of the newest other sessions beside it.

    `session` is its transcript, `returns` the lines of its end, which may tell how agents
    ended. What cannot be read is left out: it is in the way of nobody.
    """
    own = session.with_suffix("")
    return _read([*_agent_files(own), *_of_others(own)], own, end_lines)


def agents_of_session(session: Path, end_lines: Iterable[bytes]) -> list[Past]:
    """Read the newest agents of one session, as `agents_of_project` does."""
    own = session.with_suffix("")
    return _read(_agent_files(own), own, end_lines)


def _read(files: list[_File], own: Path, returns: Iterable[bytes]) -> list[Past]:
    told = _ends(returns)
    return [past for file in files[:AGENTS] if (past := _past(file, told, own.name.lower()))]


def _of_others(own: Path) -> list[_File]:
    folders = [each for each in _children(own.parent) if each.path.name != own.name]
    # A session's folder changes when it gets another folder, not another agent: the folder
    # of its agents does.
    agents = [_status(each.path / "subagents") for each in folders if not each.path.suffix]
    newest = sorted((each for each in agents if each), key=_age)[:SESSIONS]
    return sorted((file for each in newest for file in _agent_files(each.path.parent)), key=_age)


def _agent_files(session: Path) -> list[_File]:
    found = [
        each
        for each in _children(session / "subagents")
        if each.path.name.startswith(AGENT) and each.path.suffix == TRANSCRIPT
    ]
    return sorted(found, key=_age)


def _past(file: _File, told: dict[str, _End], current: str) -> Past | None:
    session = file.path.parent.parent
    agent_id = file.path.stem.removeprefix(AGENT)
    meta_path = file.path.with_name(f"{AGENT}{agent_id}{META}")
    relative = f"{session.parent.name}/{session.name}/subagents/{meta_path.name}"
    try:
        meta = read_meta(FoundFile(str(session.parent.parent), relative, 0, 0, 0))
        text, at = last_words(tail_lines(file.path))
        asked = first_prompt(head_lines(file.path))
    except OSError:
        return None
    if meta is None:
        return None
    # A teammate's messages name it by its name alone.
    told_of = told.get(agent_id) or told.get(meta.name or "")
    end = told_of if session.name.lower() == current else None
    if end is None:
        outcome = Outcome.FINISHED if meta.finished else Outcome.RUNNING
    elif (at or 0) > (end.at or at or 0) + RESUMED_MS:
        outcome = Outcome.RUNNING
    else:
        outcome = end.outcome
    text = clean_text(text[:TEXT_CHARS].strip())
    return Past(
        agent_id=agent_id,
        session_id=session.name.lower(),
        project=session.parent.name,
        agent_type=meta.agent_type or "agent",
        text=text,
        outcome=outcome,
        parent_agent_id=meta.parent_agent_id,
        at=at,
        tags=tags_in(text) | tags_in(asked),
        description=meta.description,
        changed_at=file.mtime_ns // 1_000_000,
    )


def _ends(lines: Iterable[bytes]) -> dict[str, _End]:
    """Read how agents ended, by what came back of them; the last word counts."""
    ends: dict[str, _End] = {}
    marks = (b'"toolUseResult"', NOTIFICATION.encode(), TAG.encode())
    for data in lines:
        if not any(mark in data for mark in marks):
            continue
        try:
            line = decode_line(data)
            returned = _returned_in(line)
        except (NotJsonError, ShapeError):
            continue
        for each in returned:
            if each.fact.status not in STARTED:
                ends[each.fact.agent_id] = _End(outcome_of_status(each.fact.status), each.fact.at)
    return ends


def _returned_in(line: Line) -> list[Returned]:
    read = read_queue_operation if line.type == "queue-operation" else read_return
    one = read(0, line)
    return [*([one] if one else []), *read_sayings(0, line)]


def _children(folder: Path) -> list[_File]:
    try:
        with os.scandir(folder) as entries:
            return [
                _File(Path(entry.path), entry.stat(follow_symlinks=False).st_mtime_ns)
                for entry in entries
                if not entry.is_symlink()
            ]
    except OSError:
        return []


def _status(path: Path) -> _File | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return _File(path, status.st_mtime_ns)


def _age(file: _File) -> int:
    return -file.mtime_ns
