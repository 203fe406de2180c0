"""Reads sessions and agents from the store and measures them, once or after each commit."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from ...measure.activity import (
    RECENT_CONTEXTS,
    UNKNOWN_CACHE,
    choose_cost,
    estimate_cost,
    find_activity,
    find_prompt_cache,
)
from ...measure.evidence import NO_EVIDENCE, AssessedClaim, ClaimSubject, Evidence, assess_claims
from ...measure.forecast import (
    OWN_TURNS,
    PRIOR_SESSIONS,
    SHIPPED_CALIBRATION,
    GrowthPrior,
    make_outlook,
    make_prior,
)
from ...measure.levels import warning_urgency
from ...model.agent import Agent, AgentStatus, make_agent
from ...model.session import ACTIVE_MS, Session, SessionStatus, context_evidence, make_session
from ...policy.resolve import DEFAULT_POLICIES, Policies
from ..queries import activity_queries, agent_queries, context_queries, session_queries
from ..queries.activity_queries import ActivityRow, ModelUsageRow
from ..queries.config_queries import definitions_fingerprint
from ..queries.evidence_queries import read_evidence_rows, read_forecast_calibration
from ..queries.query_rows import FillRow, SessionRow, UsageRow
from ..warning_log import ContextWarning, last_warning_id, read_warnings

SESSIONS_PER_QUERY: Final = 500  # sessions named in one query; SQLite takes 999 values at the least


MAX_FORECAST_SESSIONS: Final = 2_000
"""Sessions, besides the open ones, that are forecast: the newest. What lies ahead of a session
takes longer to work out than all the rest, and nobody waits for one that ended long ago."""


def read_sessions(
    db: sqlite3.Connection,
    now_ms: int,
    only: Iterable[str] | None = None,
    policies: Policies = DEFAULT_POLICIES,
) -> list[Session]:
    """Read every session, or only those named; live and fullest first."""
    found = [each for some in stream_sessions(db, now_ms, only, policies) for each in some]
    return sorted(found, key=attention_order)


def stream_sessions(
    db: sqlite3.Connection,
    now_ms: int,
    only: Iterable[str] | None = None,
    policies: Policies = DEFAULT_POLICIES,
) -> Iterator[list[Session]]:
    """Read sessions a part at a time, newest activity first; of `only`, in their order."""
    reader = SessionReader(db, Evidence(read_evidence_rows(db), policies), policies)
    names = session_queries.newest_sessions(db) if only is None else list(dict.fromkeys(only))
    for start in range(0, len(names), SESSIONS_PER_QUERY):
        some = names[start : start + SESSIONS_PER_QUERY]
        yield reader.read(
            some, now_ms, with_forecast=only is not None or start < MAX_FORECAST_SESSIONS
        )


class SessionReader:
    """Reads sessions by name; what it asks the whole store for is asked once."""

    def __init__(self, db: sqlite3.Connection, evidence: Evidence, policies: Policies) -> None:
        self._db: Final = db
        self._evidence: Final = evidence
        self._policies: Final = policies

    @cached_property
    def _prior(self) -> GrowthPrior:
        return read_prior(self._db)

    @cached_property
    def _sessions_to_check(self) -> frozenset[str]:
        from .compliance_reader import sessions_to_check

        return sessions_to_check(self._db, self._policies)

    def read(
        self, names: Sequence[str], now_ms: int, *, with_forecast: bool = True
    ) -> list[Session]:
        """Read these sessions, at most SESSIONS_PER_QUERY, in the order of their names.

        Without `looks_ahead` only those that are open get their outlook.
        """
        db = self._db
        places = {name: place for place, name in enumerate(names)}
        rows = session_queries.sessions(db, names)
        rows.sort(key=lambda row: places[row.session_id])
        measured = [make_session(row, self._evidence, now_ms) for row in rows]
        sessions = [
            add_forecast(db, row.file_id, session, self._prior)
            if with_forecast or session.live
            else session
            for row, session in zip(rows, measured, strict=True)
        ]
        complete = add_activity_and_cost(db, rows, sessions, self._policies)
        return self._count_noncompliant(complete)

    def _count_noncompliant(self, sessions: list[Session]) -> list[Session]:
        """Count the agents of each session that did not compress their results."""
        with_agents = {each.session_id for each in sessions if each.agents}
        watched = sorted(with_agents & self._sessions_to_check) if with_agents else []
        failed: Counter[str] = Counter()
        if watched:
            agents = read_agents_without_forecast(self._db, sessions, watched, self._policies)
            failed.update(
                each.session_id
                for each in add_compliance(self._db, agents, watched, self._policies)
                if each.compliance and each.compliance.failed
            )
        return [replace(each, agents_noncompliant=failed[each.session_id]) for each in sessions]


def add_activity_and_cost(
    db: sqlite3.Connection,
    rows: Sequence[SessionRow],
    sessions: Sequence[Session],
    policies: Policies,
) -> list[Session]:
    """Add activity and cost to sessions, with one query for all of them."""
    activities = {
        row.file_id: row for row in activity_queries.activity(db, [each.file_id for each in rows])
    }
    names = [each.session_id for each in sessions]
    usage = activity_queries.model_usage(db, names)
    sums = activity_queries.usage_by_session(usage)
    priced: dict[str, list[ModelUsageRow]] = defaultdict(list)
    for each in (*usage, *activity_queries.progress_model_usage(db, names)):
        priced[each.session_id].append(each)
    return [
        _with_activity_and_cost(
            session,
            activities.get(row.file_id),
            sums.get(session.session_id),
            priced[session.session_id],
            policies,
        )
        for row, session in zip(rows, sessions, strict=True)
    ]


def _with_activity_and_cost(
    session: Session,
    row: ActivityRow | None,
    usage: UsageRow | None,
    priced: Sequence[ModelUsageRow],
    policies: Policies,
) -> Session:
    prices = policies.for_project(session.project_root).strings_by_name("price")
    return replace(
        session,
        activity=find_activity(row) if row and session.live else None,
        cache=find_prompt_cache(row) if row else UNKNOWN_CACHE,
        cost=choose_cost(
            row, estimate_cost(priced, prices), forked=session.forked_from is not None
        ),
        usage=usage,
    )


def add_forecast(
    db: sqlite3.Connection, file_id: int, session: Session, prior: GrowthPrior
) -> Session:
    """Read how a session's context grew, and what that says of what lies ahead."""
    growth = read_growth(db, file_id)
    trail = [step.tokens for step in growth if step.tokens is not None]
    return replace(
        session,
        outlook=make_outlook(session.context, growth, prior),
        recent_contexts=tuple(trail[-RECENT_CONTEXTS:]),
    )


