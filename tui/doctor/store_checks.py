"""Checks of what the store holds, and of what could not be read."""

import os
import sqlite3
import stat
from pathlib import Path
from typing import Final

from ...core.measure.evidence import compare_measurements
from ...core.store import database
from ...core.store.queries import (
    log_queries,
    search_queries,
    session_queries,
)
from ...core.transcript.line_types import why_ignored
from ..text.formats import iso_time, plural
from . import machine_checks
from .doctor_check import DoctorCheck, and_more, failed, noted, passed


def store_check(path: Path, db: sqlite3.Connection) -> DoctorCheck:
    mode, around = (stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent))
    counts = session_queries.store_counts(db)
    detail = (
        f"{path}, {path.stat().st_size:,} bytes, schema {database.schema_version(db)},"
        f" {mode:04o} in {around:04o},"
        f" {plural(counts['files'], 'file')}, {plural(counts['sessions'], 'session')}"
    )
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
        return failed("store", f"{detail}; it cannot be written", "choose another file with --db")
    if mode & 0o077:
        return failed("store", detail, f"other users can read it: run chmod 600 {path}")
    if around & 0o022 and not around & stat.S_ISVTX:
        return failed("store", detail, f"other users can replace it: run chmod 700 {path.parent}")
    return passed("store", detail)


def search_index_check(db: sqlite3.Connection) -> DoctorCheck:
    progress, index = search_queries.search_progress(db), search_queries.search_index_size(db)
    share = f" ({100 * index.size / index.chars:.1f} %)" if index.chars else ""
    detail = (
        f"{progress.indexed:,} of {plural(progress.total, 'transcript')},"
        f" {index.size:,} bytes for {plural(index.chars, 'character')}{share},"
        f" built in {index.seconds:.1f} s"
    )
    more = "" if progress.is_complete else "; `ctxtop search` and the dashboard index the others"
    return passed("search index", detail + more)


def bad_lines_check(db: sqlite3.Connection) -> DoctorCheck:
    count = session_queries.store_counts(db)["bad_lines"]
    if not count:
        return passed("bad lines", "none")
    fix = "`ctxtop scan --bad` lists them"
    return noted("bad lines", f"{plural(count, 'line')} could not be read whole", fix)


def orphans_check(db: sqlite3.Connection) -> DoctorCheck:
    orphans = session_queries.orphaned_agent_files(db)
    if not orphans:
        return passed("orphans", "every agent's file has its session's transcript")
    detail = f"{plural(len(orphans), 'agent')} whose session has no transcript: {orphans[0]}"
    return noted("orphans", detail, "remove the files if you have no use for them")


MAX_NAMED_TYPES: Final = 5  # the rest is counted


def unknown_types_check(db: sqlite3.Connection) -> DoctorCheck:
    types = session_queries.unknown_types(db)
    if not types:
        return passed("unknown types", "none")
    listed = [f"{name} {lines:,}" for name, lines in list(types.items())[:MAX_NAMED_TYPES]]
    more = and_more(len(types) - MAX_NAMED_TYPES)
    fix = "nothing is lost; a newer ctxtop may know them"
    return noted("unknown types", ", ".join(listed) + more, fix)


def ignored_types_check(db: sqlite3.Connection) -> DoctorCheck:
    types = session_queries.ignored_types(db)
    if not types:
        return passed("ignored types", "none")
    first = list(types.items())[:MAX_NAMED_TYPES]
    listed = "; ".join(f"{name} {lines:,}: {why_ignored(name)}" for name, lines in first)
    total = plural(sum(types.values()), "line")
    return passed("ignored types", f"{total} of {plural(len(types), 'known type')}: {listed}")


def problems_check(db: sqlite3.Connection) -> DoctorCheck:
    problems = [each for each in session_queries.problems(db) if not machine_checks.is_link(each)]
    if not problems:
        return passed("problems", "none")
    newest = problems[0]
    detail = f"{plural(len(problems), 'problem')}, the newest: {newest.where}: {newest.what}"
    return failed("problems", detail, newest.fix)


def measurement_check(db: sqlite3.Connection) -> DoctorCheck:
    name = "measurements"
    found = compare_measurements(log_queries.measurement_comparisons(db))
    if found.different:
        row = found.different[0]
        detail = (
            f"{plural(len(found.different), 'session')} measured differently than in the transcript"
            f" says: {row.session_id} {row.measured_tokens:,} tokens at {iso_time(row.at)},"
            f" the transcript {row.answer_tokens:,}"
        )
        return noted(name, detail, "please report it, with the version of Claude Code")
    if not found.equal and not found.not_comparable:
        return passed(name, "none: no open session runs ctxtop's plugin")
    return passed(name, f"{plural(found.equal, 'session')} checked, equal to the transcript")
