"""The notifier: logs what the feed reports, and notifies by toast, bell and desktop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...core.files.file_operations import LockHeldError, file_lock
from ...core.policy.schema import OFF
from ...core.store.bulkhead import FAILED, bulkhead
from ...core.transcript.sanitize import one_line
from ..app_state import notifications
from ..base.background_queries import WorkerThread
from ..text.severity import EventSeverity
from .notifications import Notification, NotificationKind, NotificationSettings
from .toasts import EVENT_SEVERITIES, Notice

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel
    from textual.timer import Timer

    from ...collectors.collector_thread import ScanProgress
    from ...core.model.problem import Problem
    from ...core.store.warning_log import ContextWarning
    from ..base.messages import FleetView
    from .dashboard import Dashboard


GROUPING_S: Final = 1.5  # notifications that arrive this soon after the first are sent together
MAX_COLD_WAIT_S: Final = 30.0  # timers stand still while the computer sleeps
MAX_REMEMBERED_EVENTS: Final = 2000  # that were sent; a busy machine has some hundred a day

_TOAST_SEVERITIES: Final[dict[EventSeverity, SeverityLevel]] = {
    event: toast for toast, event in EVENT_SEVERITIES.items()
}

_KEPT_KINDS: Final = frozenset(
    {
        NotificationKind.LEVEL, NotificationKind.COMPACTION, NotificationKind.TOO_LONG,
        NotificationKind.RECOVERED, NotificationKind.SAVE, NotificationKind.AUTOMATIC,
        NotificationKind.NOTED,
    }
)  # fmt: skip
"""Kinds of which the log has the event itself, from the store or from `handle_notice`."""


class Notifier:
    """Belongs to the screen's thread; runs programs in a thread of its own."""

    def __init__(self, app: Dashboard, write_sequence: Callable[[str], None]) -> None:
        """`write_sequence` sends an escape sequence to the terminal."""
        self._app: Final = app
        self._write_sequence: Final = write_sequence
        self._worker: Final = WorkerThread("ctxtop notices", app)
        self._sent: Final[deque[str]] = deque(maxlen=MAX_REMEMBERED_EVENTS)  # keys of notifications
        self._began_ms: Final = app.now_ms()
        self._began: Final = time.monotonic()
        self._waiting: list[Notification] = []
        self._cold_timer: Timer | None = None
        self._problem_places: Final[set[str]] = set()
        self._view: FleetView | None = None
        self._progress: ScanProgress | None = None
        self._bell: Final = BellLock(app.places.store)

    def stop(self) -> None:
        self._worker.submit(self._bell.release, lambda _: None)
        self._worker.stop()

    # What the feed reports.

    def compare_view(self, view: FleetView) -> None:
        before, self._view = self._view, view
        if view.scanned and self._progress is not None:
            megabytes, seconds = self._progress.bytes_read / 1e6, time.monotonic() - self._began
            read = f"read, {megabytes:,.1f} MB in {seconds:.1f} s"
            self._log(EventSeverity.NOTE, "scan", f"{self._progress.files_total:,} files", read)
            self._progress = None
        policy = self._app.feed.policies.common
        for each in notifications.find_limit_notifications(view.limits, policy, view.now_ms):
            self.notify(each)
        for each in notifications.find_save_notifications(view.saves if view.scanned else None):
            self.notify(each)
        if before is not None:
            for each in notifications.find_notifications(before, view, self._began_ms):
                self.notify(each)
        self._notify_cold()

    def _notify_cold(self) -> None:
        """Notify which caches are about to expire, and look again when the next one is.

        Time passes without a new view: the timer's only work is this.
        """
        if self._cold_timer is not None:
            self._cold_timer.stop()
            self._cold_timer = None
        if self._view is None or not self._view.scanned:
            return
        now_ms = self._app.now_ms()
        due, next_at = notifications.find_cold_notifications(self._view.sessions, now_ms)
        for each in due:
            self.notify(each)
        if next_at is not None:
            wait_s = min((next_at - now_ms) / 1000, MAX_COLD_WAIT_S)
            self._cold_timer = self._app.set_timer(wait_s, self._notify_cold_again)

    def _notify_cold_again(self) -> None:
        with bulkhead("notifications", FAILED):
            self._notify_cold()

    def note_progress(self, progress: ScanProgress) -> None:
        if progress.files_total and (self._view is None or not self._view.scanned):
            self._progress = progress

    def log_problem(self, problem: Problem) -> None:
        """Log a problem; the fleet shows it until it is resolved."""
        self._problem_places.add(problem.where)
        self._log(EventSeverity.PROBLEM, "problem", problem.where, problem.what, problem.detail)

    def log_resolved(self, place: str) -> None:
        if place in self._problem_places:
            self._problem_places.remove(place)
            self._log(EventSeverity.NOTE, "problem", place, "resolved")

    def handle_notice(self, notice: Problem) -> None:
        """Notify about a notice; those of automatic actions are not logged here."""
        from ...core.actions.automation import is_automatic_notice

        kind = NotificationKind.AUTOMATIC
        if not is_automatic_notice(notice):
            kind = NotificationKind.NOTED
            self._log(EventSeverity.NOTE, "noted", notice.where, notice.what, notice.fix)
        # The title names the place, so that the text need not; of a transcript, its session.
        session = self._app.find_session(Path(notice.where).stem)
        place = one_line(session.title if session else notice.where)
        text = one_line(f"{notice.what}; {notice.fix}")
        self.notify(Notification(kind, one_line(str(notice)), place, text, subject=place))

    def notify_level(self, title: str, found: ContextWarning) -> None:
        self.notify(notifications.level_notification(title, found))

    def log_feed_stopped(self) -> None:
        text = "a background thread ended: the screen no longer updates"
        self._log(EventSeverity.PROBLEM, "ctxtop", "feed", text)

    def log_end(self, title: str, text: str, *, failed: bool) -> None:
        """Log the end of an action, and notify by bell and desktop; the page has shown a toast."""
        severity = EventSeverity.WARNING if failed else EventSeverity.NOTE
        self._log(severity, "you", title, text)
        name, key = one_line(title), f"end {self._app.now_ms()} {one_line(title)}"
        self._send_outside(
            Notification(NotificationKind.DONE, key, name, one_line(text), severity, name),
            self._settings(),
        )

    def _log(
        self, severity: EventSeverity, source: str, where: str, text: str, detail: str = ""
    ) -> None:
        self._app.event_log.add(self._app.now_ms(), severity, source, where, text, detail)

    # Sending.

    def notify(self, notification: Notification) -> None:
        """Send a new notification if it is wanted; those within GROUPING_S are sent together."""
        if not self._settings().includes(notification) or self._was_sent(notification):
            return
        self._sent.append(notification.key)
        self._waiting.append(notification)
        if len(self._waiting) == 1:
            self._app.set_timer(GROUPING_S, self._send_waiting)

    def _was_sent(self, notification: Notification) -> bool:
        """Whether it was sent, or another one about the same recovery: both name the fork."""
        key, recovered = notification.key, f"{NotificationKind.RECOVERED} "
        if notification.kind is NotificationKind.RECOVERED:
            fork_id = key.rpartition(" ")[2]
            return any(fork_id in each for each in self._sent)
        if notification.kind is NotificationKind.AUTOMATIC:
            told = (each.rpartition(" ")[2] for each in self._sent if each.startswith(recovered))
            return key in self._sent or any(fork_id in key for fork_id in told)
        return key in self._sent

    def send_test(self) -> None:
        """Send a test notification that lists the channels it used."""
        settings, environ = self._settings(), notifications.terminal_environment()
        channel = notifications.choose_channel(settings.desktop, environ)
        text = notifications.channels_text(
            settings, channel, notifications.channel_hint(channel, environ)
        )
        if settings.is_quiet_now:
            text = f"{text}; bell and desktop are muted now (notify.quiet)"
        test = notifications.test_notification(self._app.now_ms())
        self._send(replace(test, body=f"{test.body}\n{text}"), settings)

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        with bulkhead("notifications", FAILED):
            groups, settings = notifications.group_notifications(waiting), self._settings()
            if settings.toast:
                self._show(groups)
            for each in groups:
                self._send_outside(each, settings)

    def _send(self, notification: Notification, settings: NotificationSettings) -> None:
        if settings.toast:
            self._show([notification])
        self._send_outside(notification, settings)

    def _show(self, together: list[Notification]) -> None:
        self._app.tell(*map(_to_notice, together))

    def _send_outside(self, notification: Notification, settings: NotificationSettings) -> None:
        if not settings.is_quiet_now and (settings.bell or settings.desktop != OFF):
            # If two dashboards show one store, only one of them rings.
            self._worker.submit(self._bell.acquire, partial(self._ring, notification, settings))

    def _ring(
        self, notification: Notification, settings: NotificationSettings, is_ours: object
    ) -> None:
        if is_ours is not True:
            return
        if settings.bell:
            self._app.bell()
        environ = notifications.terminal_environment()
        channel = notifications.choose_channel(settings.desktop, environ)
        desktop = notifications.desktop_notification(notification, channel, environ)
        if isinstance(desktop, str):
            self._write_sequence(desktop)
        elif desktop is not None:
            self._worker.submit(partial(notifications.run_program, desktop), self._log_failure)

    def _log_failure(self, error: str | Problem) -> None:
        if error:
            self._log(EventSeverity.WARNING, "notice", "notify.desktop", str(error))

    def _settings(self) -> NotificationSettings:
        return notifications.notification_settings(self._app.feed.policies.common)


def _to_notice(notification: Notification) -> Notice:
    kind, severity = notification.kind, _TOAST_SEVERITIES[notification.severity]
    source = None if kind in _KEPT_KINDS else kind.value.replace("_", " ")
    return Notice(notification.body, notification.title, severity, source)


class BellLock:
    """Belongs to one thread."""

    def __init__(self, store: Path) -> None:
        self._path: Final = store.with_name(f"{store.name}.bell")
        self._held: Final = ExitStack()
        self._is_held = False

    def acquire(self) -> bool:
        """Try to become the one process that rings; also True if locks are unavailable."""
        if self._is_held:
            return True
        try:
            self._held.enter_context(file_lock(self._path))
        except LockHeldError:
            return False
        except OSError:
            return True
        self._is_held = True
        return True

    def release(self) -> None:
        self._held.close()
        self._is_held = False
