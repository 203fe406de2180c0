"""The ways of asking: each proves first that it does no harm, and then that it was done."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin import register_command
from ctxtop.collectors.plugin_files import compact_requests
from ctxtop.collectors.terminal import client_compaction, via_tmux
from ctxtop.collectors.terminal.client_compaction import ClientCompactTarget, ask_to_compact
from ctxtop.collectors.terminal.request_receipts import BoundaryWatch, read_client_receipts
from ctxtop.core.actions.session_access import (
    ClientCompactResult,
    CompactFailure,
    NotCompactedError,
    Via,
)
from ctxtop.core.compaction.compaction_target import SESSION_LOCK_KIND
from ctxtop.core.files.file_operations import user_lock
from msgspec.structs import replace

from ..transcripts import PROJECT, SESSION, assistant, summary, user, write
from ..trusting import accept_trust_dialog
from . import fake_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxtop.collectors.locations.discover import ClaudeFolder

STARTED = 1_000
BOUNDARY = json.dumps(fake_client.BOUNDARY) + "\n"
SOON_S = 15.0


@pytest.fixture
def subject(
    claude: ClaudeFolder, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ClientCompactTarget:
    """A session whose transcript has been quiet for a minute, in a folder that is trusted."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(claude.root))
    accept_trust_dialog(claude.root / ".claude.json", tmp_path)
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    write(path, [user(), assistant()])
    os.utime(path, (time.time() - 60, time.time() - 60))
    return ClientCompactTarget(SESSION, path, str(tmp_path), claude, store)


def entry_of(pid: int, **more: object) -> dict[str, object]:
    about = {"pid": pid, "sessionId": SESSION, "status": "idle", "kind": "interactive"}
    return about | {"updatedAt": STARTED + 1} | more


def register(subject: ClientCompactTarget, **more: object) -> None:
    """Register this test process as having the session open."""
    subject.folder.sessions.mkdir(parents=True, exist_ok=True)
    path = subject.folder.sessions / "1.json"
    path.write_text(json.dumps(entry_of(os.getpid()) | more), encoding="utf-8")


def refused(subject: ClientCompactTarget, via: Via = Via.AUTO, text: str = "") -> NotCompactedError:
    with pytest.raises(NotCompactedError) as error:
        ask_to_compact(subject, via, text)
    return error.value


# The plugin


@contextmanager
def client_with_module(
    subject: ClientCompactTarget,
    ended: dict[str, object],
    *,
    compacts: bool = True,
    takes: bool = True,
) -> Iterator[list[str]]:
    """Do what register.js does, in a thread."""
    register(subject)
    register_command.note_client(str(subject.store), os.getpid())
    stop = threading.Event()
    texts: list[str] = []

    def run() -> None:
        while not stop.wait(0.02):
            asked = register_command.take_request(str(subject.store), SESSION) if takes else {}
            if not asked:
                continue
            texts.append(asked["text"])
            if compacts:
                with subject.transcript.open("a", encoding="utf-8") as file:
                    file.write(BOUNDARY)
            register_command.finish_request(str(subject.store), asked | ended)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield texts
    finally:
        stop.set()
        thread.join()


def test_the_module_is_asked_first(subject: ClientCompactTarget) -> None:
    with client_with_module(subject, {"state": "done"}) as texts:
        outcome = ask_to_compact(subject, Via.AUTO, "keep the plan")
    assert texts == ["keep the plan"]
    assert (outcome.via, outcome.boundary_uuid) == (Via.PLUGIN, "b-1")
    assert (outcome.pre_tokens, outcome.post_tokens) == (52_012, 2_949)
    (receipt,) = read_client_receipts(subject.store, 0)
    assert (receipt.state, receipt.via, receipt.boundary_uuid) == ("done", "plugin", "b-1")
    left = [
        path.name for path in Path(compact_requests.request_folder(str(subject.store))).iterdir()
    ]
    assert left == ["kept"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("ctxtop: $.session.compact: a turn is running (1); call it later", CompactFailure.LIVE),
        ("ctxtop: $.session.compact: Not enough messages to compact.", CompactFailure.NOTHING),
        ("API Error: 529 \x1b[2JOverloaded", CompactFailure.FAILED),
    ],
)
def test_the_client_s_own_refusal_is_said(
    subject: ClientCompactTarget, words: str, why: CompactFailure
) -> None:
    with client_with_module(subject, {"state": "failed", "why": words}, compacts=False):
        error = refused(subject)
    assert error.failure is why
    assert "\x1b" not in str(error)
    (receipt,) = read_client_receipts(subject.store, 0)
    assert receipt.state == ("failed" if why is CompactFailure.FAILED else "refused")


