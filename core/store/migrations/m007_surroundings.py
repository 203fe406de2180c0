"""What the client is set up with: settings, definitions, plugins, and the save flow.

`folder` names where a file was found; `gone` keeps what a file said that is no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .known import migrations

if TYPE_CHECKING:
    from sqlite_utils import Database


@migrations()
def m007_surroundings(db: Database) -> None:
    """Carry it out."""
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
