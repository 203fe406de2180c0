"""Hears what the feed says: keeps it for the log, and tells a person what is worth it."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from ..core.policy.schema import OFF
from . import channels, notices
from .app import TOAST_S
from .happenings import Happenings
from .notices import Kind, Told, Weight
from .one_bell import OneBell
from .worker import Worker

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from ..collectors.folder import Trouble
    from ..collectors.listener import Progress
    from ..core.warning_log import ContextWarning
    from .app import CtxtopApp
    from .notices import Notice, Wanted
    from .view import View

GATHER_S: Final = 1.5
"""From the first notice to its telling: what comes within is told with it."""

REMEMBERED: Final = 2000
"""Events of which is known that they were told; a day of a busy machine has some hundred."""

_SEVERITIES: Final[dict[Weight, SeverityLevel]] = {
    Weight.NOTE: "information",
    Weight.WARNING: "warning",
    Weight.TROUBLE: "error",
}


class Herald:
    """Belongs to the screen's thread; programs are run in one of its own."""

    def __init__(self, app: CtxtopApp) -> None:
        self._app: Final = app
        self._worker: Final = Worker("ctxtop notices", app.post_message)
        self._sent: Final = Told(REMEMBERED)
        self._began_ms: Final = app.now_ms()
        self._began: Final = time.monotonic()
        self._waiting: list[Notice] = []
        self._troubles: Final[set[str]] = set()
        self._view: View | None = None
        self._progress: Progress | None = None
        self._bell: Final = OneBell(app.places.store)
        self.event_log: Final = Happenings()

    def stop(self) -> None:
        """End the thread."""
        self._worker.submit(self._bell.release, lambda _: None)
        self._worker.stop()

    # What the feed says.

    def compare_view(self, view: View) -> None:
        """Find what happened since the view before."""
        before, self._view = self._view, view
        if view.scanned and self._progress is not None:
            seconds = time.monotonic() - self._began
            self.event_log.add_scan(self._app.now_ms(), self._progress, seconds)
            self._progress = None
        if before is not None:
            for notice in notices.between(before, view, self._began_ms):
                self.notify(notice)

    def note_progress(self, progress: Progress) -> None:
        """Remember how much the first scan reads."""
        if progress.files_total and (self._view is None or not self._view.scanned):
            self._progress = progress

    def log_problem(self, trouble: Trouble) -> None:
        """Keep it for the log; the fleet shows it while it lasts."""
        self._troubles.add(trouble.where)
        self.event_log.add_problem(self._app.now_ms(), trouble)

    def log_resolved(self, place: str) -> None:
        """Keep for the log that a trouble is over; of what was no trouble nothing is said."""
        if place in self._troubles:
            self._troubles.remove(place)
            self.event_log.resolve_problem(self._app.now_ms(), place)

    def handle_notice(self, note: Trouble) -> None:
        """Tell what the collector notes: it did something by itself, or set something aside."""
        from ..collectors.automation import is_by_itself

        automatic = is_by_itself(note)
        if not automatic:
            self.event_log.add_notice(self._app.now_ms(), note)
        self.notify(notices.of_note(note, Kind.AUTOMATIC if automatic else Kind.NOTED))

    def notify_level(self, title: str, found: ContextWarning) -> None:
        """Tell that a context reached a level."""
        self.notify(notices.of_level(title, found))

    def log_feed_stopped(self) -> None:
        """Keep for the log that nothing is read any more."""
        words = "a thread has ended before its time: nothing new is shown"
        self.event_log.add(self._app.now_ms(), Weight.TROUBLE, "ctxtop", "feed", words)

    def log_end(self, title: str, words: str, *, failed: bool = False) -> None:
        """Tell outside of the page that something a person began has ended; the page said so."""
        now_ms, weight = self._app.now_ms(), Weight.WARNING if failed else Weight.NOTE
        self.event_log.add(now_ms, weight, "you", title, words)
        notice = notices.of_end(title, words, now_ms, weight)
        self._send_outside(notice, self._settings())

    # Telling.

    def notify(self, notice: Notice) -> None:
        """Tell it with what else comes now, where a person wants it."""
        if not self._settings().includes(notice) or not self._sent.take_new([notice]):
            return
        self._waiting.append(notice)
        if len(self._waiting) == 1:
            self._app.set_timer(GATHER_S, self._send_waiting)

    def send_test(self) -> None:
        """Tell a notice for trying it, and which ways it took."""
        wanted, environ = self._settings(), channels.environment()
        how = channels.choose(wanted.desktop, environ)
        words = notices.ways_in_words(wanted, how, channels.said_of(how, environ))
        if _is_quiet(wanted):
            words = f"{words}; bell and desktop are silent now (notify.quiet)"
        test = notices.of_test(self._app.now_ms())
        self._send(replace(test, body=f"{test.body}\n{words}"), wanted)

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        wanted = self._settings()
        for notice in notices.gather(waiting):
            self._send(notice, wanted)

    def _send(self, notice: Notice, wanted: Wanted) -> None:
        if wanted.toast:
            self._app.notify(
                notice.body,
                title=notice.title,
                severity=_SEVERITIES[notice.severity],
                timeout=TOAST_S,
                markup=False,
            )
        self._send_outside(notice, wanted)

    def _send_outside(self, notice: Notice, wanted: Wanted) -> None:
        if _is_quiet(wanted) or not (wanted.bell or wanted.desktop != OFF):
            return
        # Of two dashboards on one store one rings.
        self._worker.submit(self._bell.acquire, partial(self._ring, notice, wanted))

    def _ring(self, notice: Notice, wanted: Wanted, is_ours: object) -> None:
        if is_ours is not True:
            return
        if wanted.bell:
            self._app.bell()
        environ = channels.environment()
        way = channels.way_of(notice, channels.choose(wanted.desktop, environ), environ)
        if isinstance(way, channels.Sequence):
            self._app.write_sequence(way.text)
        elif isinstance(way, channels.Program):
            program = way
            self._worker.submit(lambda: channels.run(program), self._take_failure)

    def _take_failure(self, said: str | Trouble) -> None:
        if said:
            self.event_log.add(
                self._app.now_ms(), Weight.WARNING, "notice", "notify.desktop", str(said)
            )

    def _settings(self) -> Wanted:
        return notices.wanted_of(self._app.feed.policies.common)


def _is_quiet(wanted: Wanted) -> bool:
    return wanted.is_quiet(datetime.now().astimezone().time())
