"""The saves of a view: read again when the store has more, judged again as time goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..collectors.folder import Trouble
from ..core.saves.own_rows import read_rows
from ..core.saves.report import NO_SAVES, report
from ..core.saves.states import SaveState
from ..core.store.save_queries import save_mark

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ..core.policy.layers import Policies
    from ..core.saves.own_rows import SortedRows
    from ..core.saves.report import ProjectSave, SavesReport
    from ..core.sessions import Session

JUDGE_MS: Final = 1000
"""Between two judgements of the same rows: 300 projects take 0.1 s, and a view comes 25 times a
second."""

_LOST: Final = {
    SaveState.ORPHANED: "/memory:save in that project saves again",
    SaveState.FAILED_UNKNOWN: "/memory:save in that project saves again; m shows more",
    SaveState.CORRUPT: "look at that file; ctxtop changes nothing of it",
}
"""States of which the plugin may say nothing, and what a person can do."""


class SavesFeed:
    """Reads the saves from one read-only connection; it belongs to one thread."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db: Final = db
        self._mark: tuple[object, ...] = ()
        self._rows: SortedRows | None = None
        self._report: SavesReport = NO_SAVES
        self._policies: Policies | None = None
        self._evaluated_ms = 0
        self._is_late = False
        self._reported: dict[str, Trouble] = {}
        self._resolved: list[str] = []

    def read(self, sessions: Sequence[Session], now_ms: int, policies: Policies) -> SavesReport:
        """Say how every project's save stands at `now_ms`."""
        mark = save_mark(self._db)
        if self._rows is None or mark != self._mark:
            self._rows, self._mark = read_rows(self._db), mark
        elif policies is self._policies and 0 <= now_ms - self._evaluated_ms < JUDGE_MS:
            # Of the sessions alone something may be new: how near their compaction is.
            self._is_late = True
            return self._report
        self._report = report(self._rows, sessions, now_ms, policies)
        self._policies, self._evaluated_ms, self._is_late = policies, now_ms, False
        return self._report

    def is_current(self, now_ms: int) -> bool:
        """Say whether time alone has changed no state that was read."""
        if self._is_late and now_ms - self._evaluated_ms >= JUDGE_MS:
            return False
        return self._report.next_change_ms is None or now_ms < self._report.next_change_ms

    def new_problems(self) -> list[Trouble]:
        """Name what is lost unless somebody acts, once each; old news is the report's alone."""
        lost = {
            found.project: _trouble(found)
            for found in self._report.projects
            if found.status.state in _LOST and found.is_fresh
        }
        new = [each for project, each in lost.items() if self._reported.get(project) != each]
        self._resolved = [
            each.where for project, each in self._reported.items() if project not in lost
        ]
        self._reported = lost
        return new

    def resolved_problems(self) -> list[str]:
        """Name the places whose trouble is over."""
        return self._resolved


def _trouble(found: ProjectSave) -> Trouble:
    standing = found.status
    silent = ", and the plugin says nothing of it" if found.plugin_message.blind_spots else ""
    return Trouble(
        f"save of {found.name}",
        f"{standing.state.value.replace('_', ' ')}: {standing.reason}{silent}",
        _LOST[standing.state],
    )
