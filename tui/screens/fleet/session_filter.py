"""The sessions' filter: what each word tests, what is wrong with it, how it is completed.

checkout -draft "two words"        in title, project, model, id, level, state; - or ! negates
level:high  level:warning+         at this level; at this level or a more urgent one
model:opus  project:shop  title:x  in that field
live:  broke:  agents:             is live; has noncompliant agents; has agents
is:waiting  is:pinned              in that state
>80%  <50%  >150k                  share of the window, or tokens in context
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ....core.measure.levels import Level
from ....core.model.filter_language import invalid_word, split_filter
from ....core.model.session import Session, SessionStatus
from ...text.formats import model_name

_SIZE: Final = re.compile(r"([<>]=?)(\d+(?:\.\d+)?)(%|k|m)?")
_SCALES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_KEY: Final = re.compile(r"[a-z]{2,}:")


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What a filter asks that a session does not know itself."""

    now_ms: int = 0
    pins: frozenset[str] = frozenset()
    selected: frozenset[str] = frozenset()


SessionTest = Callable[[Session, FilterContext], bool]  # what one word asks


@dataclass(frozen=True, slots=True)
class SessionFilter:
    """Tests that a session must all pass."""

    tests: tuple[SessionTest, ...] = ()
    error: str = ""  # what is wrong with the words, in one line; that word is left out

    def matches(self, session: Session, seen: FilterContext) -> bool:
        return all(test(session, seen) for test in self.tests)


NO_FILTER: Final = SessionFilter()


class _FilterError(Exception):
    """A word that no session can meet."""

    def __init__(self, key: str, value: str, choices: Iterable[str]) -> None:
        # A value that is still to be typed is no error: what can be typed is listed.
        listed = f"{key} {' '.join(choices)}"
        super().__init__(invalid_word(f"{key}{value}", choices) if value else listed)


def parse_filter(words: str) -> SessionFilter:
    """Understand what a person typed; what is not understood is said, never raised."""
    tests: list[SessionTest] = []
    wrong = ""
    for word in split_filter(words.casefold()):
        try:
            test = _parse_word(word.key, word.value)
        except _FilterError as error:
            wrong = wrong or str(error)
            continue
        tests.append(_negate(test) if word.is_negated else test)
    return SessionFilter(tuple(tests), wrong)


def _negate(test: SessionTest) -> SessionTest:
    return lambda session, seen: not test(session, seen)


def _parse_word(key: str, value: str) -> SessionTest:
    if not key:
        return _parse_size(value) if value[:1] in "<>" else _in_text(value)
    if key in FLAG_KEYS and not value:
        return FLAG_KEYS[key]
    if key in _KEYED:
        return _KEYED[key](value)
    if key in FLAG_KEYS:
        raise _FilterError(key, value, (key,))
    if _KEY.fullmatch(key) and not value:
        raise _FilterError("", key, sorted(FILTER_KEYS))
    # A title may well hold a colon.
    return _in_text(key + value)


def _parse_size(words: str) -> SessionTest:
    found = _SIZE.fullmatch(words)
    if found is None:
        raise _FilterError("", words, (">80%", "<50%", ">150k"))
    sign, number, unit = found[1], float(found[2]), found[3] or ""
    if unit == "%":
        return _by_number(sign, number / 100, lambda session: session.context.ratio)
    scale = _SCALES[unit]
    return _by_number(sign, number * scale, lambda session: session.context.tokens)


def _by_number(sign: str, bound: float, number: Callable[[Session], float | None]) -> SessionTest:
    def test(session: Session, _: FilterContext) -> bool:
        found = number(session)
        if found is None:
            return False
        if found == bound:
            return sign.endswith("=")
        return (found > bound) == sign.startswith(">")

    return test


def _in_text(word: str) -> SessionTest:
    return lambda session, _: word in searchable_text(session)


