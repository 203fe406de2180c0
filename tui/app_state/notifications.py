"""Notifications: found between two views, grouped, and written for terminals and desktops.

Imports no Textual: `ctxtop notify` needs none.
"""

from __future__ import annotations

import html
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ...core.host import find_program
from ...core.model.levels import Level
from ...core.model.session import SILENT_ANSWERS, Session
from ...core.policy.policy import Policy
from ...core.policy.schema import AUTO, OFF
from ...core.policy.value_types import QuietHours, parse_quiet_hours
from ...core.store.bulkhead import FAILED, bulkhead
from ...core.transcript.sanitize import one_line
from ..text.formats import duration, fill_text, percent, shorten, threshold_text, tokens
from ..text.session_text import RESET_HINT, rewrite_amounts, rewrite_size
from ..text.severity import LEVEL_SEVERITIES, EventSeverity

if TYPE_CHECKING:
    from ...core.measure.plan_limits import PlanLimit
    from ...core.saves.project_saves import SavesReport
    from ...core.store.warning_log import ContextWarning
    from ..base.messages import FleetView


MAX_SEPARATE: Final = 2  # of one kind; more at once become one notification with their number
MAX_NAMED_SESSIONS: Final = 3  # in such a notification


class NotificationKind(StrEnum):
    LEVEL = "level"
    WAITING = "waiting"
    COMPACTION = "compaction"
    AGENT = "agent"
    SILENT = "silent"
    COLD = "cold"
    TOO_LONG = "too_long"
    RECOVERED = "recovered"
    LIMIT = "limit"
    SAVE = "save"
    AUTOMATIC = "automatic"
    DONE = "done"
    NOTED = "noted"
    TEST = "test"


_GROUP_TITLES: Final = {
    NotificationKind.LEVEL: "contexts reached a warning level",
    NotificationKind.WAITING: "sessions wait for you",
    NotificationKind.COMPACTION: "contexts were compacted",
    NotificationKind.SILENT: "sessions answer without text since a compaction",
    NotificationKind.COLD: "sessions are about to lose their prompt cache",
    NotificationKind.AGENT: "sessions have noncompliant agents",
    NotificationKind.TOO_LONG: "sessions have a prompt that is too long",
    NotificationKind.RECOVERED: "sessions were recovered",
    NotificationKind.LIMIT: "windows of the plan's limits are nearly used up",
    NotificationKind.SAVE: "memory saves need you",
    NotificationKind.AUTOMATIC: "automatic runs ended",
    NotificationKind.DONE: "jobs finished",
    NotificationKind.NOTED: "events happened",
    NotificationKind.TEST: "tests",
}


@dataclass(frozen=True, slots=True)
class Notification:
    """A message without control characters: a terminal cannot obey it."""

    kind: NotificationKind
    key: str  # names the event, which is sent once
    title: str
    body: str
    severity: EventSeverity = EventSeverity.NOTE
    subject: str = ""  # the session's title, which a group lists
    level: Level | None = None  # the level that was reached


_SWITCHES: Final = {
    NotificationKind.WAITING: "notify.waiting",
    NotificationKind.COMPACTION: "notify.compactions",
    NotificationKind.AGENT: "notify.agents",
}


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    toast: bool
    bell: bool
    desktop: str
    level: Level | None  # the lowest one to report; None for none
    disabled: frozenset[NotificationKind]
    quiet_hours: QuietHours | None

    def includes(self, notification: Notification) -> bool:
        if notification.level is not None:
            rising = list(Level)
            lowest = self.level
            return lowest is not None and rising.index(notification.level) >= rising.index(lowest)
        return notification.kind not in self.disabled

    @property
    def is_quiet_now(self) -> bool:
        """Whether bell and desktop notifications are silenced at this time of day."""
        now = datetime.now().astimezone().time()
        return self.quiet_hours is not None and self.quiet_hours.contains(now)


def notification_settings(policy: Policy) -> NotificationSettings:
    level = policy.text("notify.level")
    return NotificationSettings(
        toast=policy.flag("notify.toast"),
        bell=policy.flag("notify.bell"),
        desktop=policy.text("notify.desktop"),
        level=Level(level) if level in set(Level) else None,
        disabled=frozenset(kind for kind, key in _SWITCHES.items() if not policy.flag(key)),
        quiet_hours=parse_quiet_hours(policy.text("notify.quiet")),
    )


