"""Every sign with its meaning, from the tables of the widgets that draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.agents import AgentStatus
from ..core.replaced import Where
from ..core.sessions import Status
from .agent_rows import AGENT_SIGNS
from .compliance_words import SIGNS, WORDS
from .formats import NOTHING
from .gauge import MARK, TRIGGER
from .operation_rows import BOUND, OFF, ON, SOME, STAYS
from .replaced_lines import SIGNS as THING_SIGNS
from .session_rows import PICKED, PINNED, SESSION_SIGNS
from .summary_report import kind_words
from .summary_rows import KIND_SIGNS
from .timeline_lines import CURSOR, CUT, MARK_SIGNS, MARK_WORDS

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
    AgentStatus.REJECTED: "was rejected",
    AgentStatus.NEVER_STARTED: "never started",
    AgentStatus.UNKNOWN: "nothing says how it ended",
}

_THINGS: Final = {
    Where.SUMMARY: "the summary names it",
    Where.STAYS: "the messages that stayed have it",
    Where.LOST: "left out",
}

_NUMBERS: Final = (
    (MARK, "on a bar: 70 and 80 % of the window"),
    (TRIGGER, "on a bar: where Claude Code compacts by itself"),
    (PICKED, "marked with others: y copies all their ids"),
    (PINNED, "pinned: stays on top"),
    ("▁▄█", "how the newest contexts went"),
    ("warm cold", "whether the next request is read from the prompt cache, and for how long"),
    ("↻2", "compacted twice"),
    ("4 ✗1", "of four agents one did not compress its result"),
    ("≈", "an estimate; without it the number is the API's"),
    (NOTHING, "not known yet"),
)


_PLANS: Final = (
    (ON, "is part of the plan: space leaves it out"),
    (OFF, "is left out"),
    (SOME, "of this strategy some are left out"),
    (BOUND.strip(), "follows from the others, and goes with them"),
    (STAYS.strip(), "no strategy touches it"),
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
        (
            "Signs: summaries",
            (
                *((KIND_SIGNS[kind], kind_words(kind)) for kind in KIND_SIGNS),
                *((THING_SIGNS[each], _THINGS[each]) for each in THING_SIGNS),
            ),
        ),
        (
            "Signs: a session's timeline",
            (
                *((MARK_SIGNS[each][0], MARK_WORDS[each]) for each in MARK_WORDS),
                (CUT, "compacted here, with the sizes before and after"),
                (CURSOR, "the turn that is looked at"),
                ("✂", "something later says the same: it can go"),
            ),
        ),
        ("Signs: bars and numbers", _NUMBERS),
        ("Signs: a plan", _PLANS),
    )


def _merged(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Give a line a sign: what several states share is said once."""
    found: dict[str, list[str]] = {}
    for sign, words in pairs:
        if sign.strip() and words not in (said := found.setdefault(sign, [])):
            said.append(words)
    return tuple((sign, ", ".join(said)) for sign, said in found.items())
