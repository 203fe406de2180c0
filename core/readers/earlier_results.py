"""Results of earlier agents, for agents that start now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..compliance.run_verdict import find_replaced_result
from ..injection.context_selection import EarlierResult, RunOutcome, find_tags, outcome_of_status
from ..model.answer_facts import AGENT_RESUMED_MS

if TYPE_CHECKING:
    from ..model.answer_rows import EarlierResultRow


def make_earlier_result(row: EarlierResultRow) -> EarlierResult:
    # An agent that wrote later was sent another message after it returned.
    was_resumed = row.at is not None and (row.last_message_at or 0) > row.at + AGENT_RESUMED_MS
    replaced = find_replaced_result([*_marked_messages(row), row.text], row.agent_type)
    text = row.text if replaced is None else replaced
    return EarlierResult(
        agent_id=row.agent_id,
        session_id=row.session_id,
        project=row.project,
        agent_type=row.agent_type or "agent",
        text=text,
        outcome=RunOutcome.RUNNING if was_resumed else outcome_of_status(row.status),
        parent_agent_id=row.parent_agent_id,
        at=row.at,
        tags=find_tags(text),
        was_replaced=replaced is not None,
    )


def _marked_messages(row: EarlierResultRow) -> list[str]:
    return msgspec.json.decode(row.marked_messages or "[]", type=list[str])
