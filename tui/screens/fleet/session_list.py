"""Which sessions the fleet lists, in which order, and under which headings."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final

import msgspec

from ....core.model.attention import Attention, attention
from ....core.model.session import Session, SessionStatus, unread_session
from ....core.model.session_activity import SessionCost
from ....core.store.bulkhead import NOT_SHOWN, bulkhead, leave_out_faulty
from ...text.cycle_enum import CycleEnum
from .session_filter import FilterContext, SessionFilter, parse_filter

HEADING_PREFIX: Final = "/"  # begins a heading's key; a session's id, a file's name, never has it


class SessionOrder(CycleEnum):
    """How the sessions are sorted; `s` goes from one to the next."""

    ATTENTION = "attention"
    FULLEST = "fullest"
    SOONEST = "soonest full"
    NEWEST = "newest"
    COSTLIEST = "costliest"
    NONCOMPLIANT = "noncompliant"
    COMPACTIONS = "compactions"
    NAME = "name"

    @classmethod
    def from_word(cls, value: str) -> SessionOrder:
        """Return the order of a stored value, the first one if it is unknown."""
        return next((order for order in cls if order.value == value), cls.ATTENTION)


class ProjectHeading(msgspec.Struct, frozen=True):
    project: str
    sessions: tuple[Session, ...]  # those that are shown, or would be if it were unfolded
    folded: bool

    @property
    def key(self) -> str:
        return f"{HEADING_PREFIX}{self.project}"

    @property
    def live(self) -> int:
        return sum(each.live for each in self.sessions)

    @property
    def waiting(self) -> int:
        return sum(each.status is SessionStatus.WAITING for each in self.sessions)

    @property
    def fullest(self) -> Session:
        return max(self.sessions, key=lambda session: session.fill_ratio)

    @property
    def cost(self) -> SessionCost | None:
        """The cost of all sessions, as certain as its least certain part; None if none is known."""
        costs = [each.cost for each in self.sessions if each.cost]
        if not costs:
            return None
        return SessionCost(
            usd=sum(each.usd for each in costs),
            estimated=any(each.estimated for each in costs),
            partial=len(costs) < len(self.sessions) or any(each.partial for each in costs),
        )


ENDED_KEY: Final = f"{HEADING_PREFIX}{HEADING_PREFIX}ended"
FOLD_ENDED_FROM: Final = 25  # ended sessions that are folded unless they were unfolded


class EndedHeading(msgspec.Struct, frozen=True):
    """Stands above the sessions that have ended, in the order of attention."""

    sessions: tuple[Session, ...]
    folded: bool
    hidden: int = 0  # undone forks among them that are not shown

    @property
    def key(self) -> str:
        return ENDED_KEY


SessionListEntry = Session | ProjectHeading | EndedHeading


@dataclass(frozen=True, slots=True)
class SessionArrangement:
    filter_text: str = ""
    order: SessionOrder = SessionOrder.ATTENTION
    grouped: bool = False
    folded: frozenset[str] = frozenset()  # projects whose sessions are hidden
    ended_folded: bool | None = None  # None until somebody folded or unfolded them
    pins: tuple[str, ...] = ()  # ids of sessions that stay on top, the newest last
    selected: frozenset[str] = frozenset()  # ids
    filter: SessionFilter = field(default=SessionFilter(), compare=False)  # of filter_text

    def with_filter(self, words: str) -> SessionArrangement:
        return replace(self, filter_text=words, filter=parse_filter(words))

    @property
    def remembered(self) -> dict[str, Any]:
        """What is restored at the next start, by its name in `UiState`."""
        return {
            "order": self.order.value,
            "grouped": self.grouped,
            "ended_folded": self.ended_folded,
            "pins": self.pins,
        }

    def toggle_pinned(self, session_id: str) -> SessionArrangement:
        others = tuple(each for each in self.pins if each != session_id)
        return replace(self, pins=others if session_id in self.pins else (*others, session_id))

    def toggle_selected(self, session_id: str) -> SessionArrangement:
        return replace(self, selected=self.selected ^ {session_id})

    def with_folded(self, project: str, *, folded: bool) -> SessionArrangement:
        projects = self.folded | {project} if folded else self.folded - {project}
        return replace(self, folded=projects)


class ArrangedSessions(msgspec.Struct, frozen=True):
    entries: tuple[SessionListEntry, ...]
    sessions: tuple[Session, ...]  # all that match, also under folded headings

    @property
    def ended(self) -> tuple[Session, ...]:
        """The sessions under the heading of those that have ended, if there is one."""
        headings = (each for each in self.entries if isinstance(each, EndedHeading))
        return next((heading.sessions for heading in headings), ())


def arrange_sessions(
    sessions: Iterable[Session], arrangement: SessionArrangement, now_ms: int
) -> ArrangedSessions:
    """Filter, sort and group; pinned sessions come first, within their project if grouped.

    Sessions that sort equally stay in their order, which in a view is that of attention.
    """
    context = FilterContext(now_ms, frozenset(arrangement.pins), arrangement.selected)
    chosen = list(sessions)
    if arrangement.filter.tests:
        chosen = [session for session in chosen if arrangement.filter.matches(session, context)]
    for key in _SORT_KEYS[arrangement.order]:
        chosen.sort(key=key)
    if arrangement.pins:
        chosen.sort(key=lambda session: session.session_id not in context.pins)
    if not arrangement.grouped:
        entries: Sequence[SessionListEntry] = chosen
        if arrangement.order is SessionOrder.ATTENTION and not arrangement.filter.tests:
            entries = _fold_ended(chosen, arrangement, now_ms)
        return ArrangedSessions(tuple(entries), tuple(chosen))
    return ArrangedSessions(tuple(_group(chosen, arrangement.folded)), tuple(chosen))


def arrange_readable(
    sessions: Sequence[Session], arrangement: SessionArrangement, now_ms: int
) -> ArrangedSessions:
    """Arrange sessions; one that cannot be sorted or filtered is listed as not read."""
    with bulkhead("the list of sessions", NOT_SHOWN, report=lambda _: None):
        return arrange_sessions(sessions, arrangement, now_ms)
    readable = leave_out_faulty(
        sessions,
        lambda some: arrange_sessions(some, arrangement, now_ms),
        lambda each: f"session {each.session_id}",
        NOT_SHOWN,
        lambda each, problem: unread_session(each.session_id, problem),
    )
    return arrange_sessions(readable, arrangement, now_ms)


def _fold_ended(
    sessions: list[Session], arrangement: SessionArrangement, now_ms: int
) -> list[SessionListEntry]:
    """Put the sessions that have ended under a heading; those that are pinned stay on top."""
    pins = arrangement.pins
    pinned = sum(session.session_id in pins for session in sessions[: len(pins)])
    # They are the last, because the sessions come in the order of attention.
    start = bisect_left(
        sessions, Attention.ENDED, lo=pinned, key=lambda each: attention(each, now_ms)
    )
    ended, folded = tuple(sessions[start:]), arrangement.ended_folded
    is_folded = start > 0 and len(ended) >= FOLD_ENDED_FROM if folded is None else folded
    if not ended or not (start or is_folded):
        return list(sessions)
    # A fork that was undone is its parent's twin: it is only shown to a person who unfolds them.
    undone = [each for each in ended if each.is_fork_undone and folded is None]
    heading = EndedHeading(ended, is_folded, 0 if is_folded else len(undone))
    shown = () if is_folded else (each for each in ended if each not in undone)
    return [*sessions[:start], heading, *shown]


def _group(sessions: list[Session], folded: frozenset[str]) -> Iterator[SessionListEntry]:
    by_project: dict[str, list[Session]] = {}
    for session in sessions:
        by_project.setdefault(session.project, []).append(session)
    for project, members in by_project.items():
        yield ProjectHeading(project, tuple(members), project in folded)
        if project not in folded:
            yield from members


def _turns_left(session: Session) -> float:
    end = session.outlook.end if session.live else None
    return end.turns.p50 if end else math.inf


_id: Final[Callable[[Session], str]] = attrgetter("session_id")

# Sorted by one key after the other, the least important first: a list of 100,000 numbers or
# texts is sorted several times faster than one of tuples, and the screen's thread does it.
_SORT_KEYS: Final[dict[SessionOrder, tuple[Callable[[Session], Any], ...]]] = {
    SessionOrder.ATTENTION: (),
    SessionOrder.FULLEST: (_id, lambda session: -session.fill_ratio),
    SessionOrder.SOONEST: (_turns_left,),
    SessionOrder.NEWEST: (_id, lambda session: -(session.last_activity_at or 0)),
    SessionOrder.COSTLIEST: (lambda session: -(session.cost.usd if session.cost else -1.0),),
    SessionOrder.NONCOMPLIANT: (
        lambda session: -session.agents,
        lambda session: -(session.agents_noncompliant or 0),
    ),
    SessionOrder.COMPACTIONS: (lambda session: -session.compactions,),
    SessionOrder.NAME: (
        _id,
        lambda session: session.title.casefold(),
        lambda session: session.project.casefold(),
    ),
}
