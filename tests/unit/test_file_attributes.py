"""Extended attributes, mode and owner of files that others take the place of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ctxtop.collectors.install.settings_file import read_settings_file, write_settings_file
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.undo import undo
from ctxtop.core.files.file_operations import copy_extended_attributes, write_temporary

from ..sessions_on_disk import at_rest, encoded, masks, plan_of, result_lines, turns

LINES = turns(3)
DATA = encoded(LINES)
MARK = "user.com.example.tag"


def has_none(folder: Path) -> bool:
    probe = folder / "probe"
    probe.touch()
    try:
        os.setxattr(probe, MARK, b"x")
    except (AttributeError, OSError):
        return True
    return False


@pytest.fixture(autouse=True)
def with_attributes(tmp_path: Path) -> None:
    if has_none(tmp_path):
        pytest.skip("this system has no extended attributes here")


def marked(path: Path) -> bytes | None:
    return os.getxattr(path, MARK) if MARK in os.listxattr(path) else None


def test_a_session_that_is_changed_and_taken_back_keeps_them(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    os.setxattr(subject.transcript, MARK, b"work")
    receipt = apply_plan(
        plan_of(DATA, masks(DATA, result_lines(LINES)[:1])), ApplyMode.IN_PLACE, subject
    )
    changed = marked(subject.transcript)
    undo(receipt.receipt_id, None, subject)

    assert (changed, marked(subject.transcript)) == (b"work", b"work")
    assert subject.transcript.read_bytes() == DATA


def test_a_fork_has_those_of_its_session(tmp_path: Path) -> None:
    subject = at_rest(tmp_path, DATA)
    os.setxattr(subject.transcript, MARK, b"work")
    receipt = apply_plan(
        plan_of(DATA, masks(DATA, result_lines(LINES)[:1])), ApplyMode.FORK, subject
    )

    assert marked(Path(receipt.target)) == b"work"


def test_settings_that_are_changed_keep_them(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(b"{}")
    path.chmod(0o640)
    os.setxattr(path, MARK, b"mine")
    write_settings_file(read_settings_file(path, [tmp_path]), b'{"a":1}')

    assert (path.read_bytes(), marked(path)) == (b'{"a":1}', b"mine")
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_the_system_does_not_let_us_set_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, target = tmp_path / "a", tmp_path / "b"
    origin.write_bytes(b"a")
    os.setxattr(origin, MARK, b"x")
    names = [*os.listxattr(origin), "security.ours"]
    monkeypatch.setattr(os, "listxattr", lambda *_, **__: names)
    with target.open("wb") as file:
        copy_extended_attributes(origin, file.fileno())
        copy_extended_attributes(tmp_path / "gone", file.fileno())
        monkeypatch.delattr(os, "listxattr")
        copy_extended_attributes(origin, file.fileno())

    assert os.getxattr(target, MARK) == b"x"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_file_of_somebody_else_stays_theirs(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"a")
    os.chown(path, 12_345, 12_346)
    new = write_temporary(path, [b"b"], path.stat()).stat()

    assert (new.st_uid, new.st_gid) == (12_345, 12_346)
