"""From the collector to the screen: one thread writes the store, another reads it for views."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from textual.message import Message

from ...core.store.bulkhead import FAILED, NOT_READ, bulkhead
from ..base import messages
from ..base.messages import FleetView, ViewRequest

if TYPE_CHECKING:
    import sqlite3

    from ...collectors.collector_thread import ScanProgress, StoredChange
    from ...collectors.locations.places import Places
    from ...collectors.locations.policy_files import PolicyFiles
    from ...core.model.agent import Agent
    from ...core.model.problem import Problem
    from ...core.model.session import Session
    from ...core.model.stored_rows import SummaryRow
    from ...core.policy.resolve import Policies
    from ...core.store.writer import Writer


MIN_VIEW_INTERVAL_S: Final = 0.1  # nobody reads faster, and a burst becomes one view

REST_FACTOR: Final = 2.0  # pause after a view, in times of what it took, for the screen's thread
MAX_REST_S: Final = 0.5  # the longest pause, and the longest wait for the previous view to be drawn
POLL_S: Final = 1.0  # between checks of the store's change number: another ctxtop may write to it
MAX_SUMMARIES: Final = 300  # rows of the summaries' pane; the search looks through all
NOT_LIVE: Final = "not live"  # the place of problems whose text names the store
RESTART_FIX: Final = "then restart ctxtop"

FIRST_VIEW_TIMEOUT_S: Final = 1.0
"""How long the first scan waits for the first view of what the store already has: both need the
interpreter, and the user waits for the view."""

STOP_TIMEOUT_S: Final = 2.0  # how long leaving waits for the threads, which end by themselves
SWITCH_INTERVAL_S: Final = 0.001
"""How long a thread keeps the interpreter from one that wants it. The screen's asks for it many
times a key, and Python's 5 ms each time would be noticed."""


