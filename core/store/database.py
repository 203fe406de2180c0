"""Opens the store: one writer, readers that never wait, and a rebuild when it is damaged."""

import os
import re
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection
from typing import Final

from ..files.digests import blake2b
from ..model.transcript_records import FileKind, LogKind, join_tools

SCHEMA_VERSION: Final = 13
"""The version of schema.sql, kept as `PRAGMA user_version`; raise it with every change that is not
a comment."""

NEWER_VERSION: Final = "written by a newer ctxtop"
OLDER_VERSION: Final = "written by an older ctxtop"
FOREIGN_SCHEMA: Final = "from another program or schema"


class StoreError(Exception):
    """The store cannot be used; the message says where, why and what to do."""


class _UnknownStoreError(Exception):
    """The store was not written by this version; the message says by what."""


class _OlderStoreError(_UnknownStoreError):
    """The store was written by an older version."""


_BAD_ROW_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a store raises if no ctxtop wrote its rows: they have other types, are of another
schema, or are not UTF-8."""

BUSY_TIMEOUT_S: Final = 5.0  # for another ctxtop, whose longest transaction is far shorter

BUSY_RETRY_S: Final = 0.05  # between two tries: a close that checkpoints the journal takes longer

WAL_CHECKPOINT_PAGES: Final = 8_000  # 32 MB of journal: each checkpoint waits for the disk
CACHE_KIB: Final = 16 * 1024  # the index of all messages of a heavy user's store fits
IDLE_CACHE_KIB: Final = 4 * 1024  # once all is read: little follows, and the system caches the file
MAX_STORES_ASIDE: Final = 2  # two versions of ctxtop in turn make a new one each time

_SUFFIXES: Final = ("", "-wal", "-shm")

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


def open_writer(path: Path) -> tuple[Connection, str | None]:
    """Open the store for writing; create its tables if there are none.

    A store that is corrupt, of another schema, or written by another version is moved aside and
    made again; the second value then says so in one sentence. From an older one, what no
    transcript can restore is carried over.
    Raises StoreError if the file cannot be opened or created.
    """
    try:
        _create_private(path)
        try:
            return _retry_while_busy(_open_or_create, path), None
        except (_UnknownStoreError, sqlite3.Error, *_BAD_ROW_ERRORS) as error:
            if isinstance(error, sqlite3.Error) and not is_permanent(error):
                raise
            aside = move_aside(path)
            _create_private(path)
            connection = _retry_while_busy(_open_or_create, path)
            if isinstance(error, _OlderStoreError):
                carry_over(connection, aside)
            why = error if isinstance(error, _UnknownStoreError) else "damaged"
            return (
                connection,
                f"the store {path} was {why}: it was moved to {aside.name} and rebuilt",
            )
    except sqlite3.Error as error:
        raise _store_error(error, path) from error
    except OSError as error:
        raise StoreError(
            f"cannot create the store {path}: {error.strerror}; choose another file with --db"
        ) from error


def open_reader(path: Path) -> Connection:
    """Open the store read-only; a reader sees one commit and never blocks the writer.

    Raises StoreError if there is no store that can be read.
    """
    _restrict_permissions(path)
    try:
        connection = _retry_while_busy(_open_read_only, path)
    except sqlite3.Error as error:
        raise _store_error(error, path) from error
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def write_transaction(connection: Connection) -> Iterator[None]:
    """Run one transaction that takes the write lock at once.

    A deferred BEGIN that writes after it has read fails at once when another
    process writes; BEGIN IMMEDIATE waits its turn.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        # Inside: a commit that fails (a full disk) would leave the transaction open.
        connection.commit()
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        raise


@contextmanager
def nested_transaction(connection: Connection) -> Iterator[None]:
    """Run a part of a transaction; an error undoes this part alone."""
    connection.execute("SAVEPOINT part")
    try:
        yield
    except BaseException:
        # A full disk, for one, ends the whole transaction.
        if connection.in_transaction:
            connection.execute("ROLLBACK TO part")
            connection.execute("RELEASE part")
        raise
    connection.execute("RELEASE part")


