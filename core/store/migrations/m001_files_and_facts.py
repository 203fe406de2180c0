"""One row a file, and what its lines said, each with its byte offset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m001_files_and_facts(db: Database) -> None:
    """Carry it out."""
    db.executescript(
        """
        CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

        CREATE TABLE file (
            file_id INTEGER PRIMARY KEY,
            path TEXT NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            project TEXT NOT NULL,
            session_id TEXT NOT NULL,
            agent_id TEXT,
            device INTEGER NOT NULL DEFAULT 0,
            inode INTEGER NOT NULL DEFAULT 0,
            offset INTEGER NOT NULL DEFAULT 0,
            anchor TEXT NOT NULL DEFAULT '',
            size INTEGER NOT NULL DEFAULT 0,
            mtime_ns INTEGER NOT NULL DEFAULT 0,
            lines INTEGER NOT NULL DEFAULT 0,
            gone INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE INDEX file_session ON file (session_id, kind);

        CREATE TABLE session (
            file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
            started_at INTEGER,
            last_at INTEGER,
            opened_at INTEGER,
            forked_from TEXT,
            cwd TEXT,
            client_version TEXT,
            custom_title TEXT,
            ai_title TEXT,
            summary_title TEXT,
            first_prompt TEXT,
            last_prompt TEXT,
            model TEXT
        ) STRICT;

        CREATE TABLE response (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            message_id TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            model TEXT NOT NULL,
            input_tokens INTEGER NOT NULL,
            cache_creation_tokens INTEGER NOT NULL,
            cache_read_tokens INTEGER NOT NULL,
            output_tokens INTEGER NOT NULL,
            context_tokens INTEGER NOT NULL,
            sidechain INTEGER NOT NULL,
            tool_uses INTEGER NOT NULL,
            last_offset INTEGER NOT NULL,
            PRIMARY KEY (file_id, message_id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX response_place ON response (file_id, offset);
        CREATE INDEX response_message ON response (message_id);
        CREATE INDEX response_model ON response (model, context_tokens);

        CREATE TABLE boundary (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            uuid TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            trigger TEXT,
            pre_tokens INTEGER,
            post_tokens INTEGER,
            dropped_tokens INTEGER,
            duration_ms INTEGER,
            kept_messages INTEGER,
            PRIMARY KEY (file_id, uuid)
        ) STRICT;
        CREATE INDEX boundary_place ON boundary (file_id, offset);

        CREATE TABLE api_error (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER,
            kind TEXT NOT NULL,
            detail TEXT NOT NULL,
            prompt_tokens INTEGER,
            limit_tokens INTEGER,
            PRIMARY KEY (file_id, offset)
        ) STRICT;

        CREATE TABLE launch (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            tool_use_id TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            agent_type TEXT NOT NULL,
            description TEXT NOT NULL,
            PRIMARY KEY (file_id, tool_use_id)
        ) STRICT;

        CREATE TABLE agent_return (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            uuid TEXT NOT NULL,
            offset INTEGER NOT NULL,
            agent_id TEXT NOT NULL,
            tool_use_id TEXT,
            at INTEGER,
            status TEXT NOT NULL,
            model TEXT,
            context_tokens INTEGER,
            total_tokens INTEGER,
            tool_uses INTEGER,
            duration_ms INTEGER,
            PRIMARY KEY (file_id, uuid)
        ) STRICT;
        CREATE INDEX agent_return_agent ON agent_return (agent_id);

        CREATE TABLE reply (
            file_id INTEGER PRIMARY KEY REFERENCES file ON DELETE CASCADE,
            message_id TEXT NOT NULL,
            offset INTEGER NOT NULL,
            at INTEGER,
            text TEXT NOT NULL
        ) STRICT;

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
            estimated_tokens INTEGER NOT NULL,
            UNIQUE (file_id, uuid)
        ) STRICT;
        CREATE INDEX summary_agent ON summary (agent_id);
        CREATE INDEX summary_line ON summary (uuid);
        CREATE INDEX summary_time ON summary (at);

        CREATE TABLE line_count (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            type TEXT NOT NULL,
            known INTEGER NOT NULL,
            lines INTEGER NOT NULL,
            PRIMARY KEY (file_id, type)
        ) STRICT;

        CREATE TABLE bad_line (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            length INTEGER NOT NULL,
            reason TEXT NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT;
        """
    )
    db.table("summary").enable_fts(["text"], create_triggers=True)
