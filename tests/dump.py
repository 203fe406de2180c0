"""All that a store holds, in a form in which two stores can be compared."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.store.database import open_reader

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

Rows = dict[str, list[tuple[Any, ...]]]

FILE_STATE: Final = frozenset(
    {"device", "inode", "size", "mtime_ns", "ctime_ns", "anchor", "places", "gone"}
)
"""Columns of `file` that tell of the moment of reading, not of what was read."""


def tables(db: sqlite3.Connection) -> list[str]:
    """Name the tables that hold rows of ctxtop's own."""
    rows = db.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    names = {str(row[0]) for row in rows}
    return sorted(name for name in names if not name.startswith(("sqlite_", "_sqlite_")))


def dump(path: Path, without: frozenset[str] = frozenset()) -> Rows:
    """Read every row of every table; a file's number is replaced by its path."""
    with closing(open_reader(path)) as db:
        rows = {name: _rows(db, name, without) for name in tables(db)}
        rows["words"] = words(db)
        return rows


def words(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """List the terms of the full-text index, with how often each occurs."""
    db.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, summary_fts, row)")
    found = [tuple(row) for row in db.execute("SELECT term, doc, cnt FROM temp.words")]
    db.execute("DROP TABLE temp.words")
    return found


def _rows(db: sqlite3.Connection, table: str, without: frozenset[str]) -> list[tuple[Any, ...]]:
    columns = [str(row[0]) for row in db.execute("SELECT name FROM pragma_table_info(?)", [table])]
    left_out = without | {"block_id", "summary_id", "warning_id"}
    left_out |= {"at"} if table == "trouble" else set()
    if table == "file":
        left_out |= {"file_id"}
    chosen = ", ".join(
        "(SELECT path FROM file f WHERE f.file_id = t.file_id)" if name == "file_id" else name
        for name in columns
        if name not in left_out
    )
    found = db.execute(f"SELECT {chosen} FROM {table} t")
    return sorted((tuple(row) for row in found), key=repr)
