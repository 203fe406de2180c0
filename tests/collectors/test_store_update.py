"""A command's scan: one that finds nothing new waits for no other ctxtop."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ctxtop.collectors.demo import make_demo, make_demo_saves
from ctxtop.collectors.locations.places import Places
from ctxtop.collectors.store_update import update_store
from ctxtop.core.store import database

from ..dump import dump

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_scan_that_finds_nothing_new_takes_no_lock(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    folder = make_demo(tmp_path / "claude", now)
    make_demo_saves(folder.root, tmp_path / "work", now)
    places = Places(folder.root, store)
    update_store(places)
    update_store(places)  # what it learned of the folders at work is looked at again once
    stored = dump(store)
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)

    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        outcome = update_store(places)

    assert (outcome.problems, outcome.notices) == ([], [])
    assert dump(store) == stored
