"""What the line at the top says of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.sessions import Status
from .formats import one_line
from .widgets.status_line import Standing, State

if TYPE_CHECKING:
    from pathlib import Path

    from ..core.sessions import Session
    from .selection import Arrangement
    from .view import View

WARNED: Final = 0.80
"""Ratio from which a live session is counted as a warning."""

_AT_WORK: Final = frozenset({Status.BUSY, Status.ACTIVE})


def standing_of(source: str, state: State, view: View | None, scan: str, notes: str) -> Standing:
    """Count the sessions, those at work, those that wait for a person, and those nearly full."""
    if view is None:
        return Standing(source=source, state=state, scan=scan, notes=notes)
    sessions = view.sessions
    live = [each for each in sessions if each.live]
    if view.unread and not scan:
        scan = f"read {len(sessions):,} of {len(sessions) + view.unread:,} sessions"
    return Standing(
        source=source,
        state=state,
        sessions=len(sessions),
        live=len(live),
        working=sum(each.status in _AT_WORK for each in live),
        waiting=sum(each.status is Status.WAITING for each in live),
        lag_s=view.lag_s,
        scan=scan,
        notes=notes,
        warnings=sum(_is_warned(each) for each in live),
    )


def notes_of(arrangement: Arrangement, matching: int) -> str:
    """Say what of the list a person has chosen."""
    notes = []
    if arrangement.filter_text:
        notes.append(f"{matching} match “{arrangement.filter_text}”")
    if arrangement.selected:
        notes.append(f"{len(arrangement.selected)} marked")
    return " · ".join(notes)


def empty_words(arrangement: Arrangement, view: View, config_dir: Path) -> str:
    """Say why no session is shown, and what to do."""
    if arrangement.filter_text:
        return f"no session matches “{arrangement.filter_text}”; Esc shows all"
    if not view.scanned:
        return "reading what Claude Code has written …"
    return (
        f"No sessions yet in {one_line(str(config_dir))}.\n"
        "Start `claude` in a project and it appears here; `ctxtop demo` shows how that looks."
    )


def _is_warned(session: Session) -> bool:
    return (session.context.ratio or 0.0) >= WARNED
