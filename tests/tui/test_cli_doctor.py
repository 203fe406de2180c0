"""What `ctxtop doctor` finds wrong, and what it says to do; and `ctxtop scan --bad`."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import pytest
from ctxtop.collectors.claude_code.own_files import MAX_KEPT_LOG_BYTES, own_log_folder
from ctxtop.collectors.locations import discover
from ctxtop.collectors.locations.places import Places
from ctxtop.collectors.plugin.installed_commands import hook_command
from ctxtop.collectors.plugin_files.plugin_log import (
    ANSWER_FAULTS,
    append_record,
    fault_path,
    log_path,
    note_fault,
)
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.tui.cli.commands import run
from ctxtop.tui.doctor import machine_checks
from ctxtop.tui.doctor.all_checks import check_all, scan_and_check_all
from ctxtop.tui.doctor.doctor_check import CheckState

from ..logs import log_file, part_name, tell
from ..transcripts import PROJECT, assistant, user, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ctxtop.tui.doctor.doctor_check import DoctorCheck

SESSION = "0a000000-0000-4000-8000-000000000001"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A folder with one session, and no store yet."""
    project = tmp_path / "claude" / "projects" / "-home-dev-x"
    project.mkdir(parents=True)
    (project / f"{SESSION}.jsonl").write_text('{"type":"ai-title","aiTitle":"x"}\n')
    return Places(tmp_path / "claude", tmp_path / "state" / "ctxtop.db")


@pytest.fixture
def scanned(places: Places) -> Places:
    assert wrong_ones(scan_and_check_all(places)) == {}
    return places


def wrong_ones(found: list[DoctorCheck]) -> dict[str, DoctorCheck]:
    return {check.name: check for check in found if check.state is not CheckState.OK}


def named(found: list[DoctorCheck], name: str) -> DoctorCheck:
    (check,) = (check for check in found if check.name == name)
    assert "\n" not in f"{check.detail}{check.fix}"
    return check


NAMES = {
    LogKind.HOOKS: "hook log",
    LogKind.STATUS_LINE: "status line",
    LogKind.PLUGIN: "plugin log",
    LogKind.ANSWERS: "answers",
}


def the_wrong_one(found: list[DoctorCheck]) -> DoctorCheck:
    wrong = wrong_ones(found)
    assert len(wrong) == 1, wrong
    (check,) = wrong.values()
    assert check.fix, "what is wrong comes with what to do"
    return check


def test_a_broken_file_is_never_ticked(places: Places) -> None:
    path = places.folder.projects / "-home-dev-x" / f"{SESSION}.jsonl"
    path.write_text('{"type":"ai-title","aiTitle":"x"}\n{torn\n')
    found = the_wrong_one(scan_and_check_all(places))
    assert (found.name, found.detail) == ("bad lines", "1 line could not be read whole")
    assert (found.state, found.ok) == (CheckState.NOTE, True)


def test_an_agent_without_its_session_is_never_ticked(places: Places) -> None:
    lines = [user(), assistant()]
    write(places.folder.projects / "-home-dev-x" / SESSION / "subagents" / "agent-a1.jsonl", lines)
    write(places.folder.projects / "-home-dev-x" / "gone" / "subagents" / "agent-a2.jsonl", lines)
    found = the_wrong_one(scan_and_check_all(places))
    assert (found.name, found.state) == ("orphans", CheckState.NOTE)
    assert "1 agent" in found.detail
    assert "agent-a2" in found.detail


def test_all_is_well(scanned: Places) -> None:
    found = check_all(scanned)

    assert [check.name for check in found] == [
        "claude folder",
        "projects",
        "registry",
        "links",
        "watching",
        "clock",
        "store",
        "search index",
        "bad lines",
        "orphans",
        "unknown types",
        "ignored types",
        "settings",
        "definitions",
        "save flow",
        "measurements",
        "hooks",
        "refused sessions",
        "recovery locks",
        "automatic runs",
        "saving",
        "auto-compact",
        "deletions",
        "deleted sessions",
        "archive",
        "saves",
        "project policies",
        "problems",
        "disk",
        "hook log",
        "status line",
        "plugin log",
        "answers",
        "hook answers",
        "compact requests",
        "sqlite",
        "token table",
        "terminal",
        "versions",
    ]
    assert named(found, "bad lines").detail == "none"


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    found = check_all(Places(tmp_path / "none", tmp_path / "s.db"))

    assert "No such file" in the_wrong_one(found).detail
    assert "--config-dir" in str(the_wrong_one(found).fix)


