"""What ctxtop's answers gave the client: a row a thing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m015_answers_given(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE answer_item (
            part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER NOT NULL,
            feature TEXT NOT NULL,
            session_id TEXT NOT NULL,
            agent_id TEXT,
            kind TEXT NOT NULL,
            text TEXT NOT NULL,
            tokens INTEGER,
            from_session_id TEXT,
            from_agent_id TEXT,
            PRIMARY KEY (part_id, offset)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX answer_item_session ON answer_item (session_id, feature, at);
        """
    )