def _create_private(path: Path) -> None:
    # Two first starts may meet here; a folder that exists keeps its mode.
    path.parent.mkdir(parents=True, mode=PRIVATE_FOLDER, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))
    _restrict_permissions(path)


def _restrict_permissions(store: Path) -> None:
    """Make the store and its journal private; another user's file is left as it is."""
    for suffix in _SUFFIXES:
        part = store.with_name(store.name + suffix)
        with suppress(FileNotFoundError, PermissionError):
            if stat.S_IMODE(part.stat().st_mode) & ~PRIVATE_FILE:
                part.chmod(PRIVATE_FILE)


def _retry_while_busy(open_store: Callable[[Path], Connection], path: Path) -> Connection:
    """Try again while another ctxtop makes, opens or closes the store: SQLite waits for most."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return open_store(path)
        except sqlite3.OperationalError as error:
            code = _primary_code(error)
            # A store that is still being created has a file before it has tables.
            has_no_tables = code == sqlite3.SQLITE_ERROR and "no such table" in str(error)
            may_pass = code == sqlite3.SQLITE_BUSY or has_no_tables
            if not may_pass or time.monotonic() >= deadline:
                raise
        time.sleep(BUSY_RETRY_S)


def _open_read_only(path: Path) -> Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        check_same_thread=False,
        isolation_level=None,
    )
    try:
        connection.execute("SELECT 1 FROM file LIMIT 1")
        if _is_older(connection):
            raise StoreError(f"store {path}: {OLDER_VERSION}; run `ctxtop scan`, which rebuilds it")
    except (sqlite3.Error, StoreError):
        connection.close()
        raise
    return connection


def _open_or_create(path: Path) -> Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None
    )
    try:
        connection.create_function("join_tools", 2, join_tools, deterministic=True)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        _create_tables(connection)
        _require_current(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection


def _create_tables(connection: Connection) -> None:
    if _has_tables(connection):
        return
    # If two processes make the store at once, the second waits here and has nothing to do.
    with write_transaction(connection):
        if _has_tables(connection):
            return
        for statement in _schema_statements():
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("INSERT INTO about VALUES ('schema', ?)", [schema_hash(connection)])


def _has_tables(connection: Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None


def _schema_statements() -> Iterator[str]:
    """Split schema.sql: `executescript` would commit first, and end the transaction."""
    from importlib.resources import files  # only used to create a store

    statement = ""
    script = files("ctxtop.core.store").joinpath("schema.sql").read_text(encoding="utf-8")
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def schema_version(db: Connection) -> int:
    """Return the SCHEMA_VERSION; 0 if it is not a store, or of an early ctxtop."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def schema_hash(db: Connection) -> str:
    """Hash the definitions of all tables and indexes except those that SQLite adds."""
    rows = db.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%'"
        " ESCAPE '\\' ORDER BY type, name"
    )
    return blake2b(repr([tuple(row) for row in rows]).encode(), digest_size=16).hexdigest()


def _has_current_schema(db: Connection) -> bool:
    row = db.execute("SELECT value FROM about WHERE key = 'schema'").fetchone()
    return row is not None and row[0] == schema_hash(db)


def _is_older(db: Connection) -> bool:
    # Before the first release, migrations created the tables.
    migrations = "SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'"
    return 0 < schema_version(db) < SCHEMA_VERSION or db.execute(migrations).fetchone() is not None


def _require_current(connection: Connection) -> None:
    version = schema_version(connection)
    if version > SCHEMA_VERSION:
        raise _UnknownStoreError(NEWER_VERSION)
    if _is_older(connection):
        raise _OlderStoreError(OLDER_VERSION)
    if version < SCHEMA_VERSION or not _has_current_schema(connection):
        raise _UnknownStoreError(FOREIGN_SCHEMA)


