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
"""How the client writes the call of such a tool, and its answer."""


class SessionTasks(msgspec.Struct, frozen=True):
    """What is to be done in a session."""

    open: tuple[OpenTask, ...] = ()
    plan: str = ""  # the newest one


def read_tasks(path: Path, start: int = 0) -> SessionTasks:
    """Follow the tasks of a session from a line's byte offset on; raises OSError."""
    todos, plan = TodoList(), ""
    calls: dict[str, NamedToolCall] = {}
    for offset, number, data in iter_lines(path, start):
        if not any(mark in data for mark in _TASK_MARKERS):
            continue
        entry = decode_entry(offset, data, calls, number)
        for piece in entry.parts if entry and not entry.sidechain else ():
            if piece.name == PLAN_TOOL and piece.kind is PartKind.TOOL_INPUT:
                plan = str(parse_tool_input(piece).get("plan") or plan)
            todos.add_part(piece, number)
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
"""Of a session's end in which agents' ends are looked for; the rest is in the store or told by
the agents' own files."""

MAX_TASKS_BYTES: Final = 32 * 1024 * 1024
"""A longer transcript is not searched for tasks: their lines may be anywhere in it."""


class InjectionRequest(msgspec.Struct, frozen=True):
    """Which agent starts, and where."""

    transcript: Path  # of its session; it need not be there
    agent_type: str
    agent_id: str | None = None
    prompt: str | None = None  # its task; the client does not tell it to a starting agent's hook
    project_root: Path | None = None
    """Where its session began: the definitions of its project stand there."""


def gather_injection_sources(
    request: InjectionRequest, db: sqlite3.Connection | None, limits: InjectionLimits
) -> tuple[StartingAgent, list[EarlierResult]]:
    """Return the starting agent and all earlier results that could help it.

    What the files say takes precedence over the store. Raises sqlite3.Error if the store cannot
    be queried.
    """
    session, project = request.transcript.stem.lower(), request.transcript.parent.name
    pasts = {past.key: past for past in _stored_agents(db, project, request.agent_type, limits)}
    end = _read_tail_or_nothing(request.transcript, RETURNS_BYTES)
    for past in read_project_agents(request.transcript, end):
        pasts[past.key] = _merge_agents(past, pasts.get(past.key))
    running = {
        past.agent_id
        for past in pasts.values()
        if past.session_id == session and past.outcome is RunOutcome.RUNNING
    }
    tasks = _read_tasks_or_none(request.transcript)
    return (
        StartingAgent(
            session_id=session,
            project=project,
            agent_type=request.agent_type,
            agent_id=request.agent_id,
            possible_parents=frozenset({None, *running}),
            tags=_tags(request, end),
            tasks=tasks.open,
            plan=tasks.plan,
        ),
        list(pasts.values()),
    )


def _stored_agents(
    db: sqlite3.Connection | None, project: str, agent_type: str, limits: InjectionLimits
) -> list[EarlierResult]:
    if db is None:
        return []
    rows = results_of_project(db, project)
    if limits.all_projects:
        rows += results_of_type(db, agent_type)
    # The newest comes first: an earlier return of the same agent is not its result any more.
    return [make_earlier_result(row) for row in reversed(rows)]


def _merge_agents(file: EarlierResult, stored: EarlierResult | None) -> EarlierResult:
    """Believe the file, but what came back of the run for how it ended."""
    if stored is None or stored.outcome is RunOutcome.RUNNING or (file.at or 0) > (stored.at or 0):
        return file
    # Of one that was killed its own file says no more than that it is over.
    told = (
        RunOutcome.FAILED
        if RunOutcome.FAILED in {file.outcome, stored.outcome}
        else RunOutcome.FINISHED
    )
    return replace(file if file.text else stored, outcome=told)


def _tags(asked: InjectionRequest, end: list[bytes]) -> frozenset[str]:
    """Read the tags of the agent's definition, of its task, and of the person's last prompt."""
    folders = [asked.transcript.parent.parent.parent / "agents"]
    if asked.project_root is not None:
        own = (asked.project_root / ".claude" / "agents").resolve()
        # A link out of the project could name any file of the disk.
        folders += [own] if own.is_relative_to(asked.project_root.resolve()) else []
    name = asked.agent_type
    plain = name and not set(name) & set("/\\\0") and not name.startswith(".")
    found = find_tags(asked.prompt or "") | find_tags(last_prompt_text(end))
    for folder in folders if plain else ():
        found |= find_tags(_read_front_matter(folder / f"{name}.md"))
    return found


def _read_front_matter(definition: Path) -> str:
    try:
        text = b"\n".join(read_head_lines(definition)).decode("utf-8", "replace")
    except OSError:
        return ""
    # The front matter alone: what follows is about anything.
    return text.split("\n---", 1)[0] if text.startswith("---") else ""


def _read_tail_or_nothing(transcript: Path, size: int) -> list[bytes]:
    try:
        return read_tail_lines(transcript, size)
    except OSError:
        return []


def _read_tasks_or_none(transcript: Path) -> SessionTasks:
    try:
        if transcript.suffix != TRANSCRIPT_SUFFIX or transcript.stat().st_size > MAX_TASKS_BYTES:
            return SessionTasks()
        return read_tasks(transcript)
    except OSError:
        return SessionTasks()
