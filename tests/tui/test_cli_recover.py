"""`ctxtop recover`: its plan, its fork, its codes, and what it says when it refuses."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ctxtop.core.actions.stored_recoveries import update_recovery
from ctxtop.core.compaction.recovery.recovery_run import COUNTER_RESET_MS, RecoverySettings
from ctxtop.core.store.writer import Writer
from ctxtop.tui.doctor import session_checks
from msgspec.structs import replace

from ..recovering import chain, turn
from ..transcripts import PROJECT, SESSION, assistant, boundary, refusal, summary, text, user, write
from ..trusted_files import write_trusted
from ..trusting import accept_trust_dialog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.core.compaction.recovery.recovery_run import RecoveryRun

    from .ended import Ended

TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
DETAILS: dict[str, Any] = {
    "error": "invalid_request",
    "errorDetails": f'400 {{"error":{{"type":"invalid_request_error","message":"{TOO_LONG}"}}}}',
}
HUGE = "a line of the log that says nothing at all\n" * 6000
"""More than the 10,000 tokens above the limit, and the room for an answer."""


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CTXTOP_CONFIG_DIR", "CTXTOP_DB", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CTXTOP_DB", str(tmp_path / "state" / "ctxtop.db"))
    return tmp_path / "claude" / "projects" / PROJECT / f"{SESSION}.jsonl"


def old(path: Path, *lines: dict[str, Any]) -> Path:
    """A transcript that nobody has written to for an hour."""
    write(path, chain(*lines))
    os.utime(path, (time.time() - 3600, time.time() - 3600))
    return path


def too_long(path: Path) -> Path:
    last = refusal("Prompt is too long", **DETAILS)
    return old(path, user("read the log"), *turn("t0", HUGE), *turn("t1", "short"), last)


def test_the_plan_writes_nothing(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    before = too_long(transcript).read_bytes()
    ended = call_ctxtop("recover", SESSION[:6], "--json")
    said = json.loads(ended.out)
    assert ended.code == 0
    assert {name: said[name] for name in ("error_type", "current_tokens", "max_tokens")} == {
        "error_type": "token_limit_exceeded",
        "current_tokens": 210_000,
        "max_tokens": 200_000,
    }
    assert (said["step"], said["state"], said["receipt"]) == ("truncate_largest", "detected", None)
    assert [each["line"] for each in said["plan"]["operations"]] == [3]
    assert [each["check"] for each in said["refused"]] == ["fix_empty"]
    assert transcript.read_bytes() == before
    assert list(transcript.parent.iterdir()) == [transcript]


def test_it_is_done_on_a_fork(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    before = too_long(transcript).read_bytes()
    ended = call_ctxtop("recover", SESSION, "--apply", "--json")
    said = json.loads(ended.out)
    fork = transcript.with_name(f"{said['receipt']['new_session_id']}.jsonl")
    lines = [json.loads(line) for line in fork.read_text(encoding="utf-8").splitlines()]
    assert ended.code == 0
    assert said["state"] == "succeeded"
    assert transcript.read_bytes() == before
    assert lines[2]["message"]["content"][0]["content"].startswith("[TOOL RESULT TRUNCATED")
    assert {line["sessionId"] for line in lines} == {fork.stem}
    assert fork.stem in said["receipt"]["resume_command"]


def test_the_fork_is_no_longer_stuck_and_is_not_mended_a_second_time(
    call_ctxtop: Callable[..., Ended], transcript: Path
) -> None:
    too_long(transcript)
    done = json.loads(call_ctxtop("recover", SESSION, "--apply", "--json").out)["receipt"]
    fork = done["new_session_id"]
    found = {each["session_id"]: each for each in call_ctxtop("sessions", "--json").json}
    assert {each: found[each]["status"] for each in (SESSION, fork)} == {
        SESSION: "ended",
        fork: "ended",
    }
    assert (found[SESSION]["recovered_in"], found[fork]["recovered_in"]) == (fork, None)
    assert " recovered " in call_ctxtop("sessions").out
    again = call_ctxtop("recover", fork, "--apply")
    assert again.code == 2
    assert done["receipt_id"] in again.err
    assert f"claude --resume {fork}" in again.err
    assert len(list(transcript.parent.glob("*.jsonl"))) == 2


def refused_sessions(call_ctxtop: Callable[..., Ended]) -> dict[str, Any]:
    """Who each place says is to be recovered: sessions, doctor, metrics and recover."""
    sessions = call_ctxtop("sessions", "--json").json
    checks = call_ctxtop("doctor", "--json").json["checks"]
    metrics = call_ctxtop("export", "--format", "prometheus").out
    return {
        "sessions": [each["session_id"] for each in sessions if each["status"] == "too_long"],
        "doctor": next(each["detail"] for each in checks if each["name"] == "refused sessions"),
        "metrics": re.findall(r'ctxtop_sessions\{status="too_long"\} (\d+)', metrics),
        "recover": call_ctxtop("recover", SESSION, "--apply").err,
    }


def test_every_place_agrees_on_what_was_recovered(
    call_ctxtop: Callable[..., Ended], transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until its fork is gone: then it is stuck again, and can be recovered again."""
    monkeypatch.setattr(session_checks, "RECENT_RUN_MS", 10**15)
    too_long(transcript)
    done = call_ctxtop("recover", SESSION, "--apply", "--json").json["receipt"]
    fork, receipt = done["new_session_id"], done["receipt_id"]
    said = refused_sessions(call_ctxtop)
    assert (said["sessions"], said["metrics"]) == ([], ["0"])
    assert said["doctor"].startswith("none in ")
    assert f"recovered already in session {fork}, by {receipt}" in said["recover"]
    assert f"`ctxtop recover {SESSION[:8]} --apply --again` makes another" in said["recover"]
    assert len(list(transcript.parent.glob("*.jsonl"))) == 2

    transcript.with_name(f"{fork}.jsonl").unlink()
    said = refused_sessions(call_ctxtop)
    assert (said["sessions"], said["metrics"]) == ([SESSION], ["1"])
    assert said["doctor"].startswith("1 session ended in one: ")
    assert "recovered already" not in said["recover"]


