"""Keeps the store current: reads what the system reports, and rescans for what it missed."""

from __future__ import annotations

import math
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

from ...core.model.problem import Problem
from ...core.store.database import explain_error, is_caused_by_corruption, is_transient
from ...core.store.writer import StoreReplacedError, Writer
from ..policy_files import PolicyFiles
from .collector_thread import Collector, CollectorListener
from .discover import ClaudeFolder, needs_polling

if TYPE_CHECKING:
    from watchfiles.main import FileChange


DEBOUNCE_MS: Final = 200  # the longest that changes are gathered while more keep coming
QUIET_MS: Final = 30
"""A pause this long ends the gathering; the watcher wakes that often, also for nothing."""

TICK_MS: Final = 500  # without any change the watcher comes back this often, to look at the clock
POLL_MS: Final = 300
"""Where the system does not tell of changes, every file is looked at this often."""

RECONCILE_S: Final = 10.0
"""Between two looks at the whole tree: of a new nested folder's first file the system
tells only half of the time (reference: exemplars 3.1)."""

SIDECARS_S: Final = 2.0
"""Between two looks at the registry and the logs: a process that dies removes nothing."""

RETRY_S: Final = 2.0  # between two tries while the store is locked or the disk is full
CALIBRATE_AFTER_S: Final = 10.0
"""After the first scan: until then a person looks at the screen for the first time."""


LONG_AGO: Final = -math.inf
"""Earlier than every moment of a clock that begins at the machine's start."""


def scan_and_watch(
    folder: ClaudeFolder,
    writer: Writer,
    listener: CollectorListener,
    stop: Event,
    policy_files: PolicyFiles | None = None,
    automation_allowed: Event | None = None,
) -> None:
    """Scan, then follow changes until `stop` is set; a problem that passes is waited for.

    Sessions are compacted and recovered unasked only while `automation_allowed` is set.

    Raises sqlite3.Error where the store stays unusable.
    """
    place = str(writer.path)
    waiting = False
    while not stop.is_set():
        try:
            watch = _FolderWatch(
                Collector(folder, writer, listener, policy_files), stop, automation_allowed
            )
            watch.scan()
            watch.collector.post_scan_jobs.count_tokens()
            watch.collector.post_scan_jobs.report_compactions()
            watch.collector.post_scan_jobs.measure_saves()
            if waiting:
                waiting = False
                listener.on_resolved(place)
            writer.reduce_cache()
            watch.run()
        except StoreReplacedError:
            writer.reopen()
            writer.claim_folder(folder.root)
        except Exception as error:
            if is_caused_by_corruption(error, writer.path):
                listener.on_notice(Problem("store", writer.rebuild(), "nothing is lost"))
                writer.claim_folder(folder.root)
            elif isinstance(error, sqlite3.Error) and is_transient(error):
                what, remedy = explain_error(error)
                waiting = True
                listener.on_problem(Problem(place, what, f"{remedy}; ctxtop tries again"))
                stop.wait(RETRY_S)
            else:
                raise


class _FolderWatch:
    """One run of watching, which ends when what can be watched changes."""

    def __init__(self, collector: Collector, stop: Event, may_act: Event | None = None) -> None:
        self.collector: Final = collector
        self.folder: Final = collector.folder
        self.stop: Final = stop
        self.automation_allowed: Final = may_act
        self.began: Final = time.monotonic()
        self.polling = needs_polling(self.folder.projects)
        self.scanned_at = LONG_AGO
        self.sidecars_at = LONG_AGO

    def run(self) -> None:
        while not self.stop.is_set():
            places = self._watched_folders()
            if places:
                self._follow(places)
            else:
                self.stop.wait(TICK_MS / 1000)
                self.scan()

    def scan(self) -> None:
        self.collector.scan()
        self.scanned_at = self.sidecars_at = time.monotonic()

    def _watched_folders(self) -> dict[Path, int]:
        """The folders that can be watched, each with its inode: one made again is another."""
        places = (self.folder.projects, self.folder.sessions, self.collector.logs.folder)
        return {path: inode for path in places if (inode := _folder_inode(path)) is not None}

    def _follow(self, places: dict[Path, int]) -> None:
        # The changes between the scan and the watcher's start are found by the first look.
        self.scanned_at = LONG_AGO
        try:
            for changes in self._changes(places):
                self._index_changes(changes)
                self._run_periodic_checks()
                self.collector.post_scan_jobs.count_tokens()
                self.collector.post_scan_jobs.report_compactions()
                self.collector.post_scan_jobs.measure_saves()
                if self.automation_allowed is not None and self.automation_allowed.is_set():
                    self.collector.post_scan_jobs.run_automation()
                if time.monotonic() - self.began >= CALIBRATE_AFTER_S:
                    self.collector.post_scan_jobs.calibrate()
                if self._watched_folders() != places:
                    return
        except FileNotFoundError:
            # A folder went while the watcher started: look again at what there is.
            return
        except (OSError, RuntimeError) as error:
            place = str(self.folder.projects)
            if self.polling:
                what = f"cannot be polled ({error})"
                self.collector.report(Problem(place, what, "ctxtop looks again by itself"))
                self.stop.wait(RETRY_S)
                self.scan()
                return
            self.polling = True
            self.collector.report(
                Problem(
                    place,
                    f"the system does not tell of changes ({error})",
                    "ctxtop polls instead; raise fs.inotify.max_user_watches to have them at once",
                )
            )

    def _changes(self, places: dict[Path, int]) -> Iterator[set[FileChange]]:
        from watchfiles import watch  # takes 60 ms, after the first paint

        return watch(
            *places,
            watch_filter=None,
            debounce=DEBOUNCE_MS,
            step=QUIET_MS,
            stop_event=self.stop,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            # None leaves the choice to watchfiles, which polls on WSL.
            force_polling=True if self.polling else None,
            poll_delay_ms=POLL_MS,
            ignore_permission_denied=True,
        )

    def _index_changes(self, changes: set[FileChange]) -> None:
        grown: set[Path] = set()
        unknown: set[Path] = set()
        for _, name in changes:
            path = Path(name)
            if not path.is_relative_to(self.folder.projects):
                self.sidecars_at = LONG_AGO
            elif self.collector.is_known(self.folder.relative(path)):
                grown.add(path)
            elif _is_folder(path):
                unknown.add(path)
            else:
                unknown.add(path.parent)
        if grown:
            self.collector.index_paths(grown)
        for path in _outermost(unknown):
            if path.is_relative_to(self.folder.projects):
                self.collector.scan_below(path)

    def _run_periodic_checks(self) -> None:
        self.collector.writer.check_usable()
        self.collector.index_unterminated()
        now = time.monotonic()
        if now - self.scanned_at >= RECONCILE_S:
            self.scan()
        elif now - self.sidecars_at >= SIDECARS_S:
            self.collector.read_sidecars()
            self.collector.read_config()
            self.sidecars_at = now


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # Before Python 3.14 a folder that may not be looked at raises.
        return False


def _folder_inode(path: Path) -> int | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino if stat.S_ISDIR(status.st_mode) else None


def _outermost(paths: set[Path]) -> list[Path]:
    """Leave out every folder that another one holds."""
    return [path for path in sorted(paths) if not paths.intersection(path.parents)]
