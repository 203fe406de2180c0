"""What the summaries' pages ask of the store and of the receipts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..collectors import subjects
from ..core.store.summary_queries import agent_types
from ..core.summary_list import Found, PlanText, Wanted, find, read_rows
from .summary_list_rows import head_of
from .summary_report import counted, summary_report

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from ..collectors.plan_texts import PlanTexts
    from ..core.compliance.states import Ruling
    from ..core.policy.layers import Policies
    from ..core.sessions import Session
    from ..core.store.rows import SummaryRow
    from ..core.summary_search import Search
    from .summary_list_rows import Head
    from .summary_report import Report

AgentKey = tuple[str, str]
"""A session's id and an agent's."""


@dataclass(frozen=True, slots=True)
class Listing:
    """All that is wanted, and what of it stands in receipts."""

    query: Wanted
    found: Found
    plans: tuple[PlanText, ...]
    types: tuple[str, ...]
    """Of all agents that returned something."""


class SummarySource:
    """Asks in the thread of whoever calls; it belongs to one thread, but for what is static."""

    def __init__(self, store: Path) -> None:
        self._store: Final = store
        self._texts: PlanTexts | None = None

    def plans(self) -> tuple[PlanText, ...]:
        """List what ctxtop wrote itself."""
        if self._texts is None:
            from ..collectors.plan_texts import PlanTexts

            self._texts = PlanTexts(subjects.state_folder(self._store))
        return self._texts.read()

    def list(
        self, db: sqlite3.Connection, wanted: Wanted, projects: Mapping[str, str], now_ms: int
    ) -> Listing:
        """Find what is wanted, without its texts."""
        plans = self.plans()
        found = find(db, plans, wanted, projects, now_ms)
        return Listing(wanted, found, plans, tuple(agent_types(db)))


def read_heads(
    db: sqlite3.Connection, plans: Sequence[PlanText], ids: Iterable[int], search: Search
) -> list[Head]:
    """Read what the list shows of some summaries."""
    return [head_of(row, search) for row in read_rows(db, plans, ids)]


def read_one(
    db: sqlite3.Connection, plans: Sequence[PlanText], summary_id: int
) -> SummaryRow | None:
    """Read one summary whole; None where it is gone."""
    return next((counted(row) for row in read_rows(db, plans, [summary_id])), None)


def read_report(
    db: sqlite3.Connection,
    plans: Sequence[PlanText],
    summary_id: int,
    search: Search | None,
    width: int,
) -> Report | None:
    """Read one summary and wrap it; None where it is gone."""
    row = read_one(db, plans, summary_id)
    return None if row is None else summary_report(row, search, width)


def read_rulings(
    db: sqlite3.Connection,
    sessions: Sequence[Session],
    session_ids: Iterable[str],
    policies: Policies,
) -> dict[AgentKey, Ruling | None]:
    """Judge the agents of some sessions."""
    from ..core.fleet import read_agents

    known = {each.session_id for each in sessions}
    asked = [each for each in session_ids if each in known]
    found = read_agents(db, sessions, asked, policies) if asked else ()
    return {(each.session_id, each.agent_id): each.compliance for each in found}
