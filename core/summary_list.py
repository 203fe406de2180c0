"""Agents' results, boundaries' summaries and plans' texts as one list, by what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from .store.rows import SummaryRow  # noqa: TC001 -- msgspec reads it
from .store.summary_queries import PLACES, Asked, chosen, places
from .summary_search import Search, parse

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence

PLAN: Final = "plan"
"""The kind of what ctxtop wrote, which stands in a receipt, and of plans made in plan mode."""


class PlanText(msgspec.Struct, frozen=True):
    """A summary or a hand-off that a receipt holds."""

    row: SummaryRow
    """Its id is below 0: it is no row of the store."""
    uuid: str
    """Of the line that it became: where the store has that line too, it is shown once."""
    receipt_id: str
    operation_number: int
    """Of its operation, counted from 0."""
    strategy: str
    undone: bool
    transcript: str
    """Path of what it was made of."""
    base_bytes: int
    """Of the transcript as it was."""
    before_tokens: int
    after_tokens: int
    kept_uuids: tuple[str, ...] = ()
    """Messages that it keeps as they are, by uuid."""
    description: str = ""
    """What its operation says of itself."""


class Wanted(msgspec.Struct, frozen=True):
    """What a person wants to see: what was typed, and what was chosen beside it."""

    query: str = ""
    kind: str | None = None
    agent_type: str | None = None
    project: str | None = None
    since: int | None = None
    """Milliseconds since 1970."""
    session_id: str | None = None


class Found(msgspec.Struct, frozen=True):
    """The places of all that is wanted, newest first, without their texts."""

    search: Search
    places: tuple[tuple[int, int], ...] = ()
    """Id, and time in ms since 1970 (0 where unknown); a plan's id is below 0."""
    is_cut: bool = False
    """There are more than PLACES."""

    @property
    def ids(self) -> list[int]:
        """The ids alone."""
        return [summary_id for summary_id, _ in self.places]


def find(
    db: sqlite3.Connection,
    plans: Sequence[PlanText],
    criteria: Wanted,
    projects: Mapping[str, str],
    now_ms: int,
) -> Found:
    """Find what is wanted; `projects` names the project of every session.

    The store answers for what it has. Plans are few: they are looked through one by one.
    """
    search = _joined(parse(criteria.query, now_ms), criteria)
    sessions = _sessions(search, criteria, projects)
    asked = Asked(
        match=search.fts_match,
        exclude=search.fts_exclude,
        kinds=search.kinds,
        agent_types=search.types,
        sessions=sessions,
        since_ms=search.since,
        excluded_uuids=tuple(plan.uuid for plan in plans),
    )
    found = places(db, asked, PLACES + 1)
    ours = [
        (plan.row.summary_id, plan.row.at or 0)
        for plan in plans
        if _meets(plan.row, search, sessions)
    ]
    both = sorted([*found, *ours], key=lambda place: (-place[1], -place[0]))
    return Found(search, tuple(both[:PLACES]), len(both) > PLACES)


def read_rows(
    db: sqlite3.Connection, plans: Sequence[PlanText], ids: Iterable[int]
) -> list[SummaryRow]:
    """Give summaries whole, in the order of their ids; those that are gone are left out."""
    wanted = list(ids)
    found = {plan.row.summary_id: plan.row for plan in plans}
    found |= {row.summary_id: row for row in chosen(db, [each for each in wanted if each > 0])}
    return [found[each] for each in wanted if each in found]


def _joined(search: Search, wanted: Wanted) -> Search:
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


def _sessions(
    search: Search, wanted: Wanted, projects: Mapping[str, str]
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


def _meets(row: SummaryRow, search: Search, sessions: Sequence[str] | None) -> bool:
    agent_type = (row.agent_type or "").casefold()
    return (
        (not search.kinds or row.kind in search.kinds)
        and (not search.types or any(agent_type and each in agent_type for each in search.types))
        and (sessions is None or row.session_id in sessions)
        and (search.since is None or (row.at or 0) >= search.since)
        and search.matches(row.text)
    )
