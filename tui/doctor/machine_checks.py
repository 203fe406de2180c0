"""What `ctxtop doctor` checks of this machine: folders, logs, requests, and what ctxtop runs on."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterable
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop import __version__

from ...collectors.claude_code import own_files
from ...collectors.claude_code.registry import list_open_sessions
from ...collectors.locations import discover
from ...collectors.locations.discover import FolderListing
from ...collectors.plugin_files import plugin_log
from ...collectors.plugin_files.compact_requests import ORPHAN_AFTER_S, request_folder
from ...collectors.terminal.request_receipts import ClientCompactReceipt, read_client_receipts
from ...core.files.safe_open import NOT_REGULAR_FILE, open_regular
from ...core.measure.tokens import ENCODING_FILE, ENCODING_SHA256
from ...core.model.problem import Problem
from ...core.model.stored_rows import ProblemRow
from ...core.model.transcript_records import LogKind
from ...core.store.queries import session_queries
from ...core.store.queries.log_queries import LogPartRow
from ...core.transcript.sanitize import sanitize_title
from ..base.output import output_encoding, wants_colors
from ..text.formats import iso_time, plural, utc_time
from .doctor_check import DoctorCheck, failed, noted, passed

if TYPE_CHECKING:
    from ...collectors.locations.places import Places


def folder_checks(places: Places) -> list[DoctorCheck]:
    root = _folder_check(places)
    if not root.ok:
        return [root]
    listing = discover.find_files(places.folder)
    return [
        root,
        _projects_check(places, listing),
        _registry_check(places),
        _links_check(places, listing),
        _watching_check(places),
        _clock_check(listing),
    ]


def _folder_check(places: Places) -> DoctorCheck:
    name, folder = "claude folder", places.config_dir
    try:
        mode = folder.stat().st_mode
    except OSError as error:
        fix = "name it with --config-dir, or start Claude Code once"
        return failed(name, f"{folder}: {error.strerror}", fix)
    if not stat.S_ISDIR(mode):
        return failed(name, f"{folder} is not a folder", "name it with --config-dir")
    if not os.access(folder, os.R_OK | os.X_OK):
        return failed(name, f"{folder} cannot be read", f"chmod u+rx {folder}")
    real = places.folder.root
    return passed(name, str(folder) if real == folder else f"{folder} → {real}")


def _projects_check(places: Places, listing: FolderListing) -> DoctorCheck:
    name, folder = "projects", places.folder.projects
    if not folder.is_dir():
        return passed(name, f"no {folder} yet: it is created with the first session")
    detail = f"{plural(len(listing.transcripts), 'transcript')} in {folder}"
    for problem in listing.problems:
        if not _is_file(problem.where):
            return failed(name, f"{detail}; {problem.where}: {problem.what}", problem.fix)
    return passed(name, detail)


def _is_file(place: str) -> bool:
    # Folders are named in full, files below projects/.
    return not Path(place).is_absolute()


def is_link(problem: Problem | ProblemRow) -> bool:
    """Whether the links check reports this problem: a link or special file below projects/."""
    return problem.what == NOT_REGULAR_FILE and _is_file(problem.where)


def _registry_check(places: Places) -> DoctorCheck:
    name, folder = "registry", places.folder.sessions
    if not folder.is_dir():
        return passed(name, f"no {folder}: Claude Code is not open, or is older than 2.1.112")
    if not os.access(folder, os.R_OK | os.X_OK):
        return failed(name, f"{folder} cannot be read", f"chmod u+rx {folder}")
    return passed(name, plural(len(list_open_sessions(places.folder)), "open session"))


def _links_check(places: Places, listing: FolderListing) -> DoctorCheck:
    names = [problem.where for problem in listing.problems if is_link(problem)]
    names += [each.name for each in _all_folders(places.folder.projects) if each.is_symlink()]
    if not names:
        return passed("links", "none in projects")
    detail = f"{len(names):,} skipped (links or special files), e.g. {names[0]}"
    return noted("links", detail, "ctxtop does not follow links out of the folder")


_POLLING_VARIABLE: Final = "WATCHFILES_FORCE_POLLING"
_INOTIFY: Final = Path("/proc/sys/fs/inotify")
_INOTIFY_LIMITS: Final = ("max_user_watches", "max_user_instances")
_OWN_WATCHES: Final = 3  # projects/, sessions/ and our own logs
NEARLY_ALL_WATCHES: Final = 0.8
"""Share of the system's watches that is nearly all: editors and builds take them too."""


