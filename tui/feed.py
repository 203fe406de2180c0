"""From the collector to the screen: one thread writes the store, another reads it for views."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.message import Message

from .messages import (
    FeedStopped,
    FleetView,
    LevelReached,
    NoticeReported,
    ProblemReported,
    ProblemResolved,
    ScanProgressed,
    ViewChanged,
    ViewRequest,
)

if TYPE_CHECKING:
    import sqlite3

    from ..collectors.claude_code.collector_thread import ScanProgress, StoredChange
    from ..collectors.places import Places
    from ..collectors.policy_files import PolicyFiles
    from ..core.model.agent import Agent
    from ..core.model.problem import Problem
    from ..core.model.session import Session
    from ..core.policy.resolve import Policies
    from ..core.store.queries.query_rows import SummaryRow
    from ..core.store.readers.fleet_reader import FleetReader
    from ..core.store.writer import Writer


MIN_VIEW_INTERVAL_S: Final = 0.1
"""Between two views: nobody reads faster, and a burst becomes one view."""

REST_FACTOR: Final = 2.0
"""Rest after a view, in times of what it took: the screen's thread needs the interpreter too."""

MAX_REST_S: Final = 0.5
"""The longest rest, and the longest that a view waits for the one before to be drawn."""

POLL_S: Final = 1.0
"""Another ctxtop may have written to the store: look at its change number this often."""

MAX_SUMMARIES: Final = 300  # rows of the summaries' pane; the search looks through all
NOT_LIVE: Final = "not live"  # the place of a trouble whose words name the store themselves
RESTART_FIX: Final = "then start ctxtop again"

FIRST_VIEW_TIMEOUT_S: Final = 1.0
"""How long the first scan waits for the first view of what the store already has: both need the
interpreter, and a person waits for the view."""

STOP_TIMEOUT_S: Final = 2.0  # how long leaving waits for the threads, which end by themselves
SWITCH_INTERVAL_S: Final = 0.001
"""How long a thread keeps the interpreter from one that wants it. The screen's asks for it many
times a key, and with Python's 5 ms each time would be seen."""