def level_notification(title: str, found: ContextWarning) -> Notification:
    warning = found.warning
    name = f"{'an agent of ' if found.agent_id else ''}{one_line(title)}"
    hint = f"; {RESET_HINT}" if warning.level is Level.OVERFLOW and not found.agent_id else ""
    return Notification(
        NotificationKind.LEVEL,
        f"level {found.log_id}",
        f"{warning.level.value}: {threshold_text(warning)} reached",
        f"{name}\n{fill_text(warning)} is in use{hint}",
        LEVEL_SEVERITIES[warning.level.severity],
        name,
        warning.level,
    )


def find_limit_notifications(
    limits: Sequence[PlanLimit], policy: Policy, now_ms: int
) -> Iterator[Notification]:
    """Find the highest ratio that each window reached; its key is of that window until its reset.

    A window that was reset since its last report notifies of nothing.
    """
    if not limits:
        return
    # Not before the first paint, and not where there are no limits.
    from ...core.measure.plan_limits import SAME_RESET_MS
    from ..text.limits_text import exhaustion_text, long_window_name, reading_text, resets_text

    ratios = policy.ratios("limits.warn")
    for limit in limits:
        reached = [each for each in ratios if limit.used_ratio >= each]
        if not reached or limit.is_stale(now_ms):
            continue
        name = long_window_name(limit.window)
        end = exhaustion_text(limit, now_ms)
        resets = f"resets at {resets_text(limit, now_ms)}" if limit.resets_at else ""
        severity = EventSeverity.PROBLEM if limit.used_ratio >= 1 else EventSeverity.WARNING
        yield Notification(
            NotificationKind.LIMIT,
            f"limit {limit.window} {(limit.resets_at or 0) // SAME_RESET_MS} {reached[-1]}",
            f"{name}: {percent(reached[-1])} reached",
            "\n".join(filter(None, (reading_text(limit, now_ms), resets, end))),
            severity,
            name,
        )


def find_save_notifications(saves: SavesReport | None) -> Iterator[Notification]:
    """Find the saves of claude-memory that a person has to repeat; not those that are old.

    The key names the save and its state: each is notified once (004-77).
    """
    from ...core.saves.save_status import LOST_SAVE_FIXES, NEEDS_ATTENTION, SAVE_AGAIN

    for found in saves.projects if saves else ():
        status = found.status
        if status.state not in NEEDS_ATTENTION or not found.is_fresh:
            continue
        is_lost, name = status.state in LOST_SAVE_FIXES, one_line(found.name)
        if found.is_deferred and not is_lost:
            continue  # as the person wants it
        todo = LOST_SAVE_FIXES.get(status.state, SAVE_AGAIN)
        yield Notification(
            NotificationKind.SAVE,
            f"save {found.project} {status.state} {status.since_ms}",
            f"memory save {'lost' if is_lost else status.state_text}",
            one_line(f"{name}: {status.reason}; {todo}"),
            EventSeverity.PROBLEM if is_lost else EventSeverity.WARNING,
            name,
        )


def test_notification(now_ms: int) -> Notification:
    """Create a notification to try the channels; `now_ms` (since 1970) makes its key unique."""
    return Notification(
        NotificationKind.TEST, f"test {now_ms}", "a test", "this is a test notification"
    )


def channels_text(settings: NotificationSettings, desktop: str, hint: str) -> str:
    """List the channels in use; `hint` is the condition under which `desktop` works."""
    channels = [name for name in ("toast", "bell") if getattr(settings, name)]
    if desktop != OFF:
        channels.append(f"{desktop} ({hint})" if hint else desktop)
    if not channels:
        return "all notifications are off: see notify.toast, notify.bell and notify.desktop"
    return f"notified by {', '.join(channels)}"


def find_notifications(
    before: FleetView, after: FleetView, since_ms: int
) -> Iterator[Notification]:
    """Find what happened between two views, both after the first scan.

    A session that is new in `after` counts if it was active since `since_ms` (since 1970).
    """
    if not before.scanned or after.sessions is before.sessions:
        return
    known = {each.session_id: each for each in before.sessions}
    for session in after.sessions:
        earlier = known.get(session.session_id)
        is_new = earlier is None and (session.last_activity_at or 0) >= since_ms
        if is_new or (earlier is not None and earlier is not session):
            with bulkhead(f"notifications of session {session.session_id}", FAILED):
                yield from list(_session_notifications(earlier, session))