def _watching_check(places: Places) -> DoctorCheck:
    name, projects = "watching", places.folder.projects
    forced = os.environ.get(_POLLING_VARIABLE, "")
    if forced and forced.lower() not in {"false", "disable", "disabled"}:
        return passed(name, f"polls: {_POLLING_VARIABLE}={forced}")
    if discover.needs_polling(projects):
        detail = (
            f"polls: {discover.file_system_type(projects)} may miss changes from other machines"
        )
        return noted(name, detail, "on a local disk, changes are seen at once")
    limits = {limit: _read_number(_INOTIFY / limit) for limit in _INOTIFY_LIMITS}
    watches = limits["max_user_watches"]
    if watches is None:
        return passed(name, f"by the system ({sys.platform})")
    needed = sum(1 for _ in _all_folders(projects)) + _OWN_WATCHES
    detail = f"inotify: {plural(needed, 'folder')}; " + ", ".join(
        f"{limit} {value:,}" for limit, value in limits.items() if value is not None
    )
    fix = f"sysctl fs.inotify.max_user_watches={2 * max(needed, watches)}"
    if needed > watches:
        return failed(name, detail, f"{fix}; until then ctxtop polls")
    if needed > NEARLY_ALL_WATCHES * watches:
        return noted(name, f"{detail}, nearly all: other programs need some too", fix)
    return passed(name, detail)


def _all_folders(top: Path) -> Iterable[Path]:
    for place, names, _ in os.walk(top):
        for each in names:
            yield Path(place, each)


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


CLOCK_TOLERANCE_NS: Final = 300 * 1_000_000_000  # between two machines on one disk
NS_PER_HOUR: Final = 3600 * 1_000_000_000


def _clock_check(listing: FolderListing) -> DoctorCheck:
    name, now = "clock", time.time_ns()
    ahead = [each for each in listing.transcripts if each.mtime_ns > now + CLOCK_TOLERANCE_NS]
    if not ahead:
        return passed(name, "no transcript is dated in the future")
    hours = (ahead[0].mtime_ns - now) / NS_PER_HOUR
    count = plural(len(ahead), "transcript")
    detail = f"{count} dated in the future, by {hours:,.1f} h: {ahead[0].relative}"
    return failed(name, detail, "correct this machine's clock, or touch the files")


LOW_DISK_BYTES: Final = 256 * 1024 * 1024
"""The store of a heavy user is 100 MB, and its journal may be as much while it is made."""

MEGABYTE: Final = 1_000_000


def disk_check(store: Path) -> DoctorCheck:
    folder = next(each for each in store.parents if each.exists())
    free = shutil.disk_usage(folder).free
    detail = f"{free // MEGABYTE:,} MB free at {folder}"
    if free < LOW_DISK_BYTES:
        fix = "free some space, or choose another file with --db"
        return failed("disk", f"nearly full: {detail}", fix)
    return passed("disk", detail)


_LOG_NAMES: Final = {
    LogKind.HOOKS: "hook log",
    LogKind.STATUS_LINE: "status line",
    LogKind.ANSWERS: "answers",
    LogKind.PLUGIN: "plugin log",
}


def log_checks(store: Path, known: Iterable[LogPartRow]) -> list[DoctorCheck]:
    """Check what the hooks and the status line wrote; `known` are the parts that were read."""
    folder = own_files.own_log_folder(store)
    read = {(row.log, row.name, row.size) for row in known}
    return [*(_log_check(folder, log, read) for log in LogKind), _answers_check(folder)]


