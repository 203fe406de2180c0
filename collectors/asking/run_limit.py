"""The limit of runs of the client that a policy asks for, in the store of this ctxtop."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from ...core.store.client_runs import claim_client_run
from ...core.store.database import StoreError
from ...core.store.writer import Writer
from .client_run import NotRunError

if TYPE_CHECKING:
    from pathlib import Path


def claim_run(store: Path, session_id: str) -> None:
    """Note a run before it begins; raises NotRunError where there were too many within an hour.

    A run that cannot be noted is none that may begin.
    """
    try:
        with closing(Writer(store)) as writer:
            why = claim_client_run(writer.connection, session_id, time.time_ns() // 1_000_000)
    except (StoreError, sqlite3.Error) as error:
        raise NotRunError(f"it cannot be noted that the client is run: {error}") from error
    if why is not None:
        raise NotRunError(f"{why}: resume it yourself, or wait")
