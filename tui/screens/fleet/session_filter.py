"""The filter of the fleet's sessions.

checkout -draft "two words"        in title, project, branch, model, id, level, state; - or !
                                   negates
level:high  level:warning+         at this level; at this level or a more urgent one
model:opus  project:shop  title:x  in that field; so is branch:
live:  noncompliant:  agents:      is live; has noncompliant agents; has agents
is:waiting  is:pinned              in that state
>80%  <50%  >150k                  share of the window, or tokens in context
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final

import msgspec

from ....core.model.levels import Level
from ....core.model.session import Session, SessionStatus
from ....core.transcript.filter_language import (
    FilterWord,
    invalid_word,
    split_filter,
    unknown_filter_error,
)
from ...text.formats import model_name

_SIZE: Final = re.compile(r"([<>]=?)(\d+(?:\.\d+)?)(%|k|m)?")
_SCALES: Final = {"": 1, "k": 1_000, "m": 1_000_000}


class FilterContext(msgspec.Struct, frozen=True):
    """What a filter asks beside a session's own fields."""

    now_ms: int = 0
    pins: frozenset[str] = frozenset()
    selected: frozenset[str] = frozenset()


SessionTest = Callable[[Session, FilterContext], bool]  # of one word


class SessionFilter(msgspec.Struct, frozen=True):
    tests: tuple[SessionTest, ...] = ()
    error: str = ""  # about the first invalid word; invalid words are left out
    words: tuple[str, ...] = ()  # texts that a session must have: they are highlighted

    def matches(self, session: Session, context: FilterContext) -> bool:
        return all(test(session, context) for test in self.tests)


class _FilterError(Exception):
    pass


def _wrong_value(key: str, value: str, choices: Iterable[str]) -> _FilterError:
    # While the value is still to be typed, the choices are listed instead of an error.
    listed = f"{key} {' '.join(choices)}"
    return _FilterError(invalid_word(f"{key}{value}", choices) if value else listed)


def parse_filter(words: str) -> SessionFilter:
    tests: list[SessionTest] = []
    matched: list[str] = []
    error = ""
    for word in split_filter(words.casefold()):
        try:
            test = _parse_word(word)
        except _FilterError as wrong:
            error = error or str(wrong)
            continue
        tests.append(_negate(test) if word.is_negated else test)
        if not word.is_negated:
            matched += _matched_texts(word)
    return SessionFilter(tuple(tests), error, tuple(matched))


def _matched_texts(word: FilterWord) -> Iterator[str]:
    """Yield what a word looks for in texts that are shown."""
    if word.key in _TEXT_KEYS:
        yield word.value
    elif word.key not in FILTER_KEYS and word.key not in _ALIASES and word.text[:1] not in "<>":
        yield word.text


def _negate(test: SessionTest) -> SessionTest:
    return lambda session, context: not test(session, context)


def _parse_word(word: FilterWord) -> SessionTest:
    key, value = _ALIASES.get(word.key, word.key), word.value
    if not key:
        return _parse_size(value) if value[:1] in "<>" else _in_any_text(value)
    if key in FLAG_TESTS and not value:
        return FLAG_TESTS[key]
    if key in _VALUE_TESTS:
        return _VALUE_TESTS[key](value)
    if key in FLAG_TESTS:
        raise _wrong_value(key, value, (key,))
    if error := unknown_filter_error(word, FILTER_KEYS):
        raise _FilterError(error)
    # A title may contain a colon.
    return _in_any_text(key + value)


def _parse_size(word: str) -> SessionTest:
    match = _SIZE.fullmatch(word)
    if match is None:
        raise _wrong_value("", word, (">80%", "<50%", ">150k"))
    sign, unit = match[1], match[3] or ""
    bound = float(match[2]) / 100 if unit == "%" else float(match[2]) * _SCALES[unit]

    def test(session: Session, _: FilterContext) -> bool:
        size = session.context.limit_ratio if unit == "%" else session.context.tokens
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
        session.git_branch or "",
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
        raise _wrong_value("level:", name, (*LEVEL_NAMES, "high+"))
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
        raise _wrong_value("is:", word, STATE_TESTS)
    return STATE_TESTS[word]


def _with_agents(word: str) -> SessionTest:
    if word in {"✗", "x", "broke", "noncompliant"}:
        return FLAG_TESTS["noncompliant:"]
    if word:
        raise _wrong_value("agents:", word, ("agents:", "agents:✗"))
    return lambda session, _: session.agents > 0


FLAG_TESTS: Final[dict[str, SessionTest]] = {
    "live:": lambda session, _: session.live,
    "noncompliant:": lambda session, _: bool(session.agents_noncompliant),
}  # keys without a value

STATE_TESTS: Final[dict[str, SessionTest]] = {
    "waiting": lambda session, _: session.status is SessionStatus.WAITING,
    "working": lambda session, _: session.is_working,
    "idle": lambda session, _: session.status is SessionStatus.IDLE,
    "background": lambda session, _: session.status is SessionStatus.BACKGROUND,
    "live": FLAG_TESTS["live:"],
    "ended": lambda session, _: not session.live,
    "archived": lambda session, _: bool(session.archived),
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
    "branch:": _contains(lambda session: session.git_branch or ""),
    "agents:": _with_agents,
}

FILTER_KEYS: Final = (*_VALUE_TESTS, *FLAG_TESTS)
"""In the order in which they are suggested."""

_ALIASES: Final = {"agent:": "agents:", "broke:": "noncompliant:"}  # other words for keys
_TEXT_KEYS: Final = frozenset({"model:", "project:", "title:", "branch:"})


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