def test_done_without_a_boundary_is_a_failure(
    subject: ClientCompactTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_compaction, "RESULT_GRACE_S", 0.2)
    with client_with_module(subject, {"state": "done"}, compacts=False):
        assert refused(subject).failure is CompactFailure.FAILED


def test_a_module_that_does_not_answer_leaves_nothing_to_be_done_later(
    subject: ClientCompactTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_compaction, "PICKUP_TIMEOUT_S", 0.2)
    with client_with_module(subject, {}, takes=False):
        assert refused(subject, Via.PLUGIN).failure is CompactFailure.UNSAFE
    assert register_command.take_request(str(subject.store), SESSION) == {}


def test_a_compaction_that_never_comes_is_given_up(
    subject: ClientCompactTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_compaction, "COMPACT_TIMEOUT_S", 0.3)
    monkeypatch.setattr(register_command, "finish_request", lambda *_: None)
    with client_with_module(subject, {}, compacts=False):
        assert refused(subject).failure is CompactFailure.FAILED


def test_a_module_of_an_earlier_process_is_none(subject: ClientCompactTarget) -> None:
    register(subject)
    compact_requests.make_request_folders(str(subject.store))
    path = (
        Path(compact_requests.request_history_folder(str(subject.store))) / f"{os.getpid()}.alive"
    )
    compact_requests.write_request_file(str(path), {"pid": os.getpid(), "at": STARTED - 1})
    register(subject, startedAt=compact_requests.now_ms())
    assert refused(subject, Via.PLUGIN).failure is CompactFailure.UNSAFE


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"status": "busy"}, CompactFailure.LIVE),
        ({"status": "waiting", "waitingFor": "permission prompt"}, CompactFailure.UNSAFE),
        ({"status": "dreaming"}, CompactFailure.UNSAFE),
        ({"status": None, "updatedAt": None}, CompactFailure.UNSAFE),
        ({}, CompactFailure.UNSAFE),
    ],
)
@pytest.mark.parametrize("via", [Via.AUTO, Via.PLUGIN, Via.TMUX])
def test_a_live_session_is_asked_only_when_it_is_surely_idle(
    subject: ClientCompactTarget, via: Via, entry: dict[str, object], why: CompactFailure
) -> None:
    register(subject, **entry)
    assert refused(subject, via).failure is why
    assert read_client_receipts(subject.store, 0) == []


def test_a_background_shell_beside_an_idle_prompt_does_not_refuse(
    subject: ClientCompactTarget,
) -> None:
    with client_with_module(subject, {"state": "done"}):
        register(subject, status="shell")
        assert ask_to_compact(subject, Via.AUTO, "").via is Via.PLUGIN


def test_of_two_clients_in_one_session_neither_is_asked(subject: ClientCompactTarget) -> None:
    register(subject)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        second = json.dumps(entry_of(other.pid))
        (subject.folder.sessions / "2.json").write_text(second, encoding="utf-8")
        error = refused(subject)
    finally:
        other.communicate(b"\n")
    assert error.failure is CompactFailure.LIVE
    assert f"processes {os.getpid()} and {other.pid}" in str(error)


