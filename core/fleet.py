"""All sessions at one moment, from one commit of the store: what every screen and command reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .agents import Agent, AgentStatus, make_agent
from .policy.layers import COMMON
from .sessions import Evidence, Session, Status, make_session
from .store import agent_queries, queries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from .policy.layers import Policies


def read_sessions(
    db: sqlite3.Connection,
    now_ms: int,
    only: Iterable[str] | None = None,
    policies: Policies = COMMON,
) -> list[Session]:
    """Read every session, or only those named; live and fullest first."""
    evidence = Evidence(queries.windows_seen(db), queries.model_peaks(db), policies)
    rows = queries.sessions(db, only)
    return sorted((make_session(row, evidence, now_ms) for row in rows), key=by_need)


def by_need(session: Session) -> tuple[object, ...]:
    """Sort key: who waits for a person, then live, then the fullest, then the newest."""
    return (
        session.status is not Status.WAITING,
        not session.live,
        -fullness(session),
        -(session.last_activity_at or 0),
        session.session_id,
    )


def by_name(session: Session) -> tuple[object, ...]:
    """Sort key: project, then title."""
    return (session.project.casefold(), session.title.casefold(), session.session_id)


def fullness(session: Session) -> float:
    """Share of the window that is in use, or that a refused prompt would have used."""
    refused = session.too_long
    if refused is None:
        return session.context.ratio or 0.0
    if refused.prompt_tokens and refused.limit_tokens:
        return refused.prompt_tokens / refused.limit_tokens
    return 1.0


def by_newest(session: Session) -> tuple[object, ...]:
    """Sort key: newest activity first."""
    return (-(session.last_activity_at or 0), session.session_id)


def agent_by_newest(agent: Agent) -> tuple[object, ...]:
    """Sort key: the agents at work, then the newest activity first."""
    return (
        agent.status is not AgentStatus.RUNNING,
        -(agent.ended_at or agent.started_at or 0),
        agent.agent_id,
    )


def read_agents(
    db: sqlite3.Connection,
    sessions: Iterable[Session],
    only: Iterable[str] | None = None,
    policies: Policies = COMMON,
) -> list[Agent]:
    """Read the agents of every session, or only of those named, in the order they started."""
    of = {session.session_id: session for session in sessions}
    live = {session_id for session_id, session in of.items() if session.live}
    folders = {session_id: session.cwd for session_id, session in of.items()}
    peaks = queries.model_peaks(db)
    return [
        make_agent(row, row.session_id in live, peaks, policies.of(folders.get(row.session_id)))
        for row in agent_queries.agents(db, only)
    ]