def read_sessions_without_forecast(
    db: sqlite3.Connection, now_ms: int, only: Iterable[str] | None, policies: Policies
) -> list[Session]:
    """Read sessions without what lies ahead of them, in no order."""
    evidence = Evidence(read_evidence_rows(db), policies)
    return [make_session(row, evidence, now_ms) for row in session_queries.sessions(db, only)]


def attention_order(session: Session) -> tuple[object, ...]:
    """Sort key: who waits for a person, then live, then the fullest, then the newest."""
    return (
        session.status is not SessionStatus.WAITING,
        not session.live,
        -fill_ratio(session),
        -(session.last_activity_at or 0),
        session.session_id,
    )


def fill_ratio(session: Session) -> float:
    """Share of the window that is in use, or that a refused prompt would have used."""
    refused = session.too_long
    if refused is None:
        return session.context.ratio or 0.0
    if refused.prompt_tokens and refused.limit_tokens:
        return refused.prompt_tokens / refused.limit_tokens
    return 1.0


def newest_session_order(session: Session) -> tuple[object, ...]:
    """Sort key: newest activity first."""
    return (-(session.last_activity_at or 0), session.session_id)


def newest_agent_order(agent: Agent) -> tuple[object, ...]:
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
    policies: Policies = DEFAULT_POLICIES,
) -> list[Agent]:
    """Read the agents of every session, or only of those named, in the order they started."""
    prior: GrowthPrior | None = None
    agents = read_agents_without_forecast(db, sessions, only, policies)
    for place, agent in enumerate(agents):
        if agent.status is AgentStatus.RUNNING:
            prior = prior or read_prior(db)
            rows = context_queries.fill_history(db, agent.session_id, agent.agent_id)
            agents[place] = replace(agent, outlook=make_outlook(agent.context, rows, prior))
    return add_compliance(db, agents, only, policies)


