"""Finds summaries in the store by a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...summaries.summary_search import (
    PlanSummary,
    SummaryCriteria,
    SummaryMatches,
    SummaryQuery,
    parse_summary_query,
)
from ..queries.query_rows import SummaryRow
from ..queries.summary_queries import (
    MAX_SUMMARIES,
    SummaryConditions,
    fetch_summaries,
    find_summary_ids,
)

if TYPE_CHECKING:
    import sqlite3


def find_summaries(
    db: sqlite3.Connection,
    plans: Sequence[PlanSummary],
    criteria: SummaryCriteria,
    projects: Mapping[str, str],
    now_ms: int,
    limit: int = MAX_SUMMARIES,
) -> SummaryMatches:
    """Find what is wanted, at most `limit`; `projects` names the project of every session.

    The store answers for what it has. Plans are few: they are looked through one by one.
    """
    search = _add_criteria(parse_summary_query(criteria.query, now_ms), criteria)
    sessions = _allowed_sessions(search, criteria, projects)
    asked = SummaryConditions(
        match=search.fts_match,
        exclude=search.fts_exclude,
        kinds=search.kinds,
        agent_types=search.types,
        sessions=sessions,
        since_ms=search.since,
        excluded_uuids=tuple(plan.uuid for plan in plans),
    )
    found = find_summary_ids(db, asked, limit + 1)
    ours = [
        (plan.row.summary_id, plan.row.at or 0)
        for plan in plans
        if _matches_plan(plan.row, search, sessions)
    ]
    both = sorted([*found, *ours], key=lambda place: (-place[1], -place[0]))
    return SummaryMatches(search, tuple(both[:limit]), len(both) > limit)


def read_summary_rows(
    db: sqlite3.Connection, plans: Sequence[PlanSummary], ids: Iterable[int]
) -> list[SummaryRow]:
    """Read complete summaries in the order of their ids; missing ones are left out."""
    wanted = list(ids)
    found = {plan.row.summary_id: plan.row for plan in plans}
    found |= {
        row.summary_id: row for row in fetch_summaries(db, [each for each in wanted if each > 0])
    }
    return [found[each] for each in wanted if each in found]


def _add_criteria(search: SummaryQuery, wanted: SummaryCriteria) -> SummaryQuery:
    """Add what was chosen to what was typed: both must be met."""
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
    """Name the sessions that may be shown; None for all, also for those nobody can name."""
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
