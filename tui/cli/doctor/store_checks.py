"""What `ctxtop doctor` checks of the store and of recoveries; all checks in their order."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from ....collectors.places import PlaceError, Places
from ....collectors.policy_files import PolicyFiles
from ....collectors.store_update import rebuild_store, update_store
from ....core.compaction.receipts import CompactionReceipt, ReceiptStore
from ....core.compaction.recovery.limit_errors import parse_recoverable_error
from ....core.compaction.recovery.recovery_run import LOCKED_STATES, release_dead_holder
from ....core.model.session import Session
from ....core.saves.project_saves import SavesReport
from ....core.store.automation_records import (
    AUTOMATIC_RUN_TIMEOUT_MS,
    read_automatic_runs,
    read_recoveries,
)
from ....core.store.database import (
    NEWER_VERSION,
    SCHEMA_VERSION,
    StoreError,
    explain_error,
    find_damage,
    open_reader,
    schema_version,
    state_folder,
)
from ....core.store.queries import log_queries, session_queries
from ....core.store.queries.config_queries import project_roots
from ....core.store.queries.log_queries import LogPartRow
from ....core.store.readers import fleet_reader
from ....core.store.readers.saves_reader import read_saves
from ....core.transcript.line_types import why_ignored
from ...text.formats import iso_time, plural
from ..command_errors import error_text, print_error, print_errors
from .config_checks import (
    config_checks,
    disk_check,
    hook_check,
    log_checks,
    measurement_check,
    policy_check,
    requests_check,
    saves_checks,
)
from .machine_checks import (
    DoctorCheck,
    failed_check,
    folder_checks,
    is_link,
    machine_checks,
    noted_check,
    passed_check,
)

RECENT_RUN_MS: Final = 7 * 24 * 3_600_000  # a session that ended longer ago is hardly missed
MAX_NAMED_SESSIONS: Final = 3


def recovery_checks(
    db: sqlite3.Connection,
    sessions: Sequence[Session],
    receipts: Sequence[CompactionReceipt],
    now_ms: int,
) -> list[DoctorCheck]:
    """Look at what ended in a refusal, at locks and pauses, and at automatic runs."""
    return [
        _refused_sessions_check(sessions, receipts, now_ms),
        _locks_check(db, now_ms),
        _automatic_runs_check(db, now_ms),
    ]


def _refused_sessions_check(
    sessions: Sequence[Session], receipts: Sequence[CompactionReceipt], now_ms: int
) -> DoctorCheck:
    name = "refused sessions"
    done_at = {
        session_id: each.at
        for each in reversed(receipts)
        for session_id in (each.session_id, each.new_session_id)
    }

    def is_new(session: Session) -> bool:
        last = session.last_activity_at or 0
        return done_at.get(session.session_id, -1) < last and now_ms - last < RECENT_RUN_MS

    ended = [each for each in sessions if parse_recoverable_error(each.refusal) and is_new(each)]
    if not ended:
        return passed_check(name, f"none in {RECENT_RUN_MS // 86_400_000} days that was not mended")
    named = ", ".join(
        f"{each.session_id[:8]} ({each.title})" for each in ended[:MAX_NAMED_SESSIONS]
    )
    more = f" and {len(ended) - MAX_NAMED_SESSIONS} more" if len(ended) > MAX_NAMED_SESSIONS else ""
    detail = f"{plural(len(ended), 'session')} ended in one: {named}{more}"
    return noted_check(
        name, detail, f"`ctxtop recover {ended[0].session_id[:8]}` plans how to mend it"
    )


def _locks_check(db: sqlite3.Connection, now_ms: int) -> DoctorCheck:
    name = "recovery locks"
    runs = read_recoveries(db)
    held = [run for run in runs if run.state in LOCKED_STATES]
    stale = [run for run in held if release_dead_holder(run, now_ms) != run]
    if stale:
        holder = stale[0].holder
        who = f"process {holder.pid}" if holder else "a process"
        start = stale[0].found.session_id[:8]
        detail = f"{plural(len(stale), 'lock')} left by processes that ended: {who}, {start}"
        return failed_check(name, detail, f"`ctxtop recover {start} --apply` takes it over")
    cooling = [run for run in runs if run not in held and run.cool_until > now_ms]
    if cooling:
        seconds = -(-(cooling[0].cool_until - now_ms) // 1000)
        start = cooling[0].found.session_id[:8]
        return passed_check(name, f"none; {start} cools down for {seconds} s more")
    if held:
        return passed_check(name, f"{plural(len(held), 'lock')} held: a recovery is under way")
    return passed_check(name, "none")


def _automatic_runs_check(db: sqlite3.Connection, now_ms: int) -> DoctorCheck:
    name = "done by itself"
    runs = read_automatic_runs(db, now_ms - RECENT_RUN_MS)
    if not runs:
        return passed_check(
            name,
            "nothing: off until your config.toml or a trusted project says mode = auto",
        )
    lost = [
        run for run in runs if run.outcome is None and now_ms - run.at >= AUTOMATIC_RUN_TIMEOUT_MS
    ]
    if lost:
        detail = f"{plural(len(lost), 'run')} never ended, the last at {iso_time(lost[-1].at)}"
        return passed_check(name, detail, "nothing to do: the next start of ctxtop settles it")
    last = runs[-1]
    start, ended = last.session_id[:8], last.outcome or "under way"
    detail = f"{plural(len(runs), 'run')}, the last at {iso_time(last.at)}: {start}, {ended}"
    return passed_check(name, detail, f"`ctxtop undo {last.receipt}`" if last.receipt else None)


MAX_NAMED: Final = 5  # types and places that are named; the rest is counted


def check_all(places: Places) -> list[DoctorCheck]:
    """Look at everything, with the store as it is."""
    return list(each_check(places))


def scan_and_check_all(places: Places) -> list[DoctorCheck]:
    """Bring the store up to date as far as that is possible, then look at everything."""
    failure = None
    try:
        if places.exists:
            print_errors(update_store(places).notices)
    except (PlaceError, StoreError, OSError, UnicodeEncodeError) as error:
        failure = error_text(error)
    return list(each_check(places, failure))


def rebuild_damaged_store(places: Places) -> None:
    """Make a store again that is damaged; what cannot be done is for the checks to tell."""
    if not places.store.is_file():
        return
    try:
        damage = find_damage(places.store)
        if damage and damage != NEWER_VERSION:
            print_error(rebuild_store(places, damage))
    except (PlaceError, StoreError, OSError, UnicodeEncodeError) as error:
        print_error(error_text(error))


def each_check(places: Places, failure: str | None = None) -> Iterator[DoctorCheck]:
    """Make one check after the other; `failure` is what the scan before them met."""
    yield from folder_checks(places)
    store, parts = _check_store(places, failure)
    yield from store
    yield disk_check(places.store)
    yield from log_checks(places.store, parts)
    yield requests_check(places.store)
    yield from machine_checks()


def _read_policies(db: sqlite3.Connection, places: Places) -> PolicyFiles:
    files = PolicyFiles(places.policy)
    files.refresh(project_roots(db))
    return files


def _read_saves_report(db: sqlite3.Connection, files: PolicyFiles) -> SavesReport:
    """Judge saves as the policy says; what is wrong with that is told by its own check."""
    return read_saves(db, (), time.time_ns() // 1_000_000, files.policies)


def _run_recovery_checks(db: sqlite3.Connection, store: Path) -> list[DoctorCheck]:
    now_ms = time.time_ns() // 1_000_000
    receipts = ReceiptStore(state_folder(store)).all()
    return recovery_checks(db, fleet_reader.read_sessions(db, now_ms), receipts, now_ms)


def _check_store(places: Places, failure: str | None) -> tuple[list[DoctorCheck], list[LogPartRow]]:
    path = places.store
    if failure:
        return [_store_failed_check(failure, path)], []
    if not path.exists():
        return [passed_check("store", f"none at {path} yet: the first scan makes it")], []
    try:
        with closing(open_reader(path)) as db:
            about = _find_obstacle(db, places)
            if about:
                return [about], []
            policies = _read_policies(db, places)
            found = [
                _store_check(path, db),
                _bad_lines_check(db),
                _orphans_check(db),
                _unknown_types_check(db),
                _ignored_types_check(db),
                *config_checks(db),
                measurement_check(db),
                hook_check(db, path),
                *_run_recovery_checks(db, path),
                *saves_checks(_read_saves_report(db, policies)),
                policy_check(policies),
                _problems_check(db),
            ]
            return found, log_queries.log_parts(db)
    except StoreError as error:
        return [_store_failed_check(str(error), path)], []
    except sqlite3.Error as error:
        what, remedy = explain_error(error)
        return [failed_check("store", f"{path}: {what}", remedy)], []


def _find_obstacle(db: sqlite3.Connection, places: Places) -> DoctorCheck | None:
    """Find what makes a store that opens useless all the same."""
    path = places.store
    version = schema_version(db)
    if version > SCHEMA_VERSION:
        detail = f"{path} was written by a newer ctxtop (schema {version})"
        return failed_check(
            "store", detail, "use that one, or another --db: a scan would move it aside"
        )
    root = session_queries.claimed_folder(db)
    if root is not None and root != str(places.folder.root):
        return failed_check("store", f"{path} holds the sessions of {root}", "give another --db")
    damage = session_queries.find_damaged_page(db)
    if damage:
        return failed_check(
            "store", f"{path} is damaged: {damage}", f"move {path} away: it is made again"
        )
    return None


def _store_failed_check(message: str, path: Path) -> DoctorCheck:
    # The store's errors end with what to do.
    detail, _, remedy = message.rpartition("; ")
    if not detail:
        return failed_check("store", message, "choose another place with --db")
    if "doctor" in remedy:
        remedy = f"move {path} away: the next start makes it again"
    return failed_check("store", detail, remedy)


def _store_check(path: Path, db: sqlite3.Connection) -> DoctorCheck:
    mode, around = (stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent))
    size = path.stat().st_size
    counts = session_queries.store_counts(db)
    detail = (
        f"{path}, {size:,} bytes, schema {schema_version(db)}, {mode:04o} in {around:04o},"
        f" {plural(counts['files'], 'file')}, {plural(counts['sessions'], 'session')}"
    )
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
        return failed_check(
            "store", f"{detail}; it cannot be written", "choose another place with --db"
        )
    if mode & 0o077:
        return failed_check("store", detail, f"others can read it: chmod 600 {path}")
    if around & 0o022 and not around & stat.S_ISVTX:
        return failed_check("store", detail, f"others can replace it: chmod 700 {path.parent}")
    return passed_check("store", detail)


def _bad_lines_check(db: sqlite3.Connection) -> DoctorCheck:
    count = session_queries.store_counts(db)["bad_lines"]
    if not count:
        return passed_check("bad lines", "none")
    return noted_check(
        "bad lines", f"{plural(count, 'line')} set aside", "`ctxtop scan --bad` lists them"
    )


def _orphans_check(db: sqlite3.Connection) -> DoctorCheck:
    found = session_queries.orphaned_agent_files(db)
    if not found:
        return passed_check("orphans", "every agent's file has its session's transcript")
    detail = f"{plural(len(found), 'agent')} whose session has no transcript: {found[0]}"
    return noted_check("orphans", detail, "remove the files if you have no use for them")


def _unknown_types_check(db: sqlite3.Connection) -> DoctorCheck:
    found = session_queries.unknown_types(db)
    if not found:
        return passed_check("unknown types", "none")
    named = ", ".join(f"{name} {lines:,}" for name, lines in list(found.items())[:MAX_NAMED])
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    fix = "nothing is lost; a newer ctxtop may know them"
    return passed_check("unknown types", f"{named}{more}", fix)


def _ignored_types_check(db: sqlite3.Connection) -> DoctorCheck:
    found = session_queries.ignored_types(db)
    if not found:
        return passed_check("ignored types", "none")
    most = list(found.items())[:MAX_NAMED]
    named = "; ".join(f"{name} {lines:,}: {why_ignored(name)}" for name, lines in most)
    in_all = plural(sum(found.values()), "line")
    return passed_check("ignored types", f"{in_all} of {plural(len(found), 'known type')}: {named}")


def _problems_check(db: sqlite3.Connection) -> DoctorCheck:
    found = [trouble for trouble in session_queries.problems(db) if not is_link(trouble)]
    if not found:
        return passed_check("troubles", "none")
    newest = found[0]
    detail = f"{plural(len(found), 'trouble')}, the newest: {newest.where}: {newest.what}"
    return failed_check("troubles", detail, newest.fix)
