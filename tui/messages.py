"""What the feed tells the screen; a newer message of a kind replaces one that still waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..collectors.folder import Trouble
    from ..collectors.listener import Progress
    from ..core.warning_log import ContextWarning
    from .view import View


class Replaceable(Message):
    """A message of which only the newest counts."""

    def can_replace(self, message: Message) -> bool:
        """Coalesce: the screen is never behind by more than one."""
        return isinstance(message, type(self))


@dataclass
class ViewChanged(Replaceable):
    """There is a newer view of the store."""

    view: View


@dataclass
class ScanProgressed(Replaceable):
    """The scan has come further."""

    progress: Progress


@dataclass
class LevelReached(Message):
    """A session's context reached a level while we watched."""

    title: str
    warning: ContextWarning


@dataclass
class Troubled(Message):
    """Something could not be read or stored."""

    problem: Trouble


@dataclass
class Noted(Message):
    """Something happened that is worth a line and needs nothing."""

    problem: Trouble


@dataclass
class Eased(Message):
    """A trouble has ended."""

    place: str


class Stopped(Message):
    """A thread of the feed has ended before its time: nothing new is shown any more."""


@dataclass
class Answered(Message):
    """An answer from the store to a question of the screen."""

    run: Callable[[], None]
