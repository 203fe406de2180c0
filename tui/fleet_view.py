"""A picture of the store at one moment, as the screens show it, and the request for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..core.model.agent import Agent
    from ..core.model.session import Session
    from ..core.saves.project_saves import SavesReport
    from ..core.store.queries.query_rows import SummaryRow


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """What the screen wants to see beside all sessions."""

    session_id: str | None = None
    """Whose agents."""
    search: str = ""
    """In the summaries."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """An immutable picture; the screen shows it whole or not at all."""

    sessions: tuple[Session, ...]
    agents: tuple[Agent, ...]
    summaries: tuple[SummaryRow, ...]
    request: ViewRequest
    now_ms: int
    lag_s: float | None
    scanned: bool
    """The first scan is over: what is not here does not exist."""
    saves: SavesReport | None = None
    """None before the first look at them."""
    unread: int = 0
    """Sessions that are known but not read yet: of many the newest come first."""
