"""All sessions at one moment, from one commit of the store: what every screen and command reads."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from .activity import NO_CACHE, TRAIL_ANSWERS
from .agents import Agent, AgentStatus, make_agent
from .at_work import cache_of, doing_of
from .cost import add_up, cost_of, estimate_cost
from .evidence import Evidence, read_facts
from .outlook import look_ahead, read_growth, read_prior
from .policy.layers import COMMON
from .sessions import Session, Status, make_session
from .store import activity_queries, agent_queries, queries, spending_queries

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from .forecast import Prior
    from .policy.layers import Policies
    from .store.activity_queries import ActivityRow
    from .store.rows import SessionRow
    from .store.spending_queries import SpendingRow


MOST_AT_ONCE: Final = 500
"""Sessions named in one query; SQLite takes 999 values at the least."""


LOOKS_AHEAD: Final = 2_000
"""Sessions, besides the open ones, that are forecast: the newest. What lies ahead of a session
takes longer to work out than all the rest, and nobody waits for one that ended long ago."""


def read_sessions(
    db: sqlite3.Connection,
    now_ms: int,
    only: Iterable[str] | None = None,
    policies: Policies = COMMON,
) -> list[Session]:
    """Read every session, or only those named; live and fullest first."""
    found = [each for some in stream_sessions(db, now_ms, only, policies) for each in some]
    return sorted(found, key=by_need)


def stream_sessions(
    db: sqlite3.Connection,
    now_ms: int,
    only: Iterable[str] | None = None,
    policies: Policies = COMMON,
) -> Iterator[list[Session]]:
    """Read sessions a part at a time, newest activity first; of `only`, in their order."""
    reader = SessionReader(db, Evidence(read_facts(db), policies), policies)
    names = queries.newest_sessions(db) if only is None else list(dict.fromkeys(only))
    for start in range(0, len(names), MOST_AT_ONCE):
        some = names[start : start + MOST_AT_ONCE]
        yield reader.read(some, now_ms, with_forecast=only is not None or start < LOOKS_AHEAD)


class SessionReader:
    """Reads sessions by name; what it asks the whole store for is asked once."""

    def __init__(self, db: sqlite3.Connection, evidence: Evidence, policies: Policies) -> None:
        self._db: Final = db
        self._evidence: Final = evidence
        self._policies: Final = policies

    @cached_property
    def _prior(self) -> Prior:
        return read_prior(self._db)

    @cached_property
    def _sessions_to_check(self) -> frozenset[str]:
        from .compliance_reader import watched_sessions  # only where there are agents

        return watched_sessions(self._db, self._policies)

    def read(
        self, names: Sequence[str], now_ms: int, *, with_forecast: bool = True
    ) -> list[Session]:
        """Read these sessions, at most MOST_AT_ONCE, in the order of their names.

        Without `looks_ahead` only those that are open get their outlook.
        """
        db = self._db
        places = {name: place for place, name in enumerate(names)}
        rows = queries.sessions(db, names)
        rows.sort(key=lambda row: places[row.session_id])
        measured = [make_session(row, self._evidence, now_ms) for row in rows]
        sessions = [
            look_at_past(db, row.file_id, session, self._prior)
            if with_forecast or session.live
            else session
            for row, session in zip(rows, measured, strict=True)
        ]
        complete = complete_sessions(db, rows, sessions, self._policies)
        return self._count_noncompliant(complete)

    def _count_noncompliant(self, sessions: list[Session]) -> list[Session]:
        """Count the agents of each session that did not compress their results."""
        with_agents = {each.session_id for each in sessions if each.agents}
        watched = sorted(with_agents & self._sessions_to_check) if with_agents else []
        failed: Counter[str] = Counter()
        if watched:
            agents = measure_agents(self._db, sessions, watched, self._policies)
            failed.update(
                each.session_id
                for each in rule_agents(self._db, agents, watched, self._policies)
                if each.compliance and each.compliance.failed
            )
        return [replace(each, agents_noncompliant=failed[each.session_id]) for each in sessions]


def complete_sessions(
    db: sqlite3.Connection,
    rows: Sequence[SessionRow],
    sessions: Sequence[Session],
    policies: Policies,
) -> list[Session]:
    """Add activity and cost to sessions, with one query for all of them."""
    told = {
        row.file_id: row for row in activity_queries.activity(db, [each.file_id for each in rows])
    }
    named = [each.session_id for each in sessions]
    spent = _by_session(spending_queries.spending(db, named))
    progress = _by_session(spending_queries.progress_spending(db, named))
    return [
        _at_work(
            session,
            told.get(row.file_id),
            spent.get(session.session_id, ()),
            progress.get(session.session_id, ()),
            policies,
        )
        for row, session in zip(rows, sessions, strict=True)
    ]


def _by_session(rows: Iterable[SpendingRow]) -> dict[str, list[SpendingRow]]:
    found: dict[str, list[SpendingRow]] = {}
    for row in rows:
        found.setdefault(row.session_id, []).append(row)
    return found


def _at_work(
    session: Session,
    row: ActivityRow | None,
    spent: Sequence[SpendingRow],
    progress: Sequence[SpendingRow],
    policies: Policies,
) -> Session:
    prices = policies.for_project(session.project_root).strings_by_name("price")
    estimate = estimate_cost((*spent, *progress), prices)
    return replace(
        session,
        activity=doing_of(row) if row and session.live else None,
        cache=cache_of(row) if row else NO_CACHE,
        cost=cost_of(row, estimate, forked=session.forked_from is not None),
        usage=add_up(session.session_id, spent),
    )


def look_at_past(db: sqlite3.Connection, file_id: int, session: Session, prior: Prior) -> Session:
    """Read how a session's context grew, and what that says of what lies ahead."""
    growth = read_growth(db, file_id)
    trail = [step.tokens for step in growth if step.tokens is not None]
    return replace(
        session,
        outlook=look_ahead(session.context, growth, prior),
        recent_contexts=tuple(trail[-TRAIL_ANSWERS:]),
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
    return [replace(each, compliance=reader.check_agent(each, each.cwd)) for each in agents]


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
