"""The words of a filter: what each asks of a session, and what is wrong with it.

checkout !draft "two words"        in title, project, model, id, level, state; ! turns it round
level:high  level:warning+         at this level; at it or more urgent
model:opus  project:shop  title:x  in that field
live:  broke:  agents:             is live; has agents that broke the rule; has agents
is:waiting  is:pinned              in that state
>80%  <50%  >150k                  share of the window, or tokens in context
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..core.levels import Level
from ..core.sessions import Session, Status
from .formats import model, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_WORD: Final = re.compile(r'(!?)((?:[^\s":]+:)?)(?:"([^"]*)"?|(\S*))')
_SIZE: Final = re.compile(r"([<>]=?)(\d+(?:\.\d+)?)(%|k|m)?")
_SCALES: Final = {"": 1, "k": 1_000, "m": 1_000_000}
_KEY: Final = re.compile(r"[a-z]{2,}:")

LONGEST_NAMED: Final = 24
"""Characters of a wrong word that are repeated."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a filter asks that a session does not know itself."""

    now_ms: int = 0
    pins: frozenset[str] = frozenset()
    selected: frozenset[str] = frozenset()


Test = Callable[[Session, Seen], bool]
"""What one word asks."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Tests that a session must all pass."""

    tests: tuple[Test, ...] = ()
    error: str = ""
    """What is wrong with the words, in one line; that word is left out."""

    def matches(self, session: Session, seen: Seen) -> bool:
        """Say whether a session passes."""
        return all(test(session, seen) for test in self.tests)


EVERYTHING: Final = Filter()


class _WrongError(Exception):
    """A word that asks for nothing that there is; its message says what there is."""


def read_filter(words: str) -> Filter:
    """Understand what a person typed; what is not understood is said, never raised."""
    tests: list[Test] = []
    wrong = ""
    for negated, key, quoted, plain in _WORD.findall(words.casefold()):
        if not (key or quoted or plain):
            continue
        try:
            test = _test(key, quoted or plain)
        except _WrongError as error:
            wrong = wrong or str(error)
            continue
        tests.append(_not(test) if negated else test)
    return Filter(tuple(tests), wrong)


def _not(test: Test) -> Test:
    return lambda session, seen: not test(session, seen)


def _test(key: str, value: str) -> Test:
    if not key:
        return _compared(value) if value[:1] in "<>" else _in_text(value)
    if key in FLAGS and not value:
        return FLAGS[key]
    if key in _KEYED:
        return _KEYED[key](value)
    if key in FLAGS:
        raise _WrongError(f"{key} takes no word after it")
    if _KEY.fullmatch(key) and not value:
        raise _WrongError(f"no key {_named(key)} · {' '.join(sorted(KEYS))}")
    # A title may well hold a colon.
    return _in_text(key + value)


def _compared(words: str) -> Test:
    found = _SIZE.fullmatch(words)
    if found is None:
        raise _WrongError(f"{_named(words)} is no size · e.g. >80% <50% >150k")
    sign, number, unit = found[1], float(found[2]), found[3] or ""
    if unit == "%":
        return _by_number(sign, number / 100, lambda session: session.context.ratio)
    scale = _SCALES[unit]
    return _by_number(sign, number * scale, lambda session: session.context.tokens)


def _by_number(sign: str, bound: float, number: Callable[[Session], float | None]) -> Test:
    def test(session: Session, _: Seen) -> bool:
        found = number(session)
        if found is None:
            return False
        if found == bound:
            return sign.endswith("=")
        return (found > bound) == sign.startswith(">")

    return test


def _in_text(word: str) -> Test:
    return lambda session, _: word in text_of(session)


def _in_model(word: str) -> Test:
    return lambda session, _: word in f"{session.model} {model(session.model)}".casefold()


def _in_project(word: str) -> Test:
    return lambda session, _: word in session.project.casefold()


def _in_title(word: str) -> Test:
    return lambda session, _: word in session.title.casefold()


def _at_level(word: str) -> Test:
    name, above = word.removesuffix("+"), word.endswith("+")
    if name not in LEVELS:
        raise _WrongError(_one_of("level:", name, (*LEVELS, "+ for this and above")))
    rising = list(Level)
    bound = rising.index(Level(name))

    def test(session: Session, _: Seen) -> bool:
        level = session.context.level
        if level is None:
            return False
        if above:
            return rising.index(level) >= bound
        return name in {level.value, level.severity.value}

    return test


def _in_state(word: str) -> Test:
    if word not in STATES:
        raise _WrongError(_one_of("is:", word, STATES))
    return STATES[word]


def _with_agents(word: str) -> Test:
    if word in {"✗", "x", "broke"}:
        return FLAGS["broke:"]
    if word:
        raise _WrongError(_one_of("agents:", word, ("✗ for those that broke the rule",)))
    return lambda session, _: session.agents > 0


def _one_of(key: str, word: str, choices: Mapping[str, object] | tuple[str, ...]) -> str:
    said = f"{key} no {_named(word)} · " if word else f"{key} "
    return said + " ".join(choices)


def _named(word: str) -> str:
    return f"“{one_line(word)[:LONGEST_NAMED]}”"


def text_of(session: Session) -> str:
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


FLAGS: Final[dict[str, Test]] = {
    "live:": lambda session, _: session.live,
    "broke:": lambda session, _: bool(session.agents_noncompliant),
}
"""Keys that ask by themselves."""

_AT_WORK: Final = frozenset({Status.BUSY, Status.ACTIVE})

STATES: Final[dict[str, Test]] = {
    "waiting": lambda session, _: session.status is Status.WAITING,
    "working": lambda session, _: session.status in _AT_WORK,
    "idle": lambda session, _: session.status is Status.IDLE,
    "live": FLAGS["live:"],
    "ended": lambda session, _: not session.live,
    "long": lambda session, _: session.too_long is not None,
    "warm": lambda session, seen: session.cache.is_warm(seen.now_ms) is True,
    "cold": lambda session, seen: session.cache.is_warm(seen.now_ms) is False,
    "pinned": lambda session, seen: session.session_id in seen.pins,
    "marked": lambda session, seen: session.session_id in seen.selected,
}
"""What may stand after `is:`."""

LEVELS: Final = tuple(level.value for level in Level)
"""What may stand after `level:`."""

_KEYED: Final[dict[str, Callable[[str], Test]]] = {
    "level:": _at_level,
    "is:": _in_state,
    "model:": _in_model,
    "project:": _in_project,
    "title:": _in_title,
    "agents:": _with_agents,
    "agent:": _with_agents,
}

KEYS: Final = (
    *("level:", "is:", "model:", "project:", "title:", "agents:"),
    *FLAGS,
)
"""In the order in which they are offered."""
