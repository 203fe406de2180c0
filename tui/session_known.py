"""What the store has of one session beside what the fleet shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import sqlite3

    from ..core.policy.layers import Policies
    from ..core.reasons import Reason
    from ..core.sessions import Session
    from ..core.steered import Steered
    from ..core.store.rows import CompactionRow
    from ..core.told import Told
    from ..core.trigger import Trigger
    from ..core.warning_log import ContextWarning
    from ..core.window import Window


class Known(msgspec.Struct, frozen=True):
    """What the store has of a session."""

    compactions: tuple[tuple[CompactionRow, Told | None], ...] = ()
    """Newest first, each with what is told of it; None: nothing yet."""
    warnings: tuple[ContextWarning, ...] = ()
    """Oldest first."""
    steering: tuple[tuple[Steered, ...], ...] = ()
    """What each compaction was asked to keep."""
    reasons: tuple[Reason, ...] = ()
    """Every claim of its window and its trigger."""
    resolved: tuple[Window, Trigger | None] | None = None
    """What they led to."""


def read_known(
    db: sqlite3.Connection, session: Session, policies: Policies, previous: Known | None = None
) -> Known:
    """Read it, judged by these policies; what cannot have changed is taken from `before`."""
    from ..core.reasons import read_reasons
    from ..core.steered import steered_by
    from ..core.store.answer_queries import given
    from ..core.store.queries import compactions
    from ..core.told import unpack
    from ..core.warning_log import session_warnings

    judged = (session.context.window, session.context.trigger)
    # The whole store is asked for them.
    if previous is not None and previous.resolved == judged:
        reasons = previous.reasons
    else:
        reasons = read_reasons(db, session.session_id, policies)
    rows = [(row, unpack(row.report)) for row in compactions(db, session.session_id)]
    return Known(
        compactions=tuple(rows),
        warnings=tuple(session_warnings(db, session)),
        steering=tuple(steered_by(rows, given(db, "steer", session.session_id))),
        reasons=reasons,
        resolved=judged,
    )
