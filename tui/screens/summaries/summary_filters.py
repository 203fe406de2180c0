"""The filters of the summaries' page: kind, project, type of agent, time, session."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ....core.summaries.summary_search import SUMMARY_KINDS, SummaryCriteria, start_of_day
from ....core.transcript.sanitize import one_line
from ...widgets.choice_bar import FilterChip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ....core.model.session import Session


ANY_VALUE: Final = "all"

PERIODS: Final = {"today": 0, "7 days": 6, "30 days": 29}
"""Days before today that are shown too."""

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
    session: tuple[str, str] | None = None
    """Id and title of the one that is marked."""


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
    if chosen is None:
        return FilterChip(name.value, (ANY_VALUE, *values))
    known = values if chosen in values else (*values, chosen)
    return FilterChip(name.value, (ANY_VALUE, *known), known.index(chosen) + 1)
