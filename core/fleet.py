"""All sessions at one moment, from one commit of the store: what every screen and command reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from .agents import Agent, AgentStatus, make_agent
from .evidence import Evidence, read_facts
from .levels import LevelWarning, Point, find_warnings
from .outlook import look_ahead, read_growth, read_prior
from .sessions import Session, Status, make_session
from .store import agent_queries, queries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from .forecast import Prior
    from .store.rows import SessionRow
    from .window import Window


class ContextWarning(msgspec.Struct, frozen=True):
    """A level that a session's or agent's context reached."""

    session_id: str
    agent_id: str | None
    warning: LevelWarning


def read_sessions(
    db: sqlite3.Connection, now_ms: int, only: Iterable[str] | None = None
) -> list[Session]:
    """Read every session, or only those named; live and fullest first."""
    evidence = Evidence(read_facts(db))
    prior = read_prior(db)
    return sorted(
        (read_session(db, row, evidence, prior, now_ms) for row in queries.sessions(db, only)),
        key=by_need,
    )


def read_session(
    db: sqlite3.Connection, row: SessionRow, evidence: Evidence, prior: Prior, now_ms: int
) -> Session:
    """Say of a session's row what it means at `now_ms`, and what lies ahead of it."""
    session = make_session(row, evidence, now_ms)
    outlook = look_ahead(session.context, read_growth(db, row.file_id), prior)
    return replace(session, outlook=outlook)


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
    db: sqlite3.Connection, sessions: Iterable[Session], only: Iterable[str] | None = None
) -> list[Agent]:
    """Read the agents of every session, or only of those named, in the order they started."""
    live = {session.session_id for session in sessions if session.live}
    evidence = Evidence(read_facts(db))
    agents = [
        make_agent(row, row.session_id in live, evidence) for row in agent_queries.agents(db, only)
    ]
    prior: Prior | None = None
    for place, agent in enumerate(agents):
        if agent.status is AgentStatus.RUNNING:
            prior = prior or read_prior(db)
            rows = queries.fill(db, agent.session_id, agent.agent_id)
            agents[place] = replace(agent, outlook=look_ahead(agent.context, rows, prior))
    return agents


def session_warnings(db: sqlite3.Connection, session: Session) -> list[ContextWarning]:
    """Replay a session's fill against the window that it is now known to have."""
    return _warnings(db, session.session_id, None, session.context.window)


def agent_warnings(db: sqlite3.Connection, agent: Agent) -> list[ContextWarning]:
    """Replay an agent's fill against its own window."""
    return _warnings(db, agent.session_id, agent.agent_id, agent.context.window)


def _warnings(
    db: sqlite3.Connection, session_id: str, agent_id: str | None, window: Window
) -> list[ContextWarning]:
    points = (
        Point(
            at=row.at,
            ratio=None if row.tokens is None else row.tokens / window.tokens,
            compacted=bool(row.compacted),
        )
        for row in queries.fill(db, session_id, agent_id)
    )
    return [ContextWarning(session_id, agent_id, found) for found in find_warnings(points)]
