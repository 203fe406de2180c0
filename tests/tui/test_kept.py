"""What a person arranged: found again, and not lost between two ctxtops."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest
from ctxtop.tui.base.theme import LIGHT
from ctxtop.tui.base.ui_state import UiState, UiStateFile

from .support import opened

if TYPE_CHECKING:
    from pathlib import Path

    from .support import Stage


@pytest.fixture
def file(tmp_path: Path) -> UiStateFile:
    return UiStateFile(tmp_path / "state" / "store.db")


def written(stage: Stage) -> UiState:
    return UiStateFile(stage.places.store).read()


def test_nothing_was_kept_yet(file: UiStateFile) -> None:
    assert file.read() == UiState()


@pytest.mark.parametrize("words", [b"", b"{", b'{"pins": 3}', b"\xff", b"[]"])
def test_what_cannot_be_understood_is_as_on_the_first_day(tmp_path: Path, words: bytes) -> None:
    (tmp_path / "store.db.screen.json").write_bytes(words)
    assert UiStateFile(tmp_path / "store.db").read() == UiState()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text('{"theme": "nord"}')
    (tmp_path / "store.db.screen.json").symlink_to(tmp_path / "other")
    file = UiStateFile(tmp_path / "store.db")
    assert file.read() == UiState()
    file.write_changes(UiState(), UiState(theme="x"))
    assert (tmp_path / "other").read_text() == '{"theme": "nord"}'


def test_it_is_for_nobody_else_to_read(tmp_path: Path, file: UiStateFile) -> None:
    file.write_changes(UiState(), UiState(theme="nord"))
    folder = tmp_path / "state"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()] == [0o600, 0o600]


def test_two_ctxtops_keep_each_other_s_pins_and_changes(file: UiStateFile) -> None:
    begin = file.write_changes(UiState(), UiState(pins=("a", "b")))
    file.write_changes(begin, UiState(pins=("a", "b", "c")))
    assert file.write_changes(begin, UiState(pins=("b", "d"), theme="nord")) == UiState(
        pins=("b", "c", "d"), theme="nord"
    )
    assert file.write_changes(begin, UiState(pins=("a", "b"), order="newest")).theme == "nord"


async def test_the_theme_is_found_again_at_the_next_start(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.press("t")
        assert it.app.theme == LIGHT.name
        await it.until(lambda: written(demo).theme == LIGHT.name)
    async with opened(demo) as it:
        assert it.app.theme == LIGHT.name
        assert it.app.ui_state.theme == LIGHT.name


async def test_a_theme_that_is_gone_is_not_missed(demo: Stage) -> None:
    UiStateFile(demo.places.store).write_changes(UiState(), UiState(theme="of another version"))
    async with opened(demo) as it:
        assert it.app.theme == "ctxtop-dark"


async def test_what_cannot_be_written_is_told_and_holds_till_the_end(demo: Stage) -> None:
    async with opened(demo) as it:
        lock = demo.places.store.with_name("store.db.screen.lock")
        lock.symlink_to("nowhere")
        it.app.update_ui_state(pins=("a",))
        assert it.app.ui_state.pins == ("a",)
        await it.until(lambda: it.toasts)
        assert it.app.ui_state.pins == ("a",)
