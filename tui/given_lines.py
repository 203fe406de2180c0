"""What an agent was given at its start, in words and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.store.answer_queries import given

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ..core.store.answer_queries import GivenRow

    Key = tuple[str, str]


def given_to_agents(
    db: sqlite3.Connection, session_id: str | None = None
) -> dict[Key, list[GivenRow]]:
    """Find what agents were given, by session and agent."""
    found: dict[Key, list[GivenRow]] = {}
    for row in given(db, "inject", session_id):
        if row.agent_id:
            found.setdefault((row.session_id, row.agent_id), []).append(row)
    return found


def injected(rows: Sequence[GivenRow]) -> list[dict[str, Any]] | None:
    """Make the value of `injected`; None where nothing was recorded."""
    if not rows:
        return None
    return [
        {
            "stage": row.kind,
            "session_id": row.from_session_id,
            "agent_id": row.from_agent_id,
            "reason": row.text,
            "at_most_tokens": row.tokens,
        }
        for row in rows
    ]


def given_lines(rows: Sequence[GivenRow]) -> list[str]:
    """Say it for people, a line each."""
    return [
        f"  {row.kind.replace('_', ' '):<15}{row.from_agent_id or 'its tasks'}: {row.text}"
        + ("" if row.tokens is None else f", at most {row.tokens:,} tokens")
        for row in rows
    ]
