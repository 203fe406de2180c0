"""What stands beside the transcripts: agents' meta.json, the registry, the status line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m002_sidecars(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE agent_meta (
            path TEXT PRIMARY KEY,
            session_id TEXT NOT NULL,
            agent_id TEXT NOT NULL,
            agent_type TEXT NOT NULL,
            description TEXT NOT NULL,
            tool_use_id TEXT,
            parent_agent_id TEXT,
            depth INTEGER NOT NULL,
            model TEXT,
            finished INTEGER,
            mtime_ns INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX agent_meta_session ON agent_meta (session_id, agent_id);

        CREATE TABLE live (
            session_id TEXT PRIMARY KEY,
            pid INTEGER NOT NULL,
            status TEXT NOT NULL,
            tmux TEXT,
            name TEXT,
            updated_at INTEGER
        ) STRICT;

        CREATE TABLE window_seen (
            session_id TEXT NOT NULL,
            model TEXT NOT NULL,
            window_tokens INTEGER NOT NULL,
            at INTEGER NOT NULL,
            PRIMARY KEY (session_id, model)
        ) STRICT;

        CREATE TABLE trouble (
            place TEXT PRIMARY KEY,
            at INTEGER NOT NULL,
            what TEXT NOT NULL,
            remedy TEXT NOT NULL
        ) STRICT;
        """
    )
