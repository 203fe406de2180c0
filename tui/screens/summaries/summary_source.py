"""What the summaries' pages read from the store and the receipts; a cache of verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ....collectors.actions import session_target
from ....core.store.queries.summary_queries import summary_agent_types
from ....core.summaries.summary_search import (
    PlanSummary,
    SummaryCriteria,
    SummaryMatches,
    find_summaries,
    read_summary_rows,
)
from .summary_report import make_preview, summary_report, with_token_count

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from ....collectors.claude_code.written_summaries import PlanSummaryReader
    from ....core.compliance.run_verdict import RunVerdict
    from ....core.model.problem import Problem
    from ....core.model.session import Session
    from ....core.policy.resolve import Policies
    from ....core.store.queries.query_rows import SummaryRow
    from ....core.summaries.summary_search import SummaryQuery
    from .summary_report import SummaryPreview, SummaryReport

    AgentKey = tuple[str, str]
    """A session's id and an agent's."""

    VerdictsByAgent = dict[AgentKey, RunVerdict | None]
    LookUp = Callable[
        [
            Callable[[sqlite3.Connection], VerdictsByAgent],
            Callable[[VerdictsByAgent | Problem], None],
        ],
        None,
    ]


@dataclass(frozen=True, slots=True)
class SummaryResults:
    """All that is wanted, and what of it stands in receipts."""

    query: SummaryCriteria
    found: SummaryMatches
    plans: tuple[PlanSummary, ...]
    types: tuple[str, ...]
    """Of all agents that returned something."""


class SummarySource:
    """Asks in the thread of whoever calls; it belongs to one thread, but for what is static."""

    def __init__(self, store: Path) -> None:
        self._store: Final = store
        self._texts: PlanSummaryReader | None = None

    def plans(self) -> tuple[PlanSummary, ...]:
        """List what ctxtop wrote itself."""
        if self._texts is None:
            from ....collectors.claude_code.written_summaries import PlanSummaryReader

            self._texts = PlanSummaryReader(session_target.state_folder(self._store))
        return self._texts.read()

    def list(
        self,
        db: sqlite3.Connection,
        wanted: SummaryCriteria,
        projects: Mapping[str, str],
        now_ms: int,
    ) -> SummaryResults:
        """Find what is wanted, without its texts."""
        plans = self.plans()
        found = find_summaries(db, plans, wanted, projects, now_ms)
        return SummaryResults(wanted, found, plans, tuple(summary_agent_types(db)))


def read_previews(
    db: sqlite3.Connection, plans: Sequence[PlanSummary], ids: Iterable[int], search: SummaryQuery
) -> list[SummaryPreview]:
    """Read what the list shows of some summaries."""
    return [make_preview(row, search) for row in read_summary_rows(db, plans, ids)]


def read_summary(
    db: sqlite3.Connection, plans: Sequence[PlanSummary], summary_id: int
) -> SummaryRow | None:
    """Read one summary whole; None where it is gone."""
    return next((with_token_count(row) for row in read_summary_rows(db, plans, [summary_id])), None)


def read_summary_report(
    db: sqlite3.Connection,
    plans: Sequence[PlanSummary],
    summary_id: int,
    search: SummaryQuery | None,
    width: int,
) -> SummaryReport | None:
    """Read one summary and wrap it; None where it is gone."""
    row = read_summary(db, plans, summary_id)
    return None if row is None else summary_report(row, search, width)


def read_rulings(
    db: sqlite3.Connection,
    sessions: Sequence[Session],
    session_ids: Iterable[str],
    policies: Policies,
) -> dict[AgentKey, RunVerdict | None]:
    """Judge the agents of some sessions."""
    from ....core.measure.fleet_reader import read_agents

    known = {each.session_id for each in sessions}
    asked = [each for each in session_ids if each in known]
    found = read_agents(db, sessions, asked, policies) if asked else ()
    return {(each.session_id, each.agent_id): each.compliance for each in found}


class VerdictCache:
    """What is known so far; `told` is called when there is more."""

    def __init__(self, look_up: LookUp, on_change: Callable[[], None]) -> None:
        self._look_up: Final = look_up
        self._told: Final = on_change
        self._found: VerdictsByAgent = {}
        self._asked: set[str] = set()
        self._open = 0

    @property
    def is_idle(self) -> bool:
        """Nothing is being asked."""
        return not self._open

    def get(self, session_id: str, agent_id: str | None) -> RunVerdict | None:
        """Return the verdict on an agent, None if it is not known yet."""
        return self._found.get((session_id, agent_id)) if agent_id else None

    def invalidate(self) -> None:
        """Ask again of sessions that come into sight; what is known stays until then."""
        self._asked.clear()

    def request(
        self, session_ids: set[str], sessions: Sequence[Session], policies: Policies
    ) -> None:
        """Ask of those sessions of which nobody asked yet."""
        new = session_ids - self._asked
        if not new:
            return
        self._asked |= new
        self._open += 1
        self._look_up(lambda db: read_rulings(db, sessions, new, policies), self._take)

    def _take(self, found: VerdictsByAgent | Problem) -> None:
        self._open -= 1
        if isinstance(found, dict):
            self._found |= found
            self._told()
