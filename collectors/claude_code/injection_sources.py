"""What can be injected into a starting agent: other agents' results, open tasks and the plan.

Agents' own files are read as they are now, before anything of them is stored.
"""

import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from ...core.compliance.run_verdict import find_replaced_result
from ...core.injection.context_selection import (
    EarlierResult,
    InjectionLimits,
    OpenTask,
    RunOutcome,
    StartingAgent,
    find_tags,
    outcome_of_status,
)
from ...core.model.answer_facts import AGENT_RESUMED_MS
from ...core.model.conversation import PartKind
from ...core.model.transcript_records import AgentReturnRecord
from ...core.readers.earlier_results import make_earlier_result
from ...core.store.bulkhead import NOT_READ, bulkhead
from ...core.store.queries.agent_queries import results_of_project, results_of_type
from ...core.summaries.artifacts import TODO_TOOLS, TodoList, parse_tool_input
from ...core.transcript import lenient_json, line_decoder
from ...core.transcript.client_messages import TASK_NOTIFICATION, TEAMMATE_TAG
from ...core.transcript.entry_decoder import NamedToolCall, decode_entry, iter_lines
from ...core.transcript.line_types import PLAN_TOOL
from ...core.transcript.sanitize import sanitize_text
from ..locations.discover import AGENT_PREFIX, META_SUFFIX, TRANSCRIPT_SUFFIX, FoundFile
from .agent_metas import read_agent_meta
from .transcripts import transcript_ends
from .transcripts.agent_results import STARTED_STATUSES, read_notification, read_returns

_TASK_MARKERS: Final = (
    *(f'"{tool}"'.encode() for tool in sorted({*TODO_TOOLS, PLAN_TOOL})),
    b"Task #",
)
"""Found in the lines of calls of these tools, and of their results."""


class SessionTasks(msgspec.Struct, frozen=True):
    open: tuple[OpenTask, ...] = ()
    plan: str = ""


def read_tasks(path: Path) -> SessionTasks:
    todos, plan = TodoList(), ""
    calls: dict[str, NamedToolCall] = {}
    for offset, number, data in iter_lines(path):
        if not any(mark in data for mark in _TASK_MARKERS):
            continue
        entry = decode_entry(offset, data, calls, number)
        for part in entry.parts if entry and not entry.sidechain else ():
            if part.name == PLAN_TOOL and part.kind is PartKind.TOOL_INPUT:
                plan = str(parse_tool_input(part).get("plan") or plan)
            todos.add_part(part, number)
    return SessionTasks(
        tuple(
            OpenTask(
                subject=sanitize_text(todo.text),
                status=todo.status,
                description=sanitize_text(todo.description),
                owner=sanitize_text(todo.owner) if todo.owner else None,
            )
            for todo in todos.open
        ),
        sanitize_text(plan),
    )


RETURNS_BYTES: Final = 4 * transcript_ends.TAIL_BYTES
"""The end of a session's file in which agents' returns are read; the store or the agents' own files
have the others."""

MAX_TASKS_BYTES: Final = 32 * 1024 * 1024  # in longer transcripts tasks may be anywhere


class InjectionRequest(msgspec.Struct, frozen=True):
    transcript: Path  # of its session; may be missing
    agent_type: str
    agent_id: str | None = None
    prompt: str | None = None  # its task; the client does not give it to a starting agent's hook
    project_root: Path | None = None  # where its session began, with the project's definitions


def gather_injection_sources(
    request: InjectionRequest, db: sqlite3.Connection | None, limits: InjectionLimits
) -> tuple[StartingAgent, list[EarlierResult]]:
    """Return the agent and earlier results that could help it; raises sqlite3.Error."""
    transcript = request.transcript
    session, project = transcript.stem.lower(), transcript.parent.name
    results = {each.key: each for each in _stored_agents(db, project, request.agent_type, limits)}
    try:
        end_lines = transcript_ends.read_tail_lines(transcript, RETURNS_BYTES)
    except OSError:
        end_lines = []
    for result in read_project_agents(transcript, end_lines):
        results[result.key] = _merge_agents(result, results.get(result.key))
    running = {
        result.agent_id
        for result in results.values()
        if result.session_id == session and result.outcome is RunOutcome.RUNNING
    }
    tasks = _read_tasks_if_small(transcript)
    return (
        StartingAgent(
            session_id=session,
            project=project,
            agent_type=request.agent_type,
            agent_id=request.agent_id,
            possible_parents=frozenset({None, *running}),
            tags=_tags(request, end_lines),
            tasks=tasks.open,
            plan=tasks.plan,
        ),
        list(results.values()),
    )


def _stored_agents(
    db: sqlite3.Connection | None, project: str, agent_type: str, limits: InjectionLimits
) -> list[EarlierResult]:
    if db is None:
        return []
    rows = results_of_project(db, project)
    if limits.all_projects:
        rows += results_of_type(db, agent_type)
    # The newest comes first: an earlier return of the same agent is outdated.
    return [make_earlier_result(row) for row in reversed(rows)]


