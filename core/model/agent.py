"""An agent: its task, its status, its measured context and the result it returned."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from ..measure.counting_rule import CountingRule
from ..measure.evidence import ContextEvidence, Evidence
from ..measure.forecast import NO_OUTLOOK, Outlook
from ..measure.window import UNKNOWN_WINDOW
from ..store.queries.agent_queries import CLIENT_TASKS, HOOK_AGENT_PREFIX
from ..store.queries.query_rows import AgentRow
from ..transcript.answer_facts import AGENT_RESUMED_MS, TokenUsage
from .context import Context, ContextState, StoredTokenCounts, decode_text_counts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ..compliance.run_verdict import RunVerdict
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


ZOMBIE_AFTER_MS: Final = 30 * 60_000
"""Of silence. An agent that Esc or a full context ended never reports that (R000-18)."""

ANSWERED_MS: Final = 60_000
"""Of silence after which an answer that ends an agent's turn is its last, though nothing says so: a
hook that keeps it from stopping, or a message to it, comes within seconds."""

_STATUS_OF_RETURN: Final = {
    **dict.fromkeys(("completed", "shut_down"), AgentStatus.COMPLETED),
    **dict.fromkeys(("failed", "error"), AgentStatus.FAILED),
    **dict.fromkeys(("killed", "stopped", "cancelled"), AgentStatus.STOPPED),
}

_STATUS_OF_FAILED_CALL: Final = {
    "rejected": (AgentStatus.REJECTED, AgentStatus.STOPPED),
    "interrupted": (AgentStatus.NEVER_STARTED, AgentStatus.STOPPED),
    "call_failed": (AgentStatus.NEVER_STARTED, AgentStatus.FAILED),
}
"""The status by the end of the tool call, for an agent without any line, and for one with lines."""


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


def make_agent(row: AgentRow, session_live: bool, evidence: Evidence) -> Agent:  # noqa: FBT001
    own_task = clients_own_task(row)
    ending = _find_ending(row, session_live)
    answered = row.answer_tokens if row.answer_tokens is not None else row.returned_context_tokens
    # A notification only has the last request with its output: close, not exact.
    estimate = row.post_tokens if row.post_tokens is not None else row.returned_total_tokens
    seen = ContextEvidence(
        session_id=row.session_id,
        agent_id=row.agent_id,
        agent_type=row.agent_type,
        cwd=row.cwd,
        project_root=row.project_root,
        model=row.model,
        asked_model=row.asked_model,
        client_version=row.client_version,
        peak_tokens=max(row.peak_tokens or 0, row.returned_context_tokens or 0),
        answer_tokens=row.answer_tokens or 0,
        passed_tokens=row.passed_tokens or 0,
    )
    counted = StoredTokenCounts(
        answer=answered,
        output=row.answer_output or 0,
        answer_text=row.answer_text_tokens,
        after_answer=row.after_answer_tokens,
        boundary_estimate=estimate,
        next_request=row.estimated_next_tokens,
        also_counted=row.also_counted_tokens or 0,
        input=row.answer_input or 0,
        cache_creation=row.answer_cache_creation or 0,
        cache_read=row.answer_cache_read or 0,
        texts=decode_text_counts(row.text_counts),
    )
    context = evidence.measure(seen, counted)
    is_running = ending.status is AgentStatus.RUNNING
    return Agent(
        agent_id=row.agent_id,
        session_id=row.session_id,
        parent_agent_id=row.parent_agent_id,
        agent_type=row.agent_type or own_task or "agent",
        description=row.description or (CLIENTS_OWN if own_task else ""),
        model=row.model,
        status=AgentStatus.UNREAD if row.problem else ending.status,
        context=context,
        tool_uses=row.tool_uses,
        started_at=row.launched_at or row.started_at,
        ended_at=ending.at,
        result=_result(row, context.counting),
        last_message=row.reply_text,
        tool_use_id=row.tool_use_id,
        depth=row.depth,
        usage=_usage(row),
        cwd=row.cwd,
        project_root=row.project_root,
        prompted_skill=row.prompted_skill,
        progress_responses=row.progress_responses,
        ended_with_session=ending.with_session,
        silent_since=(
            None if row.awaits_messages or own_task or not is_running else _last_heard_at(row)
        ),
        has_answered=bool(row.has_answered),
        problem=row.problem or "",
        sessions=row.sessions,
        counted_in=row.counted_in,
    )


CLIENTS_OWN: Final = "started by Claude Code itself"  # the description of such an agent
_OWN_ID: Final = re.compile(r"a([\w-]{1,63})-[0-9a-f]{16}")


def clients_own_task(row: AgentRow) -> str | None:
    """Return what an agent of the client's own does, by its id; None for any other agent."""
    if row.tool_use_id is not None or row.agent_type:
        return None
    if row.agent_id.startswith(HOOK_AGENT_PREFIX):
        return "hook agent"
    label = _OWN_ID.fullmatch(row.agent_id)
    return CLIENT_TASKS.get(label[1]) if label else None


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


