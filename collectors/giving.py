"""What there is for an agent that starts: from the files as they are now, and from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..core.injection.past import Limits, Outcome, Past, Start
from ..core.injection.past_rows import past_of
from ..core.injection.tags import tags_in
from ..core.store.injection_queries import results_of_project, results_of_type
from .agent_files import agents_of_project
from .folder import TRANSCRIPT
from .transcripts.ends import TAIL_BYTES, head_lines, last_prompt, tail_lines
from .transcripts.task_lines import Tasks, read_tasks

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

RETURNS_BYTES: Final = 4 * TAIL_BYTES
"""Of a session's end in which agents' ends are looked for; the rest is in the store or told by
the agents' own files."""

TASKS_BYTES: Final = 32 * 1024 * 1024
"""A longer transcript is not searched for tasks: their lines may be anywhere in it."""


class Asked(msgspec.Struct, frozen=True):
    """Which agent starts, and where."""

    transcript: Path
    """Of its session; it need not be there."""
    agent_type: str
    agent_id: str | None = None
    prompt: str | None = None
    """Its task; the client does not tell it to a starting agent's hook."""
    project_root: Path | None = None
    """Where its session began: the definitions of its project stand there."""


def gather(
    request: Asked, db: sqlite3.Connection | None, limits: Limits
) -> tuple[Start, list[Past]]:
    """Tell of the agent that starts, and of all earlier ones that could be of use to it.

    What the files say comes before what the store says. Raises sqlite3.Error where the store
    cannot answer.
    """
    session, project = request.transcript.stem.lower(), request.transcript.parent.name
    pasts = {past.key: past for past in _stored(db, project, request.agent_type, limits)}
    end = _lines(request.transcript, RETURNS_BYTES)
    for past in agents_of_project(request.transcript, end):
        pasts[past.key] = _newer(past, pasts.get(past.key))
    running = {
        past.agent_id
        for past in pasts.values()
        if past.session_id == session and past.outcome is Outcome.RUNNING
    }
    tasks = _tasks(request.transcript)
    return (
        Start(
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


def _stored(
    db: sqlite3.Connection | None, project: str, agent_type: str, limits: Limits
) -> list[Past]:
    if db is None:
        return []
    rows = results_of_project(db, project)
    if limits.all_projects:
        rows += results_of_type(db, agent_type)
    # The newest comes first: an earlier return of the same agent is not its result any more.
    return [past_of(row) for row in reversed(rows)]


def _newer(file: Past, stored: Past | None) -> Past:
    """Believe the file, but what came back of the run for how it ended."""
    if stored is None or stored.outcome is Outcome.RUNNING or (file.at or 0) > (stored.at or 0):
        return file
    # Of one that was killed its own file says no more than that it is over.
    told = Outcome.FAILED if Outcome.FAILED in {file.outcome, stored.outcome} else Outcome.FINISHED
    return replace(file if file.text else stored, outcome=told)


def _tags(asked: Asked, end: list[bytes]) -> frozenset[str]:
    """Read the tags of the agent's definition, of its task, and of the person's last prompt."""
    folders = [asked.transcript.parent.parent.parent / "agents"]
    if asked.project_root is not None:
        own = (asked.project_root / ".claude" / "agents").resolve()
        # A link out of the project could name any file of the disk.
        folders += [own] if own.is_relative_to(asked.project_root.resolve()) else []
    name = asked.agent_type
    plain = name and not set(name) & set("/\\\0") and not name.startswith(".")
    found = tags_in(asked.prompt or "") | tags_in(last_prompt(end))
    for folder in folders if plain else ():
        found |= tags_in(_head(folder / f"{name}.md"))
    return found


def _head(definition: Path) -> str:
    try:
        text = b"\n".join(head_lines(definition)).decode("utf-8", "replace")
    except OSError:
        return ""
    # The front matter alone: what follows is about anything.
    return text.split("\n---", 1)[0] if text.startswith("---") else ""


def _lines(transcript: Path, size: int) -> list[bytes]:
    try:
        return tail_lines(transcript, size)
    except OSError:
        return []


def _tasks(transcript: Path) -> Tasks:
    try:
        if transcript.suffix != TRANSCRIPT or transcript.stat().st_size > TASKS_BYTES:
            return Tasks()
        return read_tasks(transcript)
    except OSError:
        return Tasks()
