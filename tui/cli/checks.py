"""What `ctxtop doctor` looks at: the folder, what watches it, and this machine."""

from __future__ import annotations

import os
import platform
import sqlite3
import stat
import sys
import time
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from ctxtop import __version__

from ...collectors.folder import find_files
from ...collectors.mounts import file_system, is_silent
from ...collectors.registry import read_registry
from ...collectors.regular import NOT_REGULAR
from ...core.store import queries
from ...core.tokens import TABLE, TABLE_SHA256
from ..formats import plural
from .columns import output_encoding, wants_colours

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...collectors.folder import Finding, Trouble
    from ...core.store.rows import TroubleRow
    from ..places import Places

NEEDED_SQLITE: Final = (3, 37, 0)
"""STRICT tables came with it."""

NEARLY: Final = 0.8
"""Share of the system's watches that is nearly all: editors and builds take them too."""

FUTURE_NS: Final = 300 * 1_000_000_000
"""Two machines on one disk are apart by less than this."""

NS_AN_HOUR: Final = 3600 * 1_000_000_000

_OWN_WATCHES: Final = 3
"""projects/, sessions/ and our own logs."""

_INOTIFY: Final = Path("/proc/sys/fs/inotify")
_LIMITS: Final = ("max_user_watches", "max_user_instances")
_POLLING: Final = "WATCHFILES_FORCE_POLLING"
_PACKAGES: Final = ("textual", "watchfiles", "sqlite-utils", "tiktoken", "msgspec", "PyYAML")


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at: what was found, and what to do where it is not well."""

    name: str
    ok: bool
    detail: str
    fix: str | None = None
    is_blocking: bool = True
    """Of what is not well: ctxtop cannot do its work until that is mended."""


def folder_checks(places: Places) -> list[Check]:
    """Look at Claude Code's folder and what ctxtop reads below it."""
    root = _folder(places)
    if not root.ok:
        return [root]
    found = find_files(places.folder)
    return [
        root,
        _projects(places, found),
        _registry(places),
        _links(places, found),
        _watching(places),
        _clock(found),
    ]


def machine_checks() -> list[Check]:
    """Look at what ctxtop stands on."""
    return [_sqlite(), _token_table(), _terminal(), _versions()]


def well(name: str, detail: str, hint: str | None = None) -> Check:
    """Say what was found; a hint may stand beside what is in nobody's way."""
    return Check(name, ok=True, detail=detail, fix=hint)


def noted(name: str, detail: str, fix: str) -> Check:
    """Make a check of what is wrong with a session or a file, and in nothing's way."""
    return Check(name, ok=False, detail=detail, fix=fix, is_blocking=False)


def wrong(name: str, detail: str, fix: str) -> Check:
    """Say what is in ctxtop's way, and what to do."""
    return Check(name, ok=False, detail=detail, fix=fix)


def is_link(trouble: Trouble | TroubleRow) -> bool:
    """Say whether the check of links tells of a trouble: a link or special file below projects/."""
    return trouble.what == NOT_REGULAR and _is_file(trouble.where)


def _folder(places: Places) -> Check:
    name, place = "claude folder", places.config_dir
    try:
        mode = place.stat().st_mode
    except OSError as error:
        fix = "name it with --config-dir, or start Claude Code once"
        return wrong(name, f"{place}: {error.strerror}", fix)
    if not stat.S_ISDIR(mode):
        return wrong(name, f"{place} is not a folder", "name it with --config-dir")
    if not os.access(place, os.R_OK | os.X_OK):
        return wrong(name, f"{place} cannot be read", f"chmod u+rx {place}")
    real = places.folder.root
    return well(name, str(place) if real == place else f"{place} → {real}")


def _projects(places: Places, found: Finding) -> Check:
    name, place = "projects", places.folder.projects
    if not place.is_dir():
        return well(name, f"no {place} yet: it comes with the first session")
    shut = [trouble for trouble in found.problems if not _is_file(trouble.where)]
    detail = f"{plural(len(found.transcripts), 'transcript')} in {place}"
    if shut:
        return wrong(name, f"{detail}; {shut[0].where}: {shut[0].what}", shut[0].fix)
    return well(name, detail)


def _is_file(place: str) -> bool:
    # Folders are named in full, files below projects/: only a folder can be shut.
    return not Path(place).is_absolute()


