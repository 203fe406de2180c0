"""Rows of agents whose lines stand in their parent's file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .statements import STEP_UPSERT

if TYPE_CHECKING:
    import sqlite3

    from .facts import Facts, StepFact


def insert_inner(db: sqlite3.Connection, file_id: int, facts: Facts) -> None:
    """Store what one run of lines says of inner agents."""
    if facts.asides:
        db.executemany(
            _ASIDE,
            [(file_id, a.line, a.parent, a.offset, a.message_id, a.prompt) for a in facts.asides],
        )
    if facts.steps:
        db.executemany(
            _STEP_AGENT,
            [(file_id, s.agent_id, s.tool_use_id, s.offset, s.at, s.at) for s in facts.steps],
        )
        db.executemany(STEP_UPSERT, [row for step in facts.steps for row in _answer(file_id, step)])


def _answer(file_id: int, step: StepFact) -> list[tuple[object, ...]]:
    answer = step.answer
    if answer is None:
        return []
    counts = (
        answer.input_tokens,
        answer.cache_creation_tokens,
        answer.cache_read_tokens,
        answer.output_tokens,
        answer.context_tokens,
    )
    who = (file_id, answer.message_id, step.agent_id, answer.offset, answer.at, answer.model)
    return [(*who, *counts, answer.tools, answer.offset)]


# A parent stands before its children, so its root is known; a line whose parent is no
# agent's line is where an agent begins. A line that is appended again changes nothing.
_ASIDE: Final = """
INSERT OR IGNORE INTO aside_line (file_id, line, root, offset, message_id, prompt)
VALUES (?1, ?2, COALESCE(
    (SELECT root FROM aside_line WHERE file_id = ?1 AND line = ?3), ?2), ?4, ?5, ?6)
"""

_STEP_AGENT: Final = """
INSERT INTO step_agent VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (file_id, agent_id) DO UPDATE SET
    tool_use_id = COALESCE(tool_use_id, excluded.tool_use_id),
    started_at = MIN(COALESCE(started_at, excluded.started_at),
        COALESCE(excluded.started_at, started_at)),
    last_at = MAX(COALESCE(last_at, excluded.last_at), COALESCE(excluded.last_at, last_at))
"""
