"""The rows of a difference are compared with both texts."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.terminal.shown_changes import (
    MAX_FILE_BYTES,
    read_cell,
    read_text,
    shows_change,
)

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = "\n".join(f"l{number}" for number in range(1, 15))
LONG = "THREE " + "x " * 20 + "12 +foo"
AFTER = BEFORE.replace("l3", LONG).replace("l12\n", "")
SHOWN = f""" 2  l2
 3 -l3
 3 +{LONG[:30]}
   +{LONG[30:]}
 4  l4
...
  11  l11
  12 -l12
  12  l13
  13  l14"""


def test_a_wrapped_row_and_lines_that_are_not_shown() -> None:
    assert shows_change(SHOWN, BEFORE, AFTER)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" 4  l4", " 4  l5"),
        (" 4  l4", " 4 -l4"),
        (" 3 -l3\n", ""),
        ("   +", "    "),
        ("   +", "   -"),
        (" 3 +", " 4 +"),
        ("  13  l14", "  99  l14"),
        ("...\n", ""),
        (" 2  l2", "    l2"),
    ],
)
def test_another_difference_is_told_apart(old: str, new: str) -> None:
    assert old in SHOWN
    assert not shows_change(SHOWN.replace(old, new, 1), BEFORE, AFTER)


def test_a_line_that_changes_unseen_is_not_the_same_change() -> None:
    assert not shows_change(SHOWN, BEFORE, AFTER.replace("l8", "l9"))
    assert not shows_change(SHOWN, BEFORE, f"{AFTER}\nl15")


def test_a_missing_line_end_is_no_line() -> None:
    rows = " 1 -a\n 1 +b\n   \\ No newline at end of file"
    assert shows_change(rows, "a", "b")
    assert not shows_change(rows, "a", "b\nc")


def test_only_a_small_text_file_is_read(tmp_path: Path) -> None:
    text, fifo, link = tmp_path / "text", tmp_path / "fifo", tmp_path / "link"
    text.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert read_text(text) == "one\ntwo\n"
    os.mkfifo(fifo)
    link.symlink_to(text)
    assert [read_text(path) for path in (fifo, link, tmp_path / "none", tmp_path)] == [None] * 4
    text.write_bytes(b"\xff\xfe")
    assert read_text(text) is None
    text.write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    assert read_text(text) is None


def test_a_cell_is_found_by_its_id_or_place(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    cells = [{"source": "a\n"}, {"id": "b1", "source": ["b\n", "c"]}]
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    found = [read_cell(path, name) for name in ("cell-0", "b1", "cell-1", "none")]
    assert found == ["a\n", "b\nc", "b\nc", None]
    path.write_text("{", encoding="utf-8")
    assert read_cell(path, "cell-0") is None
