"""Agents inside other files than their own, how sessions hang together, lines said twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m004_agent_eras(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        ALTER TABLE api_error ADD COLUMN uuid TEXT;
        CREATE UNIQUE INDEX api_error_line ON api_error (file_id, uuid);
        ALTER TABLE launch ADD COLUMN asked_model TEXT;
        ALTER TABLE launch ADD COLUMN prompt INTEGER;
        ALTER TABLE agent_return ADD COLUMN input_tokens INTEGER;
        ALTER TABLE agent_return ADD COLUMN cache_creation_tokens INTEGER;
        ALTER TABLE agent_return ADD COLUMN cache_read_tokens INTEGER;
        ALTER TABLE agent_return ADD COLUMN output_tokens INTEGER;

        CREATE TABLE aside_line (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            line INTEGER NOT NULL,
            root INTEGER NOT NULL,
            offset INTEGER NOT NULL,
            message_id TEXT,
            prompt INTEGER,
            PRIMARY KEY (file_id, line)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX aside_line_root ON aside_line (file_id, offset) WHERE line = root;

        CREATE TABLE step_agent (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            agent_id TEXT NOT NULL,
            tool_use_id TEXT,
            offset INTEGER NOT NULL,
            started_at INTEGER,
            last_at INTEGER,
            PRIMARY KEY (file_id, agent_id)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE step (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            message_id TEXT NOT NULL,
            agent_id TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            model TEXT NOT NULL,
            input_tokens INTEGER NOT NULL,
            cache_creation_tokens INTEGER NOT NULL,
            cache_read_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            context_tokens INTEGER NOT NULL,
            tools TEXT NOT NULL,
            last_offset INTEGER NOT NULL,
            PRIMARY KEY (file_id, message_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX step_message ON step (message_id);

        CREATE TABLE session_link (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            kind TEXT NOT NULL,
            session_id TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            detail TEXT NOT NULL,
            PRIMARY KEY (file_id, kind, session_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX session_link_other ON session_link (session_id);
        """
    )
