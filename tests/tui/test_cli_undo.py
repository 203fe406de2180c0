"""`ctxtop history` and `ctxtop undo`: their codes, their JSON, and the transcript after."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from ctxtop.collectors.locations.places import Places, find_places
from ctxtop.collectors.session_target import compaction_target
from ctxtop.core.compaction.apply import apply_plan
from ctxtop.core.compaction.compaction_target import CompactionTarget
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.store.automation_records import AutomaticRunRecord, begin_automatic_run
from ctxtop.core.store.database import state_folder
from ctxtop.core.store.writer import Writer
from ctxtop.tui.cli import main

from ..sessions_on_disk import encoded, masks, plan_of, rest, result_lines, turns
from ..transcripts import PROJECT, SESSION

LINES = turns(3)
DATA = encoded(LINES)


def target_of(
    places: Places, session_id: str, transcript: Path, cwd: str | None
) -> CompactionTarget:
    return compaction_target(places.folder, places.store, session_id, transcript, cwd)


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A quiet session in a folder of its own."""
    for name in ("CLAUDE_CONFIG_DIR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA)
    rest(path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CTXTOP_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CTXTOP_DB", str(tmp_path / "state" / "ctxtop.db"))
    return path


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ctxtop", *words])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_listed_and_taken_back(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, monkeypatch, "history", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    places = find_places(None, None)
    subject = target_of(places, SESSION, transcript, "/home/dev/proj")
    plan = plan_of(DATA, masks(DATA, result_lines(LINES)[:2]))
    done = apply_plan(plan, ApplyMode.IN_PLACE, subject)
    assert state_folder(places.store).parent == places.store.parent
    assert run(capsys, monkeypatch, "history", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["receipt_id"], listed["state"]) == (done.receipt_id, "done")
    assert listed["backup"] == plan.base_sha256
    assert [each["op"] for each in listed["operations"]] == [1, 2]
    assert run(capsys, monkeypatch, "undo", done.receipt_id[:5], "--op", "2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["undone"] == [2]
    assert run(capsys, monkeypatch, "history", done.receipt_id[:5], "--json") == 0
    one = json.loads(capsys.readouterr().out)
    assert [(each["op"], each["undone"]) for each in one["operations"]] == [(1, False), (2, True)]
    assert one["operations"][0]["what"] == plan.operations[0].what
    assert (one["state"], one["can_be_undone"], one["automatic"]) == ("partly_undone", True, None)
    assert run(capsys, monkeypatch, "undo", done.receipt_id) == 0
    assert "undid 1 of 2 operations" in capsys.readouterr().out
    assert transcript.read_bytes() == DATA
    assert run(capsys, monkeypatch, "undo", done.receipt_id) == 2
    assert "already undone" in capsys.readouterr().err
    assert run(capsys, monkeypatch, "history") == 0
    assert "undone" in capsys.readouterr().out


def test_all_that_was_ever_done_is_listed(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, monkeypatch, "history", "--all") == 1
    assert "cannot be opened" in capsys.readouterr().err
    assert run(capsys, monkeypatch, "scan") == 0
    assert run(capsys, monkeypatch, "history", "--all") == 0
    assert capsys.readouterr().out == "no actions yet\n"
    subject = target_of(find_places(None, None), SESSION, transcript, "/home/dev/proj")
    plan = plan_of(DATA, masks(DATA, result_lines(LINES)[:2]))
    done = apply_plan(plan, ApplyMode.IN_PLACE, subject)
    assert run(capsys, monkeypatch, "history", "--all", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["receipt_id"], listed["mode"]) == (done.receipt_id, "in_place")
    assert (listed["state"], listed["by"], listed["can_be_undone"]) == ("done", "you", True)
    assert run(capsys, monkeypatch, "history", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [listed]
    assert run(capsys, monkeypatch, "history", done.receipt_id, "--json") == 0
    assert set(listed) < set(json.loads(capsys.readouterr().out))
    assert run(capsys, monkeypatch, "history", done.receipt_id, "--all") == 2


def test_every_action_has_the_same_keys(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, monkeypatch, "scan") == 0
    subject = target_of(find_places(None, None), SESSION, transcript, None)
    apply_plan(plan_of(DATA, masks(DATA, result_lines(LINES)[:2])), ApplyMode.FORK, subject)
    with closing(Writer(find_places(None, None).store)) as writer:
        assert begin_automatic_run(
            writer.connection, AutomaticRunRecord(SESSION, 5, "the context is at 91 %"), 0
        )
    assert run(capsys, monkeypatch, "history", "--all", "--json") == 0
    receipt, automatic = json.loads(capsys.readouterr().out)
    assert list(receipt) == list(automatic)
    assert (receipt["automatic"], automatic["automatic"]) == (None, "the context is at 91 %")
    assert (automatic["plan_id"], automatic["operations"]) == (None, [])


def test_refused_while_somebody_writes(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = target_of(find_places(None, None), SESSION, transcript, None)
    plan = plan_of(DATA, masks(DATA, result_lines(LINES)[:2]))
    done = apply_plan(plan, ApplyMode.IN_PLACE, subject)
    with transcript.open("ab") as file:
        file.write(b"{}\n")
    assert run(capsys, monkeypatch, "undo", done.receipt_id) == 3
    assert "idle: its transcript was written 0 s ago: wait" in capsys.readouterr().err


@pytest.mark.usefixtures("transcript")
def test_no_such_receipt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, monkeypatch, "undo", "beef") == 2
    assert "no receipt id starts with 'beef'" in capsys.readouterr().err


def test_some_operations_at_once_and_none_that_is_not_there(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = target_of(find_places(None, None), SESSION, transcript, None)
    done = apply_plan(plan_of(DATA, masks(DATA, result_lines(LINES))), ApplyMode.IN_PLACE, subject)
    assert run(capsys, monkeypatch, "undo", done.receipt_id, "--op", "4") == 2
    assert "there is no operation 4: choose 1 to 3" in capsys.readouterr().err
    assert run(capsys, monkeypatch, "undo", done.receipt_id, "--op", "0") == 2
    words = ("undo", done.receipt_id, "--op", "1", "--op", "3", "--json")
    assert run(capsys, monkeypatch, *words) == 0
    assert json.loads(capsys.readouterr().out)["undone"] == [1, 3]
    assert transcript.read_bytes() != DATA
    assert run(capsys, monkeypatch, "undo", done.receipt_id, "--op", "2") == 0
    assert transcript.read_bytes() == DATA


def test_a_list_says_what_can_be_taken_back(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = find_places(None, None)
    subject = target_of(places, SESSION, transcript, "/home/dev/proj")
    fork = apply_plan(plan_of(DATA, masks(DATA, result_lines(LINES)[:1])), ApplyMode.FORK, subject)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(capsys, monkeypatch, "history") == 0
    out = capsys.readouterr().out
    assert f"{SESSION[:8]} → {fork.new_session_id}"[:19] in out
    assert "can be undone" in out
    assert all(len(line) <= 80 for line in out.split("\n"))
    assert run(capsys, monkeypatch, "history", fork.receipt_id) == 0
    assert "✓ V24 no writes in the meantime" in capsys.readouterr().out
    Path(fork.target).unlink()
    assert run(capsys, monkeypatch, "history", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["can_be_undone"], listed["why_not"]) == (False, f"{fork.target} is gone")
    assert (listed["tokens_saved"], listed["bytes_saved"]) == (100, 100)


def test_what_a_policy_wanted_is_marked(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = target_of(find_places(None, None), SESSION, transcript, None)
    subject = replace(alone, automatic_reason="the context is at 91 %")
    apply_plan(plan_of(DATA, masks(DATA, result_lines(LINES)[:1])), ApplyMode.IN_PLACE, subject)
    assert run(capsys, monkeypatch, "history", "--json") == 0
    assert [each["automatic"] for each in json.loads(capsys.readouterr().out)] == [
        subject.automatic_reason
    ]
    assert run(capsys, monkeypatch, "history") == 0
    assert "itself" in capsys.readouterr().out


def test_receipts_print_nothing_that_the_session_says(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = target_of(find_places(None, None), SESSION, transcript, None)
    apply_plan(plan_of(DATA, masks(DATA, result_lines(LINES)[:2])), ApplyMode.IN_PLACE, subject)
    for words in (("history", "--json"), ("history",), ("history", "--check", "--json")):
        assert run(capsys, monkeypatch, *words) == 0
        printed = capsys.readouterr().out
        assert not any(text in printed for text in ("Bash", "ls 0", "masked", "Done", "Please"))


def test_a_check_says_what_cannot_be_taken_back(
    transcript: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, monkeypatch, "history", "--check") == 0
    assert "no changes yet" in capsys.readouterr().out
    places = find_places(None, None)
    subject = target_of(places, SESSION, transcript, None)
    plan = plan_of(DATA, masks(DATA, result_lines(LINES)[:2]))
    done = apply_plan(plan, ApplyMode.IN_PLACE, subject)
    assert run(capsys, monkeypatch, "history", "--check") == 0
    assert capsys.readouterr().out == f"{done.receipt_id}  ok\n"
    (backup,) = (state_folder(places.store) / "backups").iterdir()
    backup.rename(backup.with_suffix(".away"))
    assert run(capsys, monkeypatch, "history", "--check", "--json") == 1
    (said,) = json.loads(capsys.readouterr().out)
    assert (said["receipt_id"], said["can_be_undone"], said["check"]) == (
        done.receipt_id, False, "backup",
    )  # fmt: skip
    assert str(backup) in said["what_to_do"]
    backup.with_suffix(".away").rename(backup)
    (plan_file,) = (state_folder(places.store) / "plans").iterdir()
    plan_file.unlink()
    assert run(capsys, monkeypatch, "history", "--check") == 1
    assert f"{done.receipt_id}  unreadable: " in capsys.readouterr().out
