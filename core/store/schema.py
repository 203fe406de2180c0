"""The store's tables, as migrations that are only ever added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlite_utils import Migrations

if TYPE_CHECKING:
    from sqlite_utils import Database

migrations: Final = Migrations("ctxtop")

# Tables whose rows belong to one file: read again, they are made again.
FACT_TABLES: Final = (
    "session",
    "response",
    "boundary",
    "api_error",
    "launch",
    "agent_return",
    "reply",
    "summary",
    "line_count",
    "bad_line",
)


def known_names() -> frozenset[str]:
    """Name every migration of this version; a store that has another one is newer."""
    from sqlite_utils import Database

    empty = Database(memory=True)
    try:
        return frozenset(step.name for step in migrations.pending(empty))
    finally:
        empty.close()


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
def m003_surroundings(db: Database) -> None:
    """What the client is set up with: settings, definitions, plugins, and the save flow.

    `folder` names where a file was found; `gone` keeps what a file said that is no more.
    """
    db.executescript(
        """
        CREATE TABLE settings_file (
            path TEXT PRIMARY KEY,
            folder TEXT NOT NULL,
            scope TEXT NOT NULL,
            project TEXT,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            inode INTEGER NOT NULL,
            gone INTEGER NOT NULL DEFAULT 0,
            problem TEXT
        ) STRICT;

        CREATE TABLE setting (
            path TEXT NOT NULL REFERENCES settings_file ON DELETE CASCADE,
            key TEXT NOT NULL,
            value TEXT NOT NULL,
            PRIMARY KEY (path, key)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE hook (
            path TEXT NOT NULL REFERENCES settings_file ON DELETE CASCADE,
            position INTEGER NOT NULL,
            event TEXT NOT NULL,
            matcher TEXT NOT NULL,
            kind TEXT NOT NULL,
            command TEXT NOT NULL,
            timeout_s REAL,
            in_background INTEGER NOT NULL,
            mark TEXT NOT NULL,
            PRIMARY KEY (path, position)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE plugin (
            plugin_id TEXT NOT NULL,
            scope TEXT NOT NULL,
            project TEXT NOT NULL,
            install_path TEXT NOT NULL,
            version TEXT,
            PRIMARY KEY (plugin_id, scope, project)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE definition (
            path TEXT PRIMARY KEY,
            folder TEXT NOT NULL,
            kind TEXT NOT NULL,
            scope TEXT NOT NULL,
            project TEXT,
            plugin_id TEXT,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            inode INTEGER NOT NULL,
            gone INTEGER NOT NULL DEFAULT 0,
            name TEXT NOT NULL,
            description TEXT NOT NULL,
            model TEXT,
            skills TEXT NOT NULL,
            tools TEXT,
            color TEXT,
            background INTEGER,
            auto_compact_window INTEGER,
            body_bytes INTEGER,
            body_estimated_tokens INTEGER,
            sha256 TEXT,
            problem TEXT
        ) STRICT;
        CREATE INDEX definition_name ON definition (kind, name);

        CREATE TABLE save_place (
            path TEXT PRIMARY KEY,
            generation TEXT NOT NULL,
            project TEXT NOT NULL,
            mode INTEGER NOT NULL,
            gone INTEGER NOT NULL DEFAULT 0,
            problem TEXT
        ) STRICT;

        -- One row a version: what a one-shot file said before is what a save flow did.
        CREATE TABLE save_file (
            version INTEGER PRIMARY KEY,
            path TEXT NOT NULL,
            folder TEXT NOT NULL,
            kind TEXT NOT NULL,
            generation TEXT NOT NULL,
            project TEXT,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            inode INTEGER NOT NULL,
            gone INTEGER NOT NULL DEFAULT 0,
            content TEXT,
            problem TEXT,
            UNIQUE (path, size, mtime_ns, inode)
        ) STRICT;

        CREATE TABLE save_log (
            path TEXT PRIMARY KEY,
            folder TEXT NOT NULL,
            project TEXT NOT NULL,
            category TEXT NOT NULL,
            device TEXT NOT NULL,
            inode TEXT NOT NULL,
            offset INTEGER NOT NULL,
            anchor TEXT NOT NULL,
            size INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            gone INTEGER NOT NULL DEFAULT 0
        ) STRICT;

        CREATE TABLE save_event (
            path TEXT NOT NULL REFERENCES save_log ON DELETE CASCADE,
            offset INTEGER NOT NULL,
            at INTEGER,
            event TEXT NOT NULL,
            level TEXT,
            hook TEXT,
            script TEXT,
            session_id TEXT,
            duration_ms REAL,
            data TEXT,
            error TEXT,
            problem TEXT,
            PRIMARY KEY (path, offset)
        ) STRICT;
        CREATE INDEX save_event_name ON save_event (event, at);
        """
    )
