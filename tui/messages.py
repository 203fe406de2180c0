"""A picture of the store at one moment, and the messages that bring it to the screen.

A newer message replaces one that waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from textual.message import Message
from textual.widget import Widget

if TYPE_CHECKING:
    from ..collectors.claude_code.collector_thread import ScanProgress
    from ..core.model.agent import Agent
    from ..core.model.problem import Problem
    from ..core.model.session import Session
    from ..core.saves.project_saves import SavesReport
    from ..core.store.queries.query_rows import SummaryRow
    from ..core.store.warning_log import ContextWarning


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """What the screen wants to see beside all sessions."""

    session_id: str | None = None  # whose agents
    search: str = ""  # in the summaries


@dataclass(frozen=True, slots=True)
class FleetView:
    """An immutable picture; the screen shows it whole or not at all."""

    sessions: tuple[Session, ...]
    agents: tuple[Agent, ...]
    summaries: tuple[SummaryRow, ...]
    request: ViewRequest
    now_ms: int
    lag_s: float | None
    scanned: bool  # the first scan is over: what is not here does not exist
    saves: SavesReport | None = None  # none before the first look at them
    unread: int = 0  # sessions that are known but not read yet: of many the newest come first


class CoalescingMessage(Message):
    """A message of which only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """Coalesce: the screen is never behind by more than one."""
        return isinstance(message, type(self))


Sender = TypeVar("Sender", bound=Widget)


@dataclass
class WidgetMessage(Message, Generic[Sender]):
    """A message that `@on` can choose by the widget that sent it."""

    widget: Sender

    @property
    def control(self) -> Sender:
        return self.widget


@dataclass
class ViewChanged(CoalescingMessage):
    view: FleetView


@dataclass
class ScanProgressed(CoalescingMessage):
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
    problem: Problem


@dataclass
class ProblemResolved(Message):
    """A trouble has ended."""

    place: str


class FeedStopped(Message):
    """A thread of the feed has ended before its time: nothing new is shown any more."""