class Feed:
    """Keeps the store up to date and posts views of it to the screen."""

    def __init__(
        self, places: Places, post: Callable[[Message], object], clock: Callable[[], int]
    ) -> None:
        self._places: Final = places
        self._post_message: Final = post
        self._clock: Final = clock
        self.may_act: Final = threading.Event()
        """Set once the user knows what ctxtop is: no automatic action runs before."""
        self._stop: Final = threading.Event()
        self._wake: Final = threading.Event()  # there may be something to show
        self._opened: Final = threading.Event()  # the store
        self._shown: Final = threading.Event()  # a first view was posted
        self._received: Final = threading.Event()  # the newest view, by the screen's thread
        self._received.set()
        self._drawn: Final = threading.Event()  # the newest view
        self._lock: Final = threading.Lock()
        self._changed: set[str] | None = set()  # ids of sessions to read again; None for all
        self._request = ViewRequest()
        self._writer: Writer | None = None
        self._policy_files: PolicyFiles | None = None
        self._lag_s: float | None = None
        self._scanned = False
        self._has_hidden_commit = False  # of ours, since the change number was last checked
        self._threads: Final = [
            threading.Thread(target=self._run, args=(work,), name=f"ctxtop {name}", daemon=True)
            for name, work in (("collector", self._collect), ("reader", self._read))
        ]

    def start(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        for event in (self._stop, self._opened, self._shown, self._drawn, self._wake):
            event.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_TIMEOUT_S)

    def request_view(self, request: ViewRequest) -> None:
        with self._lock:
            is_new = request != self._request
            self._request = request
        if is_new:
            self._wake.set()

    def view_received(self) -> None:
        """Note that the screen's thread has the newest view: only then another one is sent.

        A terminal that does not read blocks that thread, and views would pile up in its queue.
        """
        self._received.set()

    def view_drawn(self) -> None:
        """Note that the newest view is on screen; the reader waits for it before the next view."""
        self._drawn.set()

    def _post(self, message: Message) -> None:
        # A thread that waited for a locked store may end after the app.
        if not self._stop.is_set():
            self._post_message(message)

    def _report(self, where: str, what: str, fix: str) -> None:
        from ...core.model.problem import Problem

        self._post(messages.ProblemReported(Problem(where, what, fix)))

    # The collector's listener.

    def on_progress(self, progress: ScanProgress) -> None:
        self._post(messages.ScanProgressed(progress))

    def on_change(self, change: StoredChange) -> None:
        with self._lock:
            if not change.is_shown:
                self._has_hidden_commit = True
                return
            if self._changed is not None:
                self._changed |= change.session_ids
            # The lag of what was written while no ctxtop ran means nothing.
            if self._scanned and change.lag_s is not None:
                self._lag_s = change.lag_s
        self._wake.set()

    def on_scan_finished(self) -> None:
        with self._lock:
            self._scanned = True
        self._wake.set()

    def on_problem(self, problem: Problem) -> None:
        self._post(messages.ProblemReported(problem))

    def on_resolved(self, where: str) -> None:
        self._post(messages.ProblemResolved(where))

    def on_notice(self, notice: Problem) -> None:
        self._post(messages.NoticeReported(notice))

    # The threads.

    def _run(self, work: Callable[[], None]) -> None:
        """Run a thread's work; an error of ours is shown as a problem."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is shown
            from ..base.background_queries import internal_error

            self._post(messages.ProblemReported(internal_error(error)))
        finally:
            self._post(messages.FeedStopped())

    def _collect(self) -> None:
        # All that is heavy to import is imported here, after the first paint.
        import sqlite3

        from ...collectors.locations.places import PlaceError
        from ...collectors.locations.policy_files import PolicyFiles
        from ...collectors.store_update import open_writer, scan_and_watch
        from ...core.model.problem import Problem
        from ...core.store.database import StoreError, explain_error

        try:
            writer, notices = open_writer(self._places)
        except (StoreError, PlaceError) as error:
            self._report(NOT_LIVE, str(error), RESTART_FIX)
            return
        for notice in notices:
            self._post(messages.NoticeReported(Problem("store", notice, "nothing is lost")))
        self._writer = writer
        self._policy_files = files = PolicyFiles(self._places.policy)
        self._opened.set()
        self._shown.wait(FIRST_VIEW_TIMEOUT_S)
        try:
            scan_and_watch(self._places.folder, writer, self, self._stop, files, self.may_act)
        except sqlite3.Error as error:
            what, fix = explain_error(error)
            self._report(str(self._places.store), what, f"{fix}, {RESTART_FIX}")
        finally:
            writer.close()

    def _read(self) -> None:
        import sqlite3

        from ...core.store.database import StoreError, is_caused_by_corruption

        self._opened.wait()
        while not self._stop.is_set():
            try:
                self._read_store()
            except StoreError as error:
                self._report(NOT_LIVE, str(error), RESTART_FIX)
                self._stop.wait(POLL_S)
            except Exception as error:
                # The writer moves a damaged store aside and creates another, which is opened then.
                if is_caused_by_corruption(error, self._places.store) and self._writer is not None:
                    self._writer.report_damage(error)
                elif not isinstance(error, sqlite3.Error):
                    raise
                self._stop.wait(POLL_S)

    def _read_store(self) -> None:
        """Post views until the feed stops or the store's file is replaced."""
        from ...core.store.database import open_reader
        from ...core.store.queries.session_queries import data_version

        with closing(open_reader(self._places.store)) as db:
            self._post(messages.ProblemResolved(NOT_LIVE))
            reader = _ViewReader(db, self._clock())
            with self._lock:
                self._changed = None
            version = -1
            opened = _inode(self._places.store)
            is_owed = True  # a first view, even if nothing has changed
            while not self._stop.is_set() and _inode(self._places.store) == opened:
                is_busy = reader.fleet.unread_count or is_owed
                was_woken = self._wake.wait(0 if is_busy else POLL_S) or is_owed
                self._wake.clear()
                is_owed = was_woken and not self._received.wait(POLL_S)
                if not self._received.is_set():
                    continue
                with self._lock:
                    changed: set[str] | None
                    changed, self._changed = self._changed, set()
                previous, version = version, data_version(db)
                is_foreign = version != previous and not self._take_hidden_commit()
                if changed is None or (not changed and is_foreign):
                    # Another ctxtop has written, and what is not known.
                    changed = None
                elif not was_woken and reader.is_current(self._clock()):
                    continue
                began = time.monotonic()
                with bulkhead("the view of all sessions", FAILED, self._places.store):
                    self._post_view(reader, changed)
                took = time.monotonic() - began
                self._stop.wait(min(max(MIN_VIEW_INTERVAL_S, REST_FACTOR * took), MAX_REST_S))
                self._drawn.wait(MAX_REST_S)

    def _take_hidden_commit(self) -> bool:
        """Return whether a commit of ours changed the store in a way that no view shows."""
        with self._lock:
            is_ours, self._has_hidden_commit = self._has_hidden_commit, False
        return is_ours

    def _post_view(self, reader: _ViewReader, changed: set[str] | None) -> None:
        with self._lock:
            request, lag_s, scanned = self._request, self._lag_s, self._scanned
        now_ms, policies = self._clock(), self.policies
        view = reader.read(changed, request, policies, now_ms=now_ms, lag_s=lag_s, scanned=scanned)
        self._drawn.clear()
        self._received.clear()
        self._post(messages.ViewChanged(view))
        self._shown.set()
        for problem in reader.saves.new_problems():
            self._post(messages.ProblemReported(problem))
        for place in reader.saves.resolved_problems():
            self._post(messages.ProblemResolved(place))
        for session, warning in reader.fleet.new_warnings():
            self._post(messages.LevelReached(session.title, warning))
        # It may take a while on a large store: what is known is shown first.
        prices = policies.common.strings_by_name("price")
        if scanned and reader.limits.learn_percent_sizes(now_ms, prices):
            self._wake.set()

    @property
    def policies(self) -> Policies:
        from ...core.policy.resolve import DEFAULT_POLICIES

        return self._policy_files.policies if self._policy_files else DEFAULT_POLICIES

    def reload_policy(self) -> None:
        """Apply changes in the policy files at the collector's next poll."""
        if self._policy_files is not None:
            self._policy_files.refresh_soon()


