"""An agent: its task, its status, its measured context and the result it returned."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .answer_facts import TokenUsage
from .context import Context, ContextState
from .context_window import UNKNOWN_WINDOW
from .outlook import NO_OUTLOOK, Outlook
from .stored_rows import AgentRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .findings import RunVerdict
    from .problem import Problem


class AgentStatus(StrEnum):
    RUNNING = "running"
    ZOMBIE = "zombie"  # its session is open, and nothing was heard of it for ZOMBIE_AFTER_MS
    CLOSED = "closed"  # a person closed it after it fell silent
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    REJECTED = "rejected"  # a person, a rule or a hook refused the call that was to start it
    NEVER_STARTED = "never_started"  # the call failed, or its session ended first
    UNREAD = "not_read"  # not, or not to its end: what is known of it may be out of date
    UNKNOWN = "unknown"

    @property
    def label(self) -> str:
        return self.value.replace("_", " ")


class ReturnedResult(msgspec.Struct, frozen=True):
    text: str
    lines: int
    chars: int
    estimated_tokens: int | None  # none until it was counted, which happens after it was stored
    summary_id: int


class Agent(msgspec.Struct, frozen=True):
    """One run of an agent; times are milliseconds since 1970 (UTC)."""

    agent_id: str
    session_id: str
    parent_agent_id: str | None
    agent_type: str
    description: str
    model: str | None
    status: AgentStatus
    context: Context
    tool_uses: int | None
    started_at: int | None
    ended_at: int | None
    result: ReturnedResult | None
    last_message: str | None  # in its own transcript
    tool_use_id: str | None = None  # the tool call that started it
    depth: int | None = None  # 1 for an agent that the session itself started
    outlook: Outlook = NO_OUTLOOK  # while it is running
    usage: TokenUsage | None = None  # of its answers in files; each counts for one agent
    cwd: str | None = None
    project_root: str | None = None  # where its session began
    prompted_skill: str | None = None  # whose format its prompt asks for
    progress_responses: int = 0  # of `usage`, the answers only in `progress` lines
    compliance: RunVerdict | None = None  # None if it was not checked
    ended_with_session: bool = False  # nothing else says that it ended (R000-12)
    silent_since: int | None = None
    """The last that was heard of a running agent, a zombie, or an agent that it started; None if
    its silence says nothing."""
    has_answered: bool = False  # its last line is an answer that ends its turn
    problem: str = ""  # why its file is not read, or not to its end
    sessions: int = 1  # that contain it: a fork contains its parent's agents, too
    counted_in: str = ""  # the session that it counts for

    @property
    def is_copy(self) -> bool:
        """Whether it counts for another session."""
        return self.counted_in not in {"", self.session_id}

    @property
    def status_label(self) -> str:
        return "completed (session end)" if self.ended_with_session else self.status.label


def each_once(agents: Iterable[Agent]) -> list[Agent]:
    """Keep one of the copies of an agent that several sessions contain."""
    found: dict[tuple[str, str], Agent] = {}
    for agent in agents:
        key = agent.counted_in or agent.session_id, agent.tool_use_id or agent.agent_id
        if key not in found or found[key].is_copy:
            found[key] = agent
    return [*found.values()]


def newest_agent_order(agent: Agent) -> tuple[object, ...]:
    """Sort key: running agents first, then the newest activity first."""
    newest = agent.ended_at or agent.started_at or 0
    return (agent.status is not AgentStatus.RUNNING, -newest, agent.agent_id)


def unread_agent(row: AgentRow, problem: Problem) -> Agent:
    """Make an agent that could not be measured: all that is known of it is its id."""
    return Agent(
        agent_id=row.agent_id,
        session_id=row.session_id,
        parent_agent_id=None,
        agent_type="agent",
        description="",
        model=None,
        status=AgentStatus.UNREAD,
        context=Context(None, ContextState.UNKNOWN, UNKNOWN_WINDOW),
        tool_uses=None,
        started_at=None,
        ended_at=None,
        result=None,
        last_message=None,
        problem=problem.what,
    )


CLIENT_TASKS: Final = {
    "compact": "compaction",
    "reactive-compact": "compaction",
    "side_question": "side question",
    "prompt_suggestion": "prompt suggestion",
    "extract_memories": "memory extraction",
    "session_memory": "session memory",
    "away_summary": "away summary",
    "agent_summary": "agent summary",
    "auto_dream": "dream",
    "rename": "session title",
    "resume_cache_warm": "cache warming",
    "plugin_model_fork": "plugin",
    "comparison_fork": "comparison",
}
"""What the client's own agents do, by the label in their ids: `acompact-` and 16 hex digits. No
person and no model asked for them (client 2.1.332, its code)."""

HOOK_AGENT_PREFIX: Final = "hook-agent-"  # of the id of an agent that a hook of this kind starts