def _session_notifications(before: Session | None, now: Session) -> Iterator[Notification]:
    def about(
        kind: NotificationKind,
        event: object,
        title: str,
        detail: str,
        severity: EventSeverity = EventSeverity.WARNING,
    ) -> Notification:
        name = one_line(now.title)
        key, body = f"{kind} {now.session_id} {event}", f"{name}\n{detail}".rstrip()
        return Notification(kind, key, title, body, severity, name)

    active_at = now.last_activity_at
    if now.is_waiting and not (before and before.is_waiting):
        what = one_line(now.activity.what) if now.activity else ""
        yield about(NotificationKind.WAITING, active_at, "waits for you", what)
    if now.too_long and (before is None or before.too_long is None):
        how = f"r recovers it, or `ctxtop recover {now.session_id[:8]}`"
        title, severity = "the prompt is too long", EventSeverity.PROBLEM
        yield about(NotificationKind.TOO_LONG, active_at, title, how, severity)
    if before is None:
        return
    if now.recovered_in and before.too_long:
        how = f"continue in the fork: claude --resume {now.recovered_in}"
        kind, severity = NotificationKind.RECOVERED, EventSeverity.NOTE
        yield about(kind, now.recovered_in, "the session was recovered", how, severity)
    if now.compactions > before.compactions:
        sizes = f"{tokens(before.context.tokens)} → {tokens(now.context.tokens)} tokens"
        kind, severity = NotificationKind.COMPACTION, EventSeverity.NOTE
        yield about(kind, now.compactions, "compacted", sizes, severity)
    if now.is_silent and not before.is_silent:
        text = f"{SILENT_ANSWERS} answers in a row had neither text nor a tool call"
        yield about(NotificationKind.SILENT, now.compactions, "silent since its compaction", text)
    failed = now.agents_noncompliant or 0
    more = failed - (before.agents_noncompliant or 0)
    if more > 0:
        count = "an agent" if more == 1 else f"{more} agents"
        text = f"{count} returned a noncompliant result"
        yield about(NotificationKind.AGENT, failed, "noncompliant result", text)


def find_cold_notifications(
    sessions: Iterable[Session], now_ms: int
) -> tuple[list[Notification], int | None]:
    """Find the sessions that go cold now, and when (ms since 1970) the next one does.

    The key names the last answer: each cache is notified once, however often it is found.
    """
    due, next_at = [], None
    for session in sessions:
        notice_at, expires_at = session.cold_notice_at, session.cache.expires_at
        if notice_at is None or expires_at is None or expires_at <= now_ms:
            continue
        if notice_at <= now_ms:
            with bulkhead(f"notifications of session {session.session_id}", FAILED):
                due.append(_cold_notification(session, now_ms))
        elif next_at is None or notice_at < next_at:
            next_at = notice_at
    return due, next_at


def _cold_notification(session: Session, now_ms: int) -> Notification:
    name, prompt = one_line(session.title), session.cold_prompt(now_ms)
    what = ", ".join((f"{rewrite_size(prompt)} tokens", *rewrite_amounts(session, prompt)[:1]))
    left = duration((prompt.seconds_left or 0) * 1000)
    text = f"after that your next prompt rewrites {what}: {WAYS_OUT}"
    return Notification(
        NotificationKind.COLD,
        f"{NotificationKind.COLD} {session.session_id} {session.cache.used_at}",
        f"prompt cache expires in {left}",
        f"{name}\n{text}",
        EventSeverity.WARNING,
        name,
    )


WAYS_OUT: Final = "compact now while it is cheap, or start a new session later with a hand-off"


def group_notifications(notifications: Sequence[Notification]) -> list[Notification]:
    """Replace many of one kind by one; keeps the order of the kinds."""
    by_kind: dict[NotificationKind, list[Notification]] = {}
    for each in notifications:
        by_kind.setdefault(each.kind, []).append(each)
    grouped: list[Notification] = []
    for kind, same in by_kind.items():
        grouped += same if len(same) <= MAX_SEPARATE else [_group(kind, same)]
    return grouped


def _group(kind: NotificationKind, same: list[Notification]) -> Notification:
    subjects = list(dict.fromkeys(each.subject or each.title for each in same))
    more = len(subjects) - MAX_NAMED_SESSIONS
    body = ", ".join(subjects[:MAX_NAMED_SESSIONS]) + (f" and {more} more" if more > 0 else "")
    severity = max(each.severity for each in same)
    key = " ".join(each.key for each in same)
    return Notification(kind, key, f"{len(same)} {_GROUP_TITLES[kind]}", body, severity)


