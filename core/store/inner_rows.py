"""Rows of what stands inside other things: agents in their parent's file, parts of requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import sqlite3

    from .facts import Facts, StepFact


def insert_inner(db: sqlite3.Connection, file_id: int, facts: Facts) -> None:
    """Store what one run of lines says of inner agents, of other sessions and of requests."""
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
        db.executemany(_STEP, [row for step in facts.steps for row in _answer(file_id, step)])
    if facts.links:
        db.executemany(
            "INSERT OR IGNORE INTO session_link VALUES (?, ?, ?, ?, ?, ?)",
            [(file_id, li.kind, li.session_id, li.offset, li.at, li.detail) for li in facts.links],
        )
    if facts.requests:
        db.executemany(
            "INSERT OR IGNORE INTO request VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    *(file_id, r.offset, r.length, r.request, r.at, r.model),
                    *(r.query_source, r.shape, r.base, r.keep, r.tail),
                )
                for r in facts.requests
            ],
        )
    if facts.parts:
        db.executemany(
            "INSERT OR IGNORE INTO request_part VALUES (?, ?, ?, ?, ?)",
            [(file_id, p.part, p.offset, p.length, p.kind) for p in facts.parts],
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

_STEP_AGENT: Final = """
INSERT INTO step_agent VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (file_id, agent_id) DO UPDATE SET
    tool_use_id = COALESCE(tool_use_id, excluded.tool_use_id),
    started_at = MIN(COALESCE(started_at, excluded.started_at),
        COALESCE(excluded.started_at, started_at)),
    last_at = MAX(COALESCE(last_at, excluded.last_at), COALESCE(excluded.last_at, last_at))
"""

_STEP: Final = """
INSERT INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (file_id, message_id) DO UPDATE SET
    model = excluded.model,
    input_tokens = excluded.input_tokens,
    cache_creation_tokens = excluded.cache_creation_tokens,
    cache_read_tokens = excluded.cache_read_tokens,
    output_tokens = MAX(output_tokens, excluded.output_tokens),
    context_tokens = excluded.context_tokens,
    tools = tools || IIF(INSTR(',' || tools, ',' || excluded.tools), '', excluded.tools),
    last_offset = excluded.last_offset
WHERE excluded.last_offset > last_offset
"""
