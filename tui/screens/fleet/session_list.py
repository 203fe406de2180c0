"""Which sessions the fleet lists: the filter, the order, and the project headings.

checkout -draft "two words"        in title, project, model, id, level, state; - or ! negates
level:high  level:warning+         at this level; at this level or a more urgent one
model:opus  project:shop  title:x  in that field
live:  broke:  agents:             is live; has noncompliant agents; has agents
is:waiting  is:pinned              in that state
>80%  <50%  >150k                  share of the window, or tokens in context
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final

from ....core.measure.activity import SessionCost
from ....core.measure.levels import Level
from ....core.model.filter_language import invalid_word, split_filter
from ....core.model.session import Session, SessionStatus
from ...text.formats import model_name
from ...ui_state import CycleEnum

AT_WORK: Final = frozenset({SessionStatus.BUSY, SessionStatus.ACTIVE})

_SIZE: Final = re.compile(r"([<>]=?)(\d+(?:\.\d+)?)(%|k|m)?")
_SCALES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_KEY: Final = re.compile(r"[a-z]{2,}:")


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What a filter asks beside a session's own fields."""

    now_ms: int = 0
    pins: frozenset[str] = frozenset()
    selected: frozenset[str] = frozenset()


SessionTest = Callable[[Session, FilterContext], bool]  # of one word


@dataclass(frozen=True, slots=True)
class SessionFilter:
    tests: tuple[SessionTest, ...] = ()
    error: str = ""  # about the first invalid word; invalid words are left out

    def matches(self, session: Session, context: FilterContext) -> bool:
        return all(test(session, context) for test in self.tests)


class _FilterError(Exception):
    def __init__(self, key: str, value: str, choices: Iterable[str]) -> None:
        # While the value is still to be typed, the choices are listed instead of an error.
        listed = f"{key} {' '.join(choices)}"
        super().__init__(invalid_word(f"{key}{value}", choices) if value else listed)


def parse_filter(words: str) -> SessionFilter:
    tests: list[SessionTest] = []
    error = ""
    for word in split_filter(words.casefold()):
        try:
            test = _parse_word(word.key, word.value)
        except _FilterError as wrong:
            error = error or str(wrong)
            continue
        tests.append(_negate(test) if word.is_negated else test)
    return SessionFilter(tuple(tests), error)


def _negate(test: SessionTest) -> SessionTest:
    return lambda session, context: not test(session, context)


def _parse_word(key: str, value: str) -> SessionTest:
    if not key:
        return _parse_size(value) if value[:1] in "<>" else _in_any_text(value)
    if key in FLAG_TESTS and not value:
        return FLAG_TESTS[key]
    if key in _VALUE_TESTS:
        return _VALUE_TESTS[key](value)
    if key in FLAG_TESTS:
        raise _FilterError(key, value, (key,))
    if _KEY.fullmatch(key) and not value:
        raise _FilterError("", key, sorted(FILTER_KEYS))
    # A title may contain a colon.
    return _in_any_text(key + value)


def _parse_size(word: str) -> SessionTest:
    match = _SIZE.fullmatch(word)
    if match is None:
        raise _FilterError("", word, (">80%", "<50%", ">150k"))
    sign, unit = match[1], match[3] or ""
    bound = float(match[2]) / 100 if unit == "%" else float(match[2]) * _SCALES[unit]

    def test(session: Session, _: FilterContext) -> bool:
        size = session.context.ratio if unit == "%" else session.context.tokens
        if size is None:
            return False
        return sign.endswith("=") if size == bound else (size > bound) == sign.startswith(">")

    return test


def _contains(text: Callable[[Session], str]) -> Callable[[str], SessionTest]:
    return lambda word: lambda session, _: word in text(session).casefold()


def _all_text(session: Session) -> str:
    level = session.context.level
    parts = (
        session.title,
        session.project,
        session.model or "",
        session.session_id,
        session.status.value,
        "live" if session.live else "",
        level.value if level else "",
    )
    return " ".join(parts)


_in_any_text: Final = _contains(_all_text)


def _at_level(word: str) -> SessionTest:
    name, is_open = word.removesuffix("+"), word.endswith("+")
    if name not in LEVEL_NAMES:
        raise _FilterError("level:", name, (*LEVEL_NAMES, "high+"))
    rising = list(Level)
    bound = rising.index(Level(name))

    def test(session: Session, _: FilterContext) -> bool:
        level = session.context.level
        if level is None:
            return False
        if is_open:
            return rising.index(level) >= bound
        return name in {level.value, level.severity.value}

    return test


def _in_state(word: str) -> SessionTest:
    if word not in STATE_TESTS:
        raise _FilterError("is:", word, STATE_TESTS)
    return STATE_TESTS[word]


def _with_agents(word: str) -> SessionTest:
    if word in {"✗", "x", "broke"}:
        return FLAG_TESTS["broke:"]
    if word:
        raise _FilterError("agents:", word, ("agents:", "agents:✗"))
    return lambda session, _: session.agents > 0


