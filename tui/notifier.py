"""The notifier: logs what the feed reports, and notifies a person of what matters."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from textual.notifications import SeverityLevel

from ..core.policy.schema import OFF
from . import desktop_notifications, notifications
from .app_base import TOAST_S, AppBase
from .background_queries import WorkerThread
from .desktop_notifications import BellLock
from .messages import FleetView
from .notifications import (
    EventSeverity,
    Notification,
    NotificationKind,
    NotificationSettings,
    SentNotifications,
)
from .screens.log.event_log import EventLog

if TYPE_CHECKING:
    from ..collectors.claude_code.scan_progress import ScanProgress
    from ..core.model.problem import Problem
    from ..core.store.readers.warning_reader import ContextWarning


GROUPING_S: Final = 1.5  # from the first notice to its telling: what comes within is told with it
MAX_REMEMBERED_EVENTS: Final = 2000
"""Events of which is known that they were told; a day of a busy machine has some hundred."""

_SEVERITIES: Final[dict[EventSeverity, SeverityLevel]] = {
    EventSeverity.NOTE: "information",
    EventSeverity.WARNING: "warning",
    EventSeverity.TROUBLE: "error",
}


class Notifier:
    """Belongs to the screen's thread; programs are run in one of its own."""

    def __init__(self, app: AppBase) -> None:
        self._app: Final = app
        self._worker: Final = WorkerThread("ctxtop notices", app)
        self._sent: Final = SentNotifications(MAX_REMEMBERED_EVENTS)
        self._began_ms: Final = app.now_ms()
        self._began: Final = time.monotonic()
        self._waiting: list[Notification] = []
        self._troubles: Final[set[str]] = set()
        self._view: FleetView | None = None
        self._progress: ScanProgress | None = None
        self._bell: Final = BellLock(app.places.store)
        self.event_log: Final = EventLog()

    def stop(self) -> None:
        """End the thread."""
        self._worker.submit(self._bell.release, lambda _: None)
        self._worker.stop()

    # What the feed says.

    def compare_view(self, view: FleetView) -> None:
        """Find what happened since the view before."""
        before, self._view = self._view, view
        if view.scanned and self._progress is not None:
            seconds = time.monotonic() - self._began
            self.event_log.add_scan(self._app.now_ms(), self._progress, seconds)
            self._progress = None
        if before is not None:
            for notice in notifications.find_notifications(before, view, self._began_ms):
                self.notify(notice)

    def note_progress(self, progress: ScanProgress) -> None:
        """Remember how much the first scan reads."""
        if progress.files_total and (self._view is None or not self._view.scanned):
            self._progress = progress

    def log_problem(self, trouble: Problem) -> None:
        """Keep it for the log; the fleet shows it while it lasts."""
        self._troubles.add(trouble.where)
        self.event_log.add_problem(self._app.now_ms(), trouble)

    def log_resolved(self, place: str) -> None:
        """Keep for the log that a trouble is over; of what was no trouble nothing is said."""
        if place in self._troubles:
            self._troubles.remove(place)
            self.event_log.resolve_problem(self._app.now_ms(), place)

    def handle_notice(self, note: Problem) -> None:
        """Notify about a notice of the collector.

        Notices of automatic actions are not added to the event log here.
        """
        from ..core.actions.automation import is_automatic_notice

        automatic = is_automatic_notice(note)
        if not automatic:
            self.event_log.add_notice(self._app.now_ms(), note)
        self.notify(
            notifications.notice_notification(
                note, NotificationKind.AUTOMATIC if automatic else NotificationKind.NOTED
            )
        )

    def notify_level(self, title: str, found: ContextWarning) -> None:
        self.notify(notifications.level_notification(title, found))

    def log_feed_stopped(self) -> None:
        """Keep for the log that nothing is read any more."""
        words = "a thread has ended before its time: nothing new is shown"
        self.event_log.add(self._app.now_ms(), EventSeverity.TROUBLE, "ctxtop", "feed", words)

    def log_end(self, title: str, words: str, *, failed: bool = False) -> None:
        """Log that an action the user started has ended, and notify by bell and desktop.

        Shows no toast: the page has already reported it.
        """
        now_ms, weight = self._app.now_ms(), EventSeverity.WARNING if failed else EventSeverity.NOTE
        self.event_log.add(now_ms, weight, "you", title, words)
        notice = notifications.action_notification(title, words, now_ms, weight)
        self._send_outside(notice, self._settings())

    # Telling.

    def notify(self, notice: Notification) -> None:
        """Queue a notification; those that arrive within GROUPING_S are sent together.

        Drops what the settings exclude and what was sent before.
        """
        if not self._settings().includes(notice) or not self._sent.take_new([notice]):
            return
        self._waiting.append(notice)
        if len(self._waiting) == 1:
            self._app.set_timer(GROUPING_S, self._send_waiting)

    def send_test(self) -> None:
        """Send a test notification that lists the channels it used."""
        wanted, environ = self._settings(), desktop_notifications.terminal_environment()
        how = desktop_notifications.choose_channel(wanted.desktop, environ)
        words = notifications.channels_text(
            wanted, how, desktop_notifications.channel_hint(how, environ)
        )
        if _is_quiet_now(wanted):
            words = f"{words}; bell and desktop are silent now (notify.quiet)"
        test = notifications.test_notification(self._app.now_ms())
        self._send(replace(test, body=f"{test.body}\n{words}"), wanted)

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        wanted = self._settings()
        for notice in notifications.group_notifications(waiting):
            self._send(notice, wanted)

    def _send(self, notice: Notification, wanted: NotificationSettings) -> None:
        if wanted.toast:
            self._app.notify(
                notice.body,
                title=notice.title,
                severity=_SEVERITIES[notice.severity],
                timeout=TOAST_S,
                markup=False,
            )
        self._send_outside(notice, wanted)

    def _send_outside(self, notice: Notification, wanted: NotificationSettings) -> None:
        if _is_quiet_now(wanted) or not (wanted.bell or wanted.desktop != OFF):
            return
        # Of two dashboards on one store one rings.
        self._worker.submit(self._bell.acquire, partial(self._ring, notice, wanted))

    def _ring(self, notice: Notification, wanted: NotificationSettings, is_ours: object) -> None:
        if is_ours is not True:
            return
        if wanted.bell:
            self._app.bell()
        environ = desktop_notifications.terminal_environment()
        way = desktop_notifications.desktop_notification(
            notice, desktop_notifications.choose_channel(wanted.desktop, environ), environ
        )
        if isinstance(way, desktop_notifications.TerminalSequence):
            self._app.write_sequence(way.text)
        elif isinstance(way, desktop_notifications.NotificationProgram):
            program = way
            self._worker.submit(
                lambda: desktop_notifications.run_program(program), self._take_failure
            )

    def _take_failure(self, said: str | Problem) -> None:
        if said:
            self.event_log.add(
                self._app.now_ms(), EventSeverity.WARNING, "notice", "notify.desktop", str(said)
            )

    def _settings(self) -> NotificationSettings:
        return notifications.notification_settings(self._app.feed.policies.common)


def _is_quiet_now(wanted: NotificationSettings) -> bool:
    return wanted.is_quiet(datetime.now().astimezone().time())
