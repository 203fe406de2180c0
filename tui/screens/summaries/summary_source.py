"""What the summaries' pages read by which filters; a cache of verdicts."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....core.model.problem import Problem
from ....core.store.database import state_folder
from ....core.store.queries.query_rows import SummaryRow
from ....core.store.readers.summary_reader import (
    find_summaries,
    read_summary_rows,
    summary_agent_types,
)
from ....core.summaries.summary_search import (
    SUMMARY_KINDS,
    PlanSummary,
    SummaryCriteria,
    SummaryMatches,
    SummaryQuery,
    start_of_day,
)
from ....core.transcript.sanitize import one_line
from .summary_report import (
    SummaryPreview,
    SummaryReport,
    make_preview,
    summary_report,
    with_token_count,
)

if TYPE_CHECKING:
    from ....collectors.claude_code.written_summaries import PlanSummaryReader
    from ....core.compliance.run_verdict import RunVerdict
    from ....core.model.session import Session
    from ....core.policy.resolve import Policies
    from ...widgets.controls import FilterChip


ANY_VALUE: Final = "all"

PERIODS: Final = {"today": 0, "7 days": 6, "30 days": 29}  # days before today that are shown too
_KIND_LABELS: Final = {"agent": "agents", "boundary": "compactions", "plan": "plans"}


class FilterName(StrEnum):
    """What a filter is called."""

    KIND = "kind"
    PROJECT = "project"
    TYPE = "agent"
    TIME = "time"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class SummaryFilters:
    """What is chosen of each; None for all."""

    kind: str | None = None
    project: str | None = None
    agent_type: str | None = None
    period: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """What there is to choose from."""

    projects: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    session: tuple[str, str] | None = None  # id and title of the one that is marked


def filter_options(
    sessions: Sequence[Session], types: Sequence[str], marked: Session | None
) -> FilterOptions:
    """Offer the projects with the most sessions first, and the marked session."""
    projects = Counter(each.project for each in sessions)
    named = (marked.session_id, one_line(marked.title)) if marked else None
    return FilterOptions(tuple(name for name, _ in projects.most_common()), tuple(types), named)


def filter_chips(chosen: SummaryFilters, offered: FilterOptions) -> tuple[FilterChip, ...]:
    """Make the line of filters; what is chosen and no longer offered stays."""
    session = offered.session
    kind = _KIND_LABELS.get(chosen.kind or "")
    titles = (f"“{session[1]}”",) if session else ()
    return (
        _chip(FilterName.KIND, tuple(_KIND_LABELS[each] for each in SUMMARY_KINDS), kind),
        _chip(FilterName.PROJECT, tuple(map(one_line, offered.projects)), chosen.project),
        _chip(FilterName.TYPE, tuple(map(one_line, offered.types)), chosen.agent_type),
        _chip(FilterName.TIME, tuple(PERIODS), chosen.period),
        _chip(FilterName.SESSION, titles, titles[0] if chosen.session_id and titles else None),
    )


def filters_of_chips(chips: Sequence[FilterChip], offered: FilterOptions) -> SummaryFilters:
    places = [chip.chosen - 1 for chip in chips]
    values = [chip.values[chip.chosen] for chip in chips]
    kind, project, agent_type, _, session = places
    return SummaryFilters(
        kind=SUMMARY_KINDS[kind] if kind >= 0 else None,
        project=offered.projects[project] if 0 <= project < len(offered.projects) else None,
        agent_type=offered.types[agent_type] if 0 <= agent_type < len(offered.types) else None,
        period=values[3] if places[3] >= 0 else None,
        session_id=offered.session[0] if session >= 0 and offered.session else None,
    )


def summary_query(words: str, chosen: SummaryFilters, now_ms: int) -> SummaryCriteria:
    """Put the filters and what was typed together."""
    return SummaryCriteria(
        query=words,
        kind=chosen.kind,
        agent_type=chosen.agent_type,
        project=chosen.project,
        since=None if chosen.period is None else start_of_day(now_ms, PERIODS[chosen.period]),
        session_id=chosen.session_id,
    )


def no_summaries_message(words: str, *, filtered: bool) -> str:
    """Explain why the list is empty, and what to do."""
    if words:
        return f"Nothing has “{one_line(words)}” here; Esc shows all."
    if filtered:
        return "Nothing here by these filters; Esc shows all."
    return (
        "Nothing was returned or kept yet.\nAn agent's result, the summary of a /compact"
        " and what `ctxtop compact --strategy summarise` writes appear here."
    )


def _chip(name: FilterName, values: tuple[str, ...], chosen: str | None) -> FilterChip:
    from ...widgets.controls import FilterChip  # with Textual, which no command loads

    if chosen is None:
        return FilterChip(name.value, (ANY_VALUE, *values))
    known = values if chosen in values else (*values, chosen)
    return FilterChip(name.value, (ANY_VALUE, *known), known.index(chosen) + 1)


AgentKey = tuple[str, str]  # a session's id and an agent's

if TYPE_CHECKING:
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
    types: tuple[str, ...]  # of all agents that returned something


class SummarySource:
    """Asks in the thread of whoever calls; it belongs to one thread, but for what is static."""

    def __init__(self, store: Path) -> None:
        self._store: Final = store
        self._texts: PlanSummaryReader | None = None

    def plans(self) -> tuple[PlanSummary, ...]:
        """List what ctxtop wrote itself."""
        if self._texts is None:
            from ....collectors.claude_code.written_summaries import PlanSummaryReader

            self._texts = PlanSummaryReader(state_folder(self._store))
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
    db: sqlite3.Connection, plans: Sequence[PlanSummary], ids: Sequence[int], search: SummaryQuery
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
    from ....core.store.readers.fleet_reader import read_agents

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