FLAG_TESTS: Final[dict[str, SessionTest]] = {
    "live:": lambda session, _: session.live,
    "broke:": lambda session, _: bool(session.agents_noncompliant),
}  # keys without a value

STATE_TESTS: Final[dict[str, SessionTest]] = {
    "waiting": lambda session, _: session.status is SessionStatus.WAITING,
    "working": lambda session, _: session.status in AT_WORK,
    "idle": lambda session, _: session.status is SessionStatus.IDLE,
    "live": FLAG_TESTS["live:"],
    "ended": lambda session, _: not session.live,
    "long": lambda session, _: session.too_long is not None,
    "warm": lambda session, context: session.cache.is_warm(context.now_ms) is True,
    "cold": lambda session, context: session.cache.is_warm(context.now_ms) is False,
    "pinned": lambda session, context: session.session_id in context.pins,
    "marked": lambda session, context: session.session_id in context.selected,
}  # values of `is:`

LEVEL_NAMES: Final = tuple(level.value for level in Level)  # values of `level:`
_VALUE_TESTS: Final[dict[str, Callable[[str], SessionTest]]] = {
    "level:": _at_level,
    "is:": _in_state,
    "model:": _contains(lambda session: f"{session.model} {model_name(session.model)}"),
    "project:": _contains(attrgetter("project")),
    "title:": _contains(attrgetter("title")),
    "agents:": _with_agents,
    "agent:": _with_agents,
}

FILTER_KEYS: Final = (*(key for key in _VALUE_TESTS if key != "agent:"), *FLAG_TESTS)
"""In the order in which they are suggested."""


def completion_choices(sessions: Iterable[Session]) -> dict[str, tuple[str, ...]]:
    """Return the values that can follow each key for these sessions."""
    models, projects = set(), set()
    for session in sessions:
        models.add(model_name(session.model).partition(" ")[0].casefold())
        projects.add(session.project.casefold())
    return {
        "level:": LEVEL_NAMES,
        "is:": tuple(STATE_TESTS),
        "model:": tuple(sorted(models)),
        "project:": tuple(sorted(name for name in projects if " " not in name)),
    }


def complete_filter(words: str, choices: dict[str, tuple[str, ...]]) -> str | None:
    """Complete the last word, None if nothing fits."""
    start, space, last = words.rpartition(" ")
    sign = last[:1] if last[:1] in {"-", "!"} else ""
    typed = last[len(sign) :].casefold()
    if not typed:
        return None
    key, colon, value = typed.partition(":")
    known = choices.get(f"{key}:", ()) if colon else FILTER_KEYS
    begun = value if colon else typed
    match = next((each for each in known if each.startswith(begun) and each != begun), None)
    if match is None or (colon and not value):
        return None
    # The typed text stays as it is, because the suggestion is drawn behind it.
    return f"{start}{space}{last}{match[len(begun) :]}"


HEADING_PREFIX: Final = "/"  # begins a heading's key; a session's id, a file's name, never has it


class SessionOrder(CycleEnum):
    """How the sessions are sorted; `s` goes from one to the next."""

    ATTENTION = "need"
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


@dataclass(frozen=True, slots=True)
class ProjectHeading:
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


SessionListEntry = Session | ProjectHeading


@dataclass(frozen=True, slots=True)
class SessionArrangement:
    filter_text: str = ""
    order: SessionOrder = SessionOrder.ATTENTION
    grouped: bool = False
    folded: frozenset[str] = frozenset()  # projects whose sessions are hidden
    pins: tuple[str, ...] = ()  # ids of sessions that stay on top, the newest last
    selected: frozenset[str] = frozenset()  # ids
    filter: SessionFilter = field(default=SessionFilter(), compare=False)  # of filter_text

    def with_filter(self, words: str) -> SessionArrangement:
        return replace(self, filter_text=words, filter=parse_filter(words))

    def toggle_pinned(self, session_id: str) -> SessionArrangement:
        others = tuple(each for each in self.pins if each != session_id)
        return replace(self, pins=others if session_id in self.pins else (*others, session_id))

    def toggle_selected(self, session_id: str) -> SessionArrangement:
        return replace(self, selected=self.selected ^ {session_id})

    def with_folded(self, project: str, *, folded: bool) -> SessionArrangement:
        projects = self.folded | {project} if folded else self.folded - {project}
        return replace(self, folded=projects)


@dataclass(frozen=True, slots=True)
class ArrangedSessions:
    entries: tuple[SessionListEntry, ...]
    sessions: tuple[Session, ...]  # all that match, also under folded headings


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
        return ArrangedSessions(tuple(chosen), tuple(chosen))
    return ArrangedSessions(tuple(_group(chosen, arrangement.folded)), tuple(chosen))


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
