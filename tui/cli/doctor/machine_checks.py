"""What `ctxtop doctor` checks of this machine: the folder, what watches it, and versions."""

from __future__ import annotations

import os
import platform
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

from ....collectors.claude_code.discover import (
    FolderListing,
    file_system_type,
    find_files,
    needs_polling,
)
from ....collectors.claude_code.registry import list_open_sessions
from ....core.files.safe_open import NOT_REGULAR_FILE
from ....core.measure.tokens import ENCODING_FILE, ENCODING_SHA256
from ....core.model.problem import Problem
from ....core.store.queries import session_queries
from ....core.store.queries.query_rows import ProblemRow
from ...text.formats import plural
from ..output.printing import output_encoding, wants_colours

if TYPE_CHECKING:
    from ....collectors.places import Places


MIN_SQLITE: Final = (3, 37, 0)  # STRICT tables came with it
NEARLY_ALL_WATCHES: Final = 0.8
"""Share of the system's watches that is nearly all: editors and builds take them too."""

CLOCK_TOLERANCE_NS: Final = 300 * 1_000_000_000
"""Two machines on one disk are apart by less than this."""

NS_PER_HOUR: Final = 3600 * 1_000_000_000

_OWN_WATCHES: Final = 3  # projects/, sessions/ and our own logs
_INOTIFY: Final = Path("/proc/sys/fs/inotify")
_INOTIFY_LIMITS: Final = ("max_user_watches", "max_user_instances")
_POLLING_VARIABLE: Final = "WATCHFILES_FORCE_POLLING"
_PACKAGES: Final = ("textual", "watchfiles", "sqlite-utils", "tiktoken", "msgspec", "PyYAML")


class DoctorCheck(msgspec.Struct, frozen=True):
    """One thing that was looked at: what was found, and what to do where it is not well."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None
    is_blocking: bool = True  # of what is not well: ctxtop cannot do its work until that is mended

    def record(self) -> dict[str, object]:
        """Return it as `ctxtop doctor --json` prints it."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail, "fix": self.fix}


def folder_checks(places: Places) -> list[DoctorCheck]:
    """Look at Claude Code's folder and what ctxtop reads below it."""
    root = _folder_check(places)
    if not root.ok:
        return [root]
    found = find_files(places.folder)
    return [
        root,
        _projects_check(places, found),
        _registry_check(places),
        _links_check(places, found),
        _watching_check(places),
        _clock_check(found),
    ]


def machine_checks() -> list[DoctorCheck]:
    """Look at what ctxtop stands on."""
    return [_sqlite_check(), _token_table_check(), _terminal_check(), _versions_check()]


def passed_check(name: str, detail: str, hint: str | None = None) -> DoctorCheck:
    """Create a check that passed; a hint may suggest an improvement."""
    return DoctorCheck(name, ok=True, detail=detail, fix=hint)


def noted_check(name: str, detail: str, fix: str) -> DoctorCheck:
    """Make a check of what is wrong with a session or a file, and in nothing's way."""
    return DoctorCheck(name, ok=False, detail=detail, fix=fix, is_blocking=False)


def failed_check(name: str, detail: str, fix: str) -> DoctorCheck:
    """Create a check that failed in a way that keeps ctxtop from working."""
    return DoctorCheck(name, ok=False, detail=detail, fix=fix)


def is_link(trouble: Problem | ProblemRow) -> bool:
    """Whether the links check reports this problem: a link or special file below projects/."""
    return trouble.what == NOT_REGULAR_FILE and _is_file(trouble.where)


def _folder_check(places: Places) -> DoctorCheck:
    name, place = "claude folder", places.config_dir
    try:
        mode = place.stat().st_mode
    except OSError as error:
        fix = "name it with --config-dir, or start Claude Code once"
        return failed_check(name, f"{place}: {error.strerror}", fix)
    if not stat.S_ISDIR(mode):
        return failed_check(name, f"{place} is not a folder", "name it with --config-dir")
    if not os.access(place, os.R_OK | os.X_OK):
        return failed_check(name, f"{place} cannot be read", f"chmod u+rx {place}")
    real = places.folder.root
    return passed_check(name, str(place) if real == place else f"{place} → {real}")


def _projects_check(places: Places, found: FolderListing) -> DoctorCheck:
    name, place = "projects", places.folder.projects
    if not place.is_dir():
        return passed_check(name, f"no {place} yet: it comes with the first session")
    shut = [trouble for trouble in found.problems if not _is_file(trouble.where)]
    detail = f"{plural(len(found.transcripts), 'transcript')} in {place}"
    if shut:
        return failed_check(name, f"{detail}; {shut[0].where}: {shut[0].what}", shut[0].fix)
    return passed_check(name, detail)


def _is_file(place: str) -> bool:
    # Folders are named in full, files below projects/: only a folder can be shut.
    return not Path(place).is_absolute()


