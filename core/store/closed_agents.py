"""Agents that a person closed by hand: nothing says how they ended (R000-18)."""

from sqlite3 import Connection

from .database import write_transaction


def close_agent(db: Connection, session_id: str, agent_id: str, now_ms: int) -> None:
    """Record that an agent is closed; whatever it writes later opens it again."""
    with write_transaction(db):
        row = (session_id, agent_id, now_ms)
        db.execute("INSERT OR REPLACE INTO closed_agent VALUES (?, ?, ?)", row)
