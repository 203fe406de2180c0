"""The state of every project's saves, read again when the store has more or time goes by."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from ....core.model.problem import Problem
from ....core.model.session import Session
from ....core.policy.resolve import Policies
from ....core.saves.project_saves import (
    EMPTY_SAVES_REPORT,
    ProjectSaves,
    SavesByProject,
    SavesReport,
    make_saves_report,
)
from ....core.saves.save_status import SaveState
from ....core.store.queries.config_queries import saves_fingerprint
from ....core.store.readers.saves_reader import read_save_rows

EVALUATION_INTERVAL_MS: Final = 1000
"""Between two judgements of the same rows: 300 projects take 0.1 s, and a view comes 25 times a
second."""

_LOST_SAVE_FIXES: Final = {
    SaveState.ORPHANED: "/memory:save in that project saves again",
    SaveState.FAILED_UNKNOWN: "/memory:save in that project saves again; m shows more",
    SaveState.CORRUPT: "look at that file; ctxtop changes nothing of it",
}
"""States of which the plugin may say nothing, and what a person can do."""


class SavesMonitor:
    """Reads the saves from one read-only connection; it belongs to one thread."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db: Final = db
        self._mark: tuple[object, ...] = ()
        self._rows: SavesByProject | None = None
        self._report: SavesReport = EMPTY_SAVES_REPORT
        self._policies: Policies | None = None
        self._evaluated_ms = 0
        self._is_late = False
        self._reported: dict[str, Problem] = {}
        self._resolved: list[str] = []

    def read(self, sessions: Sequence[Session], now_ms: int, policies: Policies) -> SavesReport:
        """Return the state of the memory saves of every project at `now_ms`."""
        mark = saves_fingerprint(self._db)
        if self._rows is None or mark != self._mark:
            self._rows, self._mark = read_save_rows(self._db), mark
        elif (
            policies is self._policies and 0 <= now_ms - self._evaluated_ms < EVALUATION_INTERVAL_MS
        ):
            # Of the sessions alone something may be new: how near their compaction is.
            self._is_late = True
            return self._report
        self._report = make_saves_report(self._rows, sessions, now_ms, policies)
        self._policies, self._evaluated_ms, self._is_late = policies, now_ms, False
        return self._report

    def is_current(self, now_ms: int) -> bool:
        """Whether the report is still valid at `now_ms` if nothing but time has changed."""
        if self._is_late and now_ms - self._evaluated_ms >= EVALUATION_INTERVAL_MS:
            return False
        return self._report.next_change_ms is None or now_ms < self._report.next_change_ms

    def new_problems(self) -> list[Problem]:
        """Name what is lost unless somebody acts, once each; old news is the report's alone."""
        lost = {
            found.project: _problem(found)
            for found in self._report.projects
            if found.status.state in _LOST_SAVE_FIXES and found.is_fresh
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


def _problem(found: ProjectSaves) -> Problem:
    standing = found.status
    silent = ", and the plugin says nothing of it" if found.plugin_message.blind_spots else ""
    return Problem(
        f"save of {found.name}",
        f"{standing.state.value.replace('_', ' ')}: {standing.reason}{silent}",
        _LOST_SAVE_FIXES[standing.state],
    )
