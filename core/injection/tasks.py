"""The tasks that are an agent's own (requirements 000-31, R000-11, R000-14)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..summaries.todos import DONE, IN_PROGRESS

if TYPE_CHECKING:
    from .past import Start, Task

MOST_TASKS: Final = 10
"""Of one agent: the seed shows as many (R000-17)."""

SUBJECT_CHARS: Final = 200

_NOT_YET: Final = frozenset({*DONE, "idea"})


def assigned(start: Start) -> list[Task]:
    """List the open tasks that name the agent, what is being done first.

    Its owner names it, or, where a task has none, its own words do: lists of todos know no
    owner.
    """
    own = [task for task in start.tasks if task.status not in _NOT_YET and _is_its(start, task)]
    return sorted(own, key=lambda task: task.status != IN_PROGRESS)[:MOST_TASKS]


def task_lines(tasks: list[Task], plan: str, description_chars: int, plan_chars: int) -> list[str]:
    """Write tasks as lines; the plan only where one of them has not been begun (R000-14)."""
    lines = []
    for task in tasks:
        said = " ".join(task.description.split())[:description_chars]
        about = f": {said}" if said else ""
        lines.append(f"[{task.status}] {' '.join(task.subject.split())[:SUBJECT_CHARS]}{about}")
    if plan and plan_chars and any(task.status != IN_PROGRESS for task in tasks):
        lines.append(f"Plan: {' '.join(plan.split())[:plan_chars]}")
    return lines


def _is_its(start: Start, task: Task) -> bool:
    names = {start.agent_type.casefold(), (start.agent_id or start.agent_type).casefold()}
    if task.owner:
        return task.owner.casefold() in names
    name = re.escape(start.agent_type)
    return re.search(rf"(?<![\w-]){name}(?![\w-])", task.subject, re.IGNORECASE) is not None
