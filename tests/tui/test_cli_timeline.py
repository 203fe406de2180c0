"""`ctxtop timeline` and `ctxtop evidence`: what a session's page says, for programs too."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import pytest

from ..transcripts import (
    assistant,
    launched,
    notification,
    refusal,
    summary,
    user,
    write,
)
from ..transcripts import boundary as cut_line
from ..transcripts import launch as launch_line
from .writing import answer, append, boundary, launch, prompt, returned, session_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..transcripts import JsonLine
    from .ended import Ended

SESSION = "00000001-0000-4000-8000-000000000000"

TURN = {
    "at",
    "model",
    "context_tokens",
    "used_ratio",
    "level",
    "growth_tokens",
    "estimated",
    "output_tokens",
    "tool_uses",
    "message_id",
    "offset",
}


@pytest.fixture
def run(tmp_path: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    """A session with an agent, two levels and a compaction, and the command to read it."""
    root = tmp_path / "claude"
    append(
        session_file(root, 1),
        prompt("Build it"),
        answer(20_000, 1),
        launch("toolu_1", "reviewer", "look it over", 100_000),
        returned("toolu_1", "abc1", "all is well", 3),
        answer(161_000, 4),
        boundary(9_000, 5),
        prompt("Go on", 6),
        answer(15_000, 7, model="claude-sonnet-4-5"),
    )
    return lambda *words: call_ctxtop(
        *words, "--config-dir", str(root), "--db", str(tmp_path / "store.db")
    )


def test_every_turn_compaction_and_mark_is_told(run: Callable[..., Ended]) -> None:
    ended = run("timeline", "00000001", "--json")
    found = json.loads(ended.out)
    assert ended.code == 0
    assert found["session_id"] == SESSION
    assert found["window_tokens"] == 200_000
    turns = found["turns"]
    assert [turn["context_tokens"] for turn in turns] == [20_000, 100_000, 161_000, 15_000]
    assert [turn["growth_tokens"] for turn in turns] == [None, 80_000, 61_000, None]
    assert [turn["level"] for turn in turns] == [None, None, "warning", None]
    assert [turn["tool_uses"] for turn in turns] == [0, 1, 0, 0]
    assert set(turns[0]) == TURN
    (cut,) = found["compactions"]
    assert (cut["turn"], cut["pre_tokens"], cut["post_tokens"]) == (3, 190_000, 9_000)
    assert (cut["next_answer_tokens"], cut["estimated_next_tokens"]) == (15_000, None)
    kinds = [(mark["turn"], mark["kind"]) for mark in found["marks"]]
    assert (1, "agent_started") in kinds
    assert (3, "model") in kinds
    assert {kind for turn, kind in kinds if turn == 2} == {"warning"}
    assert next(kind for _, kind in kinds if kind.startswith("agent_")) == "agent_started"


def test_a_person_sees_the_picture_and_what_happened(run: Callable[..., Ended]) -> None:
    out = run("timeline", SESSION).out
    assert "█" in out
    assert "↻ 190 k → 15 k" in out
    assert "↻ compacted before (auto): 190 k → 15 k" in out
    assert "● reviewer: look it over started" in out
    assert "▲ reached warning at 81 %" in out
    assert "◇ answers from here on: sonnet 4.5" in out


def test_a_session_without_an_answer_says_so(
    tmp_path: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    root = tmp_path / "claude"
    append(session_file(root, 2), prompt("Only asked"))
    options = ("--config-dir", str(root), "--db", str(tmp_path / "store.db"))
    assert "no answers yet" in call_ctxtop("timeline", "00000002", *options).out
    found = json.loads(call_ctxtop("timeline", "00000002", "--json", *options).out)
    assert found["turns"] == []


def test_a_session_that_is_not_there_is_refused(run: Callable[..., Ended]) -> None:
    ended = run("timeline", "9")
    assert ended.code == 1
    assert "no session id starts with '9'" in ended.err


def test_every_claim_is_told_with_how_it_stands(run: Callable[..., Ended]) -> None:
    found = json.loads(run("evidence", SESSION, "--json").out)
    assert found["context_tokens"] == 15_000
    assert found["counter_tokens"] >= 15_000
    windows = [claim for claim in found["claims"] if claim["of"] == "window"]
    assert windows[0]["standing"] == "believed"
    assert {claim["of"] for claim in found["claims"]} == {"window", "trigger"}
    out = run("evidence", SESSION).out
    assert "in context" in out
    assert "✓  window" in out


def test_the_lens_tells_what_was_kept_and_forgotten(run: Callable[..., Ended]) -> None:
    found = json.loads(run("lens", SESSION, "--json").out)
    assert (found["pre_tokens"], found["post_tokens"]) == (190_000, 9_000)
    assert (found["next_answer_tokens"], found["estimated_next_tokens"]) == (15_000, None)
    assert set(found["kept"]) == set(found["forgotten"])
    ended = run("lens", SESSION)
    assert ended.out.startswith("auto: 190 k → 15 k")
    assert run("lens", SESSION, "--boundary", "zzz").code == 1
    assert "Our conversation" not in run("lens", SESSION).out


def told_of(
    tmp_path: Path, call_ctxtop: Callable[..., Ended], *lines: JsonLine
) -> Callable[..., Ended]:
    root = tmp_path / "claude"
    write(root / "projects" / "-home-dev-live" / f"{SESSION}.jsonl", lines)
    return lambda *words: call_ctxtop(
        *words, "--config-dir", str(root), "--db", str(tmp_path / "store.db")
    )


def test_what_happened_has_its_own_time_and_not_its_turns(
    tmp_path: Path, call_ctxtop: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    run = told_of(
        tmp_path,
        call_ctxtop,
        user(),
        launch_line("toolu_1", "explorer", "look it over", message_id="m1"),
        launched("toolu_1", "abc1234567890"),
        notification("abc1234567890", "fine", tool_use_id="toolu_1", at=11 * 60),
        assistant("m2", 20_000, 9, at=11 * 60 + 5),
        refusal("API Error: 529", timestamp="2026-11-21T12:00:00.000Z"),
        cut_line(preTokens=30_000) | {"timestamp": "2026-11-21T13:00:00.000Z"},
    )

    rows = [line.split() for line in run("timeline", SESSION).out.splitlines()]
    when = {row[-1]: row[1:3] for row in rows if len(row) > 3 and row[0] == "1"}
    when |= {row[-1]: row[1:3] for row in rows if len(row) > 3 and row[0] == "2"}
    start = when["started"]
    assert minutes(when["returned"]) - minutes(start) == 11
    assert minutes(when["529"]) - minutes(start) == 26 * 60
    cut = next(row for row in rows if "compacted" in row)
    assert minutes(cut[1:3]) - minutes(start) == 27 * 60


def minutes(words: list[str]) -> int:
    """Minutes since the year began, of a day and a time."""
    month, day_of, hour, minute = (int(part) for part in re.split("[-: ]", " ".join(words)))
    return ((month * 31 + day_of) * 24 + hour) * 60 + minute


def test_an_agent_in_the_background_is_named_by_its_task_and_never_by_its_id(
    tmp_path: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    run = told_of(
        tmp_path,
        call_ctxtop,
        user(),
        launch_line("toolu_1", "explorer", "look it over"),
        launched("toolu_1", "abc1234567890"),
        notification("abc1234567890", "fine", tool_use_id="toolu_of_another_message", at=60),
        notification("fff1234567890", "who?", tool_use_id="toolu_unknown", at=70),
        assistant("m2", 20_000, 9, at=80),
    )

    marks = json.loads(run("timeline", SESSION, "--json").out)["marks"]

    ended = [mark["what"] for mark in marks if mark["kind"] == "agent_returned"]
    assert ended == ["explorer: look it over", "agent"]
    assert "1234567890" not in run("timeline", SESSION).out


def test_of_a_file_that_begins_at_its_compaction_nobody_knows_what_was_forgotten(
    tmp_path: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    run = told_of(
        tmp_path, call_ctxtop, cut_line(at=1), summary(), assistant("m1", 20_000, 9, at=9)
    )

    out = run("lens", SESSION).out
    assert "cannot be known" in out
    assert "nothing was lost" not in out
    found = json.loads(run("lens", SESSION, "--json").out)
    assert found["kept"] is found["forgotten"] is None
    assert "unknown" in run("compactions", "--session", SESSION).out


def test_the_clients_count_of_the_messages_is_named_as_such(
    tmp_path: Path, call_ctxtop: Callable[..., Ended]
) -> None:
    # Nothing before the compaction tells the size of the system prompt and the tools.
    run = told_of(tmp_path, call_ctxtop, cut_line(at=1, postTokens=9_000), summary())
    assert "≈ 9,000 of messages" in run("export", "--format", "markdown").out
    assert "≈9 k of messages" in run("compactions", "--session", SESSION).out