def add_compliance(
    db: sqlite3.Connection,
    agents: list[Agent],
    only: Iterable[str] | None,
    policies: Policies,
) -> list[Agent]:
    """Return the agents with their compliance, i.e. whether they compressed their results."""
    if not agents:
        return agents
    from .compliance_reader import ComplianceReader

    reader = ComplianceReader(db, policies, only)
    return [replace(each, compliance=reader.check_agent(each, each.cwd)) for each in agents]


def read_agents_without_forecast(
    db: sqlite3.Connection,
    sessions: Iterable[Session],
    only: Iterable[str] | None,
    policies: Policies,
) -> list[Agent]:
    """Read agents without what lies ahead of them."""
    live = {session.session_id for session in sessions if session.live}
    evidence = Evidence(read_evidence_rows(db), policies)
    return [
        make_agent(row, row.session_id in live, evidence) for row in agent_queries.agents(db, only)
    ]


FIRST_BATCH_SESSIONS: Final = 100
"""Sessions of the first view: more than any screen shows, and read within a tenth of a second."""


class FleetReader:
    """Reads sessions from one read-only connection; it belongs to one thread."""

    def __init__(self, db: sqlite3.Connection, watching_since_ms: int) -> None:
        self._db: Final = db
        self._since: Final = watching_since_ms
        self._sessions: dict[str, Session] = {}
        self._in_order: tuple[Session, ...] | None = None
        """The same in order of need; None where one was read since."""
        self._evidence = NO_EVIDENCE
        self._reader: SessionReader | None = None
        self._defined: object = None
        """How the definitions stood by which agents were judged."""
        self._unread: list[str] = []
        self._part = FIRST_BATCH_SESSIONS
        self._looks_ahead: set[str] = set()
        self._logged = last_warning_id(db)
        self._untold: list[ContextWarning] = []

    @property
    def unread_count(self) -> int:
        """Sessions that are still to be read: of many only the most important come at once."""
        return len(self._unread)

    def read(
        self, changed: Iterable[str] | None, now_ms: int, policies: Policies = DEFAULT_POLICIES
    ) -> tuple[Session, ...]:
        """Read the sessions that changed, or all (None); the list is in order of need.

        A window is judged by what all sessions show, and an agent by its definition: new
        evidence, another definition or a new policy reads them all again. Of many sessions
        one call reads a part, the open and the newest ones first; until `unread_count` is 0 the
        others are missing, or are as they were. Where none was read it is the list from before.
        """
        evidence = Evidence(read_evidence_rows(self._db), policies)
        defined = definitions_fingerprint(self._db)
        is_same = evidence.is_equivalent_to(self._evidence) and defined == self._defined
        if changed is None or not is_same or self._reader is None:
            self._evidence, self._defined = evidence, defined
            self._reader = SessionReader(self._db, evidence, policies)
            self._restart()
        elif stale := set(changed) | self._stale_sessions(now_ms):
            self._read(self._reader, sorted(stale), now_ms)
        self._read_next_batch(self._reader, now_ms)
        if self._in_order is None:
            self._in_order = tuple(sorted(self._sessions.values(), key=attention_order))
        return self._in_order

    def _restart(self) -> None:
        names = dict.fromkeys(session_queries.open_sessions(self._db))
        names |= dict.fromkeys(session_queries.newest_sessions(self._db))
        self._sessions = {name: each for name, each in self._sessions.items() if name in names}
        self._in_order = None
        self._unread = list(names)
        self._part = FIRST_BATCH_SESSIONS
        self._looks_ahead = set(self._unread[:MAX_FORECAST_SESSIONS])

    def _read_next_batch(self, reader: SessionReader, now_ms: int) -> None:
        """Read the next part; each is twice as large as the one before."""
        part, self._unread = self._unread[: self._part], self._unread[self._part :]
        self._part *= 2
        ahead = [name for name in part if name in self._looks_ahead]
        self._read(reader, ahead, now_ms)
        self._read(reader, part[len(ahead) :], now_ms, looks_ahead=False)

    def _read(
        self, reader: SessionReader, names: list[str], now_ms: int, *, looks_ahead: bool = True
    ) -> None:
        for some in _batches(names):
            self._in_order = None
            found = reader.read(some, now_ms, with_forecast=looks_ahead)
            # A client that was closed before its first prompt leaves nothing behind.
            for name in some:
                self._sessions.pop(name, None)
            self._sessions |= {session.session_id: session for session in found}

    def new_warnings(self) -> list[tuple[Session, ContextWarning]]:
        """Name the levels that contexts reached and that were logged since we last asked.

        Only what was reached since we watch, and still stands. Another ctxtop may have logged
        it: each screen shows it once.
        """
        logged = read_warnings(self._db, after=self._logged)
        if logged:
            self._logged = logged[-1].log_id
        by_context: dict[tuple[str, str | None], list[ContextWarning]] = {}
        for found in (*self._untold, *filter(self._is_new, logged)):
            by_context.setdefault((found.session_id, found.agent_id), []).append(found)
        # One step can pass several thresholds: a person is told of the most urgent.
        urgent = [
            max(each, key=lambda one: warning_urgency(one.warning)) for each in by_context.values()
        ]
        # A session can be stored between our reading of sessions and of the log.
        self._untold = [each for each in urgent if each.session_id not in self._sessions]
        return [
            (self._sessions[each.session_id], each)
            for each in urgent
            if each.session_id in self._sessions
        ]

    def _is_new(self, found: ContextWarning) -> bool:
        at = found.warning.at
        return at is not None and at >= self._since and found.warning.cleared_by is None

    def is_current(self, now_ms: int) -> bool:
        """Return whether everything was read and the passing of time changed none of it."""
        return not self._unread and not self._stale_sessions(now_ms)

    def _stale_sessions(self, now_ms: int) -> set[str]:
        """Sessions that were live only because they wrote, and that was too long ago."""
        return {
            session.session_id
            for session in self._sessions.values()
            if session.status is SessionStatus.ACTIVE
            and now_ms - (session.last_activity_at or 0) >= ACTIVE_MS
        }


