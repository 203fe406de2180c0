"""What screens use of the dashboard.

It names no screen, so that screens can name it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from .app_base import AppBase

if TYPE_CHECKING:
    from ..core.model.agent import Agent
    from ..core.model.session import Session
    from ..core.store.queries.query_rows import SummaryRow
    from .notifier import Notifier
    from .session_actions import SessionActions
    from .ui_state import UiState


class Dashboard(AppBase):
    """Opens pages, and holds what they share."""

    session_actions: SessionActions  # what changes sessions; it goes on when the page is left

    @cached_property
    def notifier(self) -> Notifier:
        """The notifier, which keeps the log of this run."""
        from .notifier import Notifier  # after the first paint

        return Notifier(self)

    @property
    def ui_state(self) -> UiState:
        """What is found again at the next start."""
        raise NotImplementedError

    def update_ui_state(self, **changes: object) -> None:
        """Change fields of it; it is written in the background."""
        raise NotImplementedError

    @property
    def current_session(self) -> Session | None:
        """The session whose page is open, else the one under the cursor."""
        raise NotImplementedError

    def go_back(self, crumbs: tuple[str, ...], session_id: str | None) -> None:
        """Go back to the page of a breadcrumb."""
        raise NotImplementedError

    def open_session(self, session: Session) -> None:
        """Open a session's page."""
        raise NotImplementedError

    def open_agent(self, agent: Agent, title: str) -> None:
        """Open an agent's page."""
        raise NotImplementedError

    def open_summary(self, row: SummaryRow, title: str) -> None:
        """Open a summary."""
        raise NotImplementedError

    def other_commands(self) -> Iterator[SystemCommand]:
        """Return what the palette offers and has no key."""
        raise NotImplementedError

    def leave_for_demo(self) -> None:
        """Exit, for the demo to be opened."""
        raise NotImplementedError
