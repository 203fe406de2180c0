"""`ctxtop archive`, its list and its restore: what they print, and how they end."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.transcripts import PROJECT, SESSION, assistant, text, user, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ended import Ended

    Run = Callable[..., Ended]

ALL = ("--set", "archive.mode=all")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lines = [
        user("Fix the connection pool.", at=1),
        assistant(content=[text("The pool is fixed.")], at=2),
    ]
    path = write(tmp_path / ".claude" / "projects" / PROJECT / f"{SESSION}.jsonl", lines)
    at = time.time() - 25 * 86_400
    os.utime(path, (at, at))
    return path


@pytest.mark.usefixtures("path")
def test_without_a_mode_sessions_must_be_named(call_ctxtop: Run, tmp_path: Path) -> None:
    ended = call_ctxtop("archive")
    assert ended.code == 1
    assert "archive.mode is off: name sessions, or turn it on" in ended.err
    assert not [*tmp_path.rglob("archive")]
    named = call_ctxtop("archive", SESSION[:4], "--json")
    assert (named.code, named.json["mode"]) == (0, "all")
    assert [*tmp_path.rglob("archive")]


def test_what_is_due_is_listed_before_it_is_archived(
    call_ctxtop: Run, path: Path, tmp_path: Path
) -> None:
    plan = call_ctxtop("archive", "--dry-run", "--json", *ALL).json
    assert list(plan) == ["dry_run", "mode", "cleanup_days", "sessions", "archive_bytes"]
    (row,) = plan["sessions"]
    assert row == {
        "session_id": SESSION,
        "size_bytes": path.stat().st_size,
        "deleted_at": row["deleted_at"],
        "error": None,
        "skipped": [],
    }
    assert (plan["dry_run"], plan["cleanup_days"], plan["archive_bytes"]) == (True, 30, 0)
    assert not [*tmp_path.rglob("archive")]
    for words in (("--dry-run", SESSION), (SESSION, "--dry-run")):
        assert "1 session would be archived (all)" in call_ctxtop("archive", *words).out
    assert "1 session archived (all); the archive takes" in call_ctxtop("archive", *ALL).out
    assert call_ctxtop("archive", "--json", *ALL).json["sessions"] == []


@pytest.mark.usefixtures("path")
def test_the_list_says_what_is_kept(call_ctxtop: Run) -> None:
    assert call_ctxtop("archive", "list").out == "nothing archived\n"
    call_ctxtop("archive", *ALL)
    (entry,) = call_ctxtop("archive", "list", "--json").json["sessions"]
    assert (entry["session_id"], entry["mode"], entry["files"]) == (SESSION, "all", 1)
    assert (entry["title"], entry["deleted"]) == ("Fix the connection pool", False)
    assert "Fix the connection pool" in call_ctxtop("archive", "list").out


def test_a_restore_ends_with_what_happened(call_ctxtop: Run, path: Path) -> None:
    call_ctxtop("archive", *ALL)
    before = path.read_bytes()
    path.unlink()
    listed = call_ctxtop("sessions", "--json").json
    assert [(each["status"], each["archived"]) for each in listed] == [("archived", "all")]
    refused = call_ctxtop("resume", SESSION[:8], "--print")
    assert f"`ctxtop archive restore {SESSION[:8]}`" in refused.err
    restored = call_ctxtop("archive", "restore", SESSION[:8], "--json")
    assert restored.code == 0
    assert restored.json["restored"] == [f"{PROJECT}/{SESSION}.jsonl"]
    assert restored.json["transcript_path"] == str(path)
    assert path.read_bytes() == before
    path.write_bytes(before + b"{}\n")
    differs = call_ctxtop("archive", "restore", SESSION)
    assert differs.code == 4
    assert "exists and differs from the archived file: nothing was written" in differs.err
    assert path.read_bytes() == before + b"{}\n"
    assert call_ctxtop("archive", "restore", "ffff").code == 1


@pytest.mark.usefixtures("path")
def test_what_was_kept_as_summaries_is_not_restored(call_ctxtop: Run, path: Path) -> None:
    call_ctxtop("archive", "--set", "archive.mode=summaries")
    path.unlink()
    ended = call_ctxtop("archive", "restore", SESSION)
    assert ended.code == 1
    assert "its conversation cannot be restored" in ended.err
    assert not path.exists()


@pytest.mark.usefixtures("path")
def test_pruning_removes_what_is_beyond_the_limits(call_ctxtop: Run) -> None:
    call_ctxtop("archive", *ALL)
    assert call_ctxtop("archive", "--prune", "--json").json["removed"] == []
    plan = call_ctxtop("archive", "--prune", "--dry-run", "--json", "--set", "archive.keep_days=0")
    assert plan.json["removed"] == []


@pytest.mark.parametrize("mode", ["off", "all"])
def test_doctor_counts_what_will_be_deleted(call_ctxtop: Run, path: Path, mode: str) -> None:
    at = time.time() - 20 * 86_400
    os.utime(path, (at, at))
    named = {each["name"]: each for each in call_ctxtop("doctor", "--json").json["checks"]}
    assert named["deletions"]["state"] == "ok"
    at = time.time() - 24 * 86_400
    os.utime(path, (at, at))
    if mode == "all":
        call_ctxtop("archive", SESSION)
    named = {each["name"]: each for each in call_ctxtop("doctor", "--json").json["checks"]}
    if mode == "all":
        assert named["deletions"]["state"] == "ok"
        assert named["archive"]["detail"].startswith("1 session")
    else:
        assert named["deletions"]["detail"] == (
            "1 session will be deleted within 7 days; archive.mode is off"
        )


def test_a_file_with_an_odd_name_is_told_wherever_the_session_is_named(
    call_ctxtop: Run, path: Path
) -> None:
    side = path.with_suffix("") / "tool-results"
    side.mkdir(parents=True)
    Path(os.fsdecode(os.fsencode(side) + b"/bad-\xff.txt")).write_text("lost?")
    (side / "good.txt").write_text("kept")
    why = "its name is not UTF-8"
    kept = call_ctxtop("archive", SESSION, "--json")
    assert kept.code == 1
    assert f"was not archived: {why}; rename or move it" in kept.err
    ((skipped,),) = (each["skipped"] for each in kept.json["sessions"])
    assert (Path(skipped["path"]).name, skipped["reason"]) == (
        "bad-\N{REPLACEMENT CHARACTER}.txt",
        why,
    )
    (entry,) = call_ctxtop("archive", "list", "--json").json["sessions"]
    assert (entry["files"], entry["skipped"]) == (2, [skipped])
    checks = {each["name"]: each for each in call_ctxtop("doctor", "--json").json["checks"]}
    assert why in checks["archive"]["detail"]
    shutil.rmtree(path.parent)
    restored = call_ctxtop("archive", "restore", SESSION, "--json")
    assert (restored.code, restored.json["skipped"]) == (0, [skipped])
    assert f"was never archived: {why}" in restored.err
    assert (side / "good.txt").read_text() == "kept"


@pytest.mark.parametrize("mode", ["all", "summaries"])
def test_what_needs_the_transcript_offers_the_restore(
    call_ctxtop: Run, path: Path, mode: str
) -> None:
    call_ctxtop("archive", "--set", f"archive.mode={mode}")
    path.unlink()
    offered = {
        "all": "only the archive has it: run `ctxtop archive restore 11111111`",
        "summaries": "the archive has only its summaries",
    }[mode]
    commands = [("compact",), ("compact", "--strategy", "cut", "--keep-turns", "1")]
    commands += [("trigger",), ("recover",), ("resume", "--print")]
    # The breakdown is read from a whole copy.
    commands += [("context",)] if mode == "summaries" else []
    for words in commands:
        ended = call_ctxtop(words[0], SESSION[:8], *words[1:])
        assert ended.code != 0
        assert offered in ended.err, words
        assert "cannot be read" not in ended.err
    assert call_ctxtop("context", SESSION[:8]).code == (1 if mode == "summaries" else 0)


def test_a_damaged_entry_is_named_where_its_session_is_asked_for(
    call_ctxtop: Run, path: Path, tmp_path: Path
) -> None:
    call_ctxtop("archive", *ALL)
    path.unlink()
    (entry,) = tmp_path.rglob("archive/sessions/*.json")
    entry.write_text("{broken", encoding="utf-8")
    ended = call_ctxtop("archive", "restore", SESSION[:8])
    assert ended.code == 1
    assert f"{entry}: the archive cannot read it" in ended.err
    assert "restore it from a backup, or delete it" in ended.err
