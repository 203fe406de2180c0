"""Finds the summaries that match a query, and reads them."""

import json
from collections.abc import Mapping, Sequence
from sqlite3 import Connection
from typing import Final

from msgspec.structs import replace

from ..model.stored_rows import SummaryRow
from ..policy.policy import Policy
from ..store.queries.query_rows import LISTED, SUMMARY_TIME, fetch_records
from ..summaries.summary_building import DEFAULT_MAX_WORDS, find_form_flaws
from ..summaries.summary_search import (
    RULE_KIND,
    SUMMARY_KINDS,
    PlanSummary,
    SummaryCriteria,
    SummaryMatches,
    SummaryQuery,
    parse_summary_query,
)

_LISTED_KINDS: Final = tuple(kind for kind in SUMMARY_KINDS if kind != RULE_KIND)

MAX_SUMMARIES: Final = 100_000  # nobody scrolls further, and words find older ones


def find_summaries(
    db: Connection,
    plans: Sequence[PlanSummary],
    criteria: SummaryCriteria,
    projects: Mapping[str, str],
    now_ms: int,
    limit: int = MAX_SUMMARIES,
) -> SummaryMatches:
    """Find what is wanted, at most `limit`; `projects` names the project of every session.

    Plans are not in the store: they are few, and are searched one by one.
    """
    search = _add_criteria(parse_summary_query(criteria.query, now_ms), criteria)
    sessions = _allowed_sessions(search, criteria, projects)
    stored = find_summary_ids(db, search, sessions, [plan.uuid for plan in plans], limit + 1)
    planned = [
        (plan.row.summary_id, plan.row.at or 0)
        for plan in plans
        if _matches_plan(plan.row, search, sessions)
    ]
    places = sorted([*stored, *planned], key=lambda place: (-place[1], -place[0]))
    return SummaryMatches(search, tuple(places[:limit]), len(places) > limit)


def read_summary_rows(
    db: Connection, plans: Sequence[PlanSummary], ids: Sequence[int]
) -> list[SummaryRow]:
    """Read complete summaries in the order of their ids; missing ones are left out."""
    rows = {plan.row.summary_id: plan.row for plan in plans}
    stored = [each for each in ids if each > 0]
    sql = f"""SELECT s.summary_id, s.kind, f.session_id, s.agent_id, {_TYPE},
            COALESCE(NULLIF(m.description, ''), l.description, s.source), {SUMMARY_TIME}, s.lines,
            n.tokens, s.text
        FROM summary s JOIN file f USING (file_id)
        LEFT JOIN estimate n ON n.summary_id = s.summary_id
        {_TYPE_JOINS}
        WHERE s.summary_id IN {LISTED}"""
    found = fetch_records(SummaryRow, db, sql, [json.dumps(stored)])
    rows |= {row.summary_id: row for row in found}
    return [rows[each] for each in ids if each in rows]


_JUDGED_KINDS: Final = frozenset(SUMMARY_KINDS) - {"agent", RULE_KIND}


def summary_flaws(row: SummaryRow, policy: Policy) -> tuple[str, ...]:
    """Return how a compaction's summary differs from what a model was asked for."""
    max_words = policy.integer("summary.max_words") or DEFAULT_MAX_WORDS
    return find_form_flaws(row.text, max_words) if row.kind in _JUDGED_KINDS else ()


def summary_agent_types(db: Connection) -> list[str]:
    """List the types of the agents that returned something, the most frequent first."""
    sql = f"""SELECT {_TYPE} AS type FROM summary s JOIN file f USING (file_id) {_TYPE_JOINS}
        WHERE s.kind = 'agent' AND type IS NOT NULL GROUP BY type ORDER BY COUNT(*) DESC, type"""
    return [row[0] for row in db.execute(sql)]


def find_summary_ids(
    db: Connection,
    search: SummaryQuery,
    sessions: Sequence[str] | None,
    excluded_uuids: Sequence[str],
    limit: int,
) -> list[tuple[int, int]]:
    """List ids and times (0 if unknown) of the store's matches, newest first.

    `sessions` are the only ones to search, None for all; `excluded_uuids` are lines not to list.
    Rules are listed if their kind is asked for.
    """
    conditions = {
        f"s.summary_id IN ({_MATCHING})": search.fts_match or None,
        f"s.summary_id NOT IN ({_MATCHING})": search.fts_exclude or None,
        f"s.kind IN {LISTED}": json.dumps(search.kinds or _LISTED_KINDS),
        _OF_TYPE: json.dumps(search.types) if search.types else None,
        f"f.session_id IN {LISTED}": None if sessions is None else json.dumps(sessions),
        f"{SUMMARY_TIME} >= ?": search.since,
        f"s.uuid NOT IN {LISTED}": json.dumps(excluded_uuids) if excluded_uuids else None,
    }
    needed = {sql: value for sql, value in conditions.items() if value is not None}
    joins = _TYPE_JOINS if search.types else ""
    among = "" if sessions is None else _RULES_AMONG
    sql = _FIND.format(joins=joins, where=" AND ".join(needed), among=among)
    values = [*needed.values(), *([json.dumps(sessions)] if among else []), limit]
    return [(row[0], row[1] or 0) for row in db.execute(sql, values)]


