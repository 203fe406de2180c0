"""What fills a context at a turn, looked up from its transcript and kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from ..core.composition import Composition
    from ..core.timeline import Turn

ITEMS: Final = 200
"""The largest of a context: more than a person looks through."""

KEPT: Final = 64
"""Turns whose answers are kept: to go back and forth reads no file again."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known of one turn."""

    composition: Composition | None = None
    """None where the transcript does not tell it."""
    calls: tuple[str, ...] = ()
    problem: str = ""
    """Why not."""


class Moments:
    """The moments that were looked up, by turn; None is now."""

    def __init__(self) -> None:
        self._found: dict[int | None, Moment] = {}

    def clear(self) -> None:
        """Forget all of them."""
        self._found.clear()

    def get(self, turn: Turn | None) -> Moment | None:
        """Give what was looked up."""
        return self._found.get(_key(turn))

    def put(self, turn: Turn | None, moment: Moment) -> None:
        """Keep it; the oldest goes."""
        self._found.pop(_key(turn), None)
        self._found[_key(turn)] = moment
        if len(self._found) > KEPT:
            self._found.pop(next(iter(self._found)))


def _key(turn: Turn | None) -> int | None:
    return None if turn is None else turn.last_offset


def look_at(
    db: sqlite3.Connection,
    projects: Path,
    session_id: str,
    newest: Turn | None,
    past: Turn | None,
) -> Moment:
    """Take the context apart as it is, or as it was at a past turn."""
    from ..collectors.composing import NothingToComposeError, read_composition
    from ..collectors.moments import read_calls

    turn = past or newest
    try:
        found = read_composition(
            db,
            projects,
            session_id,
            until_offset=past.last_offset if past else None,
            max_items=ITEMS,
        )
        calls = read_calls(db, projects, session_id, turn) if turn else ()
    except NothingToComposeError as error:
        return Moment(problem=str(error))
    return Moment(found, calls)
