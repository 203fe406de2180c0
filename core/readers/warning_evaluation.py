"""Evaluates which levels contexts have newly reached, for the warning log.

A fill is evaluated once, answer by answer, against the window that is known by then, and a logged
warning is never changed. When better evidence of the window comes later, a threshold that now lies
higher warns again once it is reached there; one that lies lower does not warn twice.
"""

from collections.abc import Iterable, Mapping
from sqlite3 import Connection

import msgspec

from ..model.agent import Agent
from ..model.context import Context
from ..model.counting_rule import CountingRule
from ..model.levels import FillPoint, find_warnings
from ..model.session import Session
from ..model.stored_rows import FillRow
from ..policy.policy import Policy
from ..policy.resolve import Policies
from ..store.bulkhead import FAILED, bulkhead
from ..store.database import store_path
from ..store.queries import context_queries
from ..store.queries.query_rows import SessionIds, in_condition
from ..store.warning_log import (
    SIDECHAIN_AGENTS,
    ContextKey,
    ContextWarning,
    EvaluatedContext,
    EvaluationBatch,
    WarningRow,
    all_batches,
    evaluated_points,
    logged_by_context,
)
from .fleet_reader import (
    read_agents_without_forecast,
    read_sessions_without_forecast,
    session_place,
)


def evaluate_warnings(
    db: Connection, policies: Policies, batch: EvaluationBatch, now_ms: int
) -> list[EvaluatedContext]:
    """Replay what is new in each context of a batch."""
    logged = logged_by_context(db, batch.sessions)
    return _evaluate(db, policies, batch, now_ms, logged, evaluated_points(db, batch.sessions))


class RecomputedWarnings(msgspec.Struct, frozen=True):
    """The warnings that other policies would have given; nothing of them is logged."""

    warnings: tuple[ContextWarning, ...]  # oldest first
    lost_sessions: int  # sessions with logged warnings of which the store has no answers


def recompute_warnings(
    db: Connection, policies: Policies, now_ms: int, only: SessionIds = None
) -> RecomputedWarnings:
    """Replay all answers that the store holds, against the windows that are known now."""
    batches = all_batches(db, policies, only)
    found = [
        ContextWarning(context.session_id, context.agent_id, warning)
        for batch in batches
        for context in _evaluate(db, policies, batch, now_ms, {}, {})
        for warning in context.new_warnings
    ]
    found.sort(key=lambda each: each.warning.at or 0)
    where, names = in_condition("session_id", only)
    lost = f"""SELECT COUNT(DISTINCT session_id) FROM warning
        WHERE {where} AND session_id NOT IN (SELECT session_id FROM file)"""
    return RecomputedWarnings(tuple(found), int(db.execute(lost, names).fetchone()[0]))


def _evaluate(
    db: Connection,
    policies: Policies,
    batch: EvaluationBatch,
    now_ms: int,
    logged: Mapping[ContextKey, list[WarningRow]],
    last_points: Mapping[ContextKey, FillPoint],
) -> list[EvaluatedContext]:
    sessions = {
        each.session_id: each
        for each in read_sessions_without_forecast(db, now_ms, batch.sessions, policies)
    }
    contexts: list[Session | Agent] = [
        each for each in sessions.values() if (each.session_id, None) in batch.contexts
    ]
    contexts += _pending_agents(db, policies, batch, sessions.values())
    evaluated, store = [], store_path(db)
    for each in contexts:
        key = (each.session_id, each.agent_id if isinstance(each, Agent) else None)
        with bulkhead(f"warnings of {session_place(each.session_id)}", FAILED, store):
            if rows := _pending_rows(db, key, last_points.get(key), each.context.counting):
                session = sessions.get(each.session_id)
                policy = policies.for_project(session.project_root if session else None)
                warnings = logged.get(key, [])
                evaluated.append(_evaluate_context(key, each.context, policy, warnings, rows))
    return evaluated


def _pending_agents(
    db: Connection, policies: Policies, batch: EvaluationBatch, sessions: Iterable[Session]
) -> list[Agent]:
    with_agents = {session_id for session_id, agent_id in batch.contexts if agent_id is not None}
    if not with_agents:
        return []
    return [
        agent
        for agent in read_agents_without_forecast(db, sessions, with_agents, policies)
        if (agent.session_id, agent.agent_id) in batch.contexts
        or (
            agent.agent_id.startswith(SIDECHAIN_AGENTS)
            and (agent.session_id, SIDECHAIN_AGENTS) in batch.contexts
        )
    ]


def _evaluate_context(
    key: ContextKey, context: Context, policy: Policy, logged: list[WarningRow], rows: list[FillRow]
) -> EvaluatedContext:
    window = context.window.tokens
    earlier = [row.to_warning(window) for row in logged]
    rearm, lines = policy.rearm, context.thresholds if policy.warns else ()
    lows = [line.at for line in lines]
    lows += [each.placed_threshold.at for each in earlier if each.cleared_by is None]
    least = (min(lows, default=0.0) - (rearm.hysteresis or 0.0)) * window
    points = [_fill_point(row, window) for row in _relevant_rows(rows, least)]
    warnings = find_warnings(points, lines, rearm, earlier)
    return EvaluatedContext(
        session_id=key[0],
        agent_id=key[1],
        window_tokens=window,
        last_point=_fill_point(rows[-1], window),
        new_warnings=tuple(warnings[len(earlier) :]),
        cleared=tuple(
            (row.warning_id, now.cleared_by)
            for row, before, now in zip(logged, earlier, warnings, strict=False)
            if before.cleared_by is None and now.cleared_by is not None
        ),
    )


def _relevant_rows(rows: list[FillRow], least: float) -> Iterable[FillRow]:
    """Leave out answers that are too small to begin a warning, after all earlier ones ended."""
    was_low = False
    for row in rows:
        is_low = row.tokens is not None and row.tokens < least
        if row.is_compaction or not (is_low and was_low):
            yield row
        was_low = is_low


def _pending_rows(
    db: Connection, key: ContextKey, last: FillPoint | None, counting: CountingRule
) -> list[FillRow]:
    """Return the fill after the last evaluated point, even if its file was rewritten since."""
    if last is None:
        return context_queries.fill_history(db, *key, counting=counting)
    rows = context_queries.fill_history(db, *key, last.offset, counting)
    if rows and (rows[0].offset, rows[0].mark) == (last.offset, last.mark):
        return rows[1:]
    # Its file was rewritten, or the session continues in another one.
    return _rows_after(context_queries.fill_history(db, *key, counting=counting), last)


def _rows_after(rows: list[FillRow], last: FillPoint) -> list[FillRow]:
    places = [place for place, row in enumerate(rows) if row.mark == last.mark]
    if places:
        return rows[places[-1] + 1 :]
    return [row for row in rows if row.at is None or last.at is None or row.at > last.at]


def _fill_point(row: FillRow, window: int) -> FillPoint:
    return FillPoint(
        at=row.at,
        ratio=None if row.tokens is None else row.tokens / window,
        compacted=bool(row.is_compaction),
        tokens=row.tokens,
        mark=row.mark,
        path=row.path,
        offset=row.offset,
    )
