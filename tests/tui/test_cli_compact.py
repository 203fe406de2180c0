"""`ctxtop compact`: the plan for people and programs, what it refuses, and its fork."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction import limits
from ctxtop.tui.cli import compact_command
from ctxtop.tui.cli.report import UNSAFE

from tests import transcripts as made
from tests.worked import WORDS, Session, numbered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

KEYS = [
    "plan_id",
    "session_id",
    "base_sha256",
    "base_bytes",
    "before_tokens",
    "after_tokens",
    "bytes_before",
    "bytes_after",
    "harm",
    "break_even_requests",
    "operations",
    "refused",
]


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that read many files, long ago."""
    for name in ("CLAUDE_CONFIG_DIR", "CTXTOP_CONFIG_DIR", "CTXTOP_DB", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "120")
    session = Session()
    session.ask("mend the decoder")
    for number in range(20):
        words = f"{WORDS} part {number}"
        session.use("Read", numbered(90, words=words), file_path=f"/src/{number}.py")
    session.rest(20)
    folder = tmp_path / ".claude" / "projects" / made.PROJECT
    path = session.write(folder / f"{made.SESSION}.jsonl")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture
def run(transcript: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert transcript.exists()
    return partial(call_ctxtop, "compact", made.SESSION[:8])


def test_json_is_the_plan_and_writes_nothing(run: Callable[..., Ended], transcript: Path) -> None:
    before = transcript.read_bytes()
    ended = run("--level", "3", "--json")
    assert ended.code == 0
    plan = ended.json
    assert list(plan) == KEYS
    assert plan["harm"] == 3
    saved = sum(each["tokens_saved"] for each in plan["operations"])
    assert plan["before_tokens"] - plan["after_tokens"] == saved > 20_000
    assert plan["refused"] == []
    assert transcript.read_bytes() == before
    assert [each.name for each in transcript.parent.iterdir()] == [transcript.name]


def test_the_preview_names_what_goes_and_what_it_costs(run: Callable[..., Ended]) -> None:
    out = run("--level", "3").out
    assert "Read /src/0.py" in out
    assert "masked" in out
    assert "freed" in out
    assert "requests where the prompt cache is warm" in out


def test_one_operation_is_shown_with_what_takes_its_place(run: Callable[..., Ended]) -> None:
    lines = run("--level", "3", "--explain", "1").out.split("\n")
    assert any(line.startswith("--- line 3 /message/content/0/content") for line in lines)
    after = lines[lines.index("+++") + 1]
    assert after.startswith("[ctxtop ")
    assert run("--level", "3", "--explain", "99").code == 2


def test_nothing_superseded_is_nothing_to_do(run: Callable[..., Ended]) -> None:
    ended = run("--level", "2")
    assert ended.code == 2
    assert "refused  nothing" in ended.out


def test_the_tail_that_is_asked_for_stays(run: Callable[..., Ended]) -> None:
    assert run("--level", "3", "--keep", "100").code == 2


def test_a_fork_is_made_where_it_was_asked_for(run: Callable[..., Ended], transcript: Path) -> None:
    before = transcript.read_bytes()
    ended = run("--level", "3", "--apply", "--json")
    assert ended.code == 0, ended.err
    receipt = ended.json
    fork = transcript.with_name(f"{receipt['new_session_id']}.jsonl")
    assert fork.stat().st_size < len(before)
    assert transcript.read_bytes() == before
    assert receipt["new_session_id"] in receipt["resume_command"]


def test_in_place_has_to_be_applied(run: Callable[..., Ended]) -> None:
    assert run("--in-place").code == 2


def test_a_large_transcript_needs_force(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_command, "LARGEST_BYTES", 50_000)
    monkeypatch.setattr(limits, "LARGE_BYTES", 50_000)
    refused = run("--apply")
    assert refused.code == UNSAFE
    assert "more than the 0 MB" in refused.out
    assert "say --force" in refused.out
    assert refused.err == "ctxtop: the transcript has 1 MB: planning and applying take a while\n"
    assert run("--force", "--apply").code == 0
