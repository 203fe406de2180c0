"""Our own logs of hooks and status line, and more of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m006_hook_log(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE log_part (
            part_id INTEGER PRIMARY KEY,
            log TEXT NOT NULL,
            mark TEXT NOT NULL,
            name TEXT NOT NULL,
            offset INTEGER NOT NULL DEFAULT 0,
            anchor TEXT NOT NULL DEFAULT '',
            size INTEGER NOT NULL DEFAULT 0,
            mtime_ns INTEGER NOT NULL DEFAULT 0,
            UNIQUE (log, mark)
        ) STRICT;

        CREATE TABLE hook_event (
            part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER NOT NULL,
            pid INTEGER,
            client_pid INTEGER,
            event TEXT NOT NULL,
            known INTEGER NOT NULL,
            session_id TEXT,
            agent_id TEXT,
            agent_type TEXT,
            source TEXT,
            trigger TEXT,
            tool_name TEXT,
            tool_use_id TEXT,
            context_tokens INTEGER,
            detail TEXT NOT NULL,
            PRIMARY KEY (part_id, offset)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX hook_event_session ON hook_event (session_id, at);
        CREATE INDEX hook_event_unknown ON hook_event (event) WHERE known = 0;

        CREATE TABLE status_snapshot (
            part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER NOT NULL,
            last_at INTEGER NOT NULL,
            session_id TEXT NOT NULL,
            model TEXT NOT NULL,
            window_tokens INTEGER,
            used_percentage REAL,
            input_tokens INTEGER,
            cache_creation_tokens INTEGER,
            cache_read_tokens INTEGER,
            output_tokens INTEGER,
            total_input_tokens INTEGER,
            total_output_tokens INTEGER,
            exceeds_200k INTEGER,
            cost_usd REAL,
            client_version TEXT,
            output_style TEXT,
            cache_warm INTEGER,
            cache_ttl TEXT,
            cache_expires_at INTEGER,
            cache_hit_ratio REAL,
            cache_misses INTEGER,
            PRIMARY KEY (part_id, offset)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX status_snapshot_session ON status_snapshot (session_id, at);

        CREATE TABLE log_bad_line (
            part_id INTEGER NOT NULL REFERENCES log_part ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            length INTEGER NOT NULL,
            reason TEXT NOT NULL,
            PRIMARY KEY (part_id, offset)
        ) STRICT;

        ALTER TABLE live ADD COLUMN waiting_for TEXT;
        ALTER TABLE live ADD COLUMN kind TEXT;
        ALTER TABLE live ADD COLUMN entrypoint TEXT;
        ALTER TABLE live ADD COLUMN cwd TEXT;
        ALTER TABLE live ADD COLUMN client_version TEXT;
        ALTER TABLE live ADD COLUMN started_at INTEGER;
        ALTER TABLE live ADD COLUMN process_start TEXT;
        """
    )
