"""What `ctxtop doctor` looks at beside the store: the disk, and our own logs."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ...collectors.clean import clean_title
from ...collectors.own_logs.log_parts import KEPT_BYTES, find_parts
from ...collectors.own_logs.logs import logs_of
from ...collectors.plugin.log import ANSWERING, FAULTS_BYTES, fault_path, older_faults
from ...collectors.regular import open_regular
from ...core.store.log_facts import Log
from ..formats import plural
from .checks import Check, well, wrong

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...collectors.own_logs.log_parts import FoundPart
    from ...core.store.log_queries import PartRow

LOW_DISK_BYTES: Final = 256 * 1024 * 1024
"""The store of a heavy user is 100 MB, and its journal may be as much while it is made."""

FAULT_BYTES: Final = 4 * FAULTS_BYTES
"""Of a file of faults is read at the most; one that a writer of ours made is far smaller."""

MOMENT_DIGITS: Final = 14
"""Milliseconds until the year 5138."""

MEGABYTE: Final = 1_000_000

_NAMES: Final = {
    Log.HOOKS: "hook log",
    Log.STATUS_LINE: "status line",
    Log.ANSWERS: "answers",
    Log.PLUGIN: "plugin log",
}


class _Faults(msgspec.Struct, frozen=True):
    path: Path
    count: int
    at: int
    """Of the last one."""
    words: str


def disk_check(store: Path) -> Check:
    """Look at the room on the store's disk."""
    place = store.parent
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    detail = f"{free // MEGABYTE:,} MB free at {place}"
    if free < LOW_DISK_BYTES:
        return wrong("disk", f"nearly full: {detail}", "free some space, or choose another --db")
    return well("disk", detail)


def log_checks(store: Path, known: Iterable[PartRow]) -> list[Check]:
    """Look at what the hooks and the status line wrote; `known` is what was read of it."""
    read = list(known)
    folder = logs_of(store)
    return [*(_log_check(folder, log, read) for log in Log), _answers_check(folder)]


def _answers_check(folder: Path) -> Check:
    name = "hook answers"
    try:
        faults = _faults(folder / ANSWERING)
    except OSError as error:
        return wrong(name, f"{folder} cannot be read ({error.strerror})", f"chmod u+rwx {folder}")
    if faults is None:
        return well(name, "no faults")
    last = f"the last at {_moment(faults.at)}: {faults.words}"
    detail = f"{plural(faults.count, 'fault')}, {last}"
    fix = f"Claude Code was not told: report it, and remove {faults.path} when you have seen it"
    return wrong(name, detail, fix)


def _log_check(folder: Path, log: Log, known: Iterable[PartRow]) -> Check:
    name = _NAMES[log]
    try:
        found = find_parts(folder, log)
        fault = _faults(folder / log)
    except OSError as error:
        return wrong(name, f"{folder} cannot be read ({error.strerror})", f"chmod u+rwx {folder}")
    newest_ns = max((part.mtime_ns for part in found), default=0)
    if fault and fault.at * 1_000_000 > newest_ns:
        detail = f"not written since {_moment(fault.at)}: {fault.words}"
        return wrong(name, detail, f"check {folder} and its disk")
    if fault:
        lost = f"{plural(fault.count, 'record')} lost, the last at {_moment(fault.at)}"
        detail = f"written again; {lost}: {fault.words}"
        return well(name, detail, f"remove {fault.path} when you have seen it")
    if not found:
        return well(name, f"none in {folder}: nothing of ctxtop's runs in Claude Code")
    return _parts_check(name, log, found, known)


def _parts_check(name: str, log: Log, found: list[FoundPart], known: Iterable[PartRow]) -> Check:
    size = sum(part.size for part in found)
    last = _moment(max(part.mtime_ns for part in found) // 1_000_000)
    detail = f"{plural(len(found), 'file')}, {size / MEGABYTE:,.1f} MB, last written {last}"
    folder = found[0].path.parent
    if folder.stat().st_mode & 0o077:
        return wrong(name, f"{detail}; others can look into {folder}", f"chmod 700 {folder}")
    exposed = [part.path for part in found if part.path.stat().st_mode & 0o077]
    if exposed:
        return wrong(name, f"{detail}; others can read {exposed[0]}", f"chmod 600 {exposed[0]}")
    done = {(row.name, row.size) for row in known if row.log == log}
    waiting = [
        part for part in found if part.is_rotated and (part.path.name, part.size) not in done
    ]
    if waiting:
        detail += f"; {plural(len(waiting), 'renamed file')} not read yet"
        return well(name, detail, "`ctxtop scan` reads them")
    if size > 2 * KEPT_BYTES:
        return well(name, f"{detail}; more than is kept", "`ctxtop scan` removes what was read")
    return well(name, detail)


def _faults(log: Path) -> _Faults | None:
    """Read the faults of a log's writers."""
    path = Path(fault_path(str(log)))
    texts = [_text(place) for place in (Path(older_faults(str(log))), path)]
    if texts == [None, None]:
        return None
    lines = [line for text in texts for line in (text or "").splitlines() if line.strip()]
    moment, _, words = (lines or [""])[-1].partition(" ")
    is_moment = moment.isdecimal() and len(moment) <= MOMENT_DIGITS
    at = int(moment) if is_moment else 0
    return _Faults(path, max(1, len(lines)), at, clean_title(words))


def _text(path: Path) -> str | None:
    try:
        with open_regular(path) as file:
            return file.read(FAULT_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "seconds")
