"""Which sessions are shown, in which order, and under which project headings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final

from ....core.measure.activity import SessionCost
from ....core.model.session import Session, SessionStatus
from ....core.store.readers.fleet_reader import fill_ratio
from ...ui_state import CycleEnum
from .session_filter import NO_FILTER, FilterContext, SessionFilter, parse_filter

HEADING_PREFIX: Final = "/"
"""Begins a heading's key; a session's id is a file's name, which never has it."""


class SessionOrder(CycleEnum):
    """How the sessions are sorted; `s` goes from one to the next."""

    ATTENTION = "need"
    FULLEST = "fullest"
    SOONEST = "soonest full"
    NEWEST = "newest"
    COSTLIEST = "costliest"
    NONCOMPLIANT = "broken rules"
    COMPACTIONS = "compactions"
    NAME = "name"

    @property
    def column(self) -> str:
        return _COLUMNS.get(self, "")

    @classmethod
    def from_word(cls, value: str) -> SessionOrder:
        """Find the order of a word that was kept; the first one where nobody knows it."""
        return next((order for order in cls if order.value == value), cls.ATTENTION)


_COLUMNS: Final = {
    SessionOrder.FULLEST: "gauge",
    SessionOrder.SOONEST: "until",
    SessionOrder.NEWEST: "doing",
    SessionOrder.COSTLIEST: "cost",
    SessionOrder.NONCOMPLIANT: "agents",
    SessionOrder.COMPACTIONS: "compactions",
    SessionOrder.NAME: "title",
}


@dataclass(frozen=True, slots=True)
class ProjectHeading:
    """A project's line above its sessions."""

    project: str
    sessions: tuple[Session, ...]  # those that are shown, or would be if it were unfolded
    folded: bool

    @property
    def key(self) -> str:
        """What names its row."""
        return f"{HEADING_PREFIX}{self.project}"

    @property
    def live(self) -> int:
        return sum(each.live for each in self.sessions)

    @property
    def waiting(self) -> int:
        return sum(each.status is SessionStatus.WAITING for each in self.sessions)

    @property
    def fullest(self) -> Session:
        return max(self.sessions, key=fill_ratio)

    @property
    def cost(self) -> SessionCost | None:
        """What they have cost together; None where none has a price."""
        known = [each.cost for each in self.sessions if each.cost]
        if not known:
            return None
        return sum_costs(known, everything=len(known) == len(self.sessions))


def sum_costs(costs: list[SessionCost], *, everything: bool) -> SessionCost:
    """Add costs up; the sum is as sure as its least sure part."""
    from ....core.measure.activity import SessionCost

    return SessionCost(
        usd=sum(each.usd for each in costs),
        estimated=any(each.estimated for each in costs),
        partial=not everything or any(each.partial for each in costs),
    )


SessionListEntry = Session | ProjectHeading  # a row of the list


@dataclass(frozen=True, slots=True)
class SessionArrangement:
    """How a person has arranged the list."""

    filter_text: str = ""  # the filter as it was typed
    order: SessionOrder = SessionOrder.ATTENTION
    grouped: bool = False
    folded: frozenset[str] = frozenset()  # projects whose sessions are not shown
    pins: tuple[str, ...] = ()  # ids of sessions that stay on top, the newest last
    selected: frozenset[str] = frozenset()  # ids of sessions that are marked with others
    filter: SessionFilter = field(default=NO_FILTER, compare=False)  # what the words mean

    def with_filter(self, words: str) -> SessionArrangement:
        return replace(self, filter_text=words, filter=parse_filter(words))

    def toggle_pinned(self, session_id: str) -> SessionArrangement:
        """Keep a session on top, or let it go."""
        kept = tuple(each for each in self.pins if each != session_id)
        return replace(self, pins=kept if session_id in self.pins else (*kept, session_id))

    def toggle_selected(self, session_id: str) -> SessionArrangement:
        """Mark a session with the others, or no longer."""
        return replace(self, selected=self.selected ^ {session_id})

    def with_folded(self, project: str, *, folded: bool) -> SessionArrangement:
        now = self.folded | {project} if folded else self.folded - {project}
        return replace(self, folded=now)


@dataclass(frozen=True, slots=True)
class ArrangedSessions:
    """The list as it is shown."""

    entries: tuple[SessionListEntry, ...]
    sessions: tuple[Session, ...]  # all that match, also where their heading is folded


def arrange_sessions(
    sessions: Iterable[Session], arrangement: SessionArrangement, now_ms: int
) -> ArrangedSessions:
    """Choose, sort and group; what is pinned stands first, of its project where grouped.

    The sessions come in order of need, as in a view; those that are equal stay in it.
    """
    seen = FilterContext(now_ms, frozenset(arrangement.pins), arrangement.selected)
    chosen = list(sessions)
    if arrangement.filter.tests:
        chosen = [session for session in chosen if arrangement.filter.matches(session, seen)]
    for key in _KEYS[arrangement.order]:
        chosen.sort(key=key)
    if arrangement.pins:
        chosen.sort(key=lambda session: session.session_id not in seen.pins)
    if not arrangement.grouped:
        return ArrangedSessions(tuple(chosen), tuple(chosen))
    return ArrangedSessions(tuple(_grouped(chosen, arrangement.folded)), tuple(chosen))


def _grouped(sessions: list[Session], folded: frozenset[str]) -> Iterator[SessionListEntry]:
    """Put sessions under their projects, which come in the order of their first sessions."""
    groups: dict[str, list[Session]] = {}
    for session in sessions:
        groups.setdefault(session.project, []).append(session)
    for project, members in groups.items():
        yield ProjectHeading(project, tuple(members), project in folded)
        if project not in folded:
            yield from members


def _soonest(session: Session) -> float:
    """Sort key: the fewest turns left first, then those of which nobody knows."""
    end = session.outlook.end if session.live else None
    return end.turns.p50 if end else math.inf


def _costliest(session: Session) -> float:
    return -(session.cost.usd if session.cost else -1.0)


def _most_failed(session: Session) -> int:
    return -(session.agents_noncompliant or 0)


def _most_agents(session: Session) -> int:
    return -session.agents


def _most_compactions(session: Session) -> int:
    return -session.compactions


def _fullest(session: Session) -> float:
    return -fill_ratio(session)


def _newest(session: Session) -> int:
    return -(session.last_activity_at or 0)


def _project(session: Session) -> str:
    return session.project.casefold()


def _title(session: Session) -> str:
    return session.title.casefold()


_ID: Final[Callable[[Session], str]] = attrgetter("session_id")

# Sorted by one key after the other, the least important first: a list of 100,000 numbers or
# texts is sorted several times faster than one of tuples, and the screen's thread does it.
_KEYS: Final[dict[SessionOrder, tuple[Callable[[Session], Any], ...]]] = {
    SessionOrder.ATTENTION: (),
    SessionOrder.FULLEST: (_ID, _fullest),
    SessionOrder.SOONEST: (_soonest,),
    SessionOrder.NEWEST: (_ID, _newest),
    SessionOrder.COSTLIEST: (_costliest,),
    SessionOrder.NONCOMPLIANT: (_most_agents, _most_failed),
    SessionOrder.COMPACTIONS: (_most_compactions,),
    SessionOrder.NAME: (_ID, _title, _project),
}
