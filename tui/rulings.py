"""Whether agents comply, asked session by session as their results come into sight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .summary_source import read_rulings

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from ..collectors.folder import Trouble
    from ..core.compliance.states import Ruling
    from ..core.policy.layers import Policies
    from ..core.sessions import Session
    from .summary_source import AgentKey

    Found = dict[AgentKey, Ruling | None]
    LookUp = Callable[
        [Callable[[sqlite3.Connection], Found], Callable[[Found | Trouble], None]], None
    ]


class Rulings:
    """What is known so far; `told` is called when there is more."""

    def __init__(self, look_up: LookUp, on_change: Callable[[], None]) -> None:
        self._look_up: Final = look_up
        self._told: Final = on_change
        self._found: Found = {}
        self._asked: set[str] = set()
        self._open = 0

    @property
    def is_idle(self) -> bool:
        """Nothing is being asked."""
        return not self._open

    def get(self, session_id: str, agent_id: str | None) -> Ruling | None:
        """Give the ruling on an agent, as far as it is known."""
        return self._found.get((session_id, agent_id)) if agent_id else None

    def invalidate(self) -> None:
        """Ask again of sessions that come into sight; what is known stays until then."""
        self._asked.clear()

    def request(
        self, session_ids: set[str], sessions: Sequence[Session], policies: Policies
    ) -> None:
        """Ask of those sessions of which nobody asked yet."""
        new = session_ids - self._asked
        if not new:
            return
        self._asked |= new
        self._open += 1
        self._look_up(lambda db: read_rulings(db, sessions, new, policies), self._take)

    def _take(self, found: Found | Trouble) -> None:
        self._open -= 1
        if isinstance(found, dict):
            self._found |= found
            self._told()
