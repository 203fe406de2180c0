"""A file that a person names: theirs alone, and nothing of theirs is overwritten."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from ctxtop.tui.export.documents import ExportError, FileThereError, parse_path, write_export


def test_it_is_written_whole_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    assert write_export(path, ["a", "é\n"]) == 4
    assert path.read_text() == "aé\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_there_stays_until_it_is_to_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    path.write_text("mine")
    with pytest.raises(FileThereError, match="already exists"):
        write_export(path, ["other"])
    assert path.read_text() == "mine"
    write_export(path, ["other"], replacing=True)
    assert path.read_text() == "other"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("replacing", [False, True])
def test_a_link_or_a_folder_is_never_written_to(tmp_path: Path, replacing: bool) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(target)
    for path in (link, tmp_path):
        with pytest.raises(ExportError, match="not a regular file"):
            write_export(path, ["other"], replacing=replacing)
    assert target.read_text() == "mine"


def test_a_fault_leaves_nothing_behind(tmp_path: Path) -> None:
    def parts() -> object:
        yield "a"
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_export(tmp_path / "out.md", parts())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ExportError, match="cannot be written"):
        write_export(tmp_path / "no" / "out.md", ["a"])


def test_names_as_they_are_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/x")
    assert parse_path(" a.md ", tmp_path) == tmp_path / "a.md"
    assert parse_path("~/a.md", tmp_path) == Path("/home/x/a.md")
    for odd in ("", "  ", "a\0b"):
        with pytest.raises(ExportError):
            parse_path(odd, tmp_path)
