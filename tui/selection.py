"""Which sessions are shown, and in which order."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ..core.fleet import by_name, by_need, by_newest, fullness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..core.sessions import Session


class Order(Enum):
    """How the sessions are sorted; `s` goes from one to the next."""

    NEED = "need"
    FULLEST = "fullest"
    NEWEST = "newest"
    NAME = "name"

    @property
    def next(self) -> Order:
        """The order that `s` chooses."""
        orders = list(Order)
        return orders[(orders.index(self) + 1) % len(orders)]


def select(sessions: Iterable[Session], words: str, order: Order) -> list[Session]:
    """Take the sessions in which every word occurs, or does not with `!` before it."""
    tests = [_test(word) for word in words.casefold().split()]
    chosen = [session for session in sessions if all(test(session) for test in tests)]
    if order is Order.NEED:
        return sorted(chosen, key=by_need)
    if order is Order.FULLEST:
        return sorted(chosen, key=lambda session: (-fullness(session), session.session_id))
    if order is Order.NEWEST:
        return sorted(chosen, key=by_newest)
    return sorted(chosen, key=by_name)


def _test(word: str) -> Callable[[Session], bool]:
    if word.startswith("!") and len(word) > 1:
        return lambda session: word[1:] not in _text(session)
    return lambda session: word in _text(session)


def _text(session: Session) -> str:
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
