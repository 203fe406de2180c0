"""Reads agents' own files before they are stored: type, outcome, last answer."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from ...core.injection.context_selection import (
    EarlierResult,
    RunOutcome,
    find_tags,
    outcome_of_status,
)
from ...core.store.transcript_records import AgentReturnRecord
from ...core.transcript.client_messages import TASK_NOTIFICATION, TEAMMATE_TAG
from ...core.transcript.conversation import AGENT_RESUMED_MS
from ...core.transcript.line_decoder import (
    NotJsonError,
    UnexpectedShapeError,
    decode_line,
    decode_string,
)
from ...core.transcript.sanitize import sanitize_text
from .discover import AGENT_PREFIX, META_SUFFIX, TRANSCRIPT_SUFFIX, FoundFile, read_agent_meta
from .transcripts.agent_results import (
    STARTED_STATUSES,
    read_notification,
    read_returns,
)
from .transcripts.transcript_ends import (
    first_prompt_text,
    last_answer_text,
    read_head_lines,
    read_tail_lines,
)

MAX_OTHER_SESSIONS: Final = 12  # the newest whose agents are read; the store has the others
MAX_AGENTS: Final = 40  # agents whose files are read, the newest: a millisecond each
MAX_AGENT_TEXT_CHARS: Final = 20_000  # of an agent's last answer: more is never injected


class _AgentFile(msgspec.Struct, frozen=True):
    path: Path
    mtime_ns: int


class _AgentEnd(msgspec.Struct, frozen=True):
    outcome: RunOutcome
    at: int | None


def read_project_agents(session: Path, end_lines: Iterable[bytes]) -> list[EarlierResult]:
    """Read the newest agents of a session and of the newest other sessions beside it.

    `session` is its transcript, `end_lines` the last lines of it, which may say how agents
    ended. Files that cannot be read are left out.
    """
    own = session.with_suffix("")
    return _read_agents([*_agent_files(own), *_files_of_other_sessions(own)], own, end_lines)


def read_session_agents(session: Path, end_lines: Iterable[bytes]) -> list[EarlierResult]:
    """Read the newest agents of one session, as `read_project_agents` does."""
    own = session.with_suffix("")
    return _read_agents(_agent_files(own), own, end_lines)


def _read_agents(
    files: list[_AgentFile], own: Path, end_lines: Iterable[bytes]
) -> list[EarlierResult]:
    ends, current = _read_ends(end_lines), own.name.lower()
    agents = (_read_agent(file, ends, current) for file in files[:MAX_AGENTS])
    return [agent for agent in agents if agent]


def _files_of_other_sessions(own: Path) -> list[_AgentFile]:
    folders = [each.path for each in _list_folder(own.parent) if each.path.name != own.name]
    # A new agent changes the mtime of subagents/, not that of its session's folder.
    agents = [_stat(path / "subagents") for path in folders if not path.suffix]
    newest = sorted((each for each in agents if each), key=_newest_first)[:MAX_OTHER_SESSIONS]
    return sorted(
        (file for each in newest for file in _agent_files(each.path.parent)), key=_newest_first
    )


def _agent_files(session: Path) -> list[_AgentFile]:
    found = [
        file
        for file in _list_folder(session / "subagents")
        if file.path.name.startswith(AGENT_PREFIX) and file.path.suffix == TRANSCRIPT_SUFFIX
    ]
    return sorted(found, key=_newest_first)


def _read_agent(file: _AgentFile, ends: dict[str, _AgentEnd], current: str) -> EarlierResult | None:
    session = file.path.parent.parent
    agent_id = file.path.stem.removeprefix(AGENT_PREFIX)
    name = f"{AGENT_PREFIX}{agent_id}{META_SUFFIX}"
    relative = f"{session.parent.name}/{session.name}/subagents/{name}"
    try:
        meta = read_agent_meta(FoundFile(str(session.parent.parent), relative, 0, 0, 0))
        text, at = last_answer_text(read_tail_lines(file.path))
        prompt = first_prompt_text(read_head_lines(file.path))
    except OSError:
        return None
    if meta is None:
        return None
    # A teammate's messages refer to it only by its name.
    end = ends.get(agent_id) or ends.get(meta.name or "")
    if end is None or session.name.lower() != current:
        outcome = RunOutcome.FINISHED if meta.finished else RunOutcome.RUNNING
    elif (at or 0) > (end.at or at or 0) + AGENT_RESUMED_MS:
        outcome = RunOutcome.RUNNING
    else:
        outcome = end.outcome
    text = sanitize_text(text[:MAX_AGENT_TEXT_CHARS].strip())
    return EarlierResult(
        agent_id=agent_id,
        session_id=session.name.lower(),
        project=session.parent.name,
        agent_type=meta.agent_type or "agent",
        text=text,
        outcome=outcome,
        parent_agent_id=meta.parent_agent_id,
        at=at,
        tags=find_tags(text) | find_tags(prompt),
        description=meta.description,
        changed_at=file.mtime_ns // 1_000_000,
    )


def _read_ends(lines: Iterable[bytes]) -> dict[str, _AgentEnd]:
    ends: dict[str, _AgentEnd] = {}
    marks = (b'"toolUseResult"', TASK_NOTIFICATION.encode(), TEAMMATE_TAG.encode())
    for data in lines:
        if not any(mark in data for mark in marks):
            continue
        try:
            line = decode_line(data)
            if line.type == "queue-operation":
                returns = read_notification(0, line, decode_string(line.content))
            else:
                returns = read_returns(0, line)
        except (NotJsonError, UnexpectedShapeError):
            continue
        for record in returns:
            if isinstance(record, AgentReturnRecord) and record.status not in STARTED_STATUSES:
                ends[record.agent_id] = _AgentEnd(outcome_of_status(record.status), record.at)
    return ends


def _list_folder(folder: Path) -> list[_AgentFile]:
    try:
        with os.scandir(folder) as entries:
            return [
                _AgentFile(Path(entry.path), entry.stat(follow_symlinks=False).st_mtime_ns)
                for entry in entries
                if not entry.is_symlink()
            ]
    except OSError:
        return []


def _stat(path: Path) -> _AgentFile | None:
    try:
        return _AgentFile(path, path.lstat().st_mtime_ns)
    except OSError:
        return None


def _newest_first(file: _AgentFile) -> int:
    return -file.mtime_ns
