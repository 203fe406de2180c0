"""The list of things to do that the model keeps with its tools, as it stands at a moment."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from msgspec.structs import replace

TODO_TOOLS: Final = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})
"""TodoWrite writes the whole list (clients to 2.1.2x), the other two one item each."""

DONE: Final = frozenset({"completed", "deleted", "cancelled"})

IN_PROGRESS: Final = "in_progress"

_CREATED: Final = re.compile(r"\ATask #(\w+) created")


class Todo(msgspec.Struct, frozen=True):
    """A thing to do that is not done."""

    text: str
    status: str
    line: int
    """Where its words stand, counted from 1."""
    number: str | None = None
    """By which TaskUpdate names it."""
    description: str = ""
    owner: str | None = None
    """The agent that is to do it."""


class TodoList:
    """Follows the calls of the tools in their order."""

    def __init__(self, standing: tuple[Todo, ...] = ()) -> None:
        self._todos: dict[str, Todo] = {f"standing {n}": each for n, each in enumerate(standing)}

    @property
    def open(self) -> tuple[Todo, ...]:
        """What is not done, what is being done first."""
        left = [todo for todo in self._todos.values() if todo.status not in DONE]
        return tuple(sorted(left, key=lambda todo: todo.status != IN_PROGRESS))

    @property
    def closed(self) -> tuple[Todo, ...]:
        """What is done or given up, as far as the newest list still holds it."""
        return tuple(todo for todo in self._todos.values() if todo.status in DONE)

    def apply_call(self, tool: str, asked: dict[str, Any], call_id: str | None, line: int) -> None:
        """Take in a call; what is of another form than any client's says nothing."""
        if tool == "TodoWrite" and isinstance(asked.get("todos"), list):
            self._write([each for each in asked["todos"] if isinstance(each, dict)], line)
        elif tool == "TaskCreate" and asked.get("subject"):
            key = call_id or f"line {line}"
            said = str(asked.get("description") or "")
            self._todos[key] = Todo(str(asked["subject"]), "pending", line, description=said)
        elif tool == "TaskUpdate":
            self._update(asked, line)

    def apply_result(self, call_id: str | None, text: str) -> None:
        """Learn from its result the number of a task that was made."""
        found = _CREATED.match(text)
        if found and call_id in self._todos:
            self._todos[call_id] = replace(self._todos[call_id], number=found[1])

    def _write(self, items: list[dict[str, Any]], line: int) -> None:
        known = {todo.text: todo.line for todo in self._todos.values()}
        self._todos = {}
        for number, item in enumerate(items):
            text = str(item.get("content") or item.get("subject") or "")
            if text:
                first = known.get(text, line)
                self._todos[f"item {number}"] = Todo(text, str(item.get("status") or ""), first)

    def _update(self, asked: dict[str, Any], line: int) -> None:
        number, subject = str(asked.get("taskId")), asked.get("subject")
        for key, todo in self._todos.items():
            if todo.number == number:
                changed = replace(todo, status=str(asked.get("status") or todo.status))
                if asked.get("owner"):
                    changed = replace(changed, owner=str(asked["owner"]))
                if subject:
                    changed = replace(changed, text=str(subject), line=line)
                self._todos[key] = changed
