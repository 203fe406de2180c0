"""The command line on a folder that the tests write themselves."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ctxtop.tui.text.formats import text_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from .ended import Ended

FULL = "0a000000-0000-4000-8000-000000000001"
COMPACTED = "0a000000-0000-4000-8000-000000000002"
HOSTILE = "0b000000-0000-4000-8000-000000000003"
PROJECT = "-home-dev-x"
CONFIG_VARIABLES = ("CLAUDE_CONFIG_DIR", "CLAUDE_CONFIG_DIRS", "CTXTOP_CONFIG_DIR")

KEYS = {
    "scan": "files bytes lines bad_lines unknown_types sessions agents seconds",
    "sessions": "session_id title project model client_version live status tmux context_tokens"
    " context_state window_tokens window_source used_ratio level unsaved"
    " limit_tokens limit_ratio"
    " trigger_tokens trigger_source trigger_left trigger_armed trigger_reason turns_left"
    " minutes_left next_threshold compactions"
    " last_compaction_at agents agents_noncompliant"
    " input_tokens cache_creation_tokens cache_read_tokens output_tokens responses started_at"
    " last_activity_at transcript_path git_branch last_prompt forked_from fork_kind"
    " is_fork_undone recovered_in doing"
    " waiting_for trail_tokens"
    " cache_state cache_expires_at cache_estimated cost_usd cost_source cost_estimated cost_partial"
    " counter_tokens hook_tokens report_tokens contradictions context_source context_components"
    " spent_tokens deleted_at days_left archived cache_tokens cache_lifetime_s cold_state"
    " cold_rewrite_tokens cold_rewrite_usd cold_rewrite_limit_ratio cold_rewrite_estimated client"
    " problem",
    "agents": "agent_id session_id parent_agent_id agent_type description model status"
    " context_tokens window_tokens used_ratio level tool_uses progress_responses started_at"
    " ended_at result_lines result_chars result_tokens expected_format verdict violations warnings"
    " marker_origin blocked context_summary replaced_result ended_with_session last_heard_at"
    " expected_by grep_passes stops refires findings"
    " limit_tokens limit_ratio trigger_tokens trigger_source trigger_left trigger_armed"
    " trigger_reason turns_left"
    " minutes_left next_threshold counter_tokens hook_tokens report_tokens contradictions"
    " context_source context_components problem sessions counted_in injected",
    "compactions": "session_id agent_id boundary_uuid at trigger pre_tokens post_tokens"
    " next_answer_tokens estimated_next_tokens dropped_tokens duration_ms kept_messages summary"
    " precomputed forgotten thrash cleared_results"
    " steered reduction reduction_flag kept_shares",
    "warnings": "session_id agent_id level threshold ratio limit_tokens limit_ratio at cleared_at",
    "totals": "input_tokens cache_creation_tokens cache_read_tokens output_tokens web_searches"
    " responses cost_usd cost_source cost_estimated cost_partial sessions models agent_progress"
    " without_agent_progress",
    "summaries": "kind session_id agent_id agent_type at tokens text id rule flaws",
    "doctor": "checks",
}
COSTS = ("cost_usd", "cost_source", "cost_estimated", "cost_partial")
SUMS = (
    "web_searches",
    "input_tokens",
    "cache_creation_tokens",
    "cache_read_tokens",
    "output_tokens",
    "responses",
)

READING = ("sessions", "agents", "compactions", "warnings", "summaries", "totals")


def user(text: str, second: int, **more: object) -> dict[str, object]:
    return {
        "type": "user",
        "uuid": f"u-{second}",
        "timestamp": time_at(second),
        "cwd": "/home/dev/x",
        "version": "2.1.329",
        "message": {"role": "user", "content": text},
        **more,
    }


def answer(tokens: int, second: int, model: str = "claude-haiku-4-5") -> dict[str, object]:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": tokens - 110,
        "output_tokens": 7,
    }
    return {
        "type": "assistant",
        "uuid": f"a-{second}",
        "timestamp": time_at(second),
        "message": {
            "id": f"msg-{second}-{tokens}",
            "model": model,
            "role": "assistant",
            "content": [{"type": "text", "text": "done"}],
            "usage": usage,
        },
    }


def time_at(second: int) -> str:
    return f"2026-01-02T03:{second // 60:02}:{second % 60:02}.500Z"


def write(path: Path, *lines: dict[str, object] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*CONFIG_VARIABLES, "CTXTOP_DB", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def config(home: Path) -> Path:
    """Three sessions: one full with an agent, one compacted, one with hostile text."""
    folder = home / ".claude"
    project = folder / "projects" / PROJECT
    result: dict[str, object] = {
        "type": "user",
        "uuid": "u-return",
        "timestamp": time_at(20),
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}],
        },
        "toolUseResult": {
            "agentId": "abc",
            "status": "completed",
            "content": [{"type": "text", "text": "[COMPRESSED]\nkolibri found"}],
            "totalToolUseCount": 3,
        },
    }
    launch = answer(50_000, 5)
    launch["message"]["content"] = [  # type: ignore[index]
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "Agent",
            "input": {"subagent_type": "reviewer", "description": "look"},
        }
    ]
    write(
        project / f"{FULL}.jsonl",
        user("Fix the parser", 1),
        launch,
        result,
        answer(172_000, 30),
    )
    write(
        project / FULL / "subagents" / "agent-abc.jsonl",
        user("look", 6, isSidechain=True),
        answer(20_000, 10),
    )
    write(
        project / FULL / "subagents" / "agent-abc.meta.json",
        {
            "agentType": "reviewer",
            "description": "look",
            "toolUseId": "toolu_1",
            "finished": True,
        },
    )
    boundary: dict[str, object] = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b-1",
        "timestamp": time_at(50),
        "compactMetadata": {
            "trigger": "auto",
            "preTokens": 160_000,
            "postTokens": 2_500,
            "durationMs": 1_500,
            "preservedMessages": {"uuids": ["x", "y"]},
        },
    }
    write(
        project / f"{COMPACTED}.jsonl",
        user("Long work", 40),
        answer(160_000, 45),
        boundary,
        user("Summary: kept the plan", 51, isCompactSummary=True),
        "{not json",
        {"type": "never-seen", "timestamp": time_at(52)},
    )
    write(
        project / f"{HOSTILE}.jsonl",
        user("[/foo] [red]x[/] \x1b]0;owned\x07\x1b[31m 漢字漢字", 60),
        answer(412_000, 61, "claude-opus-5-5"),
    )
    return folder


@pytest.fixture
def run(home: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert home.exists()
    return call_ctxtop


@pytest.mark.parametrize("command", KEYS)
def test_json_has_the_keys_of_the_contract_in_order(
    run: Callable[..., Ended], config: Path, command: str
) -> None:
    ended = run(command, "--json")
    assert (ended.code, ended.err) == (0, "")
    records = ended.json if isinstance(ended.json, list) else [ended.json]
    assert records
    for record in records:
        assert list(record) == KEYS[command].split()


def test_json_says_how_a_policy_counts(run: Callable[..., Ended], config: Path) -> None:
    def session(*policy: str) -> tuple[Any, ...]:
        records = run(*policy, "sessions", "--json").json
        found = next(each for each in records if each["session_id"] == FULL)
        names = "context_tokens counter_tokens context_source context_components spent_tokens"
        return tuple(found[name] for name in names.split())

    three = ["input", "cache_read", "cache_creation"]
    assert session() == (172_000, 172_007, "api_last", three, None)
    latest = (171_900, 172_007, "api_last", ["input", "cache_read"], None)
    assert session("--preset", "omo-latest") == latest
    # Two answers of the session, and one of its agent.
    spent = 50_007 + 172_007 + 20_007
    assert session("--preset", "clnode") == (172_000, 172_007, "api_last+cumulative", three, spent)


def test_a_preset_on_the_command_line_counts_the_text(
    run: Callable[..., Ended], config: Path
) -> None:
    def session(*policy: str) -> Any:  # noqa: ANN401 -- any JSON
        records = run(*policy, "sessions", "--json").json
        return next(each for each in records if each["session_id"] == FULL)

    by_chars = session("--preset", "not-agent")
    assert (by_chars["context_source"], by_chars["context_components"]) == ("chars4", [])
    assert 0 < by_chars["context_tokens"] < 1_000
    by_tokens = session("--preset", "hybrid-buffer")
    assert by_tokens["context_source"] == "tiktoken"
    assert by_tokens["context_tokens"] > by_chars["context_tokens"], "4 around each message"
    assert session()["context_source"] == "api_last"
    sources = run("--preset", "not-agent", "evidence", FULL).out
    assert "the text only, as characters / 4 (usage.source = chars4)" in sources


def test_the_sources_say_how_a_policy_counts(run: Callable[..., Ended], config: Path) -> None:
    latest = run("--preset", "omo-latest", "evidence", FULL)
    assert "171,900" in latest.out
    assert "the last answer: input + cache read only (usage.components)" in latest.out
    assert "spent in all" not in latest.out
    assert "242,021" in run("--preset", "clnode", "evidence", FULL).out
    agent = run("--preset", "omo-2.6", "agents", "--json").json[0]
    assert agent["context_tokens"] == 20_000 - 100 + 7
    assert agent["context_components"] == ["input", "cache_read", "output"]


def test_sessions_are_printed_the_same_in_parts(
    run: Callable[..., Ended], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("sessions", "--json").out
    for part in (1, 2):
        monkeypatch.setattr("ctxtop.core.readers.fleet_reader.SESSIONS_PER_QUERY", part)
        assert run("sessions", "--json").out == whole
    assert whole == json.dumps(json.loads(whole), ensure_ascii=False, indent=2) + "\n"
    assert len(json.loads(whole)) > 2


def test_no_sessions_are_an_empty_list(run: Callable[..., Ended], config: Path) -> None:
    for path in config.rglob("*.jsonl"):
        path.unlink()
    assert run("sessions", "--json").out == "[]\n"


def test_sessions_say_how_full_they_are(run: Callable[..., Ended], config: Path) -> None:
    hostile, compacted, full = run("sessions", "--json").json
    assert [hostile["session_id"], compacted["session_id"], full["session_id"]] == [
        HOSTILE,
        COMPACTED,
        FULL,
    ]
    assert (full["context_tokens"], full["window_tokens"], full["used_ratio"]) == (
        172_000,
        200_000,
        0.86,
    )
    assert (full["level"], full["context_state"], full["status"]) == ("high", "measured", "ended")
    assert (full["agents"], full["title"], full["live"]) == (1, "Fix the parser", False)
    assert full["started_at"] == "2026-01-02T03:00:01.500Z"
    assert full["last_activity_at"] == "2026-01-02T03:00:30.500Z"
    assert full["transcript_path"] == str(config / "projects" / PROJECT / f"{FULL}.jsonl")
    # Its own two answers and its agent's.
    assert (full["input_tokens"], full["cache_creation_tokens"]) == (30, 300)
    assert (full["cache_read_tokens"], full["output_tokens"]) == (242_000 - 330, 21)
    assert (compacted["context_tokens"], compacted["context_state"]) == (2_500, "estimated")
    assert compacted["last_compaction_at"] == "2026-01-02T03:00:50.500Z"
    assert (hostile["window_tokens"], hostile["window_source"]) == (1_000_000, "session_usage")


def test_agents_say_what_they_gave_back(run: Callable[..., Ended], config: Path) -> None:
    (agent,) = run("agents", "--json").json
    assert (agent["agent_id"], agent["session_id"], agent["agent_type"]) == (
        "abc",
        FULL,
        "reviewer",
    )
    assert (agent["status"], agent["context_tokens"], agent["tool_uses"]) == (
        "completed",
        20_000,
        3,
    )
    assert (agent["result_lines"], agent["result_chars"]) == (2, 26)
    assert agent["context_summary"] == "[COMPRESSED]\nkolibri found"
    # A name alone asks for nothing; it is measured all the same.
    assert (agent["expected_format"], agent["expected_by"]) == ("none", "none")
    assert (agent["verdict"], agent["violations"]) == ("not_required", [])

    (agent,) = run("agents", "--json", "--set", "compliance.rules=reviewer=review").json
    assert (agent["expected_format"], agent["expected_by"]) == ("review", "rule")
    assert (agent["verdict"], agent["warnings"]) == ("non_compliant", [])
    # Its own last words count, and they are "done".
    assert (agent["violations"], agent["findings"][0]["text"]) == (["V01"], "done")
    assert (agent["marker_origin"], agent["blocked"]) == (None, False)


def test_a_silent_agent_can_be_closed(run: Callable[..., Ended], config: Path) -> None:
    project = config / "projects" / PROJECT
    transcript, agent_file = project / f"{FULL}.jsonl", project / FULL / "subagents"
    lines = transcript.read_text().splitlines()
    write(transcript, *(line for line in lines if "toolUseResult" not in line))
    write(agent_file / "agent-abc.meta.json", {"agentType": "reviewer", "toolUseId": "toolu_1"})
    started_at = int(psutil.Process().create_time() * 1_000)
    entry = {"pid": os.getpid(), "sessionId": FULL, "startedAt": started_at + 500}
    write(config / "sessions" / f"{os.getpid()}.json", entry)

    (agent,) = run("agents", "--json").json
    assert (agent["status"], agent["ended_at"]) == ("zombie", None)
    assert agent["last_heard_at"] == time_at(10)
    closed = run("close-agent", FULL, "ab", "--json").json
    assert closed == {"session_id": FULL, "agent_id": "abc", "status": "closed"}
    (agent,) = run("agents", "--json").json
    assert (agent["status"], agent["last_heard_at"]) == ("closed", None)
    again = run("close-agent", FULL, "abc")
    assert (again.code, again.err) == (1, "ctxtop: abc is closed: there is nothing to close\n")

    line = answer(20_000, 11) | {"timestamp": datetime.now(UTC).isoformat()}
    write(agent_file / "agent-abc.jsonl", user("look", 6, isSidechain=True), line)
    running = run("close-agent", FULL, "abc")
    assert (running.code, "abc is running" in running.err) == (3, True)


def test_warnings_of_another_preset_are_recomputed(
    run: Callable[..., Ended], config: Path, home: Path
) -> None:
    logged = run("warnings", "--json").out
    ended = run("warnings", "--session", FULL, "--preset", "omo-latest", "--json")
    assert [each["threshold"] for each in ended.json] == [0.78]
    assert {each["session_id"] for each in ended.json} == {FULL}
    assert ended.json[0]["at"] == time_at(30)
    (note,) = ended.err.splitlines()
    assert note.startswith("ctxtop: recomputed from the stored answers")
    by_text = run("warnings", "--preset", "omo-doc").err
    assert by_text.endswith("for answers whose text was not counted\n")
    moved = run("warnings", "--session", FULL, "--set", "threshold=0.5:notice:reassure", "--json")
    assert [each["threshold"] for each in moved.json] == [0.5]
    assert moved.err.endswith("the windows known now; the log is unchanged\n")
    assert run("warnings", "--json").out == logged
    assert run("warnings", "--ascii", "--json").err == ""

    with closing(sqlite3.connect(next(home.glob("state/**/*.db")))) as db, db:
        db.execute("UPDATE warning SET session_id = 'gone' WHERE session_id = ?", [COMPACTED])
    lost = run("warnings", "--preset", "default", "--no-scan")
    assert "1 session with logged warnings cannot be" in lost.err


def test_compactions_warnings_and_totals(run: Callable[..., Ended], config: Path) -> None:
    (compaction,) = run("compactions", "--json").json
    assert (compaction["boundary_uuid"], compaction["trigger"]) == ("b-1", "auto")
    assert (compaction["pre_tokens"], compaction["post_tokens"]) == (160_000, 2_500)
    assert (compaction["kept_messages"], compaction["duration_ms"]) == (2, 1_500)
    assert compaction["summary"] == "Summary: kept the plan"
    assert compaction["forgotten"]["files"] == compaction["forgotten"]["identifiers"] == []
    assert (compaction["thrash"], compaction["cleared_results"]) == (None, 0)
    warnings = run("warnings", "--json").json
    assert [each["at"] for each in warnings] == sorted(
        (each["at"] for each in warnings), reverse=True
    )
    of_full = {each["level"]: each for each in warnings if each["session_id"] == FULL}
    assert set(of_full) == {"notice", "warning", "high"}
    assert (of_full["high"]["threshold"], of_full["high"]["ratio"]) == (0.85, 0.86)
    cleared = [each["cleared_at"] for each in warnings if each["session_id"] == COMPACTED]
    assert cleared == ["2026-01-02T03:00:50.500Z"] * 2
    totals = run("totals", "--json").json
    models = totals.pop("models")
    spent = {
        "input_tokens": 50,
        "cache_creation_tokens": 500,
        "cache_read_tokens": 50_000 + 172_000 + 20_000 + 160_000 + 412_000 - 5 * 110,
        "output_tokens": 35,
        "web_searches": 0,
        "responses": 5,
        "cost_usd": 0.123894,
        "cost_source": "prices",
        "cost_estimated": True,
        "cost_partial": False,
    }
    assert totals == spent | {
        "sessions": 3,
        "agent_progress": dict.fromkeys(SUMS, 0) | dict.fromkeys(COSTS),
        "without_agent_progress": spent,
    }
    for name in SUMS:
        assert sum(each[name] for each in models) == spent[name]
    assert sum(each["cost_usd"] for each in models) == pytest.approx(spent["cost_usd"])
    assert "progress" not in run("totals").out


def test_totals_with_and_without_what_only_progress_lines_hold(
    run: Callable[..., Ended], config: Path
) -> None:
    path = config / "projects" / PROJECT / f"{COMPACTED}.jsonl"
    step = answer(7_000, 53)
    step["message"]["id"] = "of_the_agent"  # type: ignore[index]
    known = answer(9_000, 54)
    lines = [
        {
            "type": "progress",
            "parentToolUseID": "t1",
            "data": {"type": "agent_progress", "agentId": "p1", "message": each},
        }
        for each in (step, step, known)
    ]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in [*lines, known])

    record = run("totals", "--json").json
    more, less = record["agent_progress"], record["without_agent_progress"]
    assert (more["responses"], record["responses"], less["responses"]) == (1, 7, 6)
    for name in SUMS:
        assert less[name] + more[name] == record[name]
    assert record["cost_usd"] == pytest.approx(less["cost_usd"] + more["cost_usd"])
    shown = run("totals", "--no-scan").out
    assert "1 of them is an agent's answer that only a progress line records; without it:" in shown
    assert f"{less['input_tokens']:,}" in shown


def test_what_a_compaction_forgot_and_what_refilled_it(
    run: Callable[..., Ended], config: Path
) -> None:
    path = config / "projects" / PROJECT / f"{COMPACTED}.jsonl"
    use = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "/x/big.py"}}
    read = answer(20_000, 53)
    read["message"]["content"] = [use]  # type: ignore[index]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "x = 1\n" * 900}
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b-2",
        "timestamp": time_at(56),
        "compactMetadata": {"trigger": "auto", "preTokens": 150_007},
    }
    lines = [
        user("Never rename `parse_all`, \x1b[31mplease\u202e.", 52),
        read,
        user([result], 54),  # type: ignore[arg-type]
        boundary,
        user("Summary: nothing of it", 57, isCompactSummary=True),
    ]
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)

    newest, oldest = run("compactions", "--json").json
    forgotten = newest["forgotten"]
    assert (forgotten["files"], forgotten["identifiers"]) == (["/x/big.py"], ["parse_all"])
    assert forgotten["constraints"] == [
        {"text": "Never rename `parse_all`, [31mplease.", "line": 7}
    ]
    assert forgotten["counts"]["files"] == 1
    assert newest["thrash"] == {
        "turns_since_last": 1,
        "culprit": {"kind": "file_read", "what": "/x/big.py", "tokens": 130_000, "line": 9},
    }
    assert (oldest["thrash"], oldest["forgotten"]["files"]) == (None, [])

    table = run("compactions").out.splitlines()
    assert "1 file, 1 name, 1 rule" in table[1]
    assert "after 1 turn" in table[1]
    assert "nothing" in table[2]
    before, after = oldest["pre_tokens"], oldest["next_answer_tokens"]
    assert f" {(before - after) / before * 100:.1f} % " in table[2]
    whole = run("compactions", "--session", COMPACTED).out
    assert whole.splitlines()[0] == table[0]
    for said in (
        "1 turn after the last one, refilled most by reading /x/big.py: ≈130 k tokens (line 9)",
        "/x/big.py (read 1×; line 8)",
        "parse_all",
        "Never rename `parse_all`, [31mplease. (line 7)",
    ):
        assert said in whole
    assert not {"\x1b", "\u202e"} & set(whole)


def test_a_compaction_whose_summary_is_not_written_yet_is_not_told_of(
    run: Callable[..., Ended], config: Path
) -> None:
    path = config / "projects" / PROJECT / f"{COMPACTED}.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))

    (compaction,) = run("compactions", "--json").json
    told = [compaction[key] for key in ("forgotten", "thrash", "cleared_results")]
    assert told == [None, None, None]
    assert "no details yet" in run("compactions", "--session", COMPACTED).out


def test_summaries_are_searched(run: Callable[..., Ended], config: Path) -> None:
    assert {each["kind"] for each in run("summaries", "--json").json} == {"agent", "boundary"}
    (found,) = run("summaries", "--search", "kolib", "--json").json
    assert (found["agent_id"], found["agent_type"]) == ("abc", "reviewer")
    assert "kolibri found" in run("summaries", "--search", "kolibri").out
    for odd in ('"', "NEAR(", "*", "a AND", "\udcff"):
        assert run("summaries", "--search", odd).code == 0


def test_scan_counts_and_lists_what_is_bad(run: Callable[..., Ended], config: Path) -> None:
    scanned = run("scan", "--json").json
    assert (scanned["files"], scanned["lines"], scanned["bad_lines"]) == (4, 14, 1)
    assert (scanned["sessions"], scanned["agents"]) == (3, 1)
    assert scanned["unknown_types"] == {"never-seen": 1}
    files = config.rglob("*.jsonl")
    assert scanned["bytes"] == sum(path.stat().st_size for path in files)
    (bad,) = run("scan", "--bad", "--json").json["bad"]
    text = Path(bad["file"]).read_bytes()
    assert text[bad["offset"] : bad["offset"] + bad["length"]] == b"{not json"
    shown = run("scan", "--bad")
    assert f"{bad['file']} at {bad['offset']}" in shown.out
    assert shown.code == 0


@pytest.mark.parametrize("command", [*READING, "scan", "doctor"])
def test_people_get_lines_without_escapes(
    run: Callable[..., Ended], config: Path, command: str
) -> None:
    ended = run(command)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.strip()
    assert not {"\x1b", "\x07"} & set(ended.out)


def test_tables_fit_the_width_and_keep_their_numbers(
    run: Callable[..., Ended], config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.cells import cell_len

    out = run("sessions").out
    assert "[/foo] [red]x[/] ]0;owned[31m 漢字漢字" in out
    assert "172 k of 200 k" in out
    assert "≈2.5 k of 200 k" in out
    for columns in (120, 100, 80, 70):
        monkeypatch.setenv("COLUMNS", str(columns))
        out = run("sessions").out
        assert "172 k of 200 k" in out
        assert "86 %" in out
        assert max(cell_len(line) for line in out.splitlines()) <= columns


def test_hostile_names_on_disk_are_harmless(run: Callable[..., Ended], config: Path) -> None:
    name = config / "projects" / "p\x1b[31m\nq" / "\x1b]0;x\x07.jsonl"
    write(name, {"type": "ai-title", "aiTitle": "t", "timestamp": time_at(70)})
    people = run("sessions")
    assert "\x1b" not in people.out + people.err
    assert len(people.out.splitlines()) == 5
    programs = run("sessions", "--json")
    assert "\x1b" not in programs.out
    assert programs.json[0]["transcript_path"] == str(name)


def test_a_bar_never_looks_fuller_than_it_is() -> None:
    assert text_bar(0.86, 10) == "████████▌░"
    assert text_bar(0.999, 10) == "█████████▉"
    assert (text_bar(1.0, 4), text_bar(7.0, 4)) == ("████", "████")
    assert (text_bar(0.001, 4), text_bar(0.0, 4), text_bar(None, 4)) == ("▏░░░", "░░░░", "░░░░")


@pytest.mark.parametrize("words", [("--json", "sessions"), ("sessions", "--json")])
def test_common_options_stand_before_or_after(
    run: Callable[..., Ended], config: Path, home: Path, words: tuple[str, str]
) -> None:
    other, store = home / "other", home / "s.db"
    config.rename(other)
    before = run("--config-dir", str(other), "--db", str(store), *words)
    after = run(*words, "--config-dir", str(other), "--db", str(store))
    assert len(before.json) == len(after.json) == 3
    assert store.stat().st_mode & 0o777 == 0o600


def test_places_come_from_the_environment(
    run: Callable[..., Ended], config: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.rename(home / "other")
    monkeypatch.setenv("CTXTOP_CONFIG_DIR", str(home / "other"))
    monkeypatch.setenv("CTXTOP_DB", str(home / "s.db"))
    assert len(run("sessions", "--json").json) == 3
    assert (home / "s.db").exists()


@pytest.mark.parametrize("option", ["--config-dir", "--db"])
def test_a_second_folder_is_refused_wherever_it_is_given(
    run: Callable[..., Ended], config: Path, home: Path, option: str
) -> None:
    """Else the numbers of one would be taken for those of both."""
    one, two = str(config), str(home / "two")
    for words in (
        (option, one, option, two, "sessions"),
        (option, one, "sessions", option, two),
        ("sessions", option, one, option, two),
    ):
        ended = run(*words)
        assert (ended.code, ended.out) == (2, "")
        assert f"{option} is given 2 times" in one_line(ended.err)
        assert one in ended.err
        assert two in ended.err
    assert not (home / "two").exists()
    same = ("--config-dir", one, "sessions", "--config-dir", one, "--json")
    assert len(run(*same).json) == 3


def test_a_list_of_folders_is_refused_unless_one_is_chosen(
    run: Callable[..., Ended], config: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIRS", f"{config}{os.pathsep}{home / 'two'}")
    ended = run("sessions")
    assert (ended.code, ended.out) == (1, "")
    assert "CLAUDE_CONFIG_DIRS names 2 folders" in one_line(ended.err)
    assert "--config-dir" in ended.err
    assert len(run("sessions", "--config-dir", str(config), "--json").json) == 3
    monkeypatch.setenv("CTXTOP_CONFIG_DIR", str(config))
    assert len(run("sessions", "--json").json) == 3
    monkeypatch.delenv("CTXTOP_CONFIG_DIR")
    monkeypatch.setenv("CLAUDE_CONFIG_DIRS", str(config.rename(home / "only")))
    assert len(run("sessions", "--json").json) == 3


def test_no_scan_reads_the_store_as_it_is(run: Callable[..., Ended], config: Path) -> None:
    none_yet = run("sessions", "--no-scan")
    assert none_yet.code == 1
    assert one_line(none_yet.err).startswith("ctxtop: no store at ")
    run("scan")
    (config / "projects" / PROJECT / f"{FULL}.jsonl").unlink()
    gone = {each["session_id"]: each["status"] for each in run("sessions", "--json").json}
    assert gone[FULL] == "gone"
    write(config / "projects" / PROJECT / "new.jsonl", user("new", 80))
    assert len(run("sessions", "--no-scan", "--json").json) == 3
    assert len(run("--no-scan", "sessions", "--json").json) == 3
    assert len(run("sessions", "--json").json) == 4


@pytest.mark.parametrize("command", ["agents", "compactions", "warnings", "summaries"])
def test_a_session_is_named_by_the_start_of_its_id(
    run: Callable[..., Ended], config: Path, command: str
) -> None:
    ended = run(command, "--session", "0B", "--json")
    assert {each["session_id"] for each in ended.json} <= {HOSTILE}
    whole = run(command, "--session", FULL, "--json")
    assert {each["session_id"] for each in whole.json} <= {FULL}
    unknown = run(command, "--session", "zz")
    assert unknown.code == 1
    assert "`ctxtop sessions` lists them" in one_line(unknown.err)
    several = run(command, "--session", "0a")
    assert several.code == 1
    assert "2 sessions have ids that start with '0a'" in one_line(several.err)


def test_short_ids_of_the_table_are_taken(run: Callable[..., Ended], config: Path) -> None:
    shown = [line.split()[0] for line in run("sessions").out.splitlines()[1:]]
    for short in shown:
        assert run("agents", "--session", short).code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("no-such-command",),
        ("sessions", "--jsn"),
        ("agents", "--session"),
        ("sessions", "extra"),
        ("sessions", "--db", ""),
        ("scan", "--no-scan"),
        ("--no-scan", "scan"),
        ("--json",),
        ("--no-scan",),
        ("demo", "--db", "x.db"),
        ("demo", "--json"),
        ("--config-dir", "x", "demo", "--once"),
    ],
)
def test_usage_errors_are_one_line_and_code_2(
    run: Callable[..., Ended], config: Path, words: tuple[str, ...]
) -> None:
    ended = run(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "--help`" in one_line(ended.err)


@pytest.mark.parametrize(
    "words",
    [
        ("--config-dir", "/nowhere/at/all", "sessions"),
        ("sessions", "--config-dir", "~nobody-of-that-name/x"),
        ("sessions", "--config-dir", "a" * 5000),
        ("sessions", "--db", "."),
        ("sessions", "--db", "/dev/null/x.db"),
    ],
)
def test_places_that_cannot_be_used_are_one_line_and_code_1(
    run: Callable[..., Ended], config: Path, words: tuple[str, ...]
) -> None:
    ended = run(*words)
    assert (ended.code, ended.out) == (1, "")
    assert one_line(ended.err).startswith("ctxtop: ")


def test_a_missing_default_folder_is_an_error_for_a_command(
    run: Callable[..., Ended], home: Path
) -> None:
    ended = run("sessions")
    assert ended.code == 1
    assert "--config-dir" in one_line(ended.err)
    assert not (home / "state").exists()


def test_an_empty_folder_is_said_in_one_line(run: Callable[..., Ended], home: Path) -> None:
    (home / ".claude").mkdir()
    for command in ("sessions", "agents", "compactions", "warnings", "summaries"):
        ended = run(command)
        assert ended.code == 0
        assert ended.out == f"no {command} yet in {home / '.claude'}\n"
        assert run(command, "--json").json == []
    assert run("totals", "--json").json["responses"] == 0


def test_a_store_of_another_folder_is_refused(
    run: Callable[..., Ended], config: Path, home: Path
) -> None:
    store = str(home / "s.db")
    assert run("scan", "--db", store).code == 0
    (home / "other").mkdir()
    for more in ((), ("--no-scan",)):
        ended = run("sessions", "--db", store, "--config-dir", str(home / "other"), *more)
        assert ended.code == 1
        assert "choose another file with --db" in one_line(ended.err)


def test_a_page_that_only_reading_finds_damaged_is_said_and_the_store_made_again(
    run: Callable[..., Ended], config: Path, tmp_path: Path
) -> None:
    store = tmp_path / "own" / "store.db"
    before = run("--db", str(store), "sessions", "--json").json
    with closing(sqlite3.connect(store)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        where = "SELECT rootpage FROM sqlite_schema WHERE name = 'context_report'"
        (page,) = db.execute(where).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
    data = bytearray(store.read_bytes())
    data[(page - 1) * size : page * size] = b"\xa5" * size
    store.write_bytes(bytes(data))

    healed = run("--db", str(store), "sessions", "--json")
    assert (healed.code, healed.json) == (0, before)
    assert healed.err.count("\n") == 1
    assert "was damaged (" in healed.err
    assert "): it was moved to store.db.aside-" in healed.err
    assert run("--db", str(store), "sessions", "--json").err == ""


def test_a_damaged_store_is_set_aside_and_said(
    run: Callable[..., Ended], config: Path, home: Path
) -> None:
    store = home / "s.db"
    store.write_text("no database " * 100)
    healed = run("sessions", "--no-scan", "--json", "--db", str(store))
    assert (healed.code, len(healed.json)) == (0, 3)
    assert "rebuilt" in one_line(healed.err)
    ended = run("sessions", "--json", "--db", str(store))
    assert (ended.code, len(ended.json), ended.err) == (0, 3, "")


def test_troubles_are_told_beside_the_output(run: Callable[..., Ended], config: Path) -> None:
    (config / "projects" / PROJECT / "link.jsonl").symlink_to("/etc/passwd")
    ended = run("sessions", "--json")
    assert (ended.code, len(ended.json)) == (0, 3)
    assert "link.jsonl" in one_line(ended.err)
    assert "root:" not in ended.out


def test_doctor_tells_what_is_in_the_way(
    run: Callable[..., Ended], config: Path, home: Path
) -> None:
    checks = {each["name"]: each for each in run("doctor", "--json").json["checks"]}
    assert {"claude folder", "store", "sqlite", "token table", "watching"} <= set(checks)
    keys = ["name", "ok", "detail", "fix", "state"]
    assert all(list(each) == keys for each in checks.values())
    assert checks["bad lines"]["state"] == checks["unknown types"]["state"] == "note"
    assert "0600 in 0700" in checks["store"]["detail"]
    assert checks["bad lines"]["detail"] == "1 line could not be read whole"
    assert "never-seen 1" in checks["unknown types"]["detail"]
    store = home / "s.db"
    store.write_text("no database " * 100)
    ended = run("doctor", "--no-scan", "--db", str(store))
    assert ended.code == 0
    assert "was damaged (file is not a database): it was moved to s.db.aside-" in one_line(
        ended.err
    )


def test_doctor_without_a_folder_makes_nothing(run: Callable[..., Ended], home: Path) -> None:
    ended = run("doctor")
    assert ended.code == 1
    assert "✗ claude folder" in ended.out
    assert not (home / "state").exists()


def test_the_help_cuts_no_description_and_names_no_type(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups: tuple[list[str], ...] = ([], ["hooks"], ["policy"])
    lines = [line for words in groups for line in run(*words, "--help").out.splitlines()]
    cut = [line for line in lines if line.endswith("...") and not line.startswith("Usage:")]
    assert cut == []
    assert max(map(len, lines)) <= 80
    commands = [
        line.split()[0] for line in run("--help").out.partition("Commands:")[2].splitlines() if line
    ]
    typed = [
        name for name in commands if re.search(r"INTEGER|FLOAT|RANGE", run(name, "--help").out)
    ]
    assert typed == []


def test_version_and_help(run: Callable[..., Ended]) -> None:
    assert run("--version").out == "ctxtop 0.1.0\n"
    for words in (("--help",), ("sessions", "-h")):
        ended = run(*words)
        assert (ended.code, ended.err) == (0, "")
        assert "--config-dir" in ended.out


def test_a_reader_that_has_seen_enough_is_no_error(config: Path) -> None:
    ended = shell(
        f"{sys.executable} -m ctxtop scan; {sys.executable} -m ctxtop --no-scan"
        " summaries --json | head -1"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("[\n")


def test_closed_and_full_outputs_are_no_traceback(config: Path) -> None:
    closed = shell(f"{sys.executable} -m ctxtop sessions >&-")
    assert (closed.returncode, closed.stderr) == (0, "")
    if Path("/dev/full").exists():
        full = shell(f"{sys.executable} -m ctxtop sessions > /dev/full")
        assert full.returncode == 1
        assert one_line(full.stderr) == "ctxtop: No space left on device"


def test_plain_signs_where_the_output_is_not_utf8(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    people = shell(f"{sys.executable} -m ctxtop sessions")
    assert "86 %" in people.stdout
    assert people.stdout.isascii()
    programs = shell(f"{sys.executable} -m ctxtop sessions --json")
    assert "漢字" in json.loads(programs.stdout)[0]["title"]


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False, timeout=60)


def one_line(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]


@pytest.fixture
def corpus(home: Path) -> Path:
    shared = os.environ.get("CTXTOP_SHARED")
    if not shared:
        pytest.skip("CTXTOP_SHARED does not name the recorded transcripts")
    import shutil

    return Path(shutil.copytree(Path(shared) / "corpus/current/config", home / ".claude"))


def test_recorded_sessions(run: Callable[..., Ended], corpus: Path) -> None:
    sessions = {each["session_id"][:13]: each for each in run("sessions", "--json").json}
    assert len(sessions) == 7
    full = sessions["aaaaaaaa-0001"]
    assert (full["context_tokens"], full["window_tokens"]) == (172_000, 200_000)
    assert (full["used_ratio"], full["level"]) == (0.86, "high")
    large = sessions["aaaaaaaa-0005"]
    assert (large["context_tokens"], large["window_tokens"]) == (412_000, 1_000_000)
    compacted = sessions["aaaaaaaa-0003"]
    assert (compacted["compactions"], compacted["context_tokens"]) == (1, 26_000)
    agents = run("agents", "--session", "aaaaaaaa-0002", "--json").json
    assert {each["agent_type"] for each in agents} == {
        "node-backend",
        "react-frontend",
        "reviewer",
        "general-purpose",
    }
    assert len(agents) == 4