def _unreadable_check(name: str, folder: Path, error: OSError) -> DoctorCheck:
    return failed(name, f"{folder} cannot be read ({error.strerror})", f"chmod u+rwx {folder}")


def _answers_check(folder: Path) -> DoctorCheck:
    name = "hook answers"
    try:
        faults = _read_faults(folder / plugin_log.ANSWER_FAULTS)
    except OSError as error:
        return _unreadable_check(name, folder, error)
    if faults is None:
        return passed(name, "no faults")
    last = f"the last at {utc_time(faults.at)}: {faults.message}"
    fix = f"Claude Code was not affected: delete {faults.path} once you have read it"
    return failed(name, f"{plural(faults.count, 'fault')}, {last}", fix)


def _log_check(folder: Path, log: LogKind, read: set[tuple[str, str, int]]) -> DoctorCheck:
    name = _LOG_NAMES[log]
    try:
        parts = own_files.find_log_files(folder, log)
        faults = _read_faults(folder / log)
    except OSError as error:
        return _unreadable_check(name, folder, error)
    newest_ns = max((part.mtime_ns for part in parts), default=0)
    if faults and faults.at * 1_000_000 > newest_ns:
        detail = f"not written since {utc_time(faults.at)}: {faults.message}"
        return failed(name, detail, f"check {folder} and its disk")
    if faults:
        lost = f"{plural(faults.count, 'record')} lost, the last at {utc_time(faults.at)}"
        detail = f"written again; {lost}: {faults.message}"
        return noted(name, detail, f"delete {faults.path} once you have read it")
    if not parts:
        return passed(name, f"none in {folder}: no hooks are installed")
    size = sum(part.size for part in parts)
    detail = f"{plural(len(parts), 'file')}, {size / MEGABYTE:,.1f} MB"
    detail += f", last written {utc_time(newest_ns // 1_000_000)}"
    if exposed := _exposed_check(name, parts, detail):
        return exposed
    waiting = sum(
        part.is_rotated and (log, part.path.name, part.size) not in read for part in parts
    )
    if waiting:
        detail += f"; {plural(waiting, 'renamed file')} not read yet"
        return passed(name, detail, "`ctxtop scan` reads them")
    if size > 2 * own_files.MAX_KEPT_LOG_BYTES:
        detail += "; more than ctxtop keeps"
        return noted(name, detail, "`ctxtop scan` removes what was read")
    return passed(name, detail)


def _exposed_check(name: str, parts: list[own_files.LogFile], detail: str) -> DoctorCheck | None:
    folder = parts[0].path.parent
    if folder.stat().st_mode & 0o077:
        return failed(name, f"{detail}; other users can list {folder}", f"chmod 700 {folder}")
    for part in parts:
        if part.path.stat().st_mode & 0o077:
            return failed(
                name, f"{detail}; other users can read {part.path}", f"chmod 600 {part.path}"
            )
    return None


class _Faults(msgspec.Struct, frozen=True):
    path: Path
    count: int
    at: int  # of the last one
    message: str


MAX_FAULT_BYTES: Final = 4 * plugin_log.FAULTS_BYTES
"""Read at most of a file of faults; one that our writers made is far smaller."""

MAX_TIME_DIGITS: Final = 14  # milliseconds until the year 5138


def _read_faults(log: Path) -> _Faults | None:
    path = Path(plugin_log.fault_path(str(log)))
    texts = [_read_text(each) for each in (Path(plugin_log.older_fault_path(str(log))), path)]
    if texts == [None, None]:
        return None
    lines = [line for text in texts for line in (text or "").splitlines() if line.strip()]
    moment, _, message = (lines or [""])[-1].partition(" ")
    is_moment = moment.isdecimal() and len(moment) <= MAX_TIME_DIGITS
    at = int(moment) if is_moment else 0
    return _Faults(path, max(1, len(lines)), at, sanitize_title(message))