def _in_model(word: str) -> SessionTest:
    return lambda session, _: word in f"{session.model} {model_name(session.model)}".casefold()


def _in_project(word: str) -> SessionTest:
    return lambda session, _: word in session.project.casefold()


def _in_title(word: str) -> SessionTest:
    return lambda session, _: word in session.title.casefold()


def _at_level(word: str) -> SessionTest:
    name, above = word.removesuffix("+"), word.endswith("+")
    if name not in LEVEL_NAMES:
        raise _FilterError("level:", name, (*LEVEL_NAMES, "high+"))
    rising = list(Level)
    bound = rising.index(Level(name))

    def test(session: Session, _: FilterContext) -> bool:
        level = session.context.level
        if level is None:
            return False
        if above:
            return rising.index(level) >= bound
        return name in {level.value, level.severity.value}

    return test


def _in_state(word: str) -> SessionTest:
    if word not in STATE_TESTS:
        raise _FilterError("is:", word, STATE_TESTS)
    return STATE_TESTS[word]


def _with_agents(word: str) -> SessionTest:
    if word in {"✗", "x", "broke"}:
        return FLAG_KEYS["broke:"]
    if word:
        raise _FilterError("agents:", word, ("agents:", "agents:✗"))
    return lambda session, _: session.agents > 0


def searchable_text(session: Session) -> str:
    """Write all that a plain word is looked for in."""
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
    return " ".join(parts).casefold()


FLAG_KEYS: Final[dict[str, SessionTest]] = {
    "live:": lambda session, _: session.live,
    "broke:": lambda session, _: bool(session.agents_noncompliant),
}
"""Keys that ask by themselves."""

_AT_WORK: Final = frozenset({SessionStatus.BUSY, SessionStatus.ACTIVE})

STATE_TESTS: Final[dict[str, SessionTest]] = {
    "waiting": lambda session, _: session.status is SessionStatus.WAITING,
    "working": lambda session, _: session.status in _AT_WORK,
    "idle": lambda session, _: session.status is SessionStatus.IDLE,
    "live": FLAG_KEYS["live:"],
    "ended": lambda session, _: not session.live,
    "long": lambda session, _: session.too_long is not None,
    "warm": lambda session, seen: session.cache.is_warm(seen.now_ms) is True,
    "cold": lambda session, seen: session.cache.is_warm(seen.now_ms) is False,
    "pinned": lambda session, seen: session.session_id in seen.pins,
    "marked": lambda session, seen: session.session_id in seen.selected,
}
"""What may stand after `is:`."""

LEVEL_NAMES: Final = tuple(level.value for level in Level)  # what may stand after `level:`
_KEYED: Final[dict[str, Callable[[str], SessionTest]]] = {
    "level:": _at_level,
    "is:": _in_state,
    "model:": _in_model,
    "project:": _in_project,
    "title:": _in_title,
    "agents:": _with_agents,
    "agent:": _with_agents,
}

FILTER_KEYS: Final = (
    *("level:", "is:", "model:", "project:", "title:", "agents:"),
    *FLAG_KEYS,
)
"""In the order in which they are offered."""


def completion_choices(sessions: Iterable[Session]) -> dict[str, tuple[str, ...]]:
    """Name what may stand after each key, for these sessions."""
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
    """Write the words as they may go on; None where nothing is known."""
    start, space, last = words.rpartition(" ")
    sign = last[:1] if last[:1] in {"-", "!"} else ""
    typed = last[len(sign) :].casefold()
    if not typed:
        return None
    key, colon, value = typed.partition(":")
    known = choices.get(f"{key}:", ()) if colon else FILTER_KEYS
    wanted = value if colon else typed
    found = next((each for each in known if each.startswith(wanted) and each != wanted), None)
    if found is None or (colon and not value):
        return None
    # What was typed stays as it was typed: a suggestion is drawn behind it.
    return f"{start}{space}{last}{found[len(wanted) :]}"