TITLE_CELLS: Final = 60
BODY_CELLS: Final = 200  # a notification shows no more
PROGRAM_TIMEOUT_S: Final = 5.0  # longer means no session bus, or that nobody listens
TMUX_PASSTHROUGH_HINT: Final = "tmux needs `set -g allow-passthrough on` to pass it on"

_ESC: Final = "\x1b"
_ST: Final = f"{_ESC}\\"
_BEL: Final = "\x07"

_OSC9_TERMINALS: Final = frozenset({"iTerm.app", "WezTerm", "ghostty"})
"""TERM_PROGRAM of terminals that show OSC 9 (their own documentation)."""

_APPLE_SCRIPT: Final = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
"""The text is passed as arguments, so that none of it is run as a script."""


def choose_channel(setting: str, environ: Mapping[str, str], platform: str = sys.platform) -> str:
    """Return the channel of a `notify.desktop`; for `auto` what this terminal shows, or OFF."""
    if setting != AUTO:
        return setting
    if "KITTY_WINDOW_ID" in environ or environ.get("TERM") == "xterm-kitty":
        return "osc99"
    if environ.get("TERM_PROGRAM") in _OSC9_TERMINALS or environ.get("LC_TERMINAL") == "iTerm2":
        return "osc9"
    if environ.get("TERM", "").startswith(("foot", "rxvt-unicode")):
        return "osc777"
    if "SSH_CONNECTION" in environ:
        # A program would notify the user of the other machine.
        return OFF
    if platform == "darwin":
        return "osascript"
    has_screen = any(each in environ for each in ("DISPLAY", "WAYLAND_DISPLAY"))
    return "notify-send" if has_screen and find_program("notify-send") else OFF


def desktop_notification(
    notification: Notification, channel: str, environ: Mapping[str, str]
) -> str | tuple[str, ...] | None:
    """Return an escape sequence for the terminal or a program's arguments; None for OFF."""
    title = _safe_text(f"ctxtop: {notification.title}", TITLE_CELLS)
    body = _safe_text(notification.body, BODY_CELLS)
    sequences = {
        "osc9": f"{_ESC}]9;{title}: {body}{_BEL}",
        "osc777": f"{_ESC}]777;notify;{title};{body}{_ST}",
        "osc99": f"{_ESC}]99;i=ctxtop:d=0;{title}{_ST}{_ESC}]99;i=ctxtop:p=body;{body}{_ST}",
    }
    if (sequence := sequences.get(channel)) is not None:
        escaped = sequence.replace(_ESC, _ESC * 2)
        return f"{_ESC}Ptmux;{escaped}{_ST}" if "TMUX" in environ else sequence
    if channel == "notify-send":
        urgency = ("low", "normal", "critical")[notification.severity]
        # Most notification servers read the body as markup.
        body = html.escape(body, quote=False)
        return ("notify-send", "--app-name=ctxtop", f"--urgency={urgency}", "--", title, body)
    if channel == "osascript":
        script = [part for line in _APPLE_SCRIPT for part in ("-e", line)]
        return ("osascript", *script, "--", title, body)
    return None


def run_program(arguments: Sequence[str]) -> str:
    """Run a program without a shell; returns an error message, empty if it succeeded."""
    name = arguments[0]
    path = find_program(name)
    if path is None:
        return f"{name} is not installed: choose another notify.desktop"
    try:
        ended = subprocess.run(  # noqa: S603 -- a list of words, no shell
            [path, *arguments[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROGRAM_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {PROGRAM_TIMEOUT_S:.0f} s: choose another notify.desktop"
    except OSError as error:
        return f"{name} cannot be run ({error.strerror}): choose another notify.desktop"
    if ended.returncode:
        return f"{name} ended with code {ended.returncode}: is a desktop running?"
    return ""


def channel_hint(channel: str, environ: Mapping[str, str]) -> str:
    """Return what the user needs to know about a channel; empty if there is nothing."""
    return TMUX_PASSTHROUGH_HINT if channel.startswith("osc") and "TMUX" in environ else ""


def terminal_environment() -> Mapping[str, str]:
    return os.environ


def _safe_text(text: str, cells: int) -> str:
    # A semicolon would begin the next field of a sequence; one_line removes control characters.
    return shorten(one_line(text).replace(";", ","), cells)