def test_a_session_that_just_ended_is_asked_at_once_where_the_registry_tells(
    subject: ClientCompactTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(*_: object) -> None:
        raise NotCompactedError(CompactFailure.FAILED, "a run of its own was begun")

    monkeypatch.setattr(client_compaction, "ask_via_cli", begun)
    os.utime(subject.transcript)
    assert "an unregistered Claude Code process" in str(refused(subject))
    subject.folder.sessions.mkdir(parents=True)
    assert "was begun" in str(refused(subject))


def test_a_run_of_its_own_is_not_for_a_live_session(subject: ClientCompactTarget) -> None:
    register(subject)
    assert refused(subject, Via.CLI).failure is CompactFailure.LIVE


# The pane


@contextmanager
def pane(subject: ClientCompactTarget, mood: str, tmp_path: Path) -> Iterator[Path]:
    """A fake client in a tmux server of its own; gives what was pressed."""
    if shutil.which("tmux") is None:
        pytest.skip("there is no `tmux`")
    socket = str(tmp_path / "tmux.sock")
    subject.folder.sessions.mkdir(parents=True, exist_ok=True)
    entry = subject.folder.sessions / "2.json"
    entry.write_text(json.dumps(entry_of(1, status="starting")), encoding="utf-8")
    tmux = ["tmux", "-S", socket, "-f", "/dev/null"]
    script = [sys.executable, fake_client.__file__, str(entry), str(subject.transcript), mood]
    size = ["-x", "80", "-y", "24"]
    subprocess.run([*tmux, "new-session", "-d", "-s", "x", *size, *script], check=True)
    try:
        _until(lambda: json.loads(entry.read_text(encoding="utf-8"))["status"] == "idle")
        yield subject.transcript.with_suffix(".pressed")
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)


