"""The filters of the summaries' page, and what is wanted by them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ..core.summary_list import Wanted
from ..core.summary_search import KINDS, start_of_day
from .formats import one_line
from .widgets.chips import Chip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.sessions import Session

ALL: Final = "all"

DAYS: Final = {"today": 0, "7 days": 6, "30 days": 29}
"""Days before today that are shown too."""

_KIND_WORDS: Final = {"agent": "agents", "boundary": "compactions", "plan": "plans"}


class Name(StrEnum):
    """What a filter is called."""

    KIND = "kind"
    PROJECT = "project"
    TYPE = "agent"
    TIME = "time"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is chosen of each; None for all."""

    kind: str | None = None
    project: str | None = None
    agent_type: str | None = None
    period: str | None = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class Choices:
    """What there is to choose from."""

    projects: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    session: tuple[str, str] | None = None
    """Id and title of the one that is marked."""


def choices(sessions: Sequence[Session], types: Sequence[str], marked: Session | None) -> Choices:
    """Offer the projects with the most sessions first, and the marked session."""
    projects = Counter(each.project for each in sessions)
    named = (marked.session_id, one_line(marked.title)) if marked else None
    return Choices(tuple(name for name, _ in projects.most_common()), tuple(types), named)


def chips(chosen: Chosen, offered: Choices) -> tuple[Chip, ...]:
    """Make the line of filters; what is chosen and no longer offered stays."""
    session = offered.session
    kind = _KIND_WORDS.get(chosen.kind or "")
    titles = (f"“{session[1]}”",) if session else ()
    return (
        _chip(Name.KIND, tuple(_KIND_WORDS[each] for each in KINDS), kind),
        _chip(Name.PROJECT, tuple(map(one_line, offered.projects)), chosen.project),
        _chip(Name.TYPE, tuple(map(one_line, offered.types)), chosen.agent_type),
        _chip(Name.TIME, tuple(DAYS), chosen.period),
        _chip(Name.SESSION, titles, titles[0] if chosen.session_id and titles else None),
    )


def chosen_by(chips: Sequence[Chip], offered: Choices) -> Chosen:
    """Say what the line of filters chooses."""
    places = [chip.chosen - 1 for chip in chips]
    values = [chip.values[chip.chosen] for chip in chips]
    kind, project, agent_type, _, session = places
    return Chosen(
        kind=KINDS[kind] if kind >= 0 else None,
        project=offered.projects[project] if 0 <= project < len(offered.projects) else None,
        agent_type=offered.types[agent_type] if 0 <= agent_type < len(offered.types) else None,
        period=values[3] if places[3] >= 0 else None,
        session_id=offered.session[0] if session >= 0 and offered.session else None,
    )


def wanted(words: str, chosen: Chosen, now_ms: int) -> Wanted:
    """Put the filters and what was typed together."""
    return Wanted(
        query=words,
        kind=chosen.kind,
        agent_type=chosen.agent_type,
        project=chosen.project,
        since=None if chosen.period is None else start_of_day(now_ms, DAYS[chosen.period]),
        session_id=chosen.session_id,
    )


def empty_words(words: str, *, filtered: bool) -> str:
    """Say why nothing is listed, and what to do."""
    if words:
        return f"Nothing has “{one_line(words)}” here; Esc shows all."
    if filtered:
        return "Nothing here by these filters; Esc shows all."
    return (
        "Nothing was returned or kept yet.\nAn agent's result, the summary of a /compact"
        " and what `ctxtop compact --strategy summarise` writes appear here."
    )


def _chip(name: Name, values: tuple[str, ...], chosen: str | None) -> Chip:
    if chosen is None:
        return Chip(name.value, (ALL, *values))
    known = values if chosen in values else (*values, chosen)
    return Chip(name.value, (ALL, *known), known.index(chosen) + 1)
