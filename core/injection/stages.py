"""The stages that choose earlier results for an agent (requirements 000-26 to 000-30).

Each looks at the same results, newest first, and says which of them fit, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from .brief import LASTING, fields_of, outcome_of
from .past import Past, Stage, Start
from .tags import EVERYBODY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Pick(msgspec.Struct, frozen=True):
    """A result that a stage would give."""

    stage: Stage
    result: Past
    reason: str
    text: str
    """The whole result, or what of it concerns the agent."""


def siblings(start: Start, pasts: Iterable[Past]) -> Iterator[Pick]:
    """Pick what agents of the same parent found (000-26)."""
    reason = "finished in this session, of the same parent"
    if len(start.possible_parents) > 1:
        reason = "finished in this session, perhaps of the same parent"
    for past in pasts:
        if past.session_id == start.session_id and past.parent_agent_id in start.possible_parents:
            yield Pick(Stage.SIBLING, past, reason, past.text)


def same_type(start: Start, pasts: Iterable[Past]) -> Iterator[Pick]:
    """Pick what earlier agents of the same type found (000-27)."""
    for past in pasts:
        if past.agent_type == start.agent_type:
            where = "of this session" if past.session_id == start.session_id else "earlier"
            if past.project != start.project:
                where = "of another project, as the policy allows"
            yield Pick(Stage.SAME_TYPE, past, f"of the same type, {where}", past.text)


def cross_session(start: Start, pasts: Iterable[Past]) -> Iterator[Pick]:
    """Pick what earlier sessions of the project left (000-28).

    Of another type only what it decided and what blocked it (000-33, R000-13).
    """
    for past in pasts:
        if past.session_id == start.session_id:
            continue
        if past.agent_type == start.agent_type:
            yield Pick(Stage.CROSS_SESSION, past, "of an earlier session", past.text)
        elif lasting := fields_of(past.text, LASTING):
            reason = f"decided, or blocked, in an earlier session by {past.agent_type}"
            yield Pick(Stage.CROSS_SESSION, past, reason, lasting)


def tagged(start: Start, pasts: Iterable[Past]) -> Iterator[Pick]:
    """Pick results that name a tag of the agent, its type, or everybody (000-29, R000-13)."""
    wanted = start.tags | {start.agent_type.casefold(), EVERYBODY}
    for past in pasts:
        shared = sorted(past.tags & wanted)
        if shared:
            yield Pick(Stage.TAGGED, past, f"tagged {', '.join(shared)}", past.text)


def fallback(start: Start, pasts: Iterable[Past]) -> Iterator[Pick]:
    """Pick the newest of the project in short, for where nothing else was found (000-30)."""
    for past in pasts:
        same = past.agent_type == start.agent_type
        text = past.text if same else outcome_of(past.text)
        yield Pick(Stage.FALLBACK, past, "nothing is closer: among the newest here", text)