def _batches(values: list[str]) -> Iterable[list[str]]:
    for start in range(0, len(values), SESSIONS_PER_QUERY):
        yield values[start : start + SESSIONS_PER_QUERY]


def read_assessed_claims(
    db: sqlite3.Connection, session_id: str, policies: Policies = DEFAULT_POLICIES
) -> tuple[AssessedClaim, ...]:
    """List every claim of a session's window, then of its trigger, the strongest first."""
    evidence = Evidence(read_evidence_rows(db), policies)
    for row in session_queries.sessions(db, [session_id]):
        window, trigger = evidence.claims_of(context_evidence(row))
        return (
            *assess_claims(ClaimSubject.WINDOW, window),
            *assess_claims(ClaimSubject.TRIGGER, trigger),
        )
    return ()


def read_prior(db: sqlite3.Connection) -> GrowthPrior:
    """Gather from the newest sessions of the store how contexts grow, and how sure that is."""
    prior = make_prior(read_histories(db))
    return replace(prior, calibration=read_forecast_calibration(db) or SHIPPED_CALIBRATION)


def read_histories(db: sqlite3.Connection) -> Iterator[list[FillRow]]:
    """Read how the newest sessions of the store grew, newest first."""
    files = session_queries.newest_session_files(db, PRIOR_SESSIONS)
    return (read_growth(db, file_id) for file_id in files)


def read_growth(db: sqlite3.Connection, file_id: int) -> list[FillRow]:
    """Read as much of a session's past as a forecast asks."""
    return context_queries.recent_fill_history(db, file_id, OWN_TURNS)
