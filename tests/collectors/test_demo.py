"""The demo's folder: repeatable, well-formed, private, and true to what it says about itself."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.demo import DemoFolder, DemoSession, DemoWriter, make_demo
from ctxtop.collectors.demo.status_lines import write_status_lines

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SIZE_LIMIT = 30_000_000
AGENT_KINDS = {"node-backend", "react-frontend", "reviewer", "general-purpose"}


@pytest.fixture
def folder(tmp_path: Path) -> DemoFolder:
    return make_demo(tmp_path / "config", NOW, pid=4242, proc_start="99")


def files_of(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files_of(root)
    }


def lines_of(path: Path) -> list[dict[str, Any]]:
    content = path.read_bytes()
    assert content.endswith(b"\n")
    return [json.loads(row) for row in content.splitlines()]


def window_of(usage: dict[str, Any]) -> int:
    counts = (usage.get("iterations") or [usage])[-1]
    return int(
        counts["input_tokens"]
        + counts["cache_creation_input_tokens"]
        + counts["cache_read_input_tokens"]
    )


def context_of(lines: list[dict[str, Any]]) -> tuple[int | None, str]:
    tokens: int | None = None
    state = "unknown"
    for line in lines:
        if line.get("subtype") == "compact_boundary":
            tokens, state = line["compactMetadata"].get("postTokens"), "estimated"
        elif line["type"] == "assistant" and line["message"]["model"] != "<synthetic>":
            assert line["isSidechain"] is False
            tokens, state = window_of(line["message"]["usage"]), "measured"
    return tokens, state


def agent_calls(lines: list[dict[str, Any]]) -> int:
    return sum(
        block["type"] == "tool_use" and block["name"] in ("Agent", "Task")
        for line in lines
        if line["type"] == "assistant"
        for block in line["message"]["content"]
    )


def title_of(lines: list[dict[str, Any]]) -> str:
    titles = {line["type"]: line for line in lines}
    if "custom-title" in titles:
        return str(titles["custom-title"]["customTitle"])
    if "ai-title" in titles:
        return str(titles["ai-title"]["aiTitle"])
    prompts = [line for line in lines if line["type"] == "user"]
    return str(prompts[0]["message"]["content"])


def by_title(folder: DemoFolder, part: str) -> DemoSession:
    return next(session for session in folder.sessions if part in session.title)


def test_same_seed_and_time_make_the_same_bytes_anywhere(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("two", 7), ("other", 8)):
        make_demo(tmp_path / name, NOW, seed, pid=1, proc_start="2")
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    assert digests(tmp_path / "one") != digests(tmp_path / "other")


def test_every_line_is_json_and_no_line_is_from_the_future(folder: DemoFolder) -> None:
    for path in folder.root.rglob("*.jsonl"):
        for line in lines_of(path):
            if isinstance(moment := line.get("timestamp"), str):
                assert datetime.fromisoformat(moment) <= NOW


def test_files_have_the_time_of_their_last_line(folder: DemoFolder) -> None:
    for path in folder.root.rglob("*.jsonl"):
        stamped = [line["timestamp"] for line in lines_of(path) if "timestamp" in line]
        last = datetime.fromisoformat(stamped[-1])
        assert path.stat().st_mtime == pytest.approx(last.timestamp(), abs=0.001)


def test_nothing_is_readable_by_others(folder: DemoFolder) -> None:
    assert folder.root.stat().st_mode & 0o777 == 0o700
    for path in folder.root.rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        assert path.stat().st_mode & 0o777 == wanted, path


def test_the_folder_is_small(folder: DemoFolder) -> None:
    assert sum(path.stat().st_size for path in files_of(folder.root)) < SIZE_LIMIT


def test_what_it_says_about_a_session_is_what_the_file_says(folder: DemoFolder) -> None:
    for session in folder.sessions:
        lines = lines_of(session.transcript)
        boundaries = [line for line in lines if line.get("subtype") == "compact_boundary"]
        assert session.transcript.stem == session.session_id
        assert (session.context_tokens, session.context_state) == context_of(lines), session.title
        assert session.compactions == len(boundaries)
        below = session.transcript.with_suffix("") / "subagents"
        nested = sum(agent_calls(lines_of(path)) for path in below.glob("*.jsonl"))
        assert session.agents == agent_calls(lines) + nested
        if session.era != "2.1.45":  # that era had no title lines
            assert session.title == title_of(lines)
        versions = {line["version"] for line in lines if "version" in line}
        assert versions == {session.era}
        owners = {line["sessionId"] for line in lines if "sessionId" in line}
        assert owners == {session.session_id}


def test_every_line_hangs_on_an_earlier_one(folder: DemoFolder) -> None:
    for path in folder.root.rglob("*.jsonl"):
        seen: set[str] = set()
        for line in lines_of(path):
            if "uuid" not in line:
                continue
            assert line["uuid"] not in seen
            root = not seen or line.get("subtype") == "compact_boundary"
            assert line["parentUuid"] is None if root else line["parentUuid"] in seen
            assert line.get("logicalParentUuid", "") in seen | {""}
            seen.add(line["uuid"])


def test_the_kinds_of_sessions_are_all_there(folder: DemoFolder) -> None:
    states = {session.context_state for session in folder.sessions}
    eras = [session.era for session in folder.sessions]
    assert states == {"measured", "estimated", "unknown"}
    assert (eras.count("2.1.217"), eras.count("2.1.45")) == (2, 2)
    assert {session.window_tokens for session in folder.sessions} == {200_000, 1_000_000}
    assert any(
        (session.context_tokens or 0) > 0.8 * session.window_tokens for session in folder.sessions
    )
    assert sum(session.grows for session in folder.sessions) == 3


def test_a_fork_shares_its_history(folder: DemoFolder) -> None:
    parent = lines_of(by_title(folder, "from the API").transcript)
    fork = lines_of(by_title(folder, "with a queue").transcript)
    history = [line["uuid"] for line in parent if "uuid" in line]
    assert [line["uuid"] for line in fork if "uuid" in line][: len(history)] == history
    answers = {line["message"]["id"] for line in parent if line["type"] == "assistant"}
    assert answers < {line["message"]["id"] for line in fork if line["type"] == "assistant"}


def test_sums_over_iterations_are_not_the_window(folder: DemoFolder) -> None:
    lines = lines_of(by_title(folder, "Ledger").transcript)
    rounds = [
        line["message"]["usage"]
        for line in lines
        if line["type"] == "assistant" and len(line["message"]["usage"]["iterations"]) > 1
    ]
    assert len(rounds) == 1
    assert sum(window_of(one) for one in rounds[0]["iterations"]) == window_of(
        rounds[0] | {"iterations": []}
    )


def test_the_leaders_agents_are_as_told(folder: DemoFolder) -> None:
    session = by_title(folder, "wishlist")
    agents = session.transcript.with_suffix("") / "subagents"
    results = {}
    for meta_path in agents.glob("*.meta.json"):
        meta = json.loads(meta_path.read_bytes())
        assert meta["finished"] is True
        lines = lines_of(meta_path.with_name(meta_path.name.replace(".meta.json", ".jsonl")))
        results[meta["agentType"]] = lines[-1]["message"]["content"][0]["text"]
        notified = [line for line in lines_of(session.transcript) if line.get("origin")]
        assert any(
            results[meta["agentType"]] in str(line["message"]["content"]) for line in notified
        )
        blocked = any("Stop hook feedback" in str(line.get("message")) for line in lines)
        assert blocked == (meta["agentType"] == "react-frontend")
    assert results.keys() == AGENT_KINDS
    assert results["node-backend"].startswith("[COMPRESSED]")
    assert len(results["node-backend"].splitlines()) <= 10
    assert "Verdict: FAIL" in results["reviewer"]
    assert len(results["general-purpose"].splitlines()) == 41
    assert "[COMPRESSED]" not in results["general-purpose"]


def test_the_registry_names_the_given_process(folder: DemoFolder) -> None:
    entries = sorted((folder.root / "sessions").iterdir())
    assert [path.name for path in entries] == [f"4242-{number}.json" for number in range(1, 9)]
    contents = [json.loads(path.read_bytes()) for path in entries]
    assert {(entry["pid"], entry["procStart"]) for entry in contents} == {(4242, "99")}
    assert {entry["status"] for entry in contents} == {"idle", "busy", "waiting"}
    sessions = {session.session_id for session in folder.sessions}
    assert {entry["sessionId"] for entry in contents} <= sessions


def test_hostile_text_is_written_as_it_is(folder: DemoFolder) -> None:
    text = str(lines_of(by_title(folder, "[/foo]").transcript))
    assert all(sign in text for sign in ("[/foo]", "[bold red]", "\\x1b[31m", "\\u202e"))


def test_the_writer_climbs_compacts_and_launches(folder: DemoFolder) -> None:
    writer, now = DemoWriter(folder), NOW
    growing = [session for session in folder.sessions if session.grows]
    sizes = {session.session_id: session.transcript.stat().st_size for session in growing}
    statuses = set()
    for _ in range(200):
        now += timedelta(seconds=1.5)
        writer.step(now)
        for session in growing:
            size = session.transcript.stat().st_size
            assert size >= sizes[session.session_id]
            sizes[session.session_id] = size
        statuses |= {
            json.loads(path.read_bytes())["status"] for path in (folder.root / "sessions").iterdir()
        }
    assert statuses == {"idle", "busy", "waiting"}
    climber = next(session for session in growing if session.window_tokens == 200_000)
    lines = lines_of(climber.transcript)
    fills = [
        window_of(line["message"]["usage"]) / climber.window_tokens
        for line in lines
        if line["type"] == "assistant"
    ]
    assert max(fills) >= 0.835
    boundary = next(line for line in lines if line.get("subtype") == "compact_boundary")
    waited = datetime.fromisoformat(boundary["timestamp"]) - NOW
    assert waited < timedelta(seconds=150)
    assert context_of(lines)[1] == "measured"
    assert fills[-1] < 0.7
    launcher = next(session for session in growing if session.agents)
    agents = launcher.transcript.with_suffix("") / "subagents"
    assert len(list(agents.glob("*.meta.json"))) >= launcher.agents + 3
    for path in folder.root.rglob("*.jsonl"):
        ids = [line["uuid"] for line in lines_of(path) if "uuid" in line]
        assert len(ids) == len(set(ids))
        assert path.stat().st_mode & 0o777 == 0o600


def test_the_writer_repeats_itself(tmp_path: Path) -> None:
    made = []
    for _ in range(2):
        folder = make_demo(tmp_path / "config", NOW, pid=1, proc_start="2")
        writer = DemoWriter(folder)
        for step in range(40):
            writer.step(NOW + timedelta(seconds=step))
        made.append(digests(folder.root))
        shutil.rmtree(folder.root)
    assert made[0] == made[1]


def test_the_writer_stops_when_the_folder_is_gone(folder: DemoFolder) -> None:
    writer = DemoWriter(folder, interval_s=0)
    writer.step(NOW)
    shutil.rmtree(folder.root)
    writer.run(threading.Event())  # returns by itself
    writer.step(NOW)
    assert not folder.root.exists()


def test_the_writer_stops_when_it_is_told_to(folder: DemoFolder) -> None:
    stop = threading.Event()
    stop.set()
    DemoWriter(folder).run(stop)


def test_caches_are_lost_for_reasons_that_the_api_names(folder: DemoFolder) -> None:
    found = {
        (session.title, miss["type"])
        for session in folder.sessions
        for line in lines_of(session.transcript)
        if (miss := (line.get("message", {}).get("diagnostics") or {}).get("cache_miss_reason"))
    }
    split = {"Split the ingest worker from the API", "Split the ingest worker, with a queue"}
    assert found == {
        *((title, "model_changed") for title in split),
        *((title, "previous_message_not_found") for title in split),
        ("Conflict-free note sync", "tools_changed"),
    }


def test_the_status_lines_were_told_of_a_plan_that_is_used_by_now(
    folder: DemoFolder, tmp_path: Path
) -> None:
    log = tmp_path / "statusline.jsonl"
    write_status_lines(folder.sessions, log, NOW)
    told = [json.loads(row) for row in log.read_text().splitlines() if row]
    now_ms = int(NOW.timestamp() * 1000)
    assert [each["at"] for each in told] == sorted(each["at"] for each in told)
    assert told[-1]["at"] <= now_ms
    limits = told[-1]["given"]["rate_limits"]
    assert limits["five_hour"]["used_percentage"] == pytest.approx(62, abs=1)
    assert limits["seven_day"]["used_percentage"] == pytest.approx(41, abs=1)
    assert all(now_ms < each["resets_at"] * 1000 for each in limits.values())
    live = by_title(folder, "Fix the flaky").session_id
    (*_, newest) = (each["given"] for each in told if each["given"]["session_id"] == live)
    assert newest["prompt_cache"]["recache_tokens_if_cold"] == 163_412