def _until(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + SOON_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_an_idle_pane_is_typed_into(subject: ClientCompactTarget, tmp_path: Path) -> None:
    with pane(subject, "ok", tmp_path) as pressed:
        outcome = ask_to_compact(subject, Via.AUTO, "-keep; $(it) 'as it' is: é #{x};")
    assert (outcome.via, outcome.boundary_uuid) == (Via.TMUX, "b-1")
    line = "/compact -keep; $(it) 'as it' is: é #{x};"
    assert pressed.read_bytes().decode() == f"{line}\r"


@pytest.mark.parametrize(
    ("mood", "why", "keys"),
    [
        ("draft", CompactFailure.UNSAFE, b""),
        ("dialog", CompactFailure.UNSAFE, b""),
        ("busy", CompactFailure.LIVE, b""),
        ("deaf", CompactFailure.UNSAFE, b"/compact"),
        ("echoes", CompactFailure.UNSAFE, b"/compact"),
    ],
)
def test_enter_is_pressed_only_on_our_line_alone(
    subject: ClientCompactTarget,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mood: str,
    why: CompactFailure,
    keys: bytes,
) -> None:
    monkeypatch.setattr(via_tmux, "REDRAW_TIMEOUT_S", 0.5)
    with pane(subject, mood, tmp_path) as pressed:
        assert refused(subject).failure is why
        assert (pressed.read_bytes() if pressed.exists() else b"") == keys


def test_a_client_that_does_nothing_is_not_waited_for(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(via_tmux, "START_TIMEOUT_S", 0.5)
    with pane(subject, "idle", tmp_path):
        assert refused(subject).failure is CompactFailure.NOTHING


@pytest.mark.parametrize("option", ["copy-mode", "synchronize-panes"])
def test_a_pane_whose_keys_go_elsewhere_is_refused(
    subject: ClientCompactTarget, tmp_path: Path, option: str
) -> None:
    with pane(subject, "ok", tmp_path) as pressed:
        tmux = ["tmux", "-S", str(tmp_path / "tmux.sock")]
        setting = ["copy-mode", "-t", "x"]
        if option == "synchronize-panes":
            setting = ["set", "-w", "-t", "x", option, "on"]
        subprocess.run([*tmux, *setting], check=True)
        assert refused(subject).failure is CompactFailure.UNSAFE
        assert not pressed.exists()


def test_a_pane_is_known_by_its_terminal_not_by_its_title(
    subject: ClientCompactTarget, tmp_path: Path
) -> None:
    with pane(subject, "ok", tmp_path) as pressed:
        # This process has another terminal, or none, and says that it is in that pane.
        (subject.folder.sessions / "2.json").unlink()
        register(subject, tmux="x:@0.%0")
        assert refused(subject, Via.TMUX).failure is CompactFailure.UNSAFE
        assert not pressed.exists()


# The run of its own


def fake_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return tmp_path / "said"


def test_a_closed_session_gets_a_run_of_its_own(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'printf \'%s\\n\' "$@" "$PWD" "$CLAUDECODE" > said; cat >> said\n'
    script += f"echo '{BOUNDARY.strip()}' >> {subject.transcript}"
    said = fake_program(tmp_path, monkeypatch, script)
    monkeypatch.setenv("CLAUDECODE", "1")
    outcome = ask_to_compact(subject, Via.AUTO, "keep it; $(date)")
    assert (outcome.via, outcome.boundary_uuid) == (Via.CLI, "b-1")
    assert said.read_text(encoding="utf-8").splitlines() == [
        "-p",
        "--resume",
        SESSION,
        "--setting-sources",
        "user",
        "--",
        "/compact keep it; $(date)",
        str(tmp_path),
        "",
    ]
    ran = (
        *(str(tmp_path / "tools" / "claude"), "-p", "--resume", SESSION),
        *("--setting-sources", "user", "--", "/compact keep it; $(date)"),
    )
    assert (outcome.command, outcome.folder) == (ran, str(tmp_path))
    (receipt,) = read_client_receipts(subject.store, 0)
    assert (receipt.command, receipt.folder) == (ran, str(tmp_path))


@pytest.mark.parametrize("root", ["evil", None, "relative"])
def test_nothing_is_started_where_the_client_trusts_nobody(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str | None
) -> None:
    said = fake_program(tmp_path, monkeypatch, f"touch {tmp_path / 'said'}")
    evil = tmp_path / "evil"
    (evil / ".git").mkdir(parents=True)
    where = str(evil) if root == "evil" else root
    error = refused(replace(subject, project_root=where))
    assert error.failure is CompactFailure.UNTRUSTED
    assert "\n" not in str(error)
    assert root != "evil" or f"does not trust {evil}" in str(error)
    assert not said.exists()
    assert read_client_receipts(subject.store, 0) == []


def test_a_client_that_cannot_leave_settings_out_is_run_without(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'case "$*" in *--setting-sources*)'
    script += " echo \"error: unknown option '--setting-sources'\" >&2; exit 1;; esac\n"
    fake_program(
        tmp_path, monkeypatch, f"{script}echo '{BOUNDARY.strip()}' >> {subject.transcript}"
    )
    outcome = ask_to_compact(subject, Via.AUTO, "")
    assert outcome.command[1:] == ("-p", "--resume", SESSION, "--", "/compact")
    assert read_client_receipts(subject.store, 0)[0].command == outcome.command


def test_the_client_is_not_looked_for_in_the_folder_that_it_is_started_in(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = fake_program(tmp_path, monkeypatch, f"touch {tmp_path / 'said'}")
    monkeypatch.chdir(tmp_path / "tools")
    for path in (".", "", ":/usr/bin", "../tools"):
        monkeypatch.setenv("PATH", path)
        assert "`claude` is not on the PATH" in str(refused(subject))
    assert not said.exists()


@pytest.mark.parametrize("script", ["exit 0", "echo no >&2; exit 1", "printf '\\033[2J\\377'"])
def test_a_run_without_a_boundary_is_a_failure(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    fake_program(tmp_path, monkeypatch, script)
    error = refused(subject)
    assert error.failure is CompactFailure.FAILED
    assert "\x1b" not in str(error)
    (receipt,) = read_client_receipts(subject.store, 0)
    assert receipt.state == "failed"


def test_a_run_that_hangs_is_ended(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_compaction, "COMPACT_TIMEOUT_S", 0.3)
    fake_program(tmp_path, monkeypatch, "exec sleep 60")
    assert refused(subject).failure is CompactFailure.FAILED


def test_what_a_run_needs(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "`claude` is not on the PATH" in str(refused(subject))
    fake_program(tmp_path, monkeypatch, "exit 0")
    gone = replace(subject, project_root="/nowhere")
    assert "/nowhere no longer exists" in str(refused(gone))


def test_a_transcript_that_just_grew_may_be_open(subject: ClientCompactTarget) -> None:
    os.utime(subject.transcript)
    assert refused(subject).failure is CompactFailure.UNSAFE


@pytest.mark.parametrize("via", [Via.PLUGIN, Via.TMUX])
def test_a_closed_session_has_nobody_to_ask(subject: ClientCompactTarget, via: Via) -> None:
    assert refused(subject, via).failure is CompactFailure.NOTHING


# The boundary


def test_only_a_new_boundary_s_own_line_counts(subject: ClientCompactTarget) -> None:
    path = subject.transcript
    with path.open("a", encoding="utf-8") as file:
        file.write(BOUNDARY)
    watch = BoundaryWatch(path)
    assert watch.poll() is None
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"type": "user", "message": {"content": BOUNDARY}}) + "\n")
        file.write('{"type":"system","subtype":"compact_boundary"}\n')
        file.write('{"type":"system","subtype":"compact_boundary","uuid":7}\n')
        file.write("compact_boundary\n" + BOUNDARY[:40])
        file.flush()
        assert watch.poll() is None
        file.write(BOUNDARY[40:])
    found = watch.poll()
    assert found is not None
    assert (found.uuid, found.pre_tokens, found.post_tokens) == ("b-1", 52_012, 2_949)
    assert watch.poll() is None


@pytest.mark.parametrize(("text", "is_done"), [("", False), (" \n", False), ("It works.", True)])
def test_a_compaction_with_an_empty_summary_is_a_failure(
    subject: ClientCompactTarget,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    *,
    is_done: bool,
) -> None:
    """R002-08."""
    written = BOUNDARY + json.dumps(summary(text)) + "\n"
    added = tmp_path / "added"
    added.write_text(written, encoding="utf-8")
    fake_program(tmp_path, monkeypatch, f"cat {added} >> {subject.transcript}")
    if is_done:
        assert ask_to_compact(subject, Via.AUTO, "").boundary_uuid == "b-1"
    else:
        error = refused(subject)
        assert error.failure is CompactFailure.FAILED
        assert "empty summary" in str(error)
    assert read_client_receipts(subject.store, 0)[0].state == ("done" if is_done else "failed")


def test_a_transcript_that_is_replaced_proves_nothing(subject: ClientCompactTarget) -> None:
    watch = BoundaryWatch(subject.transcript)
    other = subject.transcript.with_suffix(".other")
    other.write_text(subject.transcript.read_text(encoding="utf-8") + BOUNDARY, encoding="utf-8")
    other.rename(subject.transcript)
    with pytest.raises(NotCompactedError, match="replaced"):
        watch.poll()


def test_two_at_once_ask_one_at_a_time(
    subject: ClientCompactTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = f"sleep 0.5; echo '{BOUNDARY.strip()}' >> {subject.transcript}"
    fake_program(tmp_path, monkeypatch, script)
    found: list[ClientCompactResult | NotCompactedError] = []

    def ask() -> None:
        try:
            found.append(ask_to_compact(subject, Via.AUTO, ""))
        except NotCompactedError as error:
            found.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(each, ClientCompactResult) for each in found) == 1
    assert {each.failure for each in found if isinstance(each, NotCompactedError)} == {
        CompactFailure.LIVE
    }


def test_a_session_that_another_store_changes_is_not_asked(subject: ClientCompactTarget) -> None:
    with user_lock(SESSION_LOCK_KIND, subject.transcript.parent, SESSION):
        assert refused(subject).failure is CompactFailure.LIVE
