"""Answers in their file's order, the most that a model saw, tokens counted afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m003_answers(db: Database) -> None:
    """Carry it out."""
    db.table("summary").disable_fts()
    db.executescript(
        """
        DROP TABLE response;
        CREATE TABLE response (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            message_id TEXT NOT NULL,
            offset INTEGER NOT NULL,
            last_offset INTEGER NOT NULL,
            at INTEGER,
            model TEXT NOT NULL,
            input_tokens INTEGER NOT NULL,
            cache_creation_tokens INTEGER NOT NULL,
            cache_read_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            context_tokens INTEGER NOT NULL,
            sidechain INTEGER NOT NULL,
            tools TEXT NOT NULL,
            request INTEGER,
            tool_uses INTEGER GENERATED ALWAYS AS (LENGTH(tools) - LENGTH(REPLACE(tools, ',', ''))),
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;
        CREATE UNIQUE INDEX response_message ON response (message_id, file_id);

        CREATE TABLE model_use (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            model TEXT NOT NULL,
            sidechain INTEGER NOT NULL,
            peak_tokens INTEGER NOT NULL,
            PRIMARY KEY (file_id, model, sidechain)
        ) STRICT, WITHOUT ROWID;

        DROP TABLE summary;
        CREATE TABLE summary (
            summary_id INTEGER PRIMARY KEY,
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            uuid TEXT NOT NULL,
            offset INTEGER NOT NULL,
            kind TEXT NOT NULL,
            agent_id TEXT,
            at INTEGER,
            text TEXT NOT NULL,
            lines INTEGER NOT NULL,
            chars INTEGER NOT NULL,
            UNIQUE (file_id, uuid)
        ) STRICT;
        CREATE INDEX summary_agent ON summary (agent_id);
        CREATE INDEX summary_line ON summary (uuid);
        CREATE INDEX summary_time ON summary (at);

        CREATE TABLE estimate (
            summary_id INTEGER PRIMARY KEY REFERENCES summary ON DELETE CASCADE,
            tokens INTEGER NOT NULL
        ) STRICT;
        """
    )
    db.table("summary").enable_fts(["text"], create_triggers=True)
    # All is read again into the new tables.
    db.execute("DELETE FROM file")