class Feed:
    """Keeps the store up to date and posts what the screen wants to see of it."""

    def __init__(
        self, places: Places, post: Callable[[Message], object], clock: Callable[[], int]
    ) -> None:
        self._places: Final = places
        self._send: Final = post
        self._clock: Final = clock
        self._stop: Final = threading.Event()
        self._wake: Final = threading.Event()
        self.may_act: Final = threading.Event()
        """Set once a person knows what ctxtop is: nothing acts by itself before."""
        self._opened: Final = threading.Event()
        self._shown: Final = threading.Event()
        self._drawn: Final = threading.Event()
        self._taken: Final = threading.Event()
        self._taken.set()
        self._lock: Final = threading.Lock()
        self._changed: set[str] | None = set()
        self._request = ViewRequest()
        self._writer: Writer | None = None
        self._policy_files: PolicyFiles | None = None
        self._lag_s: float | None = None
        self._scanned = False
        self._threads: Final = [
            threading.Thread(target=self._guard, args=(work,), name=f"ctxtop {name}", daemon=True)
            for name, work in (("collector", self._collect), ("reader", self._read))
        ]

    def start(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._opened.set()
        self._shown.set()
        self._drawn.set()
        self._wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(STOP_TIMEOUT_S)

    def request_view(self, request: ViewRequest) -> None:
        """Set what the next view contains."""
        with self._lock:
            if request == self._request:
                return
            self._request = request
        self._wake.set()

    def view_received(self) -> None:
        """Note that the screen's thread has the newest view: only then another one is sent.

        A terminal that does not read blocks that thread, and views would pile up in its queue.
        """
        self._taken.set()

    def view_drawn(self) -> None:
        """Note that the newest view is on screen; the reader waits for it before the next view."""
        self._drawn.set()

    def _post(self, message: Message) -> None:
        # A thread that waits for a locked store may come back when nobody listens any more.
        if not self._stop.is_set():
            self._send(message)

    # The collector's listener.

    def on_progress(self, progress: ScanProgress) -> None:
        self._post(ScanProgressed(progress))

    def on_change(self, change: StoredChange) -> None:
        with self._lock:
            if self._changed is not None:
                self._changed |= change.session_ids
            # What grew while no ctxtop was open says nothing of how soon this one sees a change.
            if self._scanned and change.lag_s is not None:
                self._lag_s = change.lag_s
        self._wake.set()

    def on_scan_finished(self) -> None:
        with self._lock:
            self._scanned = True
        self._wake.set()

    def on_problem(self, problem: Problem) -> None:
        self._post(ProblemReported(problem))

    def on_resolved(self, where: str) -> None:
        self._post(ProblemResolved(where))

    def on_notice(self, notice: Problem) -> None:
        self._post(NoticeReported(notice))

    def _guard(self, work: Callable[[], None]) -> None:
        """Run a thread's work; a fault of ours is told on the screen, not thrown into it."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is told
            from .background_queries import internal_error

            self._post(ProblemReported(internal_error(error)))
        finally:
            self._post(FeedStopped())

    # The collector's thread.

    def _collect(self) -> None:
        # All that is heavy to import comes here, after the first paint.
        import sqlite3

        from ..collectors.places import PlaceError
        from ..collectors.policy_files import PolicyFiles
        from ..collectors.store_update import open_writer, scan_and_watch
        from ..core.model.problem import Problem
        from ..core.store.database import StoreError, explain_error

        place = str(self._places.store)
        try:
            writer, notices = open_writer(self._places)
        except (StoreError, PlaceError) as error:
            self._post(ProblemReported(Problem(NOT_LIVE, str(error), RESTART_FIX)))
            return
        for notice in notices:
            self._post(NoticeReported(Problem("store", notice, "nothing is lost")))
        self._writer = writer
        self._policy_files = PolicyFiles(self._places.policy)
        self._opened.set()
        self._shown.wait(FIRST_VIEW_TIMEOUT_S)
        try:
            files = self._policy_files
            scan_and_watch(self._places.folder, writer, self, self._stop, files, self.may_act)
        except sqlite3.Error as error:
            what, remedy = explain_error(error)
            self._post(ProblemReported(Problem(place, what, f"{remedy}, {RESTART_FIX}")))
        finally:
            writer.close()

    # The reader's thread.

    def _read(self) -> None:
        import sqlite3

        from ..core.model.problem import Problem
        from ..core.store.database import StoreError, is_caused_by_corruption

        self._opened.wait()
        while not self._stop.is_set():
            try:
                self._read_store()
            except StoreError as error:
                self._post(ProblemReported(Problem(NOT_LIVE, str(error), RESTART_FIX)))
                self._stop.wait(POLL_S)
            except Exception as error:
                # The writer sets a damaged store aside and makes it again; then we open that.
                if is_caused_by_corruption(error, self._places.store) and self._writer is not None:
                    self._writer.report_damage(error)
                elif not isinstance(error, sqlite3.Error):
                    raise
                self._stop.wait(POLL_S)

    def _read_store(self) -> None:
        from ..core.store.database import open_reader
        from ..core.store.queries.session_queries import data_version
        from ..core.store.readers.fleet_reader import FleetReader

        db = open_reader(self._places.store)
        self._post(ProblemResolved(NOT_LIVE))
        try:
            reader = FleetReader(db, self._clock())
            pane = _PaneReader(db)
            self._changed_all()
            version = -1
            opened = _inode(self._places.store)
            owed = True  # a first view, whatever happens
            while not self._stop.is_set() and _inode(self._places.store) == opened:
                poked = self._wake.wait(0 if reader.unread_count or owed else POLL_S) or owed
                self._wake.clear()
                owed = poked and not self._taken.wait(POLL_S)
                if not self._taken.is_set():
                    continue
                changed = self._take_changes()
                before, version = version, data_version(db)
                if not changed and version != before:
                    # Another ctxtop wrote, and did not tell us what.
                    changed = None
                elif (
                    not poked
                    and reader.is_current(self._clock())
                    and pane.is_current(self._clock())
                ):
                    continue
                began = time.monotonic()
                self._publish(reader, pane, changed)
                took = time.monotonic() - began
                self._stop.wait(min(max(MIN_VIEW_INTERVAL_S, REST_FACTOR * took), MAX_REST_S))
                self._drawn.wait(MAX_REST_S)
        finally:
            db.close()

    def _publish(self, reader: FleetReader, pane: _PaneReader, changed: set[str] | None) -> None:
        now_ms = self._clock()
        with self._lock:
            wish, lag_s, scanned = self._request, self._lag_s, self._scanned
        policies = self.policies
        sessions = reader.read(changed, now_ms, policies)
        view = FleetView(
            sessions=sessions,
            agents=pane.agents(sessions, wish.session_id, policies),
            summaries=pane.summaries(sessions, wish.search, now_ms),
            request=wish,
            now_ms=now_ms,
            lag_s=lag_s,
            scanned=scanned,
            saves=pane.saves.read(sessions, now_ms, policies),
            unread=reader.unread_count,
        )
        self._drawn.clear()
        self._taken.clear()
        self._post(ViewChanged(view))
        self._shown.set()
        for trouble in pane.saves.new_problems():
            self._post(ProblemReported(trouble))
        for place in pane.saves.resolved_problems():
            self._post(ProblemResolved(place))
        for session, found in reader.new_warnings():
            self._post(LevelReached(session.title, found))

    @property
    def policies(self) -> Policies:
        """The policies that are in force."""
        from ..core.policy.resolve import DEFAULT_POLICIES

        return self._policy_files.policies if self._policy_files else DEFAULT_POLICIES

    def reload_policy(self) -> None:
        """Apply changes in the policy files at the collector's next poll."""
        if self._policy_files is not None:
            self._policy_files.refresh_soon()

    def _take_changes(self) -> set[str] | None:
        with self._lock:
            changed, self._changed = self._changed, set()
        return changed

    def _changed_all(self) -> None:
        with self._lock:
            self._changed = None


def _inode(path: Path) -> int | None:
    """Return the file's inode, which tells a store from one created later in its place.

    None if it cannot be read.
    """
    try:
        return path.stat().st_ino
    except OSError:
        return None


class _PaneReader:
    """What the lower panes show, read again only when the store has more."""

    def __init__(self, db: sqlite3.Connection) -> None:
        from .screens.memory_saves.saves_monitor import SavesMonitor

        self._db: Final = db
        self.saves: Final = SavesMonitor(db)
        self._key: tuple[object, ...] = ()
        self._rows: tuple[SummaryRow, ...] = ()
        self._session: Session | None = None
        self._agents: tuple[Agent, ...] = ()

    def agents(
        self, sessions: tuple[Session, ...], session_id: str | None, policies: Policies
    ) -> tuple[Agent, ...]:
        from ..core.store.readers.fleet_reader import read_agents

        session = next((each for each in sessions if each.session_id == session_id), None)
        # The fleet's reader makes a session again whenever anything of it may have changed.
        if session is not self._session:
            only = [session.session_id] if session else []
            self._agents = tuple(read_agents(self._db, sessions, only, policies)) if only else ()
            self._session = session
        return self._agents

    def is_current(self, now_ms: int) -> bool:
        """Whether no save's state has changed by the passing of time alone."""
        return self.saves.is_current(now_ms)

    def summaries(
        self, sessions: tuple[Session, ...], search: str, now_ms: int
    ) -> tuple[SummaryRow, ...]:
        from ..core.store.queries.session_queries import summaries_fingerprint
        from ..core.store.readers.summary_reader import find_summaries, read_summary_rows
        from ..core.summaries.summary_search import SummaryCriteria

        key = (search, summaries_fingerprint(self._db))
        if key != self._key:
            projects = {each.session_id: each.project for each in sessions}
            criteria = SummaryCriteria(query=search)
            found = find_summaries(self._db, (), criteria, projects, now_ms, MAX_SUMMARIES)
            self._rows = tuple(read_summary_rows(self._db, (), found.ids))
            self._key = key
        return self._rows
