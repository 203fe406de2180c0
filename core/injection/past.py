"""What an agent that starts could be given: earlier agents' results, and tasks."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Stage(StrEnum):
    """Why something is given (requirements 000-26 to 000-31)."""

    SIBLING = "sibling"
    SAME_TYPE = "same_type"
    CROSS_SESSION = "cross_session"
    TAGGED = "tagged"
    FALLBACK = "fallback"
    TASK = "assigned_task"


class Outcome(StrEnum):
    """How an agent's run stands."""

    FINISHED = "finished"
    RUNNING = "running"
    """Also where nothing says that it ended."""
    FAILED = "failed"
    """Refused, killed or stopped: what it said last is no result."""


class Past(msgspec.Struct, frozen=True):
    """A run of an agent; its texts are clean."""

    agent_id: str
    session_id: str
    project: str
    """The folder below projects/ that holds its session."""
    agent_type: str
    text: str = ""
    """Its last words."""
    outcome: Outcome = Outcome.FINISHED
    parent_agent_id: str | None = None
    at: int | None = None
    """When it said them, in milliseconds since 1970 (UTC)."""
    tags: frozenset[str] = frozenset()
    description: str = ""
    """Of its task."""
    changed_at: int | None = None
    """When its file last changed, in milliseconds since 1970 (UTC)."""

    @property
    def key(self) -> tuple[str, str]:
        """Tells it from every other."""
        return self.session_id, self.agent_id


class Task(msgspec.Struct, frozen=True):
    """A thing to do that is not done."""

    subject: str
    status: str
    description: str = ""
    owner: str | None = None
    """The agent's name or type, as the model gave it."""


class Start(msgspec.Struct, frozen=True):
    """The agent that starts."""

    session_id: str
    project: str
    agent_type: str
    agent_id: str | None = None
    possible_parents: frozenset[str | None] = frozenset({None})
    """Who may have started it; None is the session itself. The client (2.1.329) does not tell
    a starting agent's hook who that was."""
    tags: frozenset[str] = frozenset()
    """Beside its type, which is one."""
    tasks: tuple[Task, ...] = ()
    """Open ones of its session."""
    plan: str = ""
    """The newest plan of its session."""


class Limits(msgspec.Struct, frozen=True):
    """How much is given; the defaults are those of requirements 2.2."""

    sibling: int = 5
    same_type: int = 3
    all_projects: bool = False
    """Results of the same type come from any project (R000-13), which is a leak."""
    cross_session: int = 5
    tagged: int = 5
    fallback: int = 10
    task_description_chars: int = 100
    """Characters."""
    plan_chars: int = 200
    """Characters."""
    budget: int = 4_000
    """Tokens that are not exceeded by the estimate of any model."""


class Entry(msgspec.Struct, frozen=True):
    """Something that is given."""

    stage: Stage
    reason: str
    """In words."""
    text: str
    """As it is given, framed."""
    token_bound: int
    """By `most_tokens`: no estimate is above it."""
    session_id: str | None = None
    agent_id: str | None = None
    """None for tasks."""


class Excluded(msgspec.Struct, frozen=True):
    """A result that is not given."""

    agent_id: str
    session_id: str
    agent_type: str
    reason: str


class Injection(msgspec.Struct, frozen=True):
    """What an agent is given, and what it is not."""

    context: str = ""
    """Empty where nothing fits (R000-16)."""
    entries: tuple[Entry, ...] = ()
    """The most useful first."""
    excluded: tuple[Excluded, ...] = ()
    token_bound: int = 0
    """Of the whole context."""
