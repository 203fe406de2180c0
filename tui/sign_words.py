"""Every sign with its meaning, from the tables of the widgets that draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.agents import AgentStatus
from ..core.sessions import Status
from .agent_rows import AGENT_SIGNS
from .compliance_words import SIGNS, WORDS
from .formats import NOTHING
from .gauge import MARK, TRIGGER
from .session_rows import SESSION_SIGNS

if TYPE_CHECKING:
    from collections.abc import Iterable

Part = tuple[str, tuple[tuple[str, str], ...]]
"""A heading, and signs with what each means."""

_SESSIONS: Final = {
    Status.WAITING: "waits for you",
    Status.BUSY: "at work",
    Status.ACTIVE: "at work",
    Status.IDLE: "open and idle",
    Status.TOO_LONG: "its prompt is too long",
    Status.GONE: "its transcript is gone",
}

_AGENTS: Final = {
    AgentStatus.RUNNING: "at work",
    AgentStatus.COMPLETED: "has returned",
    AgentStatus.FAILED: "failed",
    AgentStatus.STOPPED: "was stopped",
    AgentStatus.UNKNOWN: "nothing says how it ended",
}

_NUMBERS: Final = (
    (MARK, "on a bar: 70 and 80 % of the window"),
    (TRIGGER, "on a bar: where Claude Code compacts by itself"),
    ("↻2", "compacted twice"),
    ("4 ✗1", "of four agents one did not compress its result"),
    ("≈", "an estimate; without it the number is the API's"),
    (NOTHING, "not known yet"),
)


def signs() -> tuple[Part, ...]:
    """Give all of them, those of one meaning together."""
    return (
        (
            "Signs: sessions",
            _merged((SESSION_SIGNS[each][0], _SESSIONS[each]) for each in _SESSIONS),
        ),
        ("Signs: agents", _merged((AGENT_SIGNS[each][0], _AGENTS[each]) for each in _AGENTS)),
        ("Signs: verdicts", _merged((SIGNS[each], WORDS[each]) for each in WORDS)),
        ("Signs: bars and numbers", _NUMBERS),
    )


def _merged(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Give a line a sign: what several states share is said once."""
    found: dict[str, list[str]] = {}
    for sign, words in pairs:
        if sign.strip() and words not in (said := found.setdefault(sign, [])):
            said.append(words)
    return tuple((sign, ", ".join(said)) for sign, said in found.items())
