"""A view of the store at one moment, the feed's messages, and base classes for messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
from textual.message import Message
from textual.widget import Widget

if TYPE_CHECKING:
    from ...collectors.collector_thread import ScanProgress
    from ...core.measure.limit_use import PercentSize
    from ...core.measure.plan_limits import PlanLimit
    from ...core.model.agent import Agent
    from ...core.model.problem import Problem
    from ...core.model.session import Session
    from ...core.model.stored_rows import SummaryRow
    from ...core.saves.project_saves import SavesReport
    from ...core.store.warning_log import ContextWarning


class ViewRequest(msgspec.Struct, frozen=True):
    """What a view contains beside all sessions."""

    session_id: str | None = None  # whose agents
    search: str = ""  # in the summaries


class FleetView(msgspec.Struct, frozen=True):
    """What the screen shows of the store as of one commit."""

    sessions: tuple[Session, ...]
    agents: tuple[Agent, ...]
    summaries: tuple[SummaryRow, ...]
    request: ViewRequest
    now_ms: int
    lag_s: float | None
    scanned: bool  # the first scan is over: what is not here does not exist
    saves: SavesReport | None = None  # none before they are first read
    limits: tuple[PlanLimit, ...] = ()  # of the plan, by window; empty where none is reported
    percent_sizes: tuple[PercentSize, ...] = ()  # of these limits, as far as learned
    unread: int = 0  # sessions that are known but not read yet: of many the newest come first

    def session(self, session_id: str | None) -> Session | None:
        return next((each for each in self.sessions if each.session_id == session_id), None)


class CoalescingMessage(Message):
    """A message that replaces those of its kind that still wait."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, type(self))


Sender = TypeVar("Sender", bound=Widget)


@dataclass
class WidgetMessage(Message, Generic[Sender]):
    """A message that `@on` can choose by a selector for the widget that sent it."""

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
    """A session's context reached a level while ctxtop ran."""

    title: str
    warning: ContextWarning


@dataclass
class ProblemReported(Message):
    problem: Problem


@dataclass
class NoticeReported(Message):
    """Something worth a line happened that needs no action."""

    problem: Problem


@dataclass
class ProblemResolved(Message):
    place: str


@dataclass
class OpenConversation(Message):
    """Show the conversation of a session, or of one of its agents, at a line of its transcript."""

    session_id: str
    agent_id: str | None
    line_offset: int | None  # bytes before the line; None is the end
    words: tuple[str, ...] = ()  # texts to go to in that line; they are highlighted


class FeedStopped(Message):
    """A thread of the feed has ended: the data is no longer updated."""