def _registry_check(places: Places) -> DoctorCheck:
    name, place = "registry", places.folder.sessions
    if not place.is_dir():
        return passed_check(name, f"no {place}: no client is open, or it is older than 2.1.112")
    if not os.access(place, os.R_OK | os.X_OK):
        return failed_check(name, f"{place} cannot be read", f"chmod u+rx {place}")
    return passed_check(name, f"{plural(len(list_open_sessions(places.folder)), 'open session')}")


def _links_check(places: Places, found: FolderListing) -> DoctorCheck:
    aside = [trouble.where for trouble in found.problems if is_link(trouble)]
    links = [place for place in _all_folders(places.folder.projects) if place.is_symlink()]
    aside += [place.name for place in links]
    if not aside:
        return passed_check("links", "none below projects")
    detail = f"{plural(len(aside), 'link')} or special files set aside, e.g. {aside[0]}"
    return passed_check("links", detail, "ctxtop follows no link out of the folder")


def _watching_check(places: Places) -> DoctorCheck:
    name = "watching"
    forced = os.environ.get(_POLLING_VARIABLE, "")
    if forced and forced.lower() not in {"false", "disable", "disabled"}:
        return passed_check(name, f"polls: {_POLLING_VARIABLE}={forced}")
    if needs_polling(places.folder.projects):
        kind = file_system_type(places.folder.projects)
        detail = f"polls: {kind} may not tell what another machine writes"
        return passed_check(name, detail, "on a local disk changes are seen at once")
    limits = {limit: _read_number(_INOTIFY / limit) for limit in _INOTIFY_LIMITS}
    watches = limits["max_user_watches"]
    if watches is None:
        return passed_check(name, f"by the system ({sys.platform})")
    needed = sum(1 for _ in _all_folders(places.folder.projects)) + _OWN_WATCHES
    detail = f"inotify: {plural(needed, 'folder')}; " + ", ".join(
        f"{limit} {value:,}" for limit, value in limits.items() if value is not None
    )
    fix = f"sysctl fs.inotify.max_user_watches={2 * max(needed, watches)}"
    if needed > watches:
        return failed_check(name, detail, f"{fix}; until then ctxtop polls")
    if needed > NEARLY_ALL_WATCHES * watches:
        return passed_check(name, f"{detail}, nearly all: other programs need some too", fix)
    return passed_check(name, detail)


def _clock_check(found: FolderListing) -> DoctorCheck:
    name, now = "clock", time.time_ns()
    ahead = [each for each in found.transcripts if each.mtime_ns > now + CLOCK_TOLERANCE_NS]
    if not ahead:
        return passed_check(name, "no transcript is from the future")
    hours = (ahead[0].mtime_ns - now) / NS_PER_HOUR
    count = plural(len(ahead), "transcript")
    detail = f"{count} from the future, by {hours:,.1f} h: {ahead[0].relative}"
    return failed_check(name, detail, "set this machine's clock right, or touch the files")


def _all_folders(top: Path) -> Iterable[Path]:
    for place, names, _ in os.walk(top):
        for each in names:
            yield Path(place, each)


def _read_number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _sqlite_check() -> DoctorCheck:
    name, found = "sqlite", sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        needed = ".".join(map(str, MIN_SQLITE))
        return failed_check(name, f"{found} is too old", f"use a Python with SQLite {needed}")
    if not session_queries.has_full_text_search():
        return failed_check(name, f"{found} without FTS5", "use a Python whose SQLite has FTS5")
    return passed_check(name, f"{found} with FTS5")


def _token_table_check() -> DoctorCheck:
    name = "token table"
    try:
        data = (files("ctxtop.core.data") / ENCODING_FILE).read_bytes()
    except OSError as error:
        return failed_check(name, f"{ENCODING_FILE}: {error.strerror}", "install ctxtop again")
    if sha256(data).hexdigest() != ENCODING_SHA256:
        return failed_check(name, f"{ENCODING_FILE} is not the one shipped", "install ctxtop again")
    return passed_check(name, f"{ENCODING_FILE}, sha256 {ENCODING_SHA256[:12]}…")


def _terminal_check() -> DoctorCheck:
    encoding = output_encoding()
    parts = [
        f"TERM={os.environ.get('TERM', '')}",
        "a terminal" if sys.stdout.isatty() else "not a terminal",
        "colours" if wants_colours() else "no colours",
        f"NO_COLOR={os.environ['NO_COLOR']}" if "NO_COLOR" in os.environ else "NO_COLOR unset",
        encoding,
    ]
    if encoding != "utf-8":
        return failed_check("terminal", ", ".join(parts), "set LANG to a UTF-8 locale")
    return passed_check("terminal", ", ".join(parts))


def _versions_check() -> DoctorCheck:
    parts = [f"ctxtop {__version__}", f"python {platform.python_version()}"]
    missing = []
    for package in _PACKAGES:
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return failed_check("versions", f"missing: {', '.join(missing)}", "install ctxtop again")
    return passed_check("versions", ", ".join(parts))
