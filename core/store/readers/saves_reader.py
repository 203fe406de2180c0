"""Reads the saves of all projects at one commit of the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from ...model.session import Session
from ...policy.resolve import DEFAULT_POLICIES, Policies
from ...saves.project_saves import (
    SavesByProject,
    SavesReport,
    group_by_project,
    make_saves_report,
)
from ...saves.save_plugin import check_plugin
from ..queries import config_queries


def read_save_rows(db: sqlite3.Connection) -> SavesByProject:
    logs = {log.project for log, _ in config_queries.save_log_files(db).values()}
    return group_by_project(
        files=config_queries.current_save_files(db),
        earlier_files=config_queries.earlier_save_files(db),
        blocks=config_queries.stop_blocks(db),
        notes=config_queries.memory_notes(db),
        events={project: config_queries.save_events(db, project) for project in sorted(logs)},
        plugins=tuple(map(check_plugin, config_queries.memory_plugins(db))),
    )


def read_saves(
    db: sqlite3.Connection,
    sessions: Sequence[Session],
    now_ms: int,
    policies: Policies = DEFAULT_POLICIES,
) -> SavesReport:
    return make_saves_report(read_save_rows(db), sessions, now_ms, policies)