def mark_zombies(agents: Sequence[Agent], now_ms: int) -> list[Agent]:
    """Turn running agents into zombies that were silent for ZOMBIE_AFTER_MS.

    An agent may wait for those that it started: what is heard of them counts for it, too. One
    whose last line is an answer has ended, although the message that says so was lost.
    """
    parents = {(each.session_id, each.agent_id): each.parent_agent_id for each in agents}
    heard: dict[tuple[str, str], int] = {}
    for each in agents:
        name: str | None = each.agent_id
        waiting: set[str] = set()
        while each.silent_since is not None and name is not None and name not in waiting:
            key = each.session_id, name
            heard[key] = max(heard.get(key, 0), each.silent_since)
            waiting.add(name)
            name = parents.get(key)
    waited_for = {
        (each.session_id, each.parent_agent_id)
        for each in agents
        if each.status is AgentStatus.RUNNING
    }
    return [_mark_silent(each, heard, waited_for, now_ms) for each in agents]


def has_new_zombie(agents: Iterable[Agent], now_ms: int) -> bool:
    """Whether a running agent has been silent for so long by now that it is a zombie, or ended."""
    return any(
        each.status is AgentStatus.RUNNING
        and each.silent_since is not None
        and now_ms - each.silent_since >= (ANSWERED_MS if each.has_answered else ZOMBIE_AFTER_MS)
        for each in agents
    )


def _mark_silent(
    agent: Agent,
    heard: Mapping[tuple[str, str], int],
    waited_for: Collection[tuple[str, str | None]],
    now_ms: int,
) -> Agent:
    if agent.silent_since is None:
        return agent
    key = agent.session_id, agent.agent_id
    last = heard[key]
    silent_ms = now_ms - last
    if agent.has_answered and silent_ms >= ANSWERED_MS and key not in waited_for:
        ended = AgentStatus.COMPLETED
        return replace(agent, status=ended, ended_at=agent.silent_since, silent_since=None)
    status = AgentStatus.ZOMBIE if silent_ms >= ZOMBIE_AFTER_MS else AgentStatus.RUNNING
    return replace(agent, silent_since=last, status=status)


class _Ending(NamedTuple):
    status: AgentStatus
    at: int | None = None
    with_session: bool = False


def _find_ending(row: AgentRow, session_live: bool) -> _Ending:  # noqa: FBT001
    last_at = row.returned_at or row.last_at
    resumed = (
        row.last_at is not None
        and row.returned_at is not None
        and row.last_at > row.returned_at + AGENT_RESUMED_MS
    )
    if row.return_status is not None and not resumed:
        unstarted, started = _STATUS_OF_FAILED_CALL.get(row.return_status, (None, None))
        ended = started if _has_transcript(row) else unstarted
        ended = ended or _STATUS_OF_RETURN.get(row.return_status, AgentStatus.UNKNOWN)
        return _Ending(ended, last_at)
    if row.finished and not resumed:
        return _Ending(AgentStatus.COMPLETED, last_at)
    if row.was_stopped and not resumed:
        return _Ending(AgentStatus.STOPPED, last_at)
    if row.answer_tokens is not None and clients_own_task(row):
        # It returns nothing to anyone: its answer is its end.
        return _Ending(AgentStatus.COMPLETED, last_at)
    heard_at = _last_heard_at(row) or 0
    stopped_at = None if row.awaits_messages else row.stopped_at
    # A hook that keeps it from stopping makes it write on.
    if stopped_at is not None and heard_at <= stopped_at + AGENT_RESUMED_MS:
        return _Ending(AgentStatus.COMPLETED, stopped_at)
    was_started = row.has_returned or _has_transcript(row)
    if row.closed_at is not None and heard_at <= row.closed_at:
        return _Ending(AgentStatus.CLOSED, row.closed_at)
    if row.session_ended_at is not None and heard_at <= row.session_ended_at + AGENT_RESUMED_MS:
        if was_started:
            return _Ending(AgentStatus.COMPLETED, row.session_ended_at, with_session=True)
        return _Ending(AgentStatus.NEVER_STARTED, last_at)
    if session_live:
        return _Ending(AgentStatus.RUNNING)
    return _Ending(AgentStatus.UNKNOWN if was_started else AgentStatus.NEVER_STARTED, last_at)


def _last_heard_at(row: AgentRow) -> int | None:
    return max(filter(None, (row.launched_at, row.started_at, row.last_at)), default=None)


def _has_transcript(row: AgentRow) -> bool:
    return row.started_at is not None or row.file_mtime_ns is not None


def _usage(row: AgentRow) -> TokenUsage | None:
    if row.input_tokens is None:
        return None
    return TokenUsage(
        input_tokens=row.input_tokens,
        cache_creation_tokens=row.cache_creation_tokens or 0,
        cache_read_tokens=row.cache_read_tokens or 0,
        output_tokens=row.output_tokens or 0,
    )


def _result(row: AgentRow, counting: CountingRule) -> ReturnedResult | None:
    if row.summary_id is None:
        return None
    text = row.result_text or ""
    estimated = counting.estimate_message(text)
    return ReturnedResult(
        text=text,
        lines=row.result_lines or 0,
        chars=row.result_chars or 0,
        estimated_tokens=row.result_tokens if estimated is None else estimated,
        summary_id=row.summary_id,
    )
