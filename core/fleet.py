"""All sessions at one moment, from one commit of the store: what every screen and command reads."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from .agents import Agent, AgentStatus, make_agent
from .evidence import Evidence, read_facts
from .outlook import look_ahead, read_growth, read_prior
from .policy.layers import COMMON
from .sessions import Session, Status, make_session
from .store import agent_queries, queries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from .forecast import Prior
    from .policy.layers import Policies
    from .store.rows import SessionRow


MOST_AT_ONCE: Final = 500
"""Sessions named in one query; SQLite takes 999 values at the least."""


def read_sessions(
    db: sqlite3.Connection,
    now_ms: int,
    only: Iterable[str] | None = None,
    policies: Policies = COMMON,
) -> list[Session]:
    """Read every session, or only those named; live and fullest first."""
    evidence, prior = Evidence(read_facts(db), policies), read_prior(db)
    sessions = [
        read_session(db, row, evidence, prior, now_ms) for row in queries.sessions(db, only)
    ]
    return sorted(count_failed(db, sessions, policies), key=by_need)


def count_failed(
    db: sqlite3.Connection, sessions: list[Session], policies: Policies
) -> list[Session]:
    """Say of each session how many of its agents did not compress their results."""
    with_agents = {each.session_id for each in sessions if each.agents}
    if not with_agents:
        return [replace(each, agents_failed=0) for each in sessions]
    from .compliance_reader import watched_sessions  # only where there are agents

    watched = sorted(with_agents & watched_sessions(db, policies))
    failed: Counter[str] = Counter()
    for start in range(0, len(watched), MOST_AT_ONCE):
        some = watched[start : start + MOST_AT_ONCE]
        agents = measure_agents(db, sessions, some, policies)
        failed.update(
            each.session_id
            for each in rule_agents(db, agents, some, policies)
            if each.ruling and each.ruling.failed
        )
    return [replace(each, agents_failed=failed[each.session_id]) for each in sessions]


def read_session(
    db: sqlite3.Connection, row: SessionRow, evidence: Evidence, prior: Prior, now_ms: int
) -> Session:
    """Say of a session's row what it means at `now_ms`, and what lies ahead of it."""
    session = make_session(row, evidence, now_ms)
    outlook = look_ahead(session.context, read_growth(db, row.file_id), prior)
    return replace(session, outlook=outlook)


def measure_sessions(
    db: sqlite3.Connection, now_ms: int, only: Iterable[str] | None, policies: Policies
) -> list[Session]:
    """Read sessions without what lies ahead of them, in no order."""
    evidence = Evidence(read_facts(db), policies)
    return [make_session(row, evidence, now_ms) for row in queries.sessions(db, only)]


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
    prior: Prior | None = None
    agents = measure_agents(db, sessions, only, policies)
    for place, agent in enumerate(agents):
        if agent.status is AgentStatus.RUNNING:
            prior = prior or read_prior(db)
            rows = queries.fill(db, agent.session_id, agent.agent_id)
            agents[place] = replace(agent, outlook=look_ahead(agent.context, rows, prior))
    return rule_agents(db, agents, only, policies)


def rule_agents(
    db: sqlite3.Connection,
    agents: list[Agent],
    only: Iterable[str] | None,
    policies: Policies,
) -> list[Agent]:
    """Say of each agent whether it compressed its result."""
    if not agents:
        return agents
    from .compliance_reader import ComplianceReader  # only where there are agents

    reader = ComplianceReader(db, policies, only)
    return [replace(each, ruling=reader.rule(each, each.cwd)) for each in agents]


def measure_agents(
    db: sqlite3.Connection,
    sessions: Iterable[Session],
    only: Iterable[str] | None,
    policies: Policies,
) -> list[Agent]:
    """Read agents without what lies ahead of them."""
    live = {session.session_id for session in sessions if session.live}
    evidence = Evidence(read_facts(db), policies)
    return [
        make_agent(row, row.session_id in live, evidence) for row in agent_queries.agents(db, only)
    ]