def _add_criteria(search: SummaryQuery, wanted: SummaryCriteria) -> SummaryQuery:
    """Add the chosen criteria to the query: both must be met."""
    kinds = search.kinds
    if wanted.kind is not None:
        kinds = (wanted.kind,) if not kinds or wanted.kind in kinds else ("nothing",)
    since = max((each for each in (search.since, wanted.since) if each is not None), default=None)
    types = search.types
    if wanted.agent_type is not None:
        chosen_type = wanted.agent_type.casefold()
        met = not types or any(each in chosen_type for each in types)
        types = (chosen_type,) if met else ("\0",)
    return replace(search, kinds=kinds, since=since, types=types)


def _allowed_sessions(
    search: SummaryQuery, wanted: SummaryCriteria, projects: Mapping[str, str]
) -> tuple[str, ...] | None:
    """Return the sessions that may be shown; None for all, including unnamed ones."""
    if not (search.projects or search.sessions or wanted.project or wanted.session_id):
        return None
    return tuple(
        session_id
        for session_id, project in projects.items()
        if (wanted.session_id is None or session_id == wanted.session_id)
        and (wanted.project is None or project == wanted.project)
        and (not search.projects or any(each in project.casefold() for each in search.projects))
        and (not search.sessions or any(session_id.startswith(each) for each in search.sessions))
    )


def _matches_plan(row: SummaryRow, search: SummaryQuery, sessions: Sequence[str] | None) -> bool:
    agent_type = (row.agent_type or "").casefold()
    return (
        (not search.kinds or row.kind in search.kinds)
        and (not search.types or any(agent_type and each in agent_type for each in search.types))
        and (sessions is None or row.session_id in sessions)
        and (search.since is None or (row.at or 0) >= search.since)
        and search.matches(row.text)
    )


_MATCHING: Final = "SELECT rowid FROM summary_fts WHERE summary_fts MATCH ?"


_TYPE: Final = "COALESCE(NULLIF(m.agent_type, ''), l.agent_type)"

_OF_TYPE: Final = f"""EXISTS (
    SELECT 1 FROM json_each(?) WHERE instr(lower({_TYPE}), value) > 0)"""

_TYPE_JOINS: Final = """
LEFT JOIN agent_meta m ON m.session_id = f.session_id AND m.agent_id = s.agent_id
LEFT JOIN launch l ON l.rowid = (SELECT x.rowid FROM agent_return t
    JOIN launch x ON x.file_id = t.file_id AND x.tool_use_id = t.tool_use_id
    WHERE t.file_id = s.file_id AND t.agent_id = s.agent_id LIMIT 1)
"""

# A fork copies its history: the same line is in two files and is shown once, in
# the session that wrote it first. So is a rule of a memory file, which holds in many sessions.
_WRITTEN_FIRST: Final = """NOT EXISTS (
    SELECT 1 FROM summary o JOIN file g USING (file_id)
    LEFT JOIN session a ON a.file_id = o.file_id
    LEFT JOIN session b ON b.file_id = s.file_id
    WHERE o.uuid = s.uuid AND o.file_id <> s.file_id{among}
    AND (a.forked_from IS NOT NULL, COALESCE(a.opened_at, 0), g.path)
        < (b.forked_from IS NOT NULL, COALESCE(b.opened_at, 0), f.path))
"""

# Each session that is searched has its rules, whichever other session had them first.
_RULES_AMONG: Final = f" AND (o.kind <> 'rule' OR g.session_id IN {LISTED})"

_LAST_STATED: Final = """(s.kind <> 'rule' OR NOT EXISTS (
    SELECT 1 FROM summary o WHERE o.file_id = s.file_id AND o.kind = 'rule'
    AND lower(o.text) = lower(s.text) AND o.offset > s.offset))
"""

# The index summary_time has this order, so nothing is sorted.
_FIND: Final = f"""
SELECT s.summary_id, {SUMMARY_TIME} FROM summary s JOIN file f USING (file_id) {{joins}}
WHERE {{where}} AND {_WRITTEN_FIRST} AND {_LAST_STATED}
ORDER BY s.at DESC, s.summary_id DESC LIMIT ?
"""
