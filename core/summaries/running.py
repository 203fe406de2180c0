"""What was started and has not ended: background shells, and agents."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from ..conversation import PieceKind
from .artifacts import input_of
from .fact import as_data, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..conversation import Entry, Piece

SAID_CHARS: Final = 120
"""Of a command or a task that is shown."""

_SHELL: Final = re.compile(r"running in background with ID: (\w+)")
_AGENT: Final = re.compile(r"\A\s*Async agent launched.*?agentId: (\w+)", re.DOTALL)
_NOTIFIED: Final = "<task-notification>"
_TASK: Final = re.compile(r"<(?:task-id|task_id)>(\w+)</")
_OVER: Final = re.compile(r"<status>(?:completed|failed|killed|stopped|cancelled)</status>")
"""How the client tells of an end (2.1.329): in a notification, or where the output is asked for."""

_NOTIFYING: Final = frozenset({PieceKind.AGENT_RETURN, PieceKind.META})
"""Notifications of agents, and those of shells, monitors and workflows."""

_STOPPERS: Final = frozenset({"KillShell", "KillBash", "TaskStop"})
ASKERS: Final = frozenset({"BashOutput", "TaskOutput", "AgentOutput"})
"""Tools that give a running task's output, and say whether it ended."""
_IDS: Final = ("task_id", "shell_id", "bash_id", "agentId", "agent_id")


class Job(msgspec.Struct, frozen=True):
    """A shell or an agent that is still at work."""

    job_id: str
    kind: str
    """`shell`, or an agent's type."""
    task: str
    """Its command or its task, one line."""
    line: int
    """Where it was started, from 1."""


def running_jobs(entries: Iterable[Entry]) -> tuple[Job, ...]:
    """List what runs by the end of the entries, in the order in which it was started."""
    asked: dict[str | None, Piece] = {}
    jobs: dict[str, Job] = {}
    for entry in entries:
        for piece in entry.parts:
            if piece.kind is PieceKind.TOOL_INPUT:
                asked[piece.tool_use_id] = piece
            elif piece.kind in _NOTIFYING and piece.tool_use_id is None:
                if _NOTIFIED in piece.text and _OVER.search(piece.text):
                    for job_id in _TASK.findall(piece.text):
                        jobs.pop(job_id, None)
            elif piece.kind in {PieceKind.TOOL_RESULT, PieceKind.AGENT_RETURN}:
                _result(jobs, asked.get(piece.tool_use_id, piece), piece, entry.line)
    return tuple(jobs.values())


def _result(jobs: dict[str, Job], call: Piece, result: Piece, line: int) -> None:
    given = input_of(call)
    if call.name in _STOPPERS or (call.name in ASKERS and _OVER.search(result.text)):
        for name in _IDS:
            jobs.pop(str(given.get(name)), None)
    elif result.kind is PieceKind.AGENT_RETURN and (found := _AGENT.search(result.text)):
        kind = one_line(str(given.get("subagent_type") or "agent"), SAID_CHARS)
        task = one_line(as_data(str(given.get("description") or "")), SAID_CHARS)
        jobs[found[1]] = Job(found[1], kind, task, line)
    elif given.get("run_in_background") and (found := _SHELL.search(result.text)):
        command = one_line(as_data(str(given.get("command") or "")), SAID_CHARS)
        jobs[found[1]] = Job(found[1], "shell", command, line)