def owned_tables(db: Connection, owner: str, key: str) -> list[str]:
    """Name the tables whose rows belong to a row of `owner`, in the order of their creation."""
    rows = db.execute(
        "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c ON c.name = ?"
        " WHERE m.type = 'table' AND m.name <> ? ORDER BY m.rowid",
        [key, owner],
    )
    return [row[0] for row in rows]


LASTING_TABLES: Final = (
    "client_run",
    "automatic_run",
    "pause_run",
    "recovery_run",
    "warning",
    "closed_agent",
)
"""Carried over to a new store. Without the first four an upgrade would reset the limits of what
ctxtop does by itself, and a session could be paused twice."""


def carry_over(connection: Connection, older: Path) -> None:
    """Copy the lasting tables of an older store, as far as both have their columns.

    A store that cannot be read, or a table whose rows no longer fit, is left out.
    """
    from sqlite_utils import Database  # takes 100 ms, more than all that opens a store

    db = Database(connection)
    try:
        db.attach("older", older)
    except sqlite3.Error:
        return
    try:
        for table in LASTING_TABLES:
            rows = db.query("SELECT name FROM pragma_table_info(?, 'older')", [table])
            shared = db.table(table).columns_dict.keys() & {row["name"] for row in rows}
            names = ", ".join(f'"{name}"' for name in shared)
            # A table that the older store does not have makes this statement fail, too.
            with suppress(sqlite3.Error):
                connection.execute(
                    f"INSERT OR IGNORE INTO main.{table} ({names})"
                    f" SELECT {names} FROM older.{table}"
                )
    finally:
        connection.execute("DETACH older")


def move_aside(path: Path) -> Path:
    """Move the store and its journal out of the way, under a name of their own.

    Of the stores that were moved before, only the newest is kept.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    earlier = _earlier_asides(path)
    number = max((each for when, each in earlier if when == stamp), default=0) + 1
    aside = _aside_path(path, stamp, number)
    for suffix in _SUFFIXES:
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    for old in earlier[: max(0, len(earlier) + 1 - MAX_STORES_ASIDE)]:
        place = _aside_path(path, *old)
        for suffix in _SUFFIXES:
            place.with_name(place.name + suffix).unlink(missing_ok=True)
    return aside


def _aside_path(path: Path, stamp: str, number: int) -> Path:
    again = f"-{number}" if number > 1 else ""
    return path.with_name(f"{path.name}.aside-{stamp}{again}")


def _earlier_asides(path: Path) -> list[tuple[str, int]]:
    pattern = re.compile(re.escape(path.name) + r"\.aside-(\d{8}-\d{6})(?:-(\d{1,9}))?")
    matches = (pattern.fullmatch(each.name) for each in path.parent.iterdir())
    return sorted((each[1], int(each[2] or 1)) for each in matches if each)


_ERROR_MEANINGS: Final = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space; nothing is lost"),
    sqlite3.SQLITE_BUSY: (
        "another program has it locked",
        "close that program, or choose another file with --db",
    ),
    sqlite3.SQLITE_READONLY: ("it cannot be written", "choose another file with --db"),
    sqlite3.SQLITE_CANTOPEN: (
        "it cannot be opened",
        "check its folder, or choose another file with --db",
    ),
    sqlite3.SQLITE_IOERR: (
        "the disk does not respond",
        "check it, or choose another file with --db",
    ),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", "the next start rebuilds it"),
    sqlite3.SQLITE_NOTADB: ("it is not a store", "the next start rebuilds it"),
}

_FILE_SYSTEM_CODES: Final = {
    *(sqlite3.SQLITE_AUTH, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED),
    *(sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL),
    sqlite3.SQLITE_READONLY,
}


def _primary_code(error: Exception) -> int:
    # SQLite's extended codes have the primary one in their lowest byte.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def explain_error(error: sqlite3.Error) -> tuple[str, str]:
    return _ERROR_MEANINGS.get(_primary_code(error), (str(error), "run `ctxtop doctor`"))


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    return StoreError(f"store {path}: {'; '.join(explain_error(error))}")


def is_transient(error: sqlite3.Error) -> bool:
    """Whether trying again later can help (a lock, a full disk)."""
    return _primary_code(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR}


def is_permanent(error: sqlite3.Error) -> bool:
    """Return whether an error is about the file's content, not about access to it."""
    return _primary_code(error) not in _FILE_SYSTEM_CODES


