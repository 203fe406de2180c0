"""Keeps the store up to date, with one scan or continuously, and rebuilds a damaged one."""

from __future__ import annotations

import math
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Final

import msgspec

from ..core.model.problem import Problem
from ..core.store import database
from ..core.store.closed_agents import close_agent
from ..core.store.queries.config_queries import project_roots
from ..core.store.writer import OtherFolderError, StoreReplacedError, Writer
from .claude_code.context_text_job import TEXT_BUDGET_S, ContextTextJob
from .collector_thread import Collector, CollectorListener, ScanProgress, StoredChange
from .locations.discover import ClaudeFolder, needs_polling
from .locations.places import PlaceError, Places
from .locations.policy_files import PolicyFiles

if TYPE_CHECKING:
    from watchfiles.main import FileChange

    from ..core.model.agent import Agent


class ScanOutcome(msgspec.Struct):
    problems: list[Problem] = []
    notices: list[str] = []

    def on_progress(self, progress: ScanProgress) -> None: ...

    def on_change(self, change: StoredChange) -> None: ...

    def on_scan_finished(self) -> None: ...

    def on_resolved(self, where: str) -> None: ...

    def on_problem(self, problem: Problem) -> None:
        self.problems.append(problem)

    def on_notice(self, notice: Problem) -> None:
        self.notices.append(str(notice))


def rebuild_store(places: Places, damage: str) -> str:
    """Move a damaged store aside, scan everything again, and describe that in one sentence.

    Raises database.StoreError or PlaceError if the new store cannot be made.
    """
    aside = database.move_aside(places.store)
    if places.exists:
        update_store(places)
    return (
        f"the store {places.store} was damaged ({damage}): it was moved to {aside.name} and rebuilt"
    )


def open_writer(places: Places) -> tuple[Writer, list[str]]:
    """Open the store, with notices of what was moved aside; raises StoreError or PlaceError."""
    writer = Writer(places.store)
    try:
        writer.claim_folder(places.folder.root)
    except OtherFolderError as error:
        writer.close()
        raise PlaceError(
            f"the store {places.store} belongs to {error}: choose another file with --db"
        ) from error
    return writer, [writer.notice] if writer.notice else []


def close_silent_agent(places: Places, agent: Agent, now_ms: int) -> None:
    """Record that a person closed an agent; raises PlaceError or StoreError."""
    try:
        writer, _ = open_writer(places)
        with closing(writer):
            close_agent(writer.connection, agent.session_id, agent.agent_id, now_ms)
    except sqlite3.Error as error:
        what, fix = database.explain_error(error)
        raise database.StoreError(f"store {places.store}: {what}; {fix}") from error


def save_faults(places: Places, faults: Iterable[Problem]) -> None:
    """Store faults that a command met; one that cannot be stored was printed all the same."""
    with suppress(database.StoreError, PlaceError, sqlite3.Error):
        writer, _ = open_writer(places)
        with closing(writer):
            for fault in faults:
                writer.save_problem(fault)


def update_store(
    places: Places, scan: Callable[[Collector], object] = Collector.scan
) -> ScanOutcome:
    """Scan once with a method of the collector; raises PlaceError or StoreError."""
    if not places.exists:
        raise PlaceError(
            f"no Claude Code folder at {places.config_dir}: name it with --config-dir,"
            " or see `ctxtop demo`"
        )
    outcome = ScanOutcome()
    writer, notices = open_writer(places)
    outcome.notices += notices
    # A command's own options change what it shows, not the log that all share.
    files = PolicyFiles(msgspec.structs.replace(places.policy, command_line=()))
    try:
        try:
            collector = Collector(places.folder, writer, outcome, files)
            scan(collector)
            collector.post_scan_jobs.archive(COMMAND_ARCHIVE_S)
            collector.report_faults()
        except Exception as error:
            if not database.is_caused_by_corruption(error, places.store):
                raise
            outcome.notices.append(writer.rebuild())
            writer.claim_folder(places.folder.root)
            scan(Collector(places.folder, writer, outcome, files))
        if places.policy.command_line:
            _count_texts(places, writer)
    except sqlite3.Error as error:
        what, fix = database.explain_error(error)
        raise database.StoreError(f"store {places.store}: {what}; {fix}") from error
    finally:
        writer.close()
    return outcome


def _count_texts(places: Places, writer: Writer) -> None:
    """Count contexts by their text where a command's own options say so: it shows that."""
    files = PolicyFiles(places.policy)
    files.refresh(project_roots(writer.connection))
    ContextTextJob(places.folder, writer, files).run(seconds=TEXT_BUDGET_S)


DEBOUNCE_MS: Final = 200  # the longest that changes are collected while more keep coming
QUIET_MS: Final = 30  # a pause that ends it; the watcher wakes that often
TICK_MS: Final = 500  # without changes the watcher returns this often, for periodic checks
POLL_MS: Final = 300  # between checks of all files where nothing reports changes
RECONCILE_S: Final = 10.0
"""Between two scans of the whole tree: the system reports the first file of a new nested folder
only half of the time (reference: exemplars 3.1)."""

