"""Notes from one hook to the next: private, whole, and taken by one alone."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin_files import state_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "ctxtop.db"


def folder(store: Path) -> Path:
    return store.with_name("ctxtop.db.logs") / state_files.NOTES_FOLDER


def test_a_note_is_taken_once(store: Path) -> None:
    assert not state_files.has_note(store, "a")
    assert state_files.take_note(store, "a") is None
    state_files.leave_note(store, "a", b"one")
    state_files.leave_note(store, "a", b"two")
    assert state_files.has_note(store, "a")
    assert state_files.take_note(store, "a") == b"two"
    assert state_files.take_note(store, "a") is None
    assert list(folder(store).iterdir()) == []


def test_it_is_private(store: Path) -> None:
    state_files.leave_note(store, "a", b"one")
    assert (folder(store) / "a").stat().st_mode & 0o777 == 0o600
    assert folder(store).stat().st_mode & 0o777 == 0o700


def test_of_many_that_come_at_once_one_has_it(store: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            state_files.leave_note(store, "a", b"one")
            found = list(pool.map(lambda _: state_files.take_note(store, "a"), range(8)))
            assert sorted(each or b"" for each in found) == [b""] * 7 + [b"one"]


@pytest.mark.parametrize("name", ["", "../a", "a/b", "a\0", "x" * 151])
def test_no_other_place_is_named(store: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a valid note name"):
        state_files.leave_note(store, name, b"one")


def test_no_link_is_followed(store: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    folder(store).mkdir(parents=True)
    (folder(store) / "a").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic links"):
        state_files.take_note(store, "a")
    assert secret.read_bytes() == b"secret"


def test_an_old_one_goes_when_another_comes(store: Path) -> None:
    state_files.leave_note(store, "a", b"one")
    os.utime(folder(store) / "a", (1, 1))
    state_files.leave_note(store, "b", b"two")
    assert [each.name for each in folder(store).iterdir()] == ["b"]
