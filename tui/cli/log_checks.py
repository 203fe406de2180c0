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
from ...collectors.plugin.log import fault_path
from ...collectors.tail import open_regular
from ...core.store.log_facts import Log
from .checks import Check, plural, well, wrong

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...collectors.own_logs.log_parts import FoundPart
    from ...core.store.log_queries import PartRow

LOW_DISK_BYTES: Final = 256 * 1024 * 1024
"""The store of a heavy user is 100 MB, and its journal may be as much while it is made."""

FAULT_BYTES: Final = 4096
"""A fault is one line."""

MOMENT_DIGITS: Final = 14
"""Milliseconds until the year 5138."""

MEGABYTE: Final = 1_000_000

_NAMES: Final = {
    Log.HOOKS: "hook log",
    Log.STATUS_LINE: "status line",
    Log.PLUGIN: "plugin log",
}


class _Fault(msgspec.Struct, frozen=True):
    path: Path
    at: int
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
    return [_log_check(logs_of(store), log, read) for log in Log]


def _log_check(folder: Path, log: Log, known: Iterable[PartRow]) -> Check:
    name = _NAMES[log]
    try:
        found = find_parts(folder, log)
        fault = _fault(folder / log)
    except OSError as error:
        return wrong(name, f"{folder} cannot be read ({error.strerror})", f"chmod u+rwx {folder}")
    newest_ns = max((part.mtime_ns for part in found), default=0)
    if fault and fault.at * 1_000_000 > newest_ns:
        detail = f"not written since {_moment(fault.at)}: {fault.words}"
        return wrong(name, detail, f"check {folder} and its disk")
    if fault:
        detail = f"written again; a record was lost at {_moment(fault.at)}: {fault.words}"
        return well(name, detail, f"remove {fault.path} when you have seen it")
    if not found:
        return well(name, f"none in {folder}: nothing of ctxtop's runs in Claude Code")
    return _parts_check(name, log, found, known)


def _parts_check(name: str, log: Log, found: list[FoundPart], known: Iterable[PartRow]) -> Check:
    size = sum(part.size for part in found)
    last = _moment(max(part.mtime_ns for part in found) // 1_000_000)
    detail = f"{plural(len(found), 'file')}, {size / MEGABYTE:,.1f} MB, last written {last}"
    exposed = [part.path for part in found if part.path.stat().st_mode & 0o077]
    if exposed:
        return wrong(name, f"{detail}; others can read {exposed[0]}", f"chmod 600 {exposed[0]}")
    done = {(row.name, row.size) for row in known if row.log == log}
    waiting = [part for part in found if part.rotated and (part.path.name, part.size) not in done]
    if waiting:
        detail += f"; {plural(len(waiting), 'renamed file')} not read yet"
        return well(name, detail, "`ctxtop scan` reads them")
    if size > 2 * KEPT_BYTES:
        return well(name, f"{detail}; more than is kept", "`ctxtop scan` removes what was read")
    return well(name, detail)


def _fault(log: Path) -> _Fault | None:
    """Read the newest fault of a log's writers."""
    path = Path(fault_path(str(log)))
    try:
        with open_regular(path) as file:
            text = file.read(FAULT_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    moment, _, words = text.partition(" ")
    is_moment = moment.isdecimal() and len(moment) <= MOMENT_DIGITS
    return _Fault(path, int(moment) if is_moment else 0, clean_title(words))


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "seconds")