SIDECARS_S: Final = 2.0  # between reads of the registry and the logs
RETRY_S: Final = 2.0  # between two tries while the store is locked or the disk is full
INDEX_AFTER_S: Final = 2.0  # after the first scan, which the user waits for
CALIBRATE_AFTER_S: Final = 10.0  # the same, for what nobody asks for
ARCHIVE_S: Final = 0.1  # of each run in the dashboard; changes of files wait that long
COMMAND_ARCHIVE_S: Final = 0.25  # of a command, which a person waits for; the rest comes next time
LONG_AGO: Final = -math.inf  # before any time of a monotonic clock


def scan_and_watch(
    folder: ClaudeFolder,
    writer: Writer,
    listener: CollectorListener,
    stop: Event,
    policy_files: PolicyFiles | None = None,
    automation_allowed: Event | None = None,
) -> None:
    """Scan, then follow changes until `stop` is set; retry after a passing problem.

    Sessions are compacted and recovered automatically only while `automation_allowed` is set.
    Raises sqlite3.Error if the store stays unusable.
    """
    place = str(writer.path)
    is_waiting = False
    while not stop.is_set():
        try:
            watch = _FolderWatch(
                Collector(folder, writer, listener, policy_files), stop, automation_allowed
            )
            watch.scan()
            watch.run_jobs()
            if is_waiting:
                is_waiting = False
                listener.on_resolved(place)
            writer.reduce_cache()
            watch.run()
        except StoreReplacedError:
            writer.reopen()
            writer.claim_folder(folder.root)
        except Exception as error:
            if database.is_caused_by_corruption(error, writer.path):
                listener.on_notice(Problem("store", writer.rebuild(), "nothing is lost"))
                writer.claim_folder(folder.root)
            elif isinstance(error, sqlite3.Error) and database.is_transient(error):
                what, fix = database.explain_error(error)
                is_waiting = True
                listener.on_problem(Problem(place, what, f"{fix}; ctxtop retries automatically"))
                stop.wait(RETRY_S)
            else:
                raise


class _FolderWatch:
    def __init__(self, collector: Collector, stop: Event, automation_allowed: Event | None) -> None:
        self.collector: Final = collector
        self.folder: Final = collector.folder
        self.stop: Final = stop
        self.automation_allowed: Final = automation_allowed
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
        with self.collector.contain("look at all files"):
            self.collector.scan()
        self.scanned_at = self.sidecars_at = time.monotonic()

    def run_jobs(self) -> None:
        self.collector.post_scan_jobs.count_tokens()
        self.collector.post_scan_jobs.report_compactions()
        self.collector.post_scan_jobs.measure_saves()

    def _run_idle_jobs(self) -> None:
        jobs, age_s = self.collector.post_scan_jobs, time.monotonic() - self.began
        is_indexing = age_s >= INDEX_AFTER_S and jobs.index_turns()
        if age_s < CALIBRATE_AFTER_S or is_indexing:
            return
        if not jobs.archive(ARCHIVE_S):
            jobs.calibrate()

    def _watched_folders(self) -> dict[Path, int]:
        # By inode: a folder that is removed and made again must be watched anew.
        places = (self.folder.projects, self.folder.sessions, self.collector.logs.folder)
        return {path: inode for path in places if (inode := _folder_inode(path)) is not None}

    def _follow(self, places: dict[Path, int]) -> None:
        # The first check finds changes between the scan and the watcher's start.
        self.scanned_at = LONG_AGO
        try:
            for changes in self._changes(places):
                with self.collector.contain("changes of files"):
                    self._index_changes(changes)
                self._run_periodic_checks()
                self.run_jobs()
                if self.automation_allowed is not None and self.automation_allowed.is_set():
                    self.collector.post_scan_jobs.automate()
                self._run_idle_jobs()
                if self._watched_folders() != places:
                    return
        except FileNotFoundError:
            # A folder was removed while the watcher started.
            return
        except (OSError, RuntimeError) as error:
            place = str(self.folder.projects)
            if self.polling:
                what = f"cannot be polled ({error})"
                self.collector.report(Problem(place, what, "ctxtop retries automatically"))
                self.stop.wait(RETRY_S)
                self.scan()
                return
            self.polling = True
            what = f"the system does not report changes ({error})"
            fix = "ctxtop polls instead; raise fs.inotify.max_user_watches to get them at once"
            self.collector.report(Problem(place, what, fix))

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
        unknown: set[Path] = set()  # folders
        for _, name in changes:
            path = Path(name)
            if not path.is_relative_to(self.folder.projects):
                self.sidecars_at = LONG_AGO
            elif self.collector.is_known(self.folder.relative(path)):
                grown.add(path)
            else:
                unknown.add(path.parent if _folder_inode(path) is None else path)
        if grown:
            self.collector.index_paths(grown)
        for path in sorted(unknown):
            is_inside_another = not unknown.isdisjoint(path.parents)
            if not is_inside_another and path.is_relative_to(self.folder.projects):
                self.collector.scan_below(path)

    def _run_periodic_checks(self) -> None:
        self.collector.writer.check_usable()
        self.collector.report_faults()
        with self.collector.contain("unfinished lines"):
            self.collector.index_unterminated()
        now = time.monotonic()
        if now - self.scanned_at >= RECONCILE_S:
            self.scan()
        elif now - self.sidecars_at >= SIDECARS_S:
            self.collector.read_sidecars()
            self.collector.read_config()
            self.sidecars_at = now


def _folder_inode(path: Path) -> int | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino if stat.S_ISDIR(status.st_mode) else None