def _read_text(path: Path) -> str | None:
    try:
        with open_regular(path) as file:
            return file.read(MAX_FAULT_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


RECENT_FAILURE_MS: Final = 24 * 3600 * 1000  # older failures are not reported


def requests_check(store: Path) -> DoctorCheck:
    """Check the compactions that ctxtop asked for and that did not end."""
    name = "compact requests"
    now_ms = time.time_ns() // 1_000_000
    try:
        receipts = read_client_receipts(store, now_ms)
    except OSError as error:
        folder = error.filename or request_folder(str(store))
        fix = f"check {folder}, then remove it"
        return failed(name, f"{folder} {error.strerror}", fix)
    orphans, failures, pending = (
        [each for each in receipts if each.state == state]
        for state in ("orphan", "failed", "pending")
    )
    if orphans:
        newest = orphans[0]
        count = f"{plural(len(orphans), 'request')} without a result for {ORPHAN_AFTER_S:.0f} s"
        path = f"{request_folder(str(store))}/kept/{newest.session_id}.{newest.request}.asked"
        fix = f"check the session, then remove {path}"
        return failed(name, f"{count}: {_request_text(newest)}", fix)
    for each in failures:
        if now_ms - each.requested_at < RECENT_FAILURE_MS:
            return noted(name, f"the last one that failed: {_request_text(each)}, {each.why}")
    if pending:
        return passed(name, f"{len(pending)} pending: {_request_text(pending[0])}")
    count = f"{plural(len(receipts), 'request')}, none open" if receipts else "none"
    return passed(name, count)


def _request_text(receipt: ClientCompactReceipt) -> str:
    return f"session {receipt.session_id} via {receipt.via} at {iso_time(receipt.requested_at)}"


def machine_checks() -> list[DoctorCheck]:
    return [_sqlite_check(), _token_table_check(), _terminal_check(), _versions_check()]


MIN_SQLITE: Final = (3, 37, 0)  # the first with STRICT tables


def _sqlite_check() -> DoctorCheck:
    name, installed = "sqlite", sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        needed = ".".join(map(str, MIN_SQLITE))
        return failed(name, f"{installed} is too old", f"use a Python with SQLite {needed}")
    if not session_queries.has_full_text_search():
        return failed(name, f"{installed} without FTS5", "use a Python whose SQLite has FTS5")
    return passed(name, f"{installed} with FTS5")


def _token_table_check() -> DoctorCheck:
    name, fix = "token table", "reinstall ctxtop"
    try:
        data = (files("ctxtop.core.data") / ENCODING_FILE).read_bytes()
    except OSError as error:
        return failed(name, f"{ENCODING_FILE}: {error.strerror}", fix)
    if sha256(data).hexdigest() != ENCODING_SHA256:
        return failed(name, f"{ENCODING_FILE} differs from the one that ctxtop ships", fix)
    return passed(name, f"{ENCODING_FILE}, sha256 {ENCODING_SHA256[:12]}…")


def _terminal_check() -> DoctorCheck:
    encoding = output_encoding()
    parts = [
        f"TERM={os.environ.get('TERM', '')}",
        "a terminal" if sys.stdout.isatty() else "not a terminal",
        "colors" if wants_colors() else "no colors",
        f"NO_COLOR={os.environ['NO_COLOR']}" if "NO_COLOR" in os.environ else "NO_COLOR unset",
        encoding,
    ]
    if encoding != "utf-8":
        return failed("terminal", ", ".join(parts), "set LANG to a UTF-8 locale")
    return passed("terminal", ", ".join(parts))


def _versions_check() -> DoctorCheck:
    parts, missing = [f"ctxtop {__version__}", f"python {platform.python_version()}"], []
    for package in ("textual", "watchfiles", "sqlite-utils", "tiktoken", "msgspec", "PyYAML"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return failed("versions", f"missing: {', '.join(missing)}", "reinstall ctxtop")
    return passed("versions", ", ".join(parts))
