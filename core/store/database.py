"""Opening the store: one writer, readers that never wait, and a cache that may be made again."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from .facts import join_tools
from .health import NEWER, find_damage, has_own_schema, is_lasting, note_schema
from .tables import MIGRATION_NAMES, MIGRATION_SET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUSY_TIMEOUT_S: Final = 5.0
"""How long a writer waits for another ctxtop; its longest transaction is far shorter."""

CHECKPOINT_PAGES: Final = 8_000
"""Pages (32 MB) of the journal before they go into the store: each time waits for the disk."""

BUSY_STEP_S: Final = 0.05
"""Between two tries to open it: a close that moves the journal into the store takes longer."""

CACHE_KIB: Final = 16 * 1024
"""Of pages: the index of all messages of a heavy user's store fits, and is written once."""

RESTING_CACHE_KIB: Final = 4 * 1024
"""Of pages once all is read: what comes then is little, and the system holds the file too."""

ASIDES_KEPT: Final = 2
"""Stores that were set aside and stay: two versions of ctxtop in turn make a new one each time."""

_SUFFIXES: Final = ("", "-wal", "-shm")

PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600


class StoreError(Exception):
    """The store cannot be used; the message says where, why and what to do."""


def open_writer(path: Path) -> tuple[sqlite3.Connection, str | None]:
    """Open the store for writing and bring its tables up to date.

    A store that is corrupt, of another schema, written by a newer version, or that cannot
    be migrated is moved aside and made again; the second value then says so in one sentence.
    Raises StoreError where the file cannot be opened or made.
    """
    try:
        _make_private(path)
        try:
            return _migrated(path), None
        except (_UnknownStoreError, sqlite3.Error, *_FROM_BAD_ROWS) as error:
            if isinstance(error, sqlite3.Error) and not is_lasting(error):
                raise
            aside = set_aside(path)
            _make_private(path)
            return _migrated(path), (
                f"the store {path} was {_why(error)}: moved to {aside.name}, made again"
            )
    except sqlite3.Error as error:
        raise _store_error(error, path) from error
    except OSError as error:
        raise StoreError(
            f"cannot make the store {path}: {error.strerror}; choose another place with --db"
        ) from error


def open_reader(path: Path) -> sqlite3.Connection:
    """Open the store read-only; a reader sees one commit and never blocks the writer.

    Raises StoreError where there is no store that can be read.
    """
    keep_private(path)
    try:
        connection = _patiently(lambda: _open_read_only(path))
    except sqlite3.Error as error:
        raise _store_error(error, path) from error
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def write(connection: sqlite3.Connection) -> Iterator[None]:
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


def set_aside(path: Path) -> Path:
    """Move the store and its journal out of the way, under a name of their own.

    Of those that were moved before only the newest stays beside it.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    kept = _set_aside_before(path)
    number = max((each for when, each in kept if when == stamp), default=0) + 1
    aside = _aside(path, stamp, number)
    for suffix in _SUFFIXES:
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    for old in kept[: max(0, len(kept) + 1 - ASIDES_KEPT)]:
        place = _aside(path, *old)
        for suffix in _SUFFIXES:
            place.with_name(place.name + suffix).unlink(missing_ok=True)
    return aside


def _aside(path: Path, stamp: str, number: int) -> Path:
    again = f"-{number}" if number > 1 else ""
    return path.with_name(f"{path.name}.aside-{stamp}{again}")


def _set_aside_before(path: Path) -> list[tuple[str, int]]:
    """List the stores that were set aside by time and number, the oldest first."""
    named = re.compile(re.escape(path.name) + r"\.aside-(\d{8}-\d{6})(?:-(\d{1,9}))?")
    found = (named.fullmatch(each.name) for each in path.parent.iterdir())
    return sorted((each[1], int(each[2] or 1)) for each in found if each)


def explain(error: sqlite3.Error) -> tuple[str, str]:
    """Say what SQLite's error means, and what to do."""
    return _MEANING.get(_code(error), (str(error), "run `ctxtop doctor`"))