def _registry(places: Places) -> Check:
    name, place = "registry", places.folder.sessions
    if not place.is_dir():
        return well(name, f"no {place}: no client is open, or it is older than 2.1.112")
    if not os.access(place, os.R_OK | os.X_OK):
        return wrong(name, f"{place} cannot be read", f"chmod u+rx {place}")
    return well(name, f"{plural(len(read_registry(places.folder)), 'open session')}")


def _links(places: Places, found: Finding) -> Check:
    aside = [trouble.where for trouble in found.problems if is_link(trouble)]
    links = [place for place in _folders(places.folder.projects) if place.is_symlink()]
    aside += [place.name for place in links]
    if not aside:
        return well("links", "none below projects")
    detail = f"{plural(len(aside), 'link')} or special files set aside, e.g. {aside[0]}"
    return well("links", detail, "ctxtop follows no link out of the folder")


def _watching(places: Places) -> Check:
    name = "watching"
    forced = os.environ.get(_POLLING, "")
    if forced and forced.lower() not in {"false", "disable", "disabled"}:
        return well(name, f"polls: {_POLLING}={forced}")
    if is_silent(places.folder.projects):
        kind = file_system(places.folder.projects)
        detail = f"polls: {kind} may not tell what another machine writes"
        return well(name, detail, "on a local disk changes are seen at once")
    limits = {limit: _number(_INOTIFY / limit) for limit in _LIMITS}
    watches = limits["max_user_watches"]
    if watches is None:
        return well(name, f"by the system ({sys.platform})")
    needed = sum(1 for _ in _folders(places.folder.projects)) + _OWN_WATCHES
    detail = f"inotify: {plural(needed, 'folder')}; " + ", ".join(
        f"{limit} {value:,}" for limit, value in limits.items() if value is not None
    )
    fix = f"sysctl fs.inotify.max_user_watches={2 * max(needed, watches)}"
    if needed > watches:
        return wrong(name, detail, f"{fix}; until then ctxtop polls")
    if needed > NEARLY * watches:
        return well(name, f"{detail}, nearly all: other programs need some too", fix)
    return well(name, detail)


def _clock(found: Finding) -> Check:
    name, now = "clock", time.time_ns()
    ahead = [each for each in found.transcripts if each.mtime_ns > now + FUTURE_NS]
    if not ahead:
        return well(name, "no transcript is from the future")
    hours = (ahead[0].mtime_ns - now) / NS_AN_HOUR
    count = plural(len(ahead), "transcript")
    detail = f"{count} from the future, by {hours:,.1f} h: {ahead[0].relative}"
    return wrong(name, detail, "set this machine's clock right, or touch the files")


def _folders(top: Path) -> Iterable[Path]:
    for place, names, _ in os.walk(top):
        for each in names:
            yield Path(place, each)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _sqlite() -> Check:
    name, found = "sqlite", sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < NEEDED_SQLITE:
        needed = ".".join(map(str, NEEDED_SQLITE))
        return wrong(name, f"{found} is too old", f"use a Python with SQLite {needed}")
    if not queries.has_full_text_search():
        return wrong(name, f"{found} without FTS5", "use a Python whose SQLite has FTS5")
    return well(name, f"{found} with FTS5")


def _token_table() -> Check:
    name = "token table"
    try:
        data = (files("ctxtop.core.data") / TABLE).read_bytes()
    except OSError as error:
        return wrong(name, f"{TABLE}: {error.strerror}", "install ctxtop again")
    if sha256(data).hexdigest() != TABLE_SHA256:
        return wrong(name, f"{TABLE} is not the one shipped", "install ctxtop again")
    return well(name, f"{TABLE}, sha256 {TABLE_SHA256[:12]}…")


def _terminal() -> Check:
    encoding = output_encoding()
    parts = [
        f"TERM={os.environ.get('TERM', '')}",
        "a terminal" if sys.stdout.isatty() else "not a terminal",
        "colours" if wants_colours() else "no colours",
        f"NO_COLOR={os.environ['NO_COLOR']}" if "NO_COLOR" in os.environ else "NO_COLOR unset",
        encoding,
    ]
    if encoding != "utf-8":
        return wrong("terminal", ", ".join(parts), "set LANG to a UTF-8 locale")
    return well("terminal", ", ".join(parts))


def _versions() -> Check:
    parts = [f"ctxtop {__version__}", f"python {platform.python_version()}"]
    missing = []
    for package in _PACKAGES:
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    if missing:
        return wrong("versions", f"missing: {', '.join(missing)}", "install ctxtop again")
    return well("versions", ", ".join(parts))
