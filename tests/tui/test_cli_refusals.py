"""What `compact`, `undo` and `receipts` refuse: one line, one code, and nothing was changed."""

from __future__ import annotations

import errno
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ctxtop.core.files import file_operations

from tests import transcripts as made
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

OTHER = "11111111-3333-4333-8444-555555555555"
LEVEL = ("--level", "3")


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A session that can be made smaller, and another whose id begins like its."""
    session = Session()
    session.ask("mend the decoder")
    for number in range(20):
        session.use("Read", numbered(90, words=f"{WORDS} {number}"), file_path=f"/s/{number}.py")
    session.rest(20)
    folder = tmp_path / ".claude" / "projects" / made.PROJECT
    path = session.write(folder / f"{made.SESSION}.jsonl")
    other = path.with_name(f"{OTHER}.jsonl")
    other.write_text(json.dumps(made.user("hello", sessionId=OTHER)) + "\n", encoding="utf-8")
    for each in (path, other):
        os.utime(each, (1_000_000_000, 1_000_000_000))
    return path


def open_it(transcript: Path) -> None:
    """Register this process in Claude Code's session registry as having the session open."""
    began = int(psutil.Process().create_time() * 1000)
    entry = {"pid": os.getpid(), "sessionId": made.SESSION, "startedAt": began, "updatedAt": began}
    sessions = transcript.parents[2] / "sessions"
    sessions.mkdir()
    (sessions / f"{os.getpid()}.json").write_text(json.dumps(entry | {"status": "idle"}))


def refused(ended: Ended, code: int, *words: str) -> None:
    """One line on stderr says what, where and what to do."""
    assert (ended.code, ended.out) == (code, ""), ended
    assert ended.err.startswith("ctxtop: ")
    assert ended.err.count("\n") == 1
    for each in words:
        assert each in ended.err


def test_an_unknown_and_an_ambiguous_session(
    transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    assert transcript.exists()
    for command in (("compact",), ("compact", "--apply")):
        name, *words = command
        refused(call_ctxtop(name, "ffff", *words), 2, "'ffff'", "`ctxtop sessions` lists them")
        refused(call_ctxtop(name, "1111", *words), 2, "2 sessions have ids", "use more of the id")
    refused(call_ctxtop("undo", "ffff"), 2, "`ctxtop history` lists them")
    refused(call_ctxtop("history", "ffff"), 2, "`ctxtop history` lists them")


def test_an_open_session_can_be_looked_at_and_forked_not_changed(
    transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    open_it(transcript)
    before = transcript.read_bytes()
    shown = call_ctxtop("compact", made.SESSION, *LEVEL)
    assert shown.code == 0
    assert re.search(r"^open +in process \d+: a fork is possible", shown.out, re.MULTILINE)
    in_place = call_ctxtop("compact", made.SESSION, *LEVEL, "--apply", "--in-place")
    refused(in_place, 3, "live: the session is open in process", "close the session")
    assert call_ctxtop("compact", made.SESSION, *LEVEL, "--apply").code == 0
    assert transcript.read_bytes() == before


def test_a_session_that_was_just_written_to(
    transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    transcript.touch()
    before = transcript.read_bytes()
    ended = call_ctxtop("compact", made.SESSION, *LEVEL, "--apply", "--in-place")
    refused(ended, 3, "idle: its transcript was written", "wait until 120 s have passed")
    assert transcript.read_bytes() == before


def test_a_transcript_from_the_future_is_not_waited_for(
    transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    ahead = time.time() + 3 * 3600
    os.utime(transcript, (ahead, ahead))
    ended = call_ctxtop("compact", made.SESSION, *LEVEL, "--apply", "--in-place")
    refused(ended, 3, "idle: its transcript is dated 3.0 h in the future", "or run touch ")
    assert call_ctxtop("compact", made.SESSION, *LEVEL, "--apply").code == 0


def test_a_transcript_that_is_read_only(
    transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    transcript.chmod(0o400)
    ended = call_ctxtop("compact", made.SESSION, *LEVEL, "--apply", "--in-place")
    refused(ended, 4, "is read-only", "run chmod u+w on it, or make a fork")


def test_a_shape_that_is_not_understood(
    transcript: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    answer = made.assistant("msg_1", 1000)
    transcript.write_text(json.dumps(answer) + "\n", encoding="utf-8")
    for words in ((), ("--apply",)):
        ended = call_ctxtop("compact", made.SESSION, *words)
        refused(ended, 4, "shape: the first message that would be sent is not a user's")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space and try again"),
        (errno.EACCES, "make it writable for your user and try again"),
        (errno.EROFS, "make the file system writable and try again"),
    ],
)
@pytest.mark.parametrize("where", [(), ("--in-place",)])
def test_a_disk_that_takes_nothing(
    transcript: Path,
    call_ctxtop: Callable[..., Ended],
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    remedy: str,
    where: tuple[str, ...],
) -> None:
    before = transcript.read_bytes()

    def fail(*_: Any) -> Any:  # noqa: ANN401 -- in the place of any function
        raise OSError(number, os.strerror(number))

    assert call_ctxtop("scan").code == 0
    monkeypatch.setattr(file_operations, "write_all", fail)
    ended = call_ctxtop("compact", made.SESSION, *LEVEL, "--apply", *where)
    refused(ended, 1, os.strerror(number), f"nothing was changed; {remedy}")
    monkeypatch.undo()
    assert transcript.read_bytes() == before
    assert sorted(each.stem for each in transcript.parent.iterdir()) == [made.SESSION, OTHER]


def test_a_check_that_fails_rolls_back(
    transcript: Path, call_ctxtop: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctxtop.core.compaction import apply
    from ctxtop.core.compaction.plan import Refusal

    before = transcript.read_bytes()
    wrong = Refusal("V7", "call toolu_1 is no longer followed by its result", "report it")
    monkeypatch.setattr(apply, "verify_visible_messages", lambda *_: [wrong])
    refused(call_ctxtop("compact", made.SESSION, *LEVEL, "--apply"), 5, "V7: call toolu_1")
    assert transcript.read_bytes() == before
    assert sorted(each.stem for each in transcript.parent.iterdir()) == [made.SESSION, OTHER]


def test_an_undo_of_what_is_gone(transcript: Path, call_ctxtop: Callable[..., Ended]) -> None:
    done = call_ctxtop("compact", made.SESSION, *LEVEL, "--apply", "--json").json
    fork = transcript.with_name(f"{done['new_session_id']}.jsonl")
    fork.unlink()
    refused(call_ctxtop("undo", done["receipt_id"]), 4, f"gone: {fork} is gone")