def test_projects_that_cannot_be_read(scanned: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(place: str | Path) -> Iterator[os.DirEntry[str]]:
        if str(place).endswith("-home-dev-x"):
            raise PermissionError(13, "Permission denied", str(place))
        return scandir(place)

    monkeypatch.setattr(os, "scandir", refuse)
    check = the_wrong_one(check_all(scanned))

    assert check.name == "projects"
    assert "cannot be read (Permission denied)" in check.detail
    assert "permissions" in str(check.fix)


def test_what_is_no_regular_file_is_counted_once_and_a_wrong_name_is_no_link(
    places: Places,
) -> None:
    project = places.folder.projects / "-home-dev-x"
    project.mkdir(parents=True, exist_ok=True)
    os.mkfifo(project / "fifo.jsonl")
    (project / "link.jsonl").symlink_to("/etc/passwd")
    (project / "up").symlink_to("..")
    try:
        (project / os.fsdecode(b"not\xff.jsonl")).touch()
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    found = scan_and_check_all(places)

    assert named(found, "links").detail.startswith("3 skipped (links or special files)")
    assert named(found, "problems").detail.startswith("1 problem, ")
    assert "not UTF-8" in named(found, "problems").detail


def test_a_store_that_cannot_be_written(scanned: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda place, mode: access(place, mode) and not mode & os.W_OK
    )
    check = the_wrong_one(check_all(scanned))

    assert check.name == "store"
    assert "cannot be written" in check.detail
    assert "--db" in str(check.fix)


def test_a_store_of_a_newer_version_is_told_and_left_alone(scanned: Places) -> None:
    with closing(sqlite3.connect(scanned.store)) as db:
        db.execute("PRAGMA user_version = 999")
        db.commit()
    check = the_wrong_one(check_all(scanned))

    assert (check.name, "newer ctxtop (schema 999)" in check.detail) == ("store", True)
    assert not list(scanned.store.parent.glob("*.aside-*"))


def test_a_store_of_another_folder(scanned: Places, tmp_path: Path) -> None:
    other = shutil.copytree(scanned.config_dir, tmp_path / "other")
    check = the_wrong_one(check_all(Places(other, scanned.store)))

    assert str(scanned.config_dir) in check.detail
    assert check.fix == "choose another file with --db"


def test_a_damaged_store(scanned: Places) -> None:
    with closing(sqlite3.connect(scanned.store)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        where = "SELECT rootpage FROM sqlite_schema WHERE name = 'response'"
        (page,) = db.execute(where).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    data = bytearray(scanned.store.read_bytes())
    data[(page - 1) * size : page * size] = b"\xa5" * size
    scanned.store.write_bytes(bytes(data))
    check = the_wrong_one(check_all(scanned))

    assert (check.name, "damaged" in check.detail) == ("store", True)


def test_a_disk_that_is_nearly_full(scanned: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "LOW_DISK_BYTES", 1 << 62)
    check = the_wrong_one(check_all(scanned))

    assert (check.name, "nearly full" in check.detail) == ("disk", True)


@pytest.mark.parametrize(
    ("limit", "ok", "words"),
    [("100000", True, ""), ("4", True, "nearly all"), ("3", False, "until then ctxtop polls")],
)
def test_watches_that_run_out(
    scanned: Places, monkeypatch: pytest.MonkeyPatch, limit: str, words: str, *, ok: bool
) -> None:
    folder = scanned.store.parent / "inotify"
    folder.mkdir()
    (folder / "max_user_watches").write_text(f"{limit}\n")
    monkeypatch.setattr(machine_checks, "_INOTIFY", folder)
    check = named(check_all(scanned), "watching")

    assert check.ok is ok
    assert words in f"{check.detail} {check.fix}"
    assert ("sysctl" in str(check.fix)) is (words != "")


def test_a_mount_that_is_polled(
    scanned: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path} rw - nfs4 h:/x rw\n")
    monkeypatch.setattr(discover, "MOUNT_TABLE", table)
    check = named(check_all(scanned), "watching")

    assert check.ok
    assert check.detail.startswith("polls: nfs4")


def test_files_from_the_future(scanned: Places) -> None:
    path = next(scanned.config_dir.rglob("*.jsonl"))
    os.utime(path, (time.time() + 2 * 3600, time.time() + 2 * 3600))
    check = the_wrong_one(check_all(scanned))

    assert check.name == "clock"
    assert check.detail.startswith("1 transcript dated in the future, by 2.0 h: -home-dev-x/")


def test_troubles_that_are_kept(scanned: Places) -> None:
    with closing(sqlite3.connect(scanned.store)) as db:
        db.execute("INSERT INTO trouble VALUES ('p/x.jsonl', 1, 'cannot be read', 'do this', '')")
        db.commit()
    check = the_wrong_one(check_all(scanned))

    assert (check.name, check.fix) == ("problems", "do this")


def test_without_hooks_there_is_no_log_and_nothing_is_made(scanned: Places) -> None:
    check = named(check_all(scanned), "hook log")

    assert check.ok
    assert check.detail.startswith("none in ")
    assert not own_log_folder(scanned.store).exists()


def test_a_log_that_is_written_and_read(scanned: Places) -> None:
    tell(scanned.store, "Stop", session_id=SESSION)
    path = log_file(scanned.store)
    path.rename(path.with_name(part_name(LogKind.HOOKS, 1)))
    tell(scanned.store, "Stop", session_id=SESSION)
    waiting = named(check_all(scanned), "hook log")
    read = named(scan_and_check_all(scanned), "hook log")

    assert "2 files" in waiting.detail
    assert "1 renamed file not read yet" in waiting.detail
    assert waiting.fix == "`ctxtop scan` reads them"
    assert read.fix is None
    assert "not read" not in read.detail
    assert waiting.ok


def test_a_log_that_nobody_reads(scanned: Places) -> None:
    log_file(scanned.store).touch(0o600)
    os.truncate(log_file(scanned.store), 2 * MAX_KEPT_LOG_BYTES + 1)
    check = named(check_all(scanned), "hook log")

    assert "more than ctxtop keeps" in check.detail


def test_a_log_that_others_can_read(scanned: Places) -> None:
    tell(scanned.store, "Stop", session_id=SESSION)
    log_file(scanned.store).chmod(0o644)
    check = the_wrong_one(check_all(scanned))

    assert check.fix == f"chmod 600 {log_file(scanned.store)}"


@pytest.mark.parametrize("log", list(LogKind))
def test_a_fault_of_a_hook_is_wrong_until_records_come_again(scanned: Places, log: LogKind) -> None:
    path = log_file(scanned.store, log)
    path.mkdir()
    assert append_record(str(path), "Stop", b"{}")
    check = the_wrong_one(check_all(scanned))
    assert check.name == NAMES[log]
    assert "Is a directory" in check.detail

    path.rmdir()
    assert append_record(str(path), "Stop", b"{}") is None
    os.utime(path, (time.time() + 5, time.time() + 5))
    check = named(check_all(scanned), check.name)
    assert check.ok
    assert "1 record lost, the last at 20" in check.detail
    assert fault_path(str(path)) in str(check.fix)


@pytest.mark.parametrize("fault", [b"", b"x", b"99999999999999999999 x", b"\xff\x1b[2J\n\n"])
def test_a_fault_that_is_garbage_is_told_all_the_same(scanned: Places, fault: bytes) -> None:
    tell(scanned.store, "Stop", session_id=SESSION)
    path = log_file(scanned.store)
    path.with_name(f"{path.name}.fault").write_bytes(fault)
    check = named(check_all(scanned), "hook log")

    assert "1970" in check.detail
    assert "\x1b" not in check.detail


class Bad(NamedTuple):
    file: str
    offset: int
    length: int
    reason: str


def test_every_line_that_was_set_aside_is_listed(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    transcript = places.folder.projects / "-home-dev-x" / f"{SESSION}.jsonl"
    transcript.write_text('{"type":"ai-title","aiTitle":"x"}\n{torn\n')
    tell(places.store, "Stop", session_id=SESSION)
    with log_file(places.store).open("ab") as file:
        file.write(b"{torn\n")
    append_record(str(log_file(places.store)), "Stop", b"no json")
    log_file(places.store, LogKind.STATUS_LINE).write_bytes(b'{"session_id":7}\n')
    words = ["scan", "--bad", "--db", str(places.store), "--config-dir", str(places.config_dir)]
    assert run([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    found = [Bad(**each) for each in said["bad"]]

    assert said["bad_lines"] == len(found) == 4
    for each in found:
        with open(each.file, "rb") as file:  # noqa: PTH123
            file.seek(each.offset)
            assert file.read(each.length).strip(b"\n") in {
                b"{torn",
                b'{"session_id":7}',
                *(line for line in log_file(places.store).read_bytes().split(b"\n") if line),
            }
    assert len({each.file for each in found}) == 3
    assert all(each.reason for each in found)

    assert run(words) == 0
    shown = capsys.readouterr().out
    assert all(f"{each.file} at {each.offset}, {each.length} bytes" in shown for each in found)


def test_a_fault_of_an_answer_is_wrong_until_it_is_removed(scanned: Places) -> None:
    path = log_path(str(scanned.store), ANSWER_FAULTS)
    log_file(scanned.store)
    for number in range(3):
        note_fault(path, f"SubagentStop: enforce: ValueError: number\x1b[2J {number}")
    check = the_wrong_one(check_all(scanned))
    assert check.name == "hook answers"
    assert check.detail.startswith("3 faults, the last at 20")
    assert check.detail.endswith("SubagentStop: enforce: ValueError: number[2J 2")
    assert fault_path(path) in str(check.fix)


def test_a_log_folder_that_others_can_look_into(scanned: Places) -> None:
    tell(scanned.store, "Stop", session_id=SESSION)
    folder = log_file(scanned.store).parent
    folder.chmod(0o755)
    check = the_wrong_one(check_all(scanned))

    assert check.fix == f"chmod 700 {folder}"


def install(places: Places, command: str, **more: object) -> None:
    """Put a hook of ours into the user's settings."""
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}
    path = places.config_dir / "settings.json"
    path.write_text(json.dumps({"hooks": hooks} | more), encoding="utf-8")
    os.utime(path, (1_700_000_000, 1_700_000_000))


def answered(places: Places) -> None:
    """Write a new session with one prompt and one answer."""
    write(places.folder.projects / PROJECT / "later.jsonl", [user(), assistant()])


def test_hooks_of_ours_that_run(scanned: Places) -> None:
    assert "none for this store" in named(scan_and_check_all(scanned), "hooks").detail
    install(scanned, hook_command(scanned.store, "Stop", ["enforce"]))
    assert named(scan_and_check_all(scanned), "hooks").ok
    assert "1 hook in" in named(check_all(scanned), "hooks").detail

    answered(scanned)
    check = the_wrong_one(scan_and_check_all(scanned))
    assert check.name == "hooks"
    assert "none has run since 2023-11-14" in check.detail
    assert "1 session started" in check.detail

    tell(scanned.store, "Stop", session_id=SESSION)
    assert named(scan_and_check_all(scanned), "hooks").ok


def test_hooks_that_are_switched_off(scanned: Places) -> None:
    install(scanned, hook_command(scanned.store, "Stop"), disableAllHooks=True)
    check = the_wrong_one(scan_and_check_all(scanned))
    assert "disableAllHooks" in check.detail


def test_hooks_of_a_ctxtop_that_is_gone(scanned: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    command = hook_command(scanned.store, "Stop")
    monkeypatch.undo()
    install(scanned, command)
    check = the_wrong_one(scan_and_check_all(scanned))
    assert "a ctxtop that no longer exists: /nowhere/python" in check.detail
