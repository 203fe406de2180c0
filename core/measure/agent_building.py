"""Makes an agent of its row in the store: how it ended, its result and its measured context."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from ..model.agent import CLIENT_TASKS, HOOK_AGENT_PREFIX, Agent, AgentStatus, ReturnedResult
from ..model.answer_facts import AGENT_RESUMED_MS, TokenUsage
from ..model.context import StoredTokenCounts, decode_text_counts
from ..model.counting_rule import CountingRule
from ..model.stored_rows import AgentRow
from .evidence import ContextEvidence, Evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence


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
