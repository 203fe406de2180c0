"""`ctxtop trigger`: its codes, its JSON, and what doctor says of what did not end."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin_files import compact_requests
from ctxtop.collectors.terminal import client_compaction as asking
from ctxtop.collectors.terminal.request_receipts import CompactRequest
from ctxtop.core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ctxtop.core.measure.evidence import compare_measurements
from ctxtop.core.model.evidence_rows import MeasurementComparisonRow
from ctxtop.tui.cli import main
from ctxtop.tui.doctor import machine_checks

from ..transcripts import PROJECT, SESSION, assistant, user, write

if TYPE_CHECKING:
    from ctxtop.collectors.terminal.client_compaction import ClientCompactTarget

WHEN_MS = 1_795_257_110_510
DONE = ClientCompactResult(
    SESSION, Via.PLUGIN, WHEN_MS, "b-1", 160_400, 4_000, 1.25, estimated_next_tokens=24_000
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one quiet session, and where the store will be."""
    for name in ("CLAUDE_CONFIG_DIR", "CTXTOP_CONFIG_DIR", "CTXTOP_DB", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
    write(path, [user(), assistant()])
    os.utime(path, (time.time() - 60, time.time() - 60))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CTXTOP_DB", str(tmp_path / "state" / "ctxtop.db"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "state" / "ctxtop.db"


def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["ctxtop", *words])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def put_behind_a_link(folder: Path) -> None:
    folder.symlink_to(folder.rename(folder.with_name("elsewhere")))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ClientCompactTarget, Via, str]]:
    """What the client was asked; it always compacts."""
    found: list[tuple[ClientCompactTarget, Via, str]] = []

    def ask(subject: ClientCompactTarget, via: Via, text: str) -> ClientCompactResult:
        found.append((subject, via, text))
        return DONE

    monkeypatch.setattr(asking, "ask_to_compact", ask)
    return found


def test_a_compaction_is_said(
    store: Path,
    asked: list[tuple[ClientCompactTarget, Via, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run(capsys, monkeypatch, "trigger", SESSION[:6], "keep", "the plan", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "via": "plugin",
        "requested_at": "2026-11-21T10:31:50.510Z",
        "boundary_uuid": "b-1",
        "pre_tokens": 160_400,
        "post_tokens": 4_000,
        "estimated_next_tokens": 24_000,
        "command": None,
        "folder": None,
    }
    assert run(capsys, monkeypatch, "trigger", SESSION, "--via", "tmux") == 0
    assert capsys.readouterr().out == "compacted via plugin in 1.2 s: 160 k → ≈24 k\n"
    (first, via, text), (_, second_via, _) = asked
    assert (first.session_id, first.store, via, text) == (SESSION, store, Via.AUTO, "keep the plan")
    assert (first.transcript.name, first.config_dir) == (f"{SESSION}.jsonl", None)
    assert second_via is Via.TMUX


def test_a_folder_that_is_not_the_client_s_own_is_named_to_it(
    store: Path,
    asked: list[tuple[ClientCompactTarget, Via, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    del store
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    words = ["trigger", SESSION, "--config-dir", str(tmp_path / "claude")]
    assert run(capsys, monkeypatch, *words) == 0
    assert asked[0][0].config_dir == tmp_path / "claude"


@pytest.mark.parametrize(
    ("why", "code"),
    [
        (CompactFailure.FAILED, 1),
        (CompactFailure.NOTHING, 2),
        (CompactFailure.LIVE, 3),
        (CompactFailure.UNSAFE, 4),
        (CompactFailure.UNTRUSTED, 4),
    ],
)
@pytest.mark.usefixtures("store")
def test_every_refusal_has_its_code_and_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    why: CompactFailure,
    code: int,
) -> None:
    def ask(*_: object) -> ClientCompactResult:
        raise NotCompactedError(why, "it is\nso\x1b[2J")

    monkeypatch.setattr(asking, "ask_to_compact", ask)
    assert run(capsys, monkeypatch, "trigger", SESSION, "--json") == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"ctxtop: {SESSION[:8]} was not compacted: it is so[2J\n"


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "words",
    [["nobody"], [], [SESSION, "one\ntwo"], [SESSION, "\x1b[A"], [SESSION, "--via", "post"]],
)
def test_usage(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    assert run(capsys, monkeypatch, "trigger", *words) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("store")
def test_without_a_client_it_fails_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, monkeypatch, "trigger", SESSION) == 1
    assert capsys.readouterr().err.endswith("`claude` is not on the PATH\n")


def test_a_folder_that_cannot_be_believed_fails_in_one_line(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compact_requests.make_request_folders(str(store))
    put_behind_a_link(Path(compact_requests.request_folder(str(store))))
    assert run(capsys, monkeypatch, "trigger", SESSION) == 1
    assert "is a link" in capsys.readouterr().err


def test_doctor_knows_what_did_not_end(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (check := machine_checks.requests_check(store)).ok
    assert check.detail == "none"
    compact_requests.make_request_folders(str(store))
    request = CompactRequest(store, SESSION, "")
    request.begin(Via.PLUGIN)
    check = machine_checks.requests_check(store)
    assert (check.ok, check.detail.startswith(f"1 pending: session {SESSION}")) == (True, True)
    later = time.time_ns() + 301 * 1_000_000_000
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: later)
        check = machine_checks.requests_check(store)
    assert (check.ok, "1 request without a result for 300 s" in check.detail) == (False, True)
    assert request.path(compact_requests.ASKED) in (check.fix or "")
    request.fail(NotCompactedError(CompactFailure.FAILED, "the API said no"))
    check = machine_checks.requests_check(store)
    assert (check.ok, check.detail.endswith("the API said no")) == (True, True)
    request.finish(DONE)
    assert machine_checks.requests_check(store).detail == "1 request, none open"


def test_doctor_does_not_believe_a_folder_that_is_a_link(store: Path) -> None:
    compact_requests.make_request_folders(str(store))
    put_behind_a_link(Path(compact_requests.request_folder(str(store))))
    check = machine_checks.requests_check(store)
    assert (check.ok, "is a link" in check.detail) == (False, True)


def test_a_measurement_is_compared() -> None:
    rows = [
        MeasurementComparisonRow("a", 1, 52_000, 52_000),
        MeasurementComparisonRow("b", 2, 52_000, 51_000),
        MeasurementComparisonRow("c", 3, 52_000, None),
    ]
    found = compare_measurements(rows)
    assert (found.equal, found.not_comparable, found.different) == (1, 1, (rows[1],))