def is_corruption(error: sqlite3.Error) -> bool:
    return _primary_code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_caused_by_corruption(error: BaseException, store: Path) -> bool:
    """Return whether a damaged store caused an error; in doubt the whole store is checked."""
    if isinstance(error, sqlite3.Error):
        return is_corruption(error) or (is_permanent(error) and find_damage(store) is not None)
    return isinstance(error, _BAD_ROW_ERRORS) and find_damage(store) is not None


_sound_stores: Final[dict[Path, tuple[int, int]]] = {}
"""Inode and time of stores that were sound: many faults in a row check them once."""


def store_path(db: Connection) -> Path:
    """Return the file of a connection."""
    return Path(str(db.execute("PRAGMA database_list").fetchone()[2]))


def is_store_error(error: Exception, store: Path | None) -> bool:
    """Whether the store is at fault, not what was read from it or is written to it.

    Name the store if anything of it was used: in doubt it is checked, once as long as it is sound.
    """
    if isinstance(error, StoreError):
        return True
    if isinstance(error, sqlite3.Error) and (is_corruption(error) or not is_permanent(error)):
        return True
    if store is None:
        return False
    state = _file_state(store)
    if state is None or _sound_stores.get(store) != state:
        if is_caused_by_corruption(error, store):
            return True
        if state is not None:
            _sound_stores[store] = state
    return False


def _file_state(store: Path) -> tuple[int, int] | None:
    try:
        status = store.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


LOCK_WAIT_MS: Final = 1_000  # a store that is busy for longer is not checked


def find_damage(path: Path) -> str | None:
    """Check a whole store; return the first thing that is wrong, or None.

    A store that is busy, or that may not be opened, is not damaged. It takes about a second for
    each 200 MB.
    """
    checks = (_check_pages, _check_schema, _check_texts, _check_enum_columns)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.execute(f"PRAGMA busy_timeout = {LOCK_WAIT_MS}")
            return next((damage for check in checks if (damage := check(db))), None)
    except sqlite3.Error as error:
        return str(error) if is_permanent(error) else None
    except UnicodeError:
        return "a text is not UTF-8"


def _check_pages(db: Connection) -> str | None:
    result = str(db.execute("PRAGMA integrity_check(1)").fetchone()[0])
    return None if result == "ok" else result


def _check_schema(db: Connection) -> str | None:
    version = schema_version(db)
    if version > SCHEMA_VERSION:
        return NEWER_VERSION
    if 0 < version < SCHEMA_VERSION:
        # The next writer rebuilds it.
        return None
    return None if _has_current_schema(db) else "its tables are not ctxtop's"


def _check_texts(db: Connection) -> str | None:
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


def _check_enum_columns(db: Connection) -> str | None:
    for table, column, values in (("file", "kind", FileKind), ("log_part", "log", LogKind)):
        stored = {str(row[0]) for row in db.execute(f"SELECT DISTINCT {column} FROM {table}")}
        if stored - {str(each) for each in values}:
            return f"{table} has an unknown {column}"
    return None


def state_folder(store: Path) -> Path:
    """Return the folder of copies, receipts and locks: beside the store, outside the client's."""
    return store.with_name(f"{store.name}.compaction")


def summary_cache_folder(store: Path) -> Path:
    """Return the folder of summaries that a model wrote: they are paid for once."""
    return state_folder(store) / "summaries"
