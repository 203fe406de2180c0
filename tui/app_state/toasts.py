"""The one toast: what is said while it is shown joins it, so that nothing is replaced unseen."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from textual.notifications import Notification

from ..text.severity import EventSeverity

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

TOAST_S: Final = 4.0  # of every notice; the log keeps what it said
TOAST_GRACE_S: Final = 0.5  # a notice of this age may be about the page that has just opened
MIN_TOAST_S: Final = 0.05  # of a toast that is drawn at the very end of its time
MAX_NOTICES: Final = 3  # in one toast: more would cover the page

EVENT_SEVERITIES: Final[dict[SeverityLevel, EventSeverity]] = {
    "information": EventSeverity.NOTE,
    "warning": EventSeverity.WARNING,
    "error": EventSeverity.PROBLEM,
}

OWN_SOURCE: Final = "ctxtop"  # of what no other source says, in the log


@dataclass(frozen=True, slots=True)
class Notice:
    """What the user is told at once; nothing in it is parsed as markup."""

    text: str
    title: str = ""
    severity: SeverityLevel = "information"
    source: str | None = OWN_SOURCE  # in the log; None if the log has the event itself
    words: str = ""  # all of a text that was shortened
    seconds: float = TOAST_S
    at: float = 0.0  # when it was shown

    @property
    def whole(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text

    @property
    def is_over(self) -> bool:
        return time.time() - self.at >= self.seconds

    @property
    def is_recent(self) -> bool:
        return time.time() - self.at <= TOAST_GRACE_S


class Toast(Notification):
    """A notification that a toast can be drawn for at any moment.

    Textual (8.2.8) starts a timer for the time left. If that has become negative since it was
    compared with 0, the timer never returns, and the whole app stands still.
    """

    notices: tuple[Notice, ...] = ()  # oldest first
    is_replaced = False  # another toast has its notices: it is never drawn

    @property
    def time_left(self) -> float:
        return max(MIN_TOAST_S, super().time_left)

    @property
    def has_expired(self) -> bool:
        return self.is_replaced or super().time_left <= 0


def make_toast(notices: tuple[Notice, ...]) -> Toast:
    """Make the toast of notices, oldest first; of many it shows the newest, and says so."""
    shown = notices[-MAX_NOTICES:]
    first, newest = shown[0], shown[-1]
    parts = [first.text, *(each.whole for each in shown[1:])]
    if hidden := len(notices) - len(shown):
        parts.append(f"and {hidden} more before: L shows the log")
    worst = max(shown, key=lambda each: EVENT_SEVERITIES[each.severity])
    text = "\n\n".join(parts)
    toast = Toast(text, first.title, worst.severity, newest.seconds, raised_at=newest.at)
    toast.notices = notices
    return toast


def join_toast(shown: Toast | None, notices: tuple[Notice, ...]) -> Toast:
    """Make the toast that takes the place of the shown one, with what it still has to say."""
    earlier = () if shown is None or shown.has_expired else shown.notices
    if shown is not None:
        shown.is_replaced = True
    now = time.time()
    said = {each.whole for each in notices}
    still = [each for each in earlier if not each.is_over and each.whole not in said]
    return make_toast((*still, *(replace(each, at=now) for each in notices)))
