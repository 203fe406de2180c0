"""All checks of `ctxtop doctor`, in their order."""

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path

from ...collectors.locations.places import PlaceError, Places
from ...collectors.locations.policy_files import PolicyFiles
from ...collectors.store_update import rebuild_store, update_store
from ...core.model.problem import Problem
from ...core.model.session import Session
from ...core.readers import fleet_reader
from ...core.readers.saves_reader import read_saves
from ...core.store import database
from ...core.store.bulkhead import FAILED, bulkhead
from ...core.store.database import StoreError
from ...core.store.queries import (
    config_queries,
    log_queries,
    session_queries,
)
from ...core.store.queries.log_queries import LogPartRow
from ..base.command_errors import error_text, print_error, print_errors
from . import machine_checks
from .client_checks import (
    definition_checks,
    force_hooks_check,
    hooks_check,
    policy_check,
    save_file_checks,
    saves_checks,
    settings_checks,
)
from .doctor_check import DoctorCheck, failed, passed
from .session_checks import (
    archive_check,
    compaction_check,
    deleted_check,
    deletions_check,
    recovery_checks,
    unsaved_check,
)
from .store_checks import (
    bad_lines_check,
    ignored_types_check,
    measurement_check,
    orphans_check,
    problems_check,
    search_index_check,
    store_check,
    unknown_types_check,
)


def check_all(places: Places) -> list[DoctorCheck]:
    return list(each_check(places))


def scan_and_check_all(places: Places) -> list[DoctorCheck]:
    """Bring the store up to date as far as that is possible, then check everything."""
    failure = None
    try:
        if places.exists:
            print_errors(update_store(places).notices)
    except (PlaceError, StoreError, OSError, UnicodeEncodeError) as error:
        failure = error_text(error)
    return list(each_check(places, failure))


def rebuild_damaged_store(places: Places) -> None:
    """Rebuild a damaged store; prints an error if that fails, and the checks report the rest."""
    if not places.store.is_file():
        return
    try:
        damage = database.find_damage(places.store)
        if damage and damage != database.NEWER_VERSION:
            print_error(rebuild_store(places, damage))
    except (PlaceError, StoreError, OSError, UnicodeEncodeError) as error:
        print_error(error_text(error))


def each_check(places: Places, failure: str | None = None) -> Iterator[DoctorCheck]:
    """Yield one check after the other; `failure` is the error of the scan before them."""
    store, parts = places.store, list[LogPartRow]()

    def check_store() -> list[DoctorCheck]:
        checks, logged = _check_store(places, failure)
        parts.extend(logged)
        return checks

    yield from _each_apart(
        store,
        {
            "folders": lambda: machine_checks.folder_checks(places),
            "store": check_store,
            "disk": lambda: [machine_checks.disk_check(store)],
            "own logs": lambda: machine_checks.log_checks(store, parts),
            "requests": lambda: [machine_checks.requests_check(store)],
            "machine": machine_checks.machine_checks,
        },
    )


Checks = Callable[[], Iterable[DoctorCheck]]


def _each_apart(store: Path, checks: Mapping[str, Checks]) -> Iterator[DoctorCheck]:
    """Run one check after the other; one that fails for a fault of ours is a failed check."""
    for name, check in checks.items():
        faults: list[Problem] = []
        with bulkhead(f"the check {name}", FAILED, store, faults.append):
            yield from list(check())
        yield from (failed(name, each.what, each.fix) for each in faults)


def _check_store(places: Places, failure: str | None) -> tuple[list[DoctorCheck], list[LogPartRow]]:
    path = places.store
    if failure:
        return [_store_failed_check(failure, path)], []
    if not path.exists():
        return [passed("store", f"none at {path} yet: the first scan creates it")], []
    try:
        with closing(database.open_reader(path)) as db:
            if obstacle := _find_obstacle(db, places):
                return [obstacle], []
            return list(_content_checks(db, places)), log_queries.log_parts(db)
    except StoreError as error:
        return [_store_failed_check(str(error), path)], []
    except sqlite3.Error as error:
        what, remedy = database.explain_error(error)
        return [failed("store", f"{path}: {what}", remedy)], []


def _content_checks(db: sqlite3.Connection, places: Places) -> Iterator[DoctorCheck]:
    now_ms = time.time_ns() // 1_000_000
    policies = PolicyFiles(places.policy)
    policies.refresh(config_queries.project_roots(db))
    policy = policies.policies.common

    @cache
    def sessions() -> list[Session]:
        return fleet_reader.read_sessions(db, now_ms)

    yield from _each_apart(
        places.store,
        {
            "store": lambda: [store_check(places.store, db)],
            "search index": lambda: [search_index_check(db)],
            "bad lines": lambda: [bad_lines_check(db)],
            "orphans": lambda: [orphans_check(db)],
            "unknown types": lambda: [unknown_types_check(db)],
            "ignored types": lambda: [ignored_types_check(db)],
            "settings": lambda: settings_checks(db),
            "definitions": lambda: definition_checks(db),
            "save files": lambda: save_file_checks(db),
            "measurements": lambda: [measurement_check(db)],
            "hooks": lambda: [hooks_check(db, places.store)],
            "force hooks": lambda: force_hooks_check(db),
            "recoveries": lambda: recovery_checks(db, sessions(), policies.policies, now_ms),
            "saving": lambda: [unsaved_check(sessions(), now_ms)],
            "auto-compact": lambda: [
                compaction_check(config_queries.settings_files(db), sessions(), now_ms)
            ],
            "deletions": lambda: [deletions_check(db, places, policy, now_ms)],
            "deleted sessions": lambda: [deleted_check(places, sessions())],
            "archive": lambda: [archive_check(places)],
            "saves": lambda: saves_checks(read_saves(db, (), now_ms, policies.policies)),
            "ctxtop's settings": lambda: [policy_check(policies)],
            "problems": lambda: [problems_check(db)],
        },
    )


def _find_obstacle(db: sqlite3.Connection, places: Places) -> DoctorCheck | None:
    """Find what makes a store unusable although it opens."""
    path, version = places.store, database.schema_version(db)
    if version > database.SCHEMA_VERSION:
        detail = f"{path} was written by a newer ctxtop (schema {version})"
        fix = "use that version, or another file with --db: a scan would move this one aside"
        return failed("store", detail, fix)
    root = session_queries.claimed_folder(db)
    if root is not None and root != str(places.folder.root):
        return failed("store", f"{path} belongs to {root}", "choose another file with --db")
    if damage := session_queries.find_damaged_page(db):
        fix = f"move {path} away: ctxtop rebuilds it"
        return failed("store", f"{path} is damaged: {damage}", fix)
    return None


def _store_failed_check(message: str, path: Path) -> DoctorCheck:
    # The store's errors end with what to do.
    detail, _, remedy = message.rpartition("; ")
    if not detail:
        return failed("store", message, "choose another file with --db")
    if "doctor" in remedy:
        remedy = f"move {path} away: ctxtop rebuilds it"
    return failed("store", detail, remedy)