def _merge_agents(file: EarlierResult, stored: EarlierResult | None) -> EarlierResult:
    """Prefer the file, except for the outcome, which the stored return may know better."""
    if stored is None or stored.outcome is RunOutcome.RUNNING or (file.at or 0) > (stored.at or 0):
        return file
    # The file of an agent that was killed only shows that it is over.
    has_failed = RunOutcome.FAILED in {file.outcome, stored.outcome}
    outcome = RunOutcome.FAILED if has_failed else RunOutcome.FINISHED
    return replace(file if file.text else stored, outcome=outcome)


def _tags(request: InjectionRequest, end_lines: list[bytes]) -> frozenset[str]:
    """Find tags in the agent's definition, in its task, and in the user's last prompt."""
    folders = [request.transcript.parent.parent.parent / "agents"]
    if request.project_root is not None:
        own = (request.project_root / ".claude" / "agents").resolve()
        # A link out of the project could point to any file of the disk.
        folders += [own] if own.is_relative_to(request.project_root.resolve()) else []
    name = request.agent_type
    is_file_name = name and not set(name) & set("/\\\0") and not name.startswith(".")
    tags = find_tags(request.prompt or "") | find_tags(transcript_ends.last_prompt_text(end_lines))
    for folder in folders if is_file_name else ():
        tags |= find_tags(_read_front_matter(folder / f"{name}.md"))
    return tags


def _read_front_matter(definition: Path) -> str:
    try:
        text = b"\n".join(transcript_ends.read_head_lines(definition)).decode("utf-8", "replace")
    except OSError:
        return ""
    # Without the body, which may be about anything.
    return text.split("\n---", 1)[0] if text.startswith("---") else ""


def _read_tasks_if_small(transcript: Path) -> SessionTasks:
    with bulkhead(str(transcript), NOT_READ):
        try:
            is_small = transcript.stat().st_size <= MAX_TASKS_BYTES
            if transcript.suffix == TRANSCRIPT_SUFFIX and is_small:
                return read_tasks(transcript)
        except OSError:
            return SessionTasks()
    return SessionTasks()


MAX_OTHER_SESSIONS: Final = 12  # the newest whose agents are read; the store has the others
MAX_AGENTS: Final = 40  # agents whose files are read, the newest: a millisecond each
MAX_AGENT_TEXT_CHARS: Final = 20_000  # of an agent's last answer: more is never injected


class _AgentFile(msgspec.Struct, frozen=True):
    path: Path
    mtime_ns: int


_AgentEnd = tuple[RunOutcome, int | None]  # the outcome and its time


def read_project_agents(session: Path, end_lines: Iterable[bytes]) -> list[EarlierResult]:
    """Read the newest agents of a session and of the newest other sessions beside it.

    `session` is its transcript, `end_lines` the last lines of it, which may say how agents
    ended. Files that cannot be read are left out.
    """
    own = session.with_suffix("")
    return _read_agents([*_agent_files(own), *_files_of_other_sessions(own)], own, end_lines)


def read_session_agents(session: Path, end_lines: Iterable[bytes]) -> list[EarlierResult]:
    own = session.with_suffix("")
    return _read_agents(_agent_files(own), own, end_lines)


def _read_agents(
    files: list[_AgentFile], own: Path, end_lines: Iterable[bytes]
) -> list[EarlierResult]:
    ends, current = _read_ends(end_lines), own.name.lower()
    agents: list[EarlierResult] = []
    for file in files[:MAX_AGENTS]:
        with bulkhead(str(file.path), NOT_READ):
            if agent := _read_agent(file, ends, current):
                agents.append(agent)
    return agents


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
        answers = transcript_ends.answer_texts(transcript_ends.read_tail_lines(file.path))
        prompt = transcript_ends.first_prompt_text(transcript_ends.read_head_lines(file.path))
    except OSError:
        return None
    if meta is None:
        return None
    text, at = answers[-1] if answers else ("", None)
    replaced = find_replaced_result([answer for answer, _ in answers], meta.agent_type)
    # A teammate's messages refer to it only by its name.
    end = ends.get(agent_id) or ends.get(meta.name or "")
    if end is None or session.name.lower() != current:
        outcome = RunOutcome.FINISHED if meta.finished else RunOutcome.RUNNING
    else:
        has_resumed = (at or 0) > (end[1] or at or 0) + AGENT_RESUMED_MS
        outcome = RunOutcome.RUNNING if has_resumed else end[0]
    text = sanitize_text((replaced or text)[:MAX_AGENT_TEXT_CHARS].strip())
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
        was_replaced=replaced is not None,
    )


def _read_ends(lines: Iterable[bytes]) -> dict[str, _AgentEnd]:
    ends: dict[str, _AgentEnd] = {}
    marks = (b'"toolUseResult"', TASK_NOTIFICATION.encode(), TEAMMATE_TAG.encode())
    for data in lines:
        if not any(mark in data for mark in marks):
            continue
        try:
            line, _ = line_decoder.decode_readable_fields(data)
            if line.type == "queue-operation":
                returns = read_notification(0, line, line_decoder.decode_string(line.content))
            else:
                returns = read_returns(0, line, line_decoder.message_blocks(line))
        except (lenient_json.NotJsonError, lenient_json.UnexpectedShapeError):
            continue
        for record in returns:
            if isinstance(record, AgentReturnRecord) and record.status not in STARTED_STATUSES:
                ends[record.agent_id] = outcome_of_status(record.status), record.at
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
