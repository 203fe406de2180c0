"""The store for a hook's answer: read-only, without waiting."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from ..plugin_files import plugin_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


QUERY_TIMEOUT_S: Final = 0.1  # of all queries: a heavy user's take a tenth of it
PROGRESS_STEPS: Final = 10_000  # of SQLite's machine between two looks at the clock: below 1 ms


@contextmanager
def open_store_without_waiting(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open the store read-only; None if it cannot be opened at once.

    It waits for no lock. A query that is still running after QUERY_TIMEOUT_S raises
    sqlite3.OperationalError.
    """
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
    except sqlite3.Error as error:
        if path.exists():
            note_store_error(path, error)
        yield None
        return
    with closing(connection):
        until = time.monotonic() + QUERY_TIMEOUT_S
        connection.set_progress_handler(lambda: time.monotonic() > until, PROGRESS_STEPS)
        yield connection


def note_store_error(store: Path, error: sqlite3.Error) -> None:
    """Record that an answer did without the store, for `ctxtop doctor` (T-27)."""
    fault = f"store: {type(error).__name__}: {error}"
    plugin_log.note_fault(plugin_log.log_path(str(store), plugin_log.ANSWER_FAULTS), fault)
