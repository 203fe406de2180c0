"""The lines of a transcript that tell of tasks and plans, found without decoding the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from ...core.conversation import PieceKind
from ...core.injection.past import Task
from ...core.summaries.artifacts import input_of
from ...core.summaries.todos import TODO_TOOLS, TodoList
from ..clean import clean_text
from .conversation import lines_of, read_entry
from .line_types import PLAN_TOOL

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.conversation import Piece
    from .pieces import Call

_MARKS: Final = (
    *(f'"{tool}"'.encode() for tool in sorted({*TODO_TOOLS, PLAN_TOOL})),
    b"Task #",
)
"""How the client writes the call of such a tool, and its answer."""


class Tasks(msgspec.Struct, frozen=True):
    """What is to be done in a session."""

    open: tuple[Task, ...] = ()
    plan: str = ""
    """The newest one."""


def read_tasks(path: Path, start: int = 0) -> Tasks:
    """Follow the tasks of a session from a line's byte offset on; raises OSError."""
    todos, plan = TodoList(), ""
    calls: dict[str, Call] = {}
    for offset, number, data in lines_of(path, start):
        if not any(mark in data for mark in _MARKS):
            continue
        entry = read_entry(offset, data, calls, number)
        for piece in entry.parts if entry and not entry.sidechain else ():
            if piece.name == PLAN_TOOL and piece.kind is PieceKind.TOOL_INPUT:
                plan = str(input_of(piece).get("plan") or plan)
            _follow(todos, piece, number)
    return Tasks(
        tuple(
            Task(
                subject=clean_text(todo.text),
                status=todo.status,
                description=clean_text(todo.description),
                owner=clean_text(todo.owner) if todo.owner else None,
            )
            for todo in todos.open
        ),
        clean_text(plan),
    )


def _follow(todos: TodoList, piece: Piece, line: int) -> None:
    if piece.name not in TODO_TOOLS:
        return
    if piece.kind is PieceKind.TOOL_INPUT:
        todos.apply_call(piece.name, input_of(piece), piece.tool_use_id, line)
    elif piece.kind is PieceKind.TOOL_RESULT:
        todos.apply_result(piece.tool_use_id, piece.text)
