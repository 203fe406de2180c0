"""The store's tables, as migrations that are only ever added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlite_utils import Migrations

from .tables import MIGRATION_SET

if TYPE_CHECKING:
    from sqlite_utils import Database

migrations: Final = Migrations(MIGRATION_SET)


@migrations()
def m001_files_and_facts(db: Database) -> None:
    """One row a file, and what its lines said, each with its byte offset."""
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


@migrations()
def m002_sidecars(db: Database) -> None:
    """What stands beside the transcripts: agents' meta.json, the registry, the status line."""
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


@migrations()
def m003_answers(db: Database) -> None:
    """Answers in their file's order, the most that a model saw, tokens counted afterwards."""
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


@migrations()
def m004_agent_eras(db: Database) -> None:
    """Agents inside other files than their own, how sessions hang together, lines said twice."""
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


@migrations()
def m005_requests(db: Database) -> None:
    """What was really sent: by key and place, so that an engine reads a part when it needs it."""
    db.executescript(
        """
        CREATE TABLE request (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            length INTEGER NOT NULL,
            request INTEGER NOT NULL,
            at INTEGER,
            model TEXT,
            query_source TEXT,
            shape INTEGER,
            base INTEGER,
            keep INTEGER NOT NULL,
            tail BLOB NOT NULL,
            PRIMARY KEY (file_id, offset)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE request_part (
            file_id INTEGER NOT NULL REFERENCES file ON DELETE CASCADE,
            part INTEGER NOT NULL,
            offset INTEGER NOT NULL,
            length INTEGER NOT NULL,
            kind TEXT NOT NULL,
            PRIMARY KEY (file_id, part)
        ) STRICT, WITHOUT ROWID;
        """
    )


@migrations()
def m006_hook_log(db: Database) -> None:
    """Our own logs of hooks and status line, and more of the registry."""
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
