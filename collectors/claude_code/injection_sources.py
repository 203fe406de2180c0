"""What can be injected into an agent that starts: earlier results, open tasks and the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ...core.injection.context_selection import (
    EarlierResult,
    InjectionLimits,
    OpenTask,
    RunOutcome,
    StartingAgent,
    find_tags,
    make_earlier_result,
)
from ...core.store.queries.agent_queries import results_of_project, results_of_type
from ...core.summaries.artifacts import TODO_TOOLS, TodoList, parse_tool_input
from ...core.transcript.conversation import PartKind
from ...core.transcript.entry_decoder import NamedToolCall, decode_entry, iter_lines
from ...core.transcript.line_types import PLAN_TOOL
from ...core.transcript.sanitize import sanitize_text
from .agent_files import read_project_agents
from .discover import TRANSCRIPT_SUFFIX
from .transcripts.transcript_ends import (
    TAIL_BYTES,
    last_prompt_text,
    read_head_lines,
    read_tail_lines,
)

if TYPE_CHECKING:
    import sqlite3


_TASK_MARKERS: Final = (
    *(f'"{tool}"'.encode() for tool in sorted({*TODO_TOOLS, PLAN_TOOL})),
    b"Task #",
)
"""In the lines of calls of these tools, and of their results."""


class SessionTasks(msgspec.Struct, frozen=True):
    open: tuple[OpenTask, ...] = ()
    plan: str = ""


def read_tasks(path: Path, start: int = 0) -> SessionTasks:
    todos, plan = TodoList(), ""
    calls: dict[str, NamedToolCall] = {}
    for offset, number, data in iter_lines(path, start):
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


RETURNS_BYTES: Final = 4 * TAIL_BYTES
"""Of a session's end in which agents' returns are read; the store or the agents' own files have
the others."""

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
        end_lines = read_tail_lines(transcript, RETURNS_BYTES)
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
    tags = find_tags(request.prompt or "") | find_tags(last_prompt_text(end_lines))
    for folder in folders if is_file_name else ():
        tags |= find_tags(_read_front_matter(folder / f"{name}.md"))
    return tags


def _read_front_matter(definition: Path) -> str:
    try:
        text = b"\n".join(read_head_lines(definition)).decode("utf-8", "replace")
    except OSError:
        return ""
    # Without the body, which may be about anything.
    return text.split("\n---", 1)[0] if text.startswith("---") else ""


def _read_tasks_if_small(transcript: Path) -> SessionTasks:
    try:
        if transcript.suffix != TRANSCRIPT_SUFFIX or transcript.stat().st_size > MAX_TASKS_BYTES:
            return SessionTasks()
        return read_tasks(transcript)
    except OSError:
        return SessionTasks()