def test_the_plan_of_a_recovered_session_names_its_fork(
    call_ctxtop: Callable[..., Ended], transcript: Path, tmp_path: Path
) -> None:
    too_long(transcript)
    done = call_ctxtop("recover", SESSION, "--apply", "--json").json["receipt"]
    planned, told = call_ctxtop("recover", SESSION, "--json").json, call_ctxtop("recover", SESSION)
    assert planned["recovered"]["session_id"] == done["new_session_id"]
    assert planned["recovered"]["receipt_id"] == done["receipt_id"]
    assert f"  recovered already in session {done['new_session_id']}" in told.out
    assert f"ctxtop recover {SESSION[:8]} --apply --again" in told.out
    with closing(Writer(tmp_path / "state" / "ctxtop.db")) as writer:
        update_recovery(writer.connection, SESSION, exhausted_long_ago)
    again = call_ctxtop("recover", SESSION, "--apply", "--again", "--json").json
    assert again["receipt"]["new_session_id"] not in {SESSION, done["new_session_id"]}
    assert again["recovered"]["receipt_id"] == done["receipt_id"]


def test_a_fork_that_is_refused_again_is_mended_again(
    call_ctxtop: Callable[..., Ended], transcript: Path
) -> None:
    too_long(transcript)
    done = json.loads(call_ctxtop("recover", SESSION, "--apply", "--json").out)["receipt"]
    fork = transcript.with_name(f"{done['new_session_id']}.jsonl")
    later = refusal("Prompt is too long", **DETAILS) | {
        "sessionId": fork.stem,
        "timestamp": "2100-01-01T00:00:00.000Z",
    }
    with fork.open("a", encoding="utf-8") as file:
        file.write(json.dumps(later) + "\n")
    found = call_ctxtop("sessions", "--json").json
    assert {each["session_id"]: each["status"] for each in found}[fork.stem] == "too_long"
    assert call_ctxtop("recover", fork.stem, "--json").code in {0, 4}


def test_a_fork_that_was_taken_back_is_stuck_again(
    call_ctxtop: Callable[..., Ended], transcript: Path
) -> None:
    too_long(transcript)
    done = json.loads(call_ctxtop("recover", SESSION, "--apply", "--json").out)["receipt"]
    assert call_ctxtop("undo", done["receipt_id"]).code == 0
    found = call_ctxtop("sessions", "--json").json
    assert {each["session_id"]: each["status"] for each in found}[SESSION] == "too_long"
    stuck = [each for each in found if each["session_id"] == done["new_session_id"]]
    assert all(each["status"] == "too_long" for each in stuck)


