"""Rows of agents whose lines stand in their parent's file, and of how agents ended there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import astuple

from .facts import OUTPUT, ReturnFact
from .statements import STEP_UPSERT

if TYPE_CHECKING:
    import sqlite3

    from .facts import Facts, StepFact


def insert_inner(db: sqlite3.Connection, file_id: int, facts: Facts) -> None:
    """Store what one run of lines says of inner agents; its returns are stored already."""
    db.executemany(_FAILED, [(file_id, *astuple(each)) for each in facts.failed_calls])
    named = [(file_id, each.uuid) for each in facts.returns if each.name]
    for sql in (_NAME_RETURN, _NAME_TEXT):
        db.executemany(sql, named)
    asked_for = [(file_id, each.uuid) for each in facts.returns if each.uuid.startswith(OUTPUT)]
    for sql in (_FORGET_TEXT, _FORGET_RETURN):
        db.executemany(sql, asked_for)
    if facts.sidechain_lines:
        db.executemany(
            _ASIDE,
            [
                (file_id, a.line, a.parent, a.offset, a.message_id, a.prompt)
                for a in facts.sidechain_lines
            ],
        )
    if facts.progress_lines:
        db.executemany(
            _STEP_AGENT,
            [
                (file_id, s.agent_id, s.tool_use_id, s.offset, s.at, s.at)
                for s in facts.progress_lines
            ],
        )
        db.executemany(
            STEP_UPSERT, [row for step in facts.progress_lines for row in _answer(file_id, step)]
        )


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

# Tools of all kinds fail: only a call that was to start an agent says how that one ended.
_FAILED: Final = f"""
INSERT OR IGNORE INTO agent_return (file_id, {", ".join(ReturnFact.__struct_fields__)})
SELECT ?1, {", ".join(f"?{place}" for place, _ in enumerate(ReturnFact.__struct_fields__, 2))}
WHERE EXISTS (SELECT 1 FROM launch WHERE file_id = ?1 AND tool_use_id = ?5)
"""

# A teammate's messages name it, and names are given again: the newest one is meant that was
# started before.
_NAME_RETURN: Final = """
UPDATE agent_return SET agent_id = (SELECT s.agent_id FROM agent_return s
    WHERE s.file_id = ?1 AND s.name = agent_return.name AND s.status = 'teammate_spawned'
    AND s.offset < agent_return.offset ORDER BY s.offset DESC LIMIT 1)
WHERE file_id = ?1 AND uuid = ?2 AND status <> 'teammate_spawned'
    AND EXISTS (SELECT 1 FROM agent_return s WHERE s.file_id = ?1 AND s.name = agent_return.name
        AND s.status = 'teammate_spawned' AND s.offset < agent_return.offset)
"""

_NAME_TEXT: Final = """
UPDATE summary SET agent_id =
    (SELECT r.agent_id FROM agent_return r WHERE r.file_id = ?1 AND r.uuid = ?2)
WHERE file_id = ?1 AND uuid = ?2
"""

# What came unasked before and is then asked for is one result, and one end.
_FORGET_TEXT: Final = """
DELETE FROM summary WHERE file_id = ?1 AND uuid = ?2 AND EXISTS (
    SELECT 1 FROM summary s WHERE s.file_id = ?1 AND s.agent_id = summary.agent_id
    AND s.offset < summary.offset AND s.text = summary.text)
"""

_FORGET_RETURN: Final = """
DELETE FROM agent_return WHERE file_id = ?1 AND uuid = ?2
    AND NOT EXISTS (SELECT 1 FROM summary s WHERE s.file_id = ?1 AND s.uuid = ?2)
    AND EXISTS (SELECT 1 FROM agent_return r WHERE r.file_id = ?1
        AND r.agent_id = agent_return.agent_id AND r.offset < agent_return.offset
        AND r.status = agent_return.status)
"""

_STEP_AGENT: Final = """
INSERT INTO step_agent VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (file_id, agent_id) DO UPDATE SET
    tool_use_id = COALESCE(tool_use_id, excluded.tool_use_id),
    started_at = MIN(COALESCE(started_at, excluded.started_at),
        COALESCE(excluded.started_at, started_at)),
    last_at = MAX(COALESCE(last_at, excluded.last_at), COALESCE(excluded.last_at, last_at))
"""
