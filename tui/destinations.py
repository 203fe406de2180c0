"""Where a capital letter leads from everywhere; the small ones act on what is marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from .navigating import Navigating
    from .screens.page import Page


@dataclass(frozen=True, slots=True)
class Destination:
    """A page, the key that opens it, and how it is made."""

    name: str
    """The binding's id, by which a person can give it other keys."""
    key: str
    title: str
    tooltip: str
    make: Callable[[Navigating], Page | None]
    """Its module is imported only now; None where there is nothing that it could show."""


def _saves(app: Navigating) -> Page:
    from .screens.saves import SavesScreen

    saves = app.view.saves if app.view else None
    return SavesScreen(saves, app.now_ms())


def _policy(app: Navigating) -> Page:
    from .screens.policy import PolicyScreen

    session = app.current_session
    return PolicyScreen(session.project_root if session else None)


def _log(app: Navigating) -> Page:
    from .screens.log import LogScreen

    return LogScreen()


def _doctor(app: Navigating) -> Page:
    from .screens.doctor import DoctorScreen

    return DoctorScreen()


def _agents(app: Navigating) -> Page:
    from .screens.agents import AgentsScreen

    return AgentsScreen(app.current_session)


def _summaries(app: Navigating) -> Page:
    from .screens.summaries import SummariesScreen
    from .summary_source import SummarySource

    return SummariesScreen(SummarySource(app.places.store), app.current_session)


def _compact(app: Navigating) -> Page | None:
    from .screens.compact import CompactScreen

    session = app.current_session
    if session and app.screen is app.fleet and len(app.fleet.arrangement.selected) > 1:
        app.notify("one session at a time is compacted: the one under the cursor", markup=False)
    if session and not session.path:
        app.notify("nothing was said in it yet: there is nothing to compact", markup=False)
        return None
    return CompactScreen(session) if session else None


def _recover(app: Navigating) -> Page | None:
    from .screens.recover import RecoverScreen

    session = app.current_session
    if session is None:
        return None
    if session.too_long is None:
        words = "only a session that is too long is recovered; c makes any smaller"
        app.notify(words, markup=False)
        return None
    return RecoverScreen(session)


def _receipts(app: Navigating) -> Page:
    from .screens.receipts import ReceiptsScreen

    return ReceiptsScreen()


DESTINATIONS: Final = (
    Destination("agents_page", "A", "Agents", "agents, their types, reviewers' findings", _agents),
    Destination(
        "summaries", "S", "Summaries", "search what was returned, kept and planned", _summaries
    ),
    Destination("compact", "c", "Compact", "plan how to make this session smaller", _compact),
    Destination("recover", "r", "Recover", "mend a session that is too long", _recover),
    Destination("receipts", "R", "Receipts", "every action ever taken, and undo", _receipts),
    Destination("saves", "M,m", "Saves", "how the saves of claude-memory stand", _saves),
    Destination(
        "policy", "P", "Policy", "what is set, where it was said, and to change it", _policy
    ),
    Destination("log", "L", "Log", "what was read, set aside and told", _log),
    Destination("doctor", "D", "Doctor", "whether ctxtop can do its work here", _doctor),
)
