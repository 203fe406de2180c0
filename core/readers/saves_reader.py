"""Reads the saves of all projects at one commit of the store, and follows their states."""

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Final

from ..model.problem import Problem
from ..model.session import Session
from ..policy.resolve import DEFAULT_POLICIES, Policies
from ..saves.memory_plugin import check_plugin
from ..saves.project_saves import (
    EMPTY_SAVES_REPORT,
    ProjectSaves,
    SavesByProject,
    SavesReport,
    group_by_project,
    make_saves_report,
)
from ..saves.save_status import LOST_SAVE_FIXES
from ..store.queries import config_queries


def read_save_rows(db: Connection) -> SavesByProject:
    logs = {log.project for log, _ in config_queries.save_log_files(db).values()}
    return group_by_project(
        files=config_queries.current_save_files(db),
        earlier_files=config_queries.earlier_save_files(db),
        blocks=config_queries.stop_blocks(db),
        notes=config_queries.memory_notes(db),
        events={project: config_queries.save_events(db, project) for project in sorted(logs)},
        plugins=tuple(map(check_plugin, config_queries.memory_plugins(db))),
        hook_runs=config_queries.hook_runs(db),
        hook_handlers=config_queries.hook_handlers(db),
    )


def read_saves(
    db: Connection, sessions: Sequence[Session], now_ms: int, policies: Policies = DEFAULT_POLICIES
) -> SavesReport:
    return make_saves_report(read_save_rows(db), sessions, now_ms, policies)


EVALUATION_INTERVAL_MS: Final = 1000
"""Between two evaluations of the same rows: 300 projects take 0.1 s, and a view comes 25 times a
second."""


class SavesMonitor:
    """Follows the saves over one read-only connection; it belongs to one thread."""

    def __init__(self, db: Connection) -> None:
        self._db: Final = db
        self._fingerprint: tuple[object, ...] = ()
        self._rows: SavesByProject | None = None
        self._report = EMPTY_SAVES_REPORT
        self._policies: Policies | None = None
        self._evaluated_ms = 0
        self._is_late = False
        self._reported: dict[str, Problem] = {}
        self._resolved: list[str] = []

    def read(self, sessions: Sequence[Session], now_ms: int, policies: Policies) -> SavesReport:
        """Return the state of the memory saves of every project at `now_ms`."""
        fingerprint = config_queries.saves_fingerprint(self._db)
        if self._rows is None or fingerprint != self._fingerprint:
            self._rows, self._fingerprint = read_save_rows(self._db), fingerprint
        elif (
            policies is self._policies and 0 <= now_ms - self._evaluated_ms < EVALUATION_INTERVAL_MS
        ):
            # Only the sessions may have changed: how near their compaction is.
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
        """Return saves that are lost unless someone acts, once each; old ones are left out."""
        lost = {
            found.project: _problem(found)
            for found in self._report.projects
            if found.status.state in LOST_SAVE_FIXES and found.is_fresh
        }
        new = [problem for key, problem in lost.items() if self._reported.get(key) != problem]
        self._resolved = [
            problem.where for key, problem in self._reported.items() if key not in lost
        ]
        self._reported = lost
        return new

    def resolved_problems(self) -> list[str]:
        """Return the places of problems that are resolved."""
        return self._resolved


def _problem(found: ProjectSaves) -> Problem:
    status = found.status
    silent = ", and the plugin does not report it" if found.plugin_message.blind_spots else ""
    return Problem(
        f"save of {found.name}",
        f"{status.state_text}: {status.reason}{silent}",
        LOST_SAVE_FIXES[status.state],
    )