def test_the_second_attempt_waits(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    """R002-06."""
    too_long(transcript)
    assert call_ctxtop("recover", SESSION, "--apply").code == 0
    ended = call_ctxtop("recover", SESSION, "--apply", "--again")
    assert ended.code == 4
    assert "cooldown: it was just recovered: receipt" in ended.err
    assert "try again in" in ended.err


def test_the_plan_starts_counting_again_as_an_attempt_would(
    call_ctxtop: Callable[..., Ended], transcript: Path, tmp_path: Path
) -> None:
    """002-102: 20 results were cut, longer ago than the counters are kept."""
    too_long(transcript)
    assert call_ctxtop("recover", SESSION, "--apply").code == 0
    with closing(Writer(tmp_path / "state" / "ctxtop.db")) as writer:
        update_recovery(writer.connection, SESSION, exhausted_long_ago)
    ended = call_ctxtop("recover", SESSION, "--json")
    assert ended.json["step"] == "truncate_largest"


def exhausted_long_ago(run: RecoveryRun | None) -> RecoveryRun:
    assert run is not None
    assert run.began_at is not None
    began_at = run.began_at - COUNTER_RESET_MS
    counters = replace(run.counters, truncated=RecoverySettings().max_truncate)
    return replace(run, counters=counters, began_at=began_at, cool_until=0)


def test_a_session_that_is_well(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    old(transcript, user(), assistant())
    ended = call_ctxtop("recover", SESSION)
    assert ended.code == 2
    assert "did not end in a prompt that is too long" in ended.err


def test_one_that_was_compacted_afterwards(
    call_ctxtop: Callable[..., Ended], transcript: Path
) -> None:
    old(transcript, user(), refusal("Prompt is too long", **DETAILS), boundary(), summary())
    assert call_ctxtop("recover", SESSION, "--apply").code == 2


def test_one_whose_compaction_left_an_empty_summary(
    call_ctxtop: Callable[..., Ended], transcript: Path
) -> None:
    """R002-08: it is still to be recovered."""
    lost = user("hello"), refusal("Prompt is too long", **DETAILS), boundary(), summary("")
    old(transcript, *lost)
    ended = call_ctxtop("recover", SESSION, "--json")
    assert ended.code == 4
    assert (ended.json["line"], ended.json["state"], ended.json["plan"]) == (2, "detected", None)


def test_one_that_is_at_work(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    """002-12: only an idle session is mended."""
    too_long(transcript)
    began = int(psutil.Process().create_time() * 1000)
    entry = {"pid": os.getpid(), "sessionId": SESSION, "startedAt": began, "status": "busy"}
    sessions = transcript.parents[2] / "sessions"
    sessions.mkdir()
    (sessions / f"{os.getpid()}.json").write_text(json.dumps(entry | {"updatedAt": began}))
    ended = call_ctxtop("recover", SESSION, "--apply")
    assert ended.code == 3
    assert "it is busy: wait until it is idle" in ended.err
    assert list(transcript.parent.iterdir()) == [transcript]


def reverting(path: Path) -> Path:
    last = refusal("Prompt is too long", **DETAILS)
    words = "why is this so large? " * 40_000
    return old(path, user("hello"), assistant(), user(words), last)


def test_a_revert_has_to_be_confirmed(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    reverting(transcript)
    planned, applied = (
        call_ctxtop("recover", SESSION),
        call_ctxtop("recover", SESSION, "--apply", "--json"),
    )
    assert (planned.code, applied.code) == (4, 4)
    assert "going back removes your last prompt" in planned.out
    assert "next:  read the plan, then add --confirm revert" in planned.out
    assert json.loads(applied.out)["refused"][-1]["check"] == "confirm"
    assert list(transcript.parent.iterdir()) == [transcript]


def test_a_confirmed_revert(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    reverting(transcript)
    ended = call_ctxtop("recover", SESSION, "--apply", "--confirm", "revert", "--json")
    said = json.loads(ended.out)
    fork = transcript.with_name(f"{said['receipt']['new_session_id']}.jsonl")
    assert ended.code == 0
    assert said["step"] == "revert"
    assert said["prompt"].startswith("why is this so large?")
    types = [json.loads(line)["type"] for line in fork.read_bytes().splitlines()]
    assert types == ["user", "assistant", "custom-title", "agent-name"]


KEYS = {
    "session_id",
    "error_type",
    "current_tokens",
    "max_tokens",
    "message_index",
    "line",
    "state",
    "attempts",
    "steps",
    "step",
    "prompt",
    "plan",
    "refused",
    "receipt",
    "recovered",
    "resumed",
}


def test_the_keys_are_always_there(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    for make in (too_long, reverting):
        make(transcript)
        assert set(json.loads(call_ctxtop("recover", SESSION, "--json").out)) == KEYS


def test_what_a_person_reads(
    call_ctxtop: Callable[..., Ended], transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ended and where, each step of the policy's order, and what to type next."""
    monkeypatch.setenv("COLUMNS", "80")
    too_long(transcript)
    planned = call_ctxtop("recover", SESSION).out.splitlines()
    assert planned[:3] == [
        f"session {SESSION[:8]} ended in a prompt that is too long",
        "  line 6 of its transcript",
        "  210 k of 200 k, 10 k too many; with room for an answer it fits at 167 k",
    ]
    steps = [line.split()[:2] for line in planned[5:9]]
    assert steps == [
        ["fix_empty", "✗"],
        ["truncate_largest", "✓"],
        ["summarize", "not"],
        ["revert", "not"],
    ]
    assert planned[6].endswith(", sufficient")
    assert planned[-1].startswith(f"next:  ctxtop recover {SESSION[:8]} --apply")
    assert max(map(len, planned)) <= 80
    done = call_ctxtop("recover", SESSION, "--apply").out.splitlines()
    assert done[-3].startswith("done in a fork, ")
    assert "claude --resume" in done[-2]
    assert done[-1].startswith("undo:  ctxtop undo ")


CLIENT = """\
#!/usr/bin/env python3
import json, os, pathlib, sys
prompt, session = sys.argv[-1], sys.argv[3]
(path,) = pathlib.Path(os.environ["CLAUDE_CONFIG_DIR"]).glob(f"projects/*/{session}.jsonl")
lines = [json.loads(line) for line in path.read_bytes().splitlines()]
last = [line for line in lines if "uuid" in line][-1]
message = {"id": "new", "role": "assistant", "model": "claude-haiku-4-5", "content": [
    {"type": "text", "text": "heard: " + prompt}]}
line = {"type": "assistant", "uuid": "new", "parentUuid": last["uuid"], "message": message}
line |= {"sessionId": session, "timestamp": "2026-11-21T10:00:00.000Z", "isSidechain": False}
if os.environ["MOOD"] == "refuses":
    line |= {"isApiErrorMessage": True}
with path.open("a") as file:
    file.write(json.dumps(line) + "\\n")
print("heard")
"""


@pytest.mark.parametrize(
    ("resume", "prompt"),
    [("none", None), ("continue", "Continue"), ("last_prompt", "read the log")],
)
@pytest.mark.parametrize("mood", ["answers", "refuses"])
def test_going_on_where_a_policy_says_so(
    call_ctxtop: Callable[..., Ended],
    transcript: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    resume: str,
    prompt: str | None,
    mood: str,
) -> None:
    """T-11 and 002-98: asked once more where it was refused, then it is said."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(CLIENT, encoding="utf-8")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MOOD", mood)
    accept_trust_dialog(transcript.parents[2] / ".claude.json", tmp_path)
    said = f'[recovery]\nresume = "{resume}"\nretry.initial_ms = 0\n'
    write_trusted(tmp_path, said)
    last = refusal("Prompt is too long", **DETAILS)
    lines = [user("read the log"), *turn("t0", HUGE), last]
    before = old(transcript, *(each | {"cwd": str(tmp_path)} for each in lines)).read_bytes()
    ended = call_ctxtop("recover", SESSION, "--apply", "--json")
    resumed = json.loads(ended.out)["resumed"]
    assert ended.code == 0
    assert transcript.read_bytes() == before
    if prompt is None:
        assert resumed is None
        return
    answered = mood == "answers"
    assert (resumed["prompt"], resumed["answered"]) == (prompt, answered)
    assert resumed["attempts"] == (1 if answered else 2)
    assert (resumed["command"][0], resumed["folder"]) == (str(program), str(tmp_path))


def test_a_summary_where_no_result_is_large(
    call_ctxtop: Callable[..., Ended], transcript: Path
) -> None:
    """002-57: it is appended to a fork, and the newest messages stay."""
    told = [
        assistant(f"m{place}", content=[text(f"{place} " + "word " * 20_000)]) for place in "abcd"
    ]
    asked = [user(f"question {place}") for place in "abcd"]
    lines = [line for pair in zip(asked, told, strict=True) for line in pair]
    before = old(transcript, *lines, refusal("Prompt is too long", **DETAILS)).read_bytes()
    words = ("--set", "summary.template=eight_section")
    ended = call_ctxtop("recover", SESSION, "--apply", "--json", *words)
    said = json.loads(ended.out)
    assert ended.code == 0
    assert (said["step"], said["plan"]["harm"]) == ("summarize", 7)
    fork = transcript.with_name(f"{said['receipt']['new_session_id']}.jsonl")
    added = [json.loads(line) for line in fork.read_bytes().splitlines()][9:]
    types = [each.get("subtype") or each["type"] for each in added]
    assert types == ["compact_boundary", "user", "custom-title", "agent-name"]
    assert "## User Requests (Verbatim)" in added[1]["message"]["content"]
    assert transcript.read_bytes() == before


def test_no_such_session(call_ctxtop: Callable[..., Ended], transcript: Path) -> None:
    too_long(transcript)
    ended = call_ctxtop("recover", "ffff")
    assert ended.code == 2
    assert "no session id starts with 'ffff'" in ended.err
