"""Which levels contexts have reached since it was last looked: what goes into the log.

A fill is judged once, answer by answer, against the window that is known by then; what was
said stays as it was said. When better evidence of the window comes later, a line that now
lies higher is said again once it is reached there, one that lies lower is not said twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .agents import Agent
from .fleet import measure_agents, measure_sessions
from .levels import LevelWarning, Point, find_warnings
from .store import queries, warning_queries
from .store.warning_queries import ASIDE
from .store.warning_writer import Judged
from .warning_log import from_row

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from .context import Context
    from .policy.layers import Policies
    from .policy.policy import Policy
    from .sessions import Session
    from .store.rows import FillRow
    from .store.warning_queries import ContextKey, StandRow, WarningRow
    from .unjudged import Batch


def judge(db: sqlite3.Connection, policies: Policies, batch: Batch, now_ms: int) -> list[Judged]:
    """Replay what is new of each context of a batch."""
    sessions = {
        each.session_id: each for each in measure_sessions(db, now_ms, batch.sessions, policies)
    }
    contexts: list[Session | Agent] = [
        each for each in sessions.values() if (each.session_id, None) in batch.contexts
    ]
    contexts += _agents(db, policies, batch, sessions.values())
    logged = warning_queries.logged(db, batch.sessions)
    stands = warning_queries.stands(db, batch.sessions)
    found = []
    for each in contexts:
        key = (each.session_id, each.agent_id if isinstance(each, Agent) else None)
        session = sessions.get(each.session_id)
        policy = policies.for_project(session.project_root if session else None)
        said = _Said(logged.get(key, []), stands.get(key))
        judged = _judge_context(db, key, each.context, policy, said)
        if judged:
            found.append(judged)
    return found


class _Said(msgspec.Struct, frozen=True):
    """What was said of a context, and how far it was judged."""

    rows: list[WarningRow]
    stand: StandRow | None


def _agents(
    db: sqlite3.Connection, policies: Policies, batch: Batch, sessions: Iterable[Session]
) -> list[Agent]:
    with_agents = {session_id for session_id, agent_id in batch.contexts if agent_id is not None}
    if not with_agents:
        return []
    return [
        agent
        for agent in measure_agents(db, sessions, with_agents, policies)
        if (agent.session_id, agent.agent_id) in batch.contexts
        or (agent.agent_id.startswith(ASIDE) and (agent.session_id, ASIDE) in batch.contexts)
    ]


def _judge_context(
    db: sqlite3.Connection, key: ContextKey, context: Context, policy: Policy, before: _Said
) -> Judged | None:
    window = context.window.tokens
    said = [_said(row, window) for row in before.rows]
    rows = _unjudged(db, key, before.stand)
    if not rows:
        return None
    rearm, lines = policy.rearm, context.thresholds if policy.warns else ()
    lows = [line.at for line in lines]
    lows += [each.placed_threshold.at for each in said if each.cleared_by is None]
    least = (min(lows, default=0.0) - (rearm.hysteresis or 0.0)) * window
    points = [_point(row, window) for row in _that_matter(rows, least)]
    found = find_warnings(points, lines, rearm, said)
    return Judged(
        session_id=key[0],
        agent_id=key[1],
        window_tokens=window,
        last_point=_point(rows[-1], window),
        new_warnings=tuple(found[len(said) :]),
        cleared=tuple(
            (row.warning_id, now.cleared_by)
            for row, earlier, now in zip(before.rows, said, found, strict=False)
            if earlier.cleared_by is None and now.cleared_by is not None
        ),
    )


def _that_matter(rows: list[FillRow], least: float) -> Iterable[FillRow]:
    """Leave out the answers below which nothing begins and before which all has ended."""
    was_low = False
    for row in rows:
        is_low = row.tokens is not None and row.tokens < least
        if row.is_compaction or not (is_low and was_low):
            yield row
        was_low = is_low


def _unjudged(db: sqlite3.Connection, key: ContextKey, stand: StandRow | None) -> list[FillRow]:
    """Give the fill after the last point that was judged, wherever that stands by now."""
    if stand is None:
        return queries.fill(db, *key)
    rows = queries.fill(db, *key, since=stand.offset)
    if rows and (rows[0].offset, rows[0].mark) == (stand.offset, stand.mark):
        return rows[1:]
    # Its file was written anew, or the session goes on in another one.
    return _after(queries.fill(db, *key), stand)


def _after(rows: list[FillRow], stand: StandRow) -> list[FillRow]:
    places = [place for place, row in enumerate(rows) if row.mark == stand.mark]
    if places:
        return rows[places[-1] + 1 :]
    return [row for row in rows if row.at is None or stand.at is None or row.at > stand.at]


def _point(row: FillRow, window: int) -> Point:
    return Point(
        at=row.at,
        ratio=None if row.tokens is None else row.tokens / window,
        compacted=bool(row.is_compaction),
        tokens=row.tokens,
        mark=row.mark,
        path=row.path,
        offset=row.offset,
    )


def _said(row: WarningRow, window: int) -> LevelWarning:
    """Give a row as the replay has it: its line as a ratio of the window that is known now."""
    at = row.line_ratio
    if window != row.window_tokens:
        at = at * row.window_tokens / window
    return from_row(row, at)