def is_passing(error: sqlite3.Error) -> bool:
    """Say whether trying again later can help (a lock, a full disk)."""
    return _code(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR}


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether SQLite found the store damaged, so that only making it again can help."""
    return _code(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_from_damage(error: BaseException, store: Path) -> bool:
    """Return whether a damaged store caused an error; in doubt the whole store is checked."""
    if isinstance(error, sqlite3.Error):
        return is_damage(error) or (is_lasting(error) and find_damage(store) is not None)
    return isinstance(error, _FROM_BAD_ROWS) and find_damage(store) is not None


_MEANING: Final = {
    sqlite3.SQLITE_FULL: ("the disk is full", "free some space, nothing is lost"),
    sqlite3.SQLITE_BUSY: ("another program holds it", "close that program or use another --db"),
    sqlite3.SQLITE_READONLY: ("it cannot be written", "choose another place with --db"),
    sqlite3.SQLITE_CANTOPEN: ("it cannot be opened", "check its folder or choose another --db"),
    sqlite3.SQLITE_IOERR: ("the disk does not answer", "check it or choose another --db"),
    sqlite3.SQLITE_CORRUPT: ("it is damaged", "the next start makes it again"),
    sqlite3.SQLITE_NOTADB: ("it is not a store", "the next start makes it again"),
}

_PRIMARY_CODE: Final = 0xFF
"""SQLite's extended codes carry the primary one in their lowest byte."""


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE


def _has_no_tables(error: sqlite3.Error) -> bool:
    """Say whether the store is being made: its file is there before its tables are."""
    return _code(error) == sqlite3.SQLITE_ERROR and "no such table" in str(error)


def _store_error(error: sqlite3.Error, path: Path) -> StoreError:
    what, remedy = explain(error)
    return StoreError(f"store {path}: {what}; {remedy}")


class _UnknownStoreError(Exception):
    """The store was not written by this version or an older one; the message says by what."""


_FROM_BAD_ROWS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a store raises whose rows are not what any ctxtop wrote: of another kind, of
another schema, texts that are not UTF-8."""


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, _UnknownStoreError) else "damaged"


def _make_private(path: Path) -> None:
    # Two first starts may meet here; a folder that is there keeps its mode.
    path.parent.mkdir(parents=True, mode=PRIVATE_FOLDER, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, PRIVATE_FILE))
    keep_private(path)


def keep_private(store: Path) -> None:
    """Make the store and its journal private; another user's file is left as it is."""
    for suffix in _SUFFIXES:
        part = store.with_name(store.name + suffix)
        with suppress(FileNotFoundError, PermissionError):
            if stat.S_IMODE(part.stat().st_mode) & ~PRIVATE_FILE:
                part.chmod(PRIVATE_FILE)


def _open_read_only(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        check_same_thread=False,
        isolation_level=None,
    )
    try:
        connection.execute("SELECT 1 FROM file LIMIT 1")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _patiently(open_store: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """Try again while another ctxtop makes, opens or closes the store: SQLite waits for most."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            return open_store()
        except sqlite3.OperationalError as error:
            passes = _code(error) == sqlite3.SQLITE_BUSY or _has_no_tables(error)
            if not passes or time.monotonic() >= deadline:
                raise
        time.sleep(BUSY_STEP_S)


def _migrated(path: Path) -> sqlite3.Connection:
    return _patiently(lambda: _open_migrated(path))


def _open_migrated(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=BUSY_TIMEOUT_S, check_same_thread=False, isolation_level=None
    )
    try:
        connection.create_function("join_tools", 2, join_tools, deterministic=True)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        applied = _applied(connection)
        if applied - set(MIGRATION_NAMES):
            raise _UnknownStoreError(NEWER)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        if applied != set(MIGRATION_NAMES):
            _migrate(connection)
        elif not has_own_schema(connection):
            raise _UnknownStoreError("of another program or schema")
    except BaseException:
        connection.close()
        raise
    return connection


def _applied(connection: sqlite3.Connection) -> set[str]:
    known = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE name = '_sqlite_migrations'"
    ).fetchone()
    if known is None:
        return set()
    names = connection.execute(
        "SELECT name FROM _sqlite_migrations WHERE migration_set = ?", [MIGRATION_SET]
    )
    return {row[0] for row in names}


def _migrate(connection: sqlite3.Connection) -> None:
    # Both take long to import, and a store needs them once.
    from sqlite_utils import Database

    from .migrations import migrations

    db = Database(connection)
    # Of two first starts at once the second waits here, and finds nothing to do.
    with write(connection):
        migrations.apply(db)
        note_schema(connection)
