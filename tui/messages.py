"""The messages from background threads to the screen; a newer one replaces a waiting one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..collectors.claude_code.scan_progress import ScanProgress
    from ..core.measure.warning_log import ContextWarning
    from ..core.model.problem import Problem
    from .fleet_view import FleetView


class CoalescingMessage(Message):
    """A message of which only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """Coalesce: the screen is never behind by more than one."""
        return isinstance(message, type(self))


@dataclass
class ViewChanged(CoalescingMessage):
    """There is a newer view of the store."""

    view: FleetView


@dataclass
class ScanProgressed(CoalescingMessage):
    """The scan has come further."""

    progress: ScanProgress


@dataclass
class LevelReached(Message):
    """A session's context reached a level while we watched."""

    title: str
    warning: ContextWarning


@dataclass
class ProblemReported(Message):
    """Something could not be read or stored."""

    problem: Problem


@dataclass
class NoticeReported(Message):
    """Something happened that is worth a line and needs nothing."""

    problem: Problem


@dataclass
class ProblemResolved(Message):
    """A trouble has ended."""

    place: str


class FeedStopped(Message):
    """A thread of the feed has ended before its time: nothing new is shown any more."""


@dataclass
class ResultReady(Message):
    """An answer from the store to a question of the screen."""

    run: Callable[[], None]
