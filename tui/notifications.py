"""What a person is notified of: found between two views, grouped, filtered by the policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import time
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Final

from ..core.measure.activity import ActivityKind
from ..core.measure.levels import Level, ThresholdBase
from ..core.model.session import Session, SessionStatus
from ..core.policy.policy import Policy
from ..core.policy.schema import OFF
from ..core.policy.value_types import QuietHours, parse_quiet_hours
from ..core.transcript.sanitize import one_line
from .text.formats import percent, tokens

if TYPE_CHECKING:
    from ..core.model.problem import Problem
    from ..core.store.readers.warning_reader import ContextWarning
    from .messages import FleetView


MAX_SEPARATE: Final = 2
"""Notices of a kind that are told one by one; more at once are one notice with their number."""

MAX_NAMED_SESSIONS: Final = 3  # sessions that such a notice names


class EventSeverity(IntEnum):
    """How much something matters, rising."""

    NOTE = 0
    WARNING = 1
    TROUBLE = 2


class NotificationKind(StrEnum):
    """What happened; a person can switch each off."""

    LEVEL = "level"
    WAITING = "waiting"
    COMPACTION = "compaction"
    AGENT = "agent"
    TOO_LONG = "too_long"
    AUTOMATIC = "automatic"
    DONE = "done"
    NOTED = "noted"
    TEST = "test"


_GROUP_TITLES: Final = {
    NotificationKind.LEVEL: "contexts reached a level",
    NotificationKind.WAITING: "sessions wait for you",
    NotificationKind.COMPACTION: "contexts were compacted",
    NotificationKind.AGENT: "sessions have agents that broke their rule",
    NotificationKind.TOO_LONG: "sessions ended in a prompt that is too long",
    NotificationKind.AUTOMATIC: "automatic runs have ended",
    NotificationKind.DONE: "jobs are done",
    NotificationKind.NOTED: "things happened",
    NotificationKind.TEST: "tests",
}

LEVEL_SEVERITIES: Final = {
    Level.NOTICE: EventSeverity.NOTE,
    Level.WARNING: EventSeverity.WARNING,
    Level.HIGH: EventSeverity.WARNING,
    Level.EMERGENCY: EventSeverity.TROUBLE,
    Level.OVERFLOW: EventSeverity.TROUBLE,
}
"""How much a level matters, by what its colour shows."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One thing to tell; its words hold nothing that a terminal could obey."""

    kind: NotificationKind
    key: str  # the event: it is told once
    title: str
    body: str
    severity: EventSeverity = EventSeverity.NOTE
    subject: str = ""  # whose it is, where several are told as one
    level: Level | None = None  # the one that was reached


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """What a person wants to be told of, and how."""

    toast: bool
    bell: bool
    desktop: str
    level: Level | None  # the lowest one; None for none
    waiting: bool
    compactions: bool
    agents: bool
    quiet_hours: QuietHours | None

    def includes(self, notice: Notification) -> bool:
        """Whether these settings ask for the notification."""
        if notice.level is not None:
            return self.level is not None and not _is_lower_level(notice.level, self.level)
        switches = {
            NotificationKind.WAITING: self.waiting,
            NotificationKind.COMPACTION: self.compactions,
            NotificationKind.AGENT: self.agents,
        }
        return switches.get(notice.kind, True)

    def is_quiet(self, now: time) -> bool:
        """Whether bell and desktop notifications are silenced at this time of day."""
        return self.quiet_hours is not None and self.quiet_hours.contains(now)


def notification_settings(policy: Policy) -> NotificationSettings:
    """Read what a policy says of notices."""
    level = policy.text("notify.level")
    return NotificationSettings(
        toast=policy.flag("notify.toast"),
        bell=policy.flag("notify.bell"),
        desktop=policy.text("notify.desktop"),
        level=Level(level) if level in set(Level) else None,
        waiting=policy.flag("notify.waiting"),
        compactions=policy.flag("notify.compactions"),
        agents=policy.flag("notify.agents"),
        quiet_hours=parse_quiet_hours(policy.text("notify.quiet")),
    )


def _is_lower_level(level: Level, than: Level) -> bool:
    rising = list(Level)
    return rising.index(level) < rising.index(than)


def level_notification(title: str, found: ContextWarning) -> Notification:
    warning = found.warning
    in_use = warning.point.tokens or 0
    whose = "an agent of " if found.agent_id else ""
    reached = percent(warning.threshold)
    if warning.placed_threshold.of is ThresholdBase.TOKENS and warning.ratio:
        reached = f"{tokens(round(warning.threshold / warning.ratio * in_use))} tokens"
    name = f"{whose}{one_line(title)}"
    return Notification(
        NotificationKind.LEVEL,
        f"level {found.log_id}",
        f"{warning.level.value}: {reached} reached",
        f"{name}\n{percent(warning.ratio)} of the window is in use",
        LEVEL_SEVERITIES[warning.level.severity],
        name,
        warning.level,
    )


def notice_notification(problem: Problem, kind: NotificationKind) -> Notification:
    words = one_line(str(problem))
    return Notification(
        kind, words, one_line(problem.where), words, subject=one_line(problem.where)
    )