def _inode(path: Path) -> int | None:
    """Return the inode, which differs if a file was replaced; None if it cannot be read."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


class _ViewReader:
    """Reads views through one connection; what has not changed is not read again."""

    def __init__(self, db: sqlite3.Connection, now_ms: int) -> None:
        from ...core.readers.fleet_reader import FleetReader
        from ...core.readers.limits_reader import LimitsMonitor
        from ...core.readers.saves_reader import SavesMonitor
        from ...core.store.database import store_path

        self._db: Final = db
        self._store: Final = store_path(db)
        self.fleet: Final = FleetReader(db, now_ms)
        self.saves: Final = SavesMonitor(db)
        self.limits: Final = LimitsMonitor(db)
        self._summaries_key: tuple[object, ...] = ()
        self._summaries: tuple[SummaryRow, ...] = ()
        self._session: Session | None = None
        self._agents: tuple[Agent, ...] = ()

    def is_current(self, now_ms: int) -> bool:
        """Whether nothing has changed by the passing of time alone."""
        from ...core.measure.agent_building import has_new_zombie

        return (
            self.fleet.is_current(now_ms)
            and self.saves.is_current(now_ms)
            and not has_new_zombie(self._agents, now_ms)
        )

    def read(
        self,
        changed: set[str] | None,
        request: ViewRequest,
        policies: Policies,
        *,
        now_ms: int,
        lag_s: float | None,
        scanned: bool,
    ) -> FleetView:
        sizes = self.limits.percent_sizes
        sessions = self.fleet.read(changed, now_ms, policies, sizes)
        view = FleetView(
            sessions=sessions,
            agents=(),
            summaries=(),
            request=request,
            now_ms=now_ms,
            lag_s=lag_s,
            scanned=scanned,
            percent_sizes=sizes,
            unread=self.fleet.unread_count,
        )
        parts: dict[str, Callable[[], object]] = {
            "agents": partial(self._read_agents, sessions, request.session_id, policies, now_ms),
            "summaries": partial(self._read_summaries, sessions, request.search, now_ms),
            "saves": partial(self.saves.read, sessions, now_ms, policies),
            "limits": partial(self.limits.read, now_ms),
        }
        for name, read in parts.items():
            # What fails is shown as empty; the sessions are shown all the same.
            with bulkhead(f"the {name} on the screen", NOT_READ, self._store):
                view = replace(view, **{name: read()})
        return view

    def _read_agents(
        self,
        sessions: tuple[Session, ...],
        session_id: str | None,
        policies: Policies,
        now_ms: int,
    ) -> tuple[Agent, ...]:
        from ...core.measure.agent_building import has_new_zombie
        from ...core.readers.fleet_reader import read_agents

        session = next((each for each in sessions if each.session_id == session_id), None)
        # The fleet's reader creates a session again whenever anything of it may have changed.
        if session is not self._session or has_new_zombie(self._agents, now_ms):
            self._session = session
            only = [session.session_id] if session else []
            found = read_agents(self._db, sessions, now_ms, only, policies) if only else ()
            self._agents = tuple(found)
        return self._agents

    def _read_summaries(
        self, sessions: tuple[Session, ...], search: str, now_ms: int
    ) -> tuple[SummaryRow, ...]:
        from ...core.readers.summary_reader import find_summaries, read_summary_rows
        from ...core.store.queries.session_queries import summaries_fingerprint
        from ...core.summaries.summary_search import SummaryCriteria

        key = (search, summaries_fingerprint(self._db))
        if key != self._summaries_key:
            projects = {each.session_id: each.project for each in sessions}
            criteria = SummaryCriteria(query=search)
            found = find_summaries(self._db, (), criteria, projects, now_ms, MAX_SUMMARIES)
            self._summaries = tuple(read_summary_rows(self._db, (), found.ids))
            self._summaries_key = key
        return self._summaries
