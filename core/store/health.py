"""Whether a store is what ctxtop wrote: its pages, its schema, its texts."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from .facts import FileKind
from .log_facts import Log
from .tables import MIGRATION_NAMES, MIGRATION_SET

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA_KEY: Final = "schema"
"""In the table `about`: what `schema_mark` was when the last migration had run."""

NEWER: Final = "written by a newer ctxtop"
"""What is said of a store with migrations that this version does not know."""

WAIT_S: Final = 1.0
"""For a lock: a store that is busy is not looked into."""


def schema_mark(db: sqlite3.Connection) -> str:
    """Hash the definitions of all tables and indexes; what SQLite itself adds is left out."""
    rows = db.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%'"
        " ESCAPE '\\' ORDER BY type, name"
    )
    return hashlib.blake2b(repr([tuple(row) for row in rows]).encode(), digest_size=16).hexdigest()


def note_schema(db: sqlite3.Connection) -> None:
    """Keep what the schema is now, so that another one is found out."""
    db.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", [SCHEMA_KEY, schema_mark(db)])


def has_own_schema(db: sqlite3.Connection) -> bool:
    """Return whether the schema is the one that the migrations made."""
    row = db.execute("SELECT value FROM about WHERE key = ?", [SCHEMA_KEY]).fetchone()
    return row is not None and row[0] == schema_mark(db)


def find_damage(path: Path) -> str | None:
    """Look at the whole of a store; say the first thing that is wrong, None where nothing is.

    A store that is busy, or that may not be opened, is not damaged. It takes about a second for
    each 200 MB.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.execute(f"PRAGMA busy_timeout = {round(WAIT_S * 1000)}")
            return next((found for look in _LOOKS if (found := look(db))), None)
    except sqlite3.Error as error:
        return str(error) if is_lasting(error) else None
    except UnicodeError:
        return "a text is not UTF-8"


def is_lasting(error: sqlite3.Error) -> bool:
    """Return whether an error is about what the file holds, not about who may open it and when."""
    return (getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE) not in _ABOUT_THE_FILE_SYSTEM


_PRIMARY_CODE: Final = 0xFF
"""SQLite's extended codes carry the primary one in their lowest byte."""

_ABOUT_THE_FILE_SYSTEM: Final = frozenset(
    {
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


def _pages(db: sqlite3.Connection) -> str | None:
    found = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return None if found == "ok" else found


def _schema(db: sqlite3.Connection) -> str | None:
    names = db.execute(
        "SELECT name FROM _sqlite_migrations WHERE migration_set = ?", [MIGRATION_SET]
    )
    applied = {str(row[0]) for row in names}
    if applied - set(MIGRATION_NAMES):
        return NEWER
    if applied != set(MIGRATION_NAMES):
        # The next writer brings it up to date.
        return None
    return None if has_own_schema(db) else "its tables are not ctxtop's"


def _texts(db: sqlite3.Connection) -> str | None:
    # A text that is not UTF-8 raises where it is read.
    tables = db.execute(
        "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'shadow')"
        " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    for (table,) in tables:
        columns = db.execute("SELECT name, type FROM pragma_table_info(?)", [table]).fetchall()
        texts = ", ".join(f'"{name}"' for name, kind in columns if kind == "TEXT")
        if texts:
            for _ in db.execute(f'SELECT {texts} FROM "{table}"'):
                pass
    return None


def _kinds(db: sqlite3.Connection) -> str | None:
    for table, column, kinds in (("file", "kind", FileKind), ("log_part", "log", Log)):
        known = {str(each) for each in kinds}
        found = {str(row[0]) for row in db.execute(f"SELECT DISTINCT {column} FROM {table}")}
        if found - known:
            return f"{table} has an unknown {column}"
    return None


_LOOKS: Final[tuple[Callable[[sqlite3.Connection], str | None], ...]] = (
    _pages,
    _schema,
    _texts,
    _kinds,
)