def action_notification(
    title: str, words: str, now_ms: int, severity: EventSeverity
) -> Notification:
    """Create the notification that an action the user started has ended.

    `now_ms` (since 1970) makes its key unique.
    """
    name, said = one_line(title), one_line(words)
    return Notification(NotificationKind.DONE, f"end {now_ms} {name}", name, said, severity, name)


def test_notification(now_ms: int) -> Notification:
    """Make one for trying the ways; `now_ms` (since 1970) makes it another each time."""
    return Notification(
        NotificationKind.TEST, f"test {now_ms}", "a test", "this is how ctxtop tells you of things"
    )


def channels_text(settings: NotificationSettings, desktop: str, hint: str) -> str:
    """List the channels a notification is sent to.

    `desktop` is the channel that was chosen, `hint` the condition under which it works.
    """
    ways = [name for name, is_on in (("toast", settings.toast), ("bell", settings.bell)) if is_on]
    if desktop != OFF:
        ways.append(f"{desktop} ({hint})" if hint else desktop)
    if not ways:
        return "every way is off: see notify.toast, notify.bell and notify.desktop"
    return f"told by {', '.join(ways)}"


def find_notifications(
    before: FleetView, after: FleetView, since_ms: int
) -> Iterator[Notification]:
    """Find what happened between two views; what is older than `since_ms` is not new.

    Times are milliseconds since 1970. Nothing is found before the first scan is over.
    """
    if not before.scanned or after.sessions is before.sessions:
        return
    known = {each.session_id: each for each in before.sessions}
    for session in after.sessions:
        earlier = known.get(session.session_id)
        if earlier is not session:
            yield from _session_notifications(earlier, session, since_ms)


def _session_notifications(
    before: Session | None, now: Session, since_ms: int
) -> Iterator[Notification]:
    if before is None and (now.last_activity_at or 0) < since_ms:
        return
    name, started = one_line(now.title), now.session_id[:8]
    if _is_waiting(now) and not (before and _is_waiting(before)):
        what = f"\n{one_line(now.activity.what)}" if now.activity and now.activity.what else ""
        key = f"waiting {now.session_id} {now.last_activity_at}"
        yield Notification(
            NotificationKind.WAITING,
            key,
            "waits for you",
            f"{name}{what}",
            EventSeverity.WARNING,
            name,
        )
    if now.too_long and (before is None or before.too_long is None):
        key = f"too long {now.session_id} {now.last_activity_at}"
        words = f"{name}\nr recovers it, or `ctxtop recover {started}`"
        yield Notification(
            NotificationKind.TOO_LONG,
            key,
            "the prompt is too long",
            words,
            EventSeverity.TROUBLE,
            name,
        )
    if before is None:
        return
    if now.compactions > before.compactions:
        left = now.context.tokens
        words = f"{name}\n{tokens(before.context.tokens)} → {tokens(left)} tokens"
        key = f"compaction {now.session_id} {now.compactions}"
        yield Notification(NotificationKind.COMPACTION, key, "compacted", words, subject=name)
    failed, earlier = now.agents_noncompliant or 0, before.agents_noncompliant or 0
    if failed > earlier:
        count = "an agent" if failed - earlier == 1 else f"{failed - earlier} agents"
        words = f"{name}\n{count} did not compress the result"
        key = f"agents {now.session_id} {failed}"
        yield Notification(
            NotificationKind.AGENT, key, "a rule was broken", words, EventSeverity.WARNING, name
        )


def _is_waiting(session: Session) -> bool:
    if session.status is SessionStatus.WAITING:
        return True
    # Clients before the registry do not say so; what is in flight does.
    return (
        session.live
        and session.activity is not None
        and session.activity.kind is ActivityKind.PERSON
    )


def group_notifications(notices: Sequence[Notification]) -> list[Notification]:
    """Make one notice of many of a kind that came together; their order stays."""
    by_kind: dict[NotificationKind, list[Notification]] = {}
    for each in notices:
        by_kind.setdefault(each.kind, []).append(each)
    found: list[Notification] = []
    for kind, same in by_kind.items():
        found += same if len(same) <= MAX_SEPARATE else [_group(kind, same)]
    return found


def _group(kind: NotificationKind, notices: list[Notification]) -> Notification:
    named = list(dict.fromkeys(each.subject or each.title for each in notices))
    more = len(named) - MAX_NAMED_SESSIONS
    words = ", ".join(named[:MAX_NAMED_SESSIONS]) + (f" and {more} more" if more > 0 else "")
    weight = max(each.severity for each in notices)
    key = " ".join(each.key for each in notices)
    return Notification(kind, key, f"{len(notices)} {_GROUP_TITLES[kind]}", words, weight)


class SentNotifications:
    """What was told: an event that is told again is left out."""

    def __init__(self, most: int) -> None:
        self._most: Final = most
        self._keys: dict[str, None] = {}

    def take_new(self, notices: Iterable[Notification]) -> list[Notification]:
        """Return the notifications not sent before, and remember them; the oldest are dropped."""
        found = []
        for each in notices:
            if each.key not in self._keys:
                self._keys[each.key] = None
                found.append(each)
        while len(self._keys) > self._most:
            self._keys.pop(next(iter(self._keys)))
        return found
