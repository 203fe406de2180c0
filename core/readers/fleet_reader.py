"""Reads sessions and agents from the store and measures them, once or after each commit."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from sqlite3 import Connection
from typing import Final

from msgspec.structs import replace

from ..measure import activity
from ..measure.agent_building import make_agent, mark_zombies
from ..measure.evidence import NO_EVIDENCE, AssessedClaim, ClaimSubject, Evidence, assess_claims
from ..measure.forecast import (
    OWN_TURNS,
    PRIOR_SESSIONS,
    SHIPPED_CALIBRATION,
    GrowthPrior,
    make_outlook,
    make_prior,
)
from ..measure.limit_use import PercentSize, percent_dollars
from ..measure.session_building import ACTIVE_MS, context_evidence, make_session, status_while_doing
from ..model.agent import Agent, AgentStatus, unread_agent
from ..model.answer_rows import ActivityRow, ModelUsageRow
from ..model.attention import attention_order
from ..model.claude_models import is_same_model
from ..model.cold_prompt import ColdLimits, price_cache
from ..model.counting_rule import DEFAULT_COUNTING, CountingRule
from ..model.evidence_rows import EvidenceRows
from ..model.levels import warning_urgency
from ..model.session import Session, SessionStatus, unread_session
from ..model.session_activity import UNKNOWN_CACHE
from ..model.stored_rows import AgentRow, FillRow, SessionRow
from ..policy.policy import Policy
from ..policy.resolve import DEFAULT_POLICIES, Policies
from ..store.bulkhead import FAILED, NOT_READ, bulkhead, leave_out_faulty, place_of, work_apart
from ..store.database import store_path
from ..store.queries import (
    activity_queries,
    agent_queries,
    context_queries,
    session_queries,
    spending_queries,
)
from ..store.queries.config_queries import definitions_fingerprint
from ..store.queries.evidence_queries import read_evidence_rows, read_forecast_calibration
from ..store.queries.limit_queries import client_reports
from ..store.queries.query_rows import SessionIds
from ..store.warning_log import ContextWarning, last_warning_id, read_warnings
from .sessions_to_judge import sessions_to_check

SESSIONS_PER_QUERY: Final = 500  # sessions named in one query; SQLite accepts at least 999 values

MAX_FORECAST_SESSIONS: Final = 2_000
"""The newest sessions, forecast besides the open ones. A forecast takes longer than everything
else about a session, and nobody waits for that of a session that ended long ago."""


def read_sessions(
    db: Connection,
    now_ms: int,
    only: SessionIds = None,
    policies: Policies = DEFAULT_POLICIES,
    percent_sizes: Sequence[PercentSize] = (),
) -> list[Session]:
    """Read every session, or only those named, in `attention_order`."""
    batches = stream_sessions(db, now_ms, only, policies, percent_sizes)
    return _in_order([each for batch in batches for each in batch], now_ms)


def _in_order(sessions: list[Session], now_ms: int) -> list[Session]:
    def sort(some: Sequence[Session]) -> list[Session]:
        return sorted(some, key=partial(attention_order, now_ms=now_ms))

    with bulkhead("the order of sessions", FAILED, report=lambda _: None):
        return sort(sessions)
    sortable = leave_out_faulty(sessions, sort, place_of, "not sorted")
    named = {each.session_id for each in sortable}
    return [*sort(sortable), *(each for each in sessions if each.session_id not in named)]


def stream_sessions(
    db: Connection,
    now_ms: int,
    only: SessionIds = None,
    policies: Policies = DEFAULT_POLICIES,
    percent_sizes: Sequence[PercentSize] = (),
) -> Iterator[list[Session]]:
    """Read sessions in batches, newest activity first, or in the order of `only`.

    Those that `only` names have a forecast, else MAX_FORECAST_SESSIONS.
    """
    reader = SessionReader(db, read_evidence(db, policies), policies, percent_sizes)
    ids = session_queries.newest_sessions(db) if only is None else list(dict.fromkeys(only))
    for start in range(0, len(ids), SESSIONS_PER_QUERY):
        batch = ids[start : start + SESSIONS_PER_QUERY]
        with_forecast = only is not None or start < MAX_FORECAST_SESSIONS
        yield reader.read(batch, now_ms, with_forecast=with_forecast)


def list_sessions(
    db: Connection, now_ms: int, policies: Policies, percent_sizes: Sequence[PercentSize]
) -> list[Session]:
    """Read all sessions for a table, newest activity first.

    What it does not show is left out: what sessions spent, their clients' reports, and forecasts
    of those that are not open.
    """
    reader = SessionReader(db, read_evidence(db, policies), policies, percent_sizes)
    ids = session_queries.newest_sessions(db)
    starts = range(0, len(ids), SESSIONS_PER_QUERY)
    batches = (ids[start : start + SESSIONS_PER_QUERY] for start in starts)
    return [session for batch in batches for session in reader.read_listed(batch, now_ms)]


class SessionReader:
    """Reads sessions by id; what depends on the whole store is read once."""

    def __init__(
        self,
        db: Connection,
        evidence: Evidence,
        policies: Policies,
        percent_sizes: Sequence[PercentSize] = (),
    ) -> None:
        self._db: Final = db
        self._store: Final = store_path(db)
        self._evidence: Final = evidence
        self._policies: Final = policies
        self.percent_sizes = percent_sizes

    @cached_property
    def _prior(self) -> GrowthPrior:
        with bulkhead("forecasts", FAILED, self._store):
            return read_prior(self._db)
        return make_prior(())

    @cached_property
    def _sessions_to_check(self) -> frozenset[str]:
        with bulkhead("compliance", FAILED, self._store):
            return sessions_to_check(self._db, self._policies)
        return frozenset()

    def read(self, ids: Sequence[str], now_ms: int, *, with_forecast: bool = True) -> list[Session]:
        """Read these sessions, at most SESSIONS_PER_QUERY, in the order of their ids.

        Without `with_forecast` only those that are open get one. One that cannot be measured is
        listed as not read.
        """

        def read_some(some: Sequence[str]) -> list[Session]:
            rows = self._rows(some)
            activities = self._activities(rows)
            listed = self._list(rows, activities, now_ms, with_forecast=with_forecast)
            return self._add_spending(rows, activities, listed)

        return self._read_apart(ids, read_some)

    def read_listed(self, ids: Sequence[str], now_ms: int) -> list[Session]:
        """Do the same without what sessions spent and what their clients reported."""

        def read_some(some: Sequence[str]) -> list[Session]:
            rows = self._rows(some)
            return self._list(rows, self._activities(rows), now_ms, with_forecast=False)

        return self._read_apart(ids, read_some)

    def _read_apart(
        self, ids: Sequence[str], read_some: Callable[[Sequence[str]], list[Session]]
    ) -> list[Session]:
        return work_apart(ids, read_some, session_place, NOT_READ, self._store, unread_session)

    def _rows(self, ids: Sequence[str]) -> list[SessionRow]:
        places = {session_id: place for place, session_id in enumerate(ids)}
        return sorted(session_queries.sessions(self._db, ids), key=lambda it: places[it.session_id])

    def _activities(self, rows: Sequence[SessionRow]) -> dict[int, ActivityRow]:
        found = activity_queries.activity(self._db, [row.file_id for row in rows])
        return {row.file_id: row for row in found}

    def _list(
        self,
        rows: Sequence[SessionRow],
        activities: Mapping[int, ActivityRow],
        now_ms: int,
        *,
        with_forecast: bool,
    ) -> list[Session]:
        sessions = []
        for row in rows:
            session = make_session(row, self._evidence, now_ms)
            if with_forecast or session.live:
                session = self._add_forecast(session, row.file_id)
            sessions.append(self._add_activity(row, session, activities.get(row.file_id), now_ms))
        return self._count_noncompliant(sessions)

    def _add_forecast(self, session: Session, file_id: int) -> Session:
        growth = _read_growth(self._db, file_id, session.context.counting)
        contexts = [step.tokens for step in growth if step.tokens is not None]
        return replace(
            session,
            outlook=make_outlook(session.context, growth, self._prior),
            recent_contexts=tuple(contexts[-activity.RECENT_CONTEXTS :]),
        )

    def _add_activity(
        self, row: SessionRow, session: Session, found: ActivityRow | None, now_ms: int
    ) -> Session:
        policy = self._policies.for_project(session.project_root)
        doing = activity.find_activity(found, now_ms) if found and session.live else None
        cache = activity.find_prompt_cache(found) if found else UNKNOWN_CACHE
        if row.next_model and not is_same_model(row.next_model, row.answer_model):
            cache = replace(cache, is_for_next_model=False)
        return replace(
            session,
            status=status_while_doing(session.status, doing),
            activity=doing,
            waiting_for=activity.find_waiting(found, doing) if found else None,
            cache=cache,
            rewrite_cost=price_cache(cache, session.model, policy.strings_by_name("price")),
            percent_dollars=percent_dollars(self.percent_sizes, session.model),
            cold_limits=read_cold_limits(policy),
        )

    def _add_spending(
        self,
        rows: Sequence[SessionRow],
        activities: Mapping[int, ActivityRow],
        sessions: Sequence[Session],
    ) -> list[Session]:
        ids = [session.session_id for session in sessions]
        reports = client_reports(self._db, ids)
        usage = spending_queries.model_usage(self._db, ids)
        sums = spending_queries.usage_by_session(usage)
        priced: dict[str, list[ModelUsageRow]] = defaultdict(list)
        for each in usage:
            priced[each.session_id].append(each)
        complete = []
        for row, session in zip(rows, sessions, strict=True):
            prices = self._policies.for_project(session.project_root).strings_by_name("price")
            estimate = activity.estimate_cost(priced[session.session_id], prices)
            cost = activity.choose_cost(
                activities.get(row.file_id), estimate, forked=session.forked_from is not None
            )
            spent = sums.get(session.session_id)
            client = reports.get(session.session_id)
            complete.append(replace(session, cost=cost, usage=spent, client=client))
        return complete

    def _count_noncompliant(self, sessions: list[Session]) -> list[Session]:
        """Count the agents of each session that did not compress their results."""
        with_agents = {each.session_id for each in sessions if each.agents}
        to_check = sorted(with_agents & self._sessions_to_check) if with_agents else []
        failed: list[Agent] = []
        if to_check:
            agents = read_agents_without_forecast(self._db, sessions, to_check, self._policies)
            judged = _add_compliance(self._db, agents, to_check, self._policies)
            failed = [each for each in judged if each.compliance and each.compliance.failed]
        counts = Counter(each.session_id for each in failed)
        copies = Counter(each.session_id for each in failed if each.is_copy)
        forks = [each.session_id for each in sessions if each.forked_from and each.agents]
        copied = agent_queries.copied_agents(self._db, forks) if forks else {}
        return [
            replace(
                each,
                agents_noncompliant=counts[each.session_id],
                agents_copied=copied.get(each.session_id, 0),
                noncompliant_copied=copies[each.session_id],
            )
            for each in sessions
        ]


def read_evidence(db: Connection, policies: Policies) -> Evidence:
    """Read what all sessions show of windows; nothing if that fails: each is measured alone."""
    with bulkhead("evidence of windows", FAILED, store_path(db)):
        return Evidence(read_evidence_rows(db), policies)
    return Evidence(EvidenceRows(), policies)


def session_place(session_id: str) -> str:
    """Name a session as the place of a problem."""
    return f"session {session_id}"


def read_cold_limits(policy: Policy) -> ColdLimits:
    return ColdLimits(
        min_tokens=policy.count("cold.min_tokens"),
        notify_tokens=policy.count("cold.notify_tokens"),
        notice_ms=policy.count("cold.notify_before_s") * 1000,
    )


def read_sessions_without_forecast(
    db: Connection, now_ms: int, only: SessionIds, policies: Policies
) -> list[Session]:
    """Read sessions without forecast, activity and cost, in no order."""
    evidence = read_evidence(db, policies)

    def measure(rows: Sequence[SessionRow]) -> list[Session]:
        return [make_session(row, evidence, now_ms) for row in rows]

    rows = session_queries.sessions(db, only)
    return work_apart(
        rows, measure, lambda row: session_place(row.session_id), NOT_READ, store_path(db)
    )


def newest_session_order(session: Session) -> tuple[object, ...]:
    """Sort key: newest activity first."""
    return (-(session.last_activity_at or 0), session.session_id)


def read_agents(
    db: Connection,
    sessions: Iterable[Session],
    now_ms: int,
    only: SessionIds = None,
    policies: Policies = DEFAULT_POLICIES,
) -> list[Agent]:
    """Read the agents of every session, or only of those named, in the order they started.

    Those of a session whose agents cannot be measured are left out, and reported.
    """
    known = list(sessions)
    ids = agent_queries.sessions_with_agents(db) if only is None else list(only)

    def read_some(some: Sequence[str]) -> list[Agent]:
        named = None if only is None and len(some) == len(ids) else some
        return _read_agents(db, known, now_ms, named, policies)

    return work_apart(ids, read_some, session_place, "agents not read", store_path(db))


def _read_agents(
    db: Connection,
    sessions: Iterable[Session],
    now_ms: int,
    only: SessionIds,
    policies: Policies,
) -> list[Agent]:
    prior: GrowthPrior | None = None
    agents = mark_zombies(read_agents_without_forecast(db, sessions, only, policies), now_ms)
    for place, agent in enumerate(agents):
        if agent.status is AgentStatus.RUNNING:
            prior = prior or read_prior(db)
            rows = context_queries.fill_history(
                db, agent.session_id, agent.agent_id, counting=agent.context.counting
            )
            agents[place] = replace(agent, outlook=make_outlook(agent.context, rows, prior))
    return _add_compliance(db, agents, only, policies)


def _add_compliance(
    db: Connection, agents: list[Agent], only: SessionIds, policies: Policies
) -> list[Agent]:
    if not agents:
        return agents
    from .compliance_reader import ComplianceReader

    store = store_path(db)
    with bulkhead("compliance", FAILED, store):
        reader = ComplianceReader(db, policies, only)

        def judge(some: Sequence[Agent]) -> list[Agent]:
            return [replace(each, compliance=reader.check_agent(each, each.cwd)) for each in some]

        return work_apart(agents, judge, agent_place, "not judged", store, lambda agent, _: agent)
    return agents


def agent_place(agent: Agent | AgentRow) -> str:
    """Name an agent as the place of a problem."""
    return f"agent {agent.agent_id} of {session_place(agent.session_id)}"


def read_agents_without_forecast(
    db: Connection, sessions: Iterable[Session], only: SessionIds, policies: Policies
) -> list[Agent]:
    """Read agents without forecast, compliance and zombies, in the order they started."""
    live = {session.session_id for session in sessions if session.live}
    evidence = read_evidence(db, policies)
    rows = agent_queries.agents(db, only)

    def measure(rows: Sequence[AgentRow]) -> list[Agent]:
        return [make_agent(row, row.session_id in live, evidence) for row in rows]

    return work_apart(rows, measure, agent_place, NOT_READ, store_path(db), unread_agent)


FIRST_BATCH_SESSIONS: Final = 100  # more than a screen shows, and read within a tenth of a second


class FleetReader:
    """Reads sessions from one read-only connection; it belongs to one thread."""

    def __init__(self, db: Connection, watching_since_ms: int) -> None:
        self._db: Final = db
        self._since: Final = watching_since_ms
        self._sessions: dict[str, Session] = {}
        self._in_order: tuple[Session, ...] | None = None  # None if a session was read since
        self._evidence = NO_EVIDENCE
        self._reader: SessionReader | None = None
        self._percent_sizes: Sequence[PercentSize] = ()
        self._definitions: object = None  # their fingerprint when agents were last judged
        self._unread: list[str] = []
        self._batch_size = FIRST_BATCH_SESSIONS
        self._forecast_ids: set[str] = set()
        self._last_warning_id = last_warning_id(db)
        self._pending_warnings: list[ContextWarning] = []

    @property
    def unread_count(self) -> int:
        """How many sessions are still to be read; the most important ones come first."""
        return len(self._unread)

    def read(
        self,
        changed: Iterable[str] | None,
        now_ms: int,
        policies: Policies = DEFAULT_POLICIES,
        percent_sizes: Sequence[PercentSize] = (),
    ) -> tuple[Session, ...]:
        """Read the sessions that changed, or all (None); the list is in `attention_order`.

        A window is judged by what all sessions show, and an agent by its definition: new
        evidence, another definition or a new policy reads them all again. Of many sessions
        one call reads a part, the open and the newest ones first; until `unread_count` is 0 the
        others are missing, or not up to date. If none was read, the same list is returned.
        """
        evidence = read_evidence(self._db, policies)
        definitions = definitions_fingerprint(self._db)
        is_same = evidence.is_equivalent_to(self._evidence) and definitions == self._definitions
        if changed is None or not is_same or self._reader is None:
            self._evidence, self._definitions = evidence, definitions
            self._reader = SessionReader(self._db, evidence, policies, percent_sizes)
            self._restart()
        elif stale := self._with_origins(changed) | self._stale_sessions(now_ms):
            self._read(self._reader, sorted(stale), now_ms)
        self._read_next_batch(self._reader, now_ms)
        self._set_percent_sizes(self._reader, percent_sizes)
        if self._in_order is None:
            self._in_order = tuple(_in_order(list(self._sessions.values()), now_ms))
        return self._in_order

    def _set_percent_sizes(self, reader: SessionReader, sizes: Sequence[PercentSize]) -> None:
        """Change the sessions that are read already, without reading them again."""
        if sizes == self._percent_sizes:
            return
        self._percent_sizes = reader.percent_sizes = sizes
        for session_id, session in self._sessions.items():
            found = percent_dollars(sizes, session.model)
            if found != session.percent_dollars:
                self._sessions[session_id] = replace(session, percent_dollars=found)
                self._in_order = None

    def _restart(self) -> None:
        ids = dict.fromkeys(session_queries.open_sessions(self._db))
        ids |= dict.fromkeys(session_queries.newest_sessions(self._db))
        self._sessions = {each: found for each, found in self._sessions.items() if each in ids}
        self._in_order = None
        self._unread = list(ids)
        self._batch_size = FIRST_BATCH_SESSIONS
        self._forecast_ids = set(self._unread[:MAX_FORECAST_SESSIONS])

    def _read_next_batch(self, reader: SessionReader, now_ms: int) -> None:
        """Read the next batch, which is twice as large as the one before."""
        batch = self._unread[: self._batch_size]
        self._unread = self._unread[self._batch_size :]
        self._batch_size *= 2
        with_forecast = [each for each in batch if each in self._forecast_ids]
        self._read(reader, with_forecast, now_ms)
        self._read(reader, batch[len(with_forecast) :], now_ms, with_forecast=False)

    def _read(
        self, reader: SessionReader, ids: list[str], now_ms: int, *, with_forecast: bool = True
    ) -> None:
        for start in range(0, len(ids), SESSIONS_PER_QUERY):
            batch = ids[start : start + SESSIONS_PER_QUERY]
            self._in_order = None
            sessions = reader.read(batch, now_ms, with_forecast=with_forecast)
            # A client that was closed before its first prompt leaves nothing behind.
            for session_id in batch:
                self._sessions.pop(session_id, None)
            self._sessions |= {session.session_id: session for session in sessions}

    def new_warnings(self) -> list[tuple[Session, ContextWarning]]:
        """Return the active warnings that were logged since the last call.

        Only levels that were reached since `watching_since_ms`. Another ctxtop may have logged
        them: each screen shows them once.
        """
        logged = read_warnings(self._db, after=self._last_warning_id)
        if logged:
            self._last_warning_id = logged[-1].log_id
        by_context: dict[tuple[str, str | None], list[ContextWarning]] = {}
        for each in (*self._pending_warnings, *filter(self._is_new, logged)):
            by_context.setdefault((each.session_id, each.agent_id), []).append(each)
        # One step can pass several thresholds: only the most urgent is reported.
        urgent = [
            max(warnings, key=lambda each: warning_urgency(each.warning))
            for warnings in by_context.values()
        ]
        # A session can be stored after we read the sessions and before we read the log.
        self._pending_warnings = [each for each in urgent if each.session_id not in self._sessions]
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

    def _with_origins(self, changed: Iterable[str]) -> set[str]:
        """Add the sessions that were recovered in one of these: it may be gone."""
        forks = set(changed)
        origins = (each for each in self._sessions.values() if each.recovered_in in forks)
        return forks | {each.session_id for each in origins}

    def _stale_sessions(self, now_ms: int) -> set[str]:
        """Return sessions that are live only because their file grew, too long ago by now."""
        return {
            session.session_id
            for session in self._sessions.values()
            if session.status is SessionStatus.ACTIVE
            and now_ms - (session.last_activity_at or 0) >= ACTIVE_MS
        }


def read_assessed_claims(
    db: Connection, session_id: str, policies: Policies = DEFAULT_POLICIES
) -> tuple[AssessedClaim, ...]:
    """List every claim of a session's window, then of its trigger, the strongest first."""
    evidence = read_evidence(db, policies)
    for row in session_queries.sessions(db, [session_id]):
        window, trigger = evidence.claims_of(context_evidence(row))
        return (
            *assess_claims(ClaimSubject.WINDOW, window),
            *assess_claims(ClaimSubject.TRIGGER, trigger),
        )
    return ()


def read_prior(db: Connection) -> GrowthPrior:
    """Gather from the newest sessions how contexts grow, and how certain that is."""
    prior = make_prior(rows for _, rows in read_histories(db))
    return replace(prior, calibration=read_forecast_calibration(db) or SHIPPED_CALIBRATION)


def read_histories(db: Connection) -> Iterator[tuple[str, list[FillRow]]]:
    """Return the projects and the fill of the newest sessions, newest first."""
    files = session_queries.newest_session_files(db, PRIOR_SESSIONS)
    return ((project, _read_growth(db, file_id)) for file_id, project in files)


def _read_growth(
    db: Connection, file_id: int, counting: CountingRule = DEFAULT_COUNTING
) -> list[FillRow]:
    return context_queries.recent_fill_history(db, file_id, OWN_TURNS, counting)
