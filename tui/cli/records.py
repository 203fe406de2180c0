"""The records of a reading, as the commands print them and as an export holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.cost import estimate_cost
from ...core.store import queries, spending_queries
from ...core.store.answer_queries import given
from ..given_lines import given_to_agents, injected
from . import as_json
from .steered import steered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.agents import Agent
    from ...core.sessions import Session
    from ...core.store.rows import CompactionRow, SpentRow
    from .reading import Reading

Record = dict[str, Any]


def spent_by_session(found: Reading) -> dict[str, SpentRow]:
    """Return what each session's answers spent; each answer counts once."""
    return {row.session_id: row for row in spending_queries.spent(found.db)}


def of_sessions(found: Reading, listed: Sequence[Session]) -> list[Record]:
    """Give the records of `ctxtop sessions`."""
    projects = found.places.folder.projects
    return [as_json.session(each, projects, found.now_ms) for each in listed]


def of_agents(found: Reading, listed: Sequence[Agent], session_id: str | None) -> list[Record]:
    """Give the records of `ctxtop agents`."""
    at_start = given_to_agents(found.db, session_id)
    return [
        as_json.agent(each)
        | {"injected": injected(at_start.get((each.session_id, each.agent_id), ()))}
        for each in listed
    ]


def of_compactions(
    found: Reading, listed: Sequence[CompactionRow], session_id: str | None
) -> list[Record]:
    """Give the records of `ctxtop compactions`."""
    asked = steered(listed, given(found.db, "steer", session_id))
    return [
        as_json.compaction(each) | {"steered": items}
        for each, items in zip(listed, asked, strict=True)
    ]


def of_totals(found: Reading) -> Record:
    """Give the record of `ctxtop totals`."""
    prices = found.policies.common.strings_by_name("price")
    spending = spending_queries.spending(found.db)
    more = spending_queries.progress_spending(found.db)
    sessions = queries.counts(found.db)["sessions"]
    progress = spending_queries.progress_spent(found.db)
    spent = list(spent_by_session(found).values())
    return {
        **as_json.totals(spent, sessions, estimate_cost(spending, prices)),
        "agent_progress": as_json.sums(progress, estimate_cost(more, prices)),
        "with_agent_progress": as_json.sums(
            [*spent, *progress], estimate_cost([*spending, *more], prices)
        ),
    }
