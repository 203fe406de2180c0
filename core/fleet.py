"""All sessions at one moment, from one commit of the store: what every screen and command reads."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from .activity import NO_CACHE, TRAIL_ANSWERS
from .agents import Agent, AgentStatus, make_agent
from .at_work import cache_of, doing_of
from .cost import cost_of, estimate_cost
from .evidence import Evidence, read_facts
from .outlook import look_ahead, read_growth, read_prior
from .policy.layers import COMMON
from .sessions import Session, Status, make_session
from .store import activity_queries, agent_queries, queries, spending_queries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from .forecast import Prior
    from .policy.layers import Policies
    from .store.activity_queries import ActivityRow
    from .store.rows import SessionRow
    from .store.spending_queries import SpendingRow


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
    rows = queries.sessions(db, only)
    sessions = [read_session(db, row, evidence, prior, now_ms) for row in rows]
    complete = complete_sessions(db, rows, sessions, policies)
    return sorted(complete, key=by_need)


def complete_sessions(
    db: sqlite3.Connection,
    rows: Sequence[SessionRow],
    sessions: Sequence[Session],
    policies: Policies,
) -> list[Session]:
    """Say of sessions what is asked for many of them at once."""
    told = {
        row.file_id: row for row in activity_queries.activity(db, [each.file_id for each in rows])
    }
    spent: dict[str, list[SpendingRow]] = {}
    for spending in spending_queries.spending(db, [each.session_id for each in sessions]):
        spent.setdefault(spending.session_id, []).append(spending)
    complete = [
        _at_work(session, told.get(row.file_id), spent.get(session.session_id, []), policies)
        for row, session in zip(rows, sessions, strict=True)
    ]
    return count_failed(db, complete, policies)


def _at_work(
    session: Session, row: ActivityRow | None, spent: list[SpendingRow], policies: Policies
) -> Session:
    estimate = estimate_cost(spent, policies.of(session.cwd).labels("price"))
    return replace(
        session,
        doing=doing_of(row) if row and session.live else None,
        cache=cache_of(row) if row else NO_CACHE,
        cost=cost_of(row, estimate, forked=session.forked_from is not None),
    )


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
    growth = read_growth(db, row.file_id)
    trail = [step.tokens for step in growth if step.tokens is not None]
    return replace(
        session,
        outlook=look_ahead(session.context, growth, prior),
        trail=tuple(trail[-TRAIL_ANSWERS:]),
    )


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
