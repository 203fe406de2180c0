"""What the store has of earlier agents, as what could be given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..resumed import RESUMED_MS
from .past import Outcome, Past
from .tags import tags_in

if TYPE_CHECKING:
    from ..store.injection_queries import PastRow

_WORKS_ON: Final = frozenset({"message"})
"""A teammate that says something and works on."""


def past_of(row: PastRow) -> Past:
    """Say of a row what it means."""
    return Past(
        agent_id=row.agent_id,
        session_id=row.session_id,
        project=row.project,
        agent_type=row.agent_type or "agent",
        text=row.text,
        outcome=_outcome(row),
        parent_agent_id=row.parent_agent_id,
        at=row.at,
        tags=tags_in(row.text),
    )


def outcome_of_status(status: str | None) -> Outcome:
    """Say how a run ended by the client's word for it; clients without one returned once."""
    if status is None or status in {"completed", "shut_down"}:
        return Outcome.FINISHED
    return Outcome.RUNNING if status in _WORKS_ON else Outcome.FAILED


def _outcome(row: PastRow) -> Outcome:
    if row.at is not None and (row.last_message_at or 0) > row.at + RESUMED_MS:
        # Sent another message after it returned.
        return Outcome.RUNNING
    return outcome_of_status(row.status)
