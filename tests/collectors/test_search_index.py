"""The search's index: each turn once, however its file comes and goes, and found where it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.collectors.claude_code.search_jobs import SearchIndexJob
from ctxtop.collectors.claude_code.turn_finder import SearchHit, search_turns
from ctxtop.core.store import search_index
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries.search_queries import search_index_size, search_progress
from ctxtop.core.store.search_index import TurnPlace, decode_places, encode_places
from ctxtop.core.transcript.turn_search import TurnRole, index_terms, parse_turn_query
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ..made_up_secrets import ALL_OF_THEM, TELLTALES, told_in
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    encode,
    text,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.store.writer import Writer

OTHER: Final = "99999999-2222-4333-8444-555555555555"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def said(words: str, at: int = 1, name: str = "m") -> JsonLine:
    return assistant(name, content=[text(words)], at=at)


def found(collector: Collector, typed: str, limit: int = 50) -> list[str]:
    return [hit.excerpt.text for hit in hits(collector, typed, limit)]


def hits(collector: Collector, typed: str, limit: int = 50) -> tuple[SearchHit, ...]:
    query = parse_turn_query(typed, START_MS)
    names = {SESSION: "proj", OTHER: "shop"}
    with closing(open_reader(collector.writer.path)) as db:
        return search_turns(db, collector.folder, query, names, limit).hits


def blocks(writer: Writer) -> int:
    return int(writer.connection.execute("SELECT COUNT(*) FROM searched_block").fetchone()[0])


def test_prompts_and_answers_are_found_newest_first(collector: Collector, path: Path) -> None:
    write(path, [user("Fix the pool.", at=1), said("The pool is fixed.", at=2)])
    append(path, [tool_result("t", "the pool of the tool", {}, at=3)])
    agent = path.parent / SESSION / "subagents" / "agent-a1.jsonl"
    write(agent, [user("Look at the pool.", at=5, isSidechain=True, agentId="a1")])
    collector.scan_and_index_turns()
    newest, answer, prompt = hits(collector, "pool")
    assert (newest.role, newest.agent_id) == (TurnRole.AGENT, "a1")
    assert (answer.role, answer.agent_id, answer.at) == (TurnRole.ANSWER, None, START_MS + 2000)
    assert (prompt.role, prompt.offset, prompt.session_id) == (TurnRole.PROMPT, 0, SESSION)
    data = path.read_bytes()
    assert b"is fixed" in data[answer.offset :].split(b"\n", 1)[0]
    assert found(collector, "pool role:prompt") == ["Fix the pool."]
    assert found(collector, "pool role:agent") == ["Look at the pool."]


def test_filters_by_project_session_and_time(
    collector: Collector, claude: ClaudeFolder, path: Path
) -> None:
    write(path, [user("an old pool", at=0), user("a pool", at=7200)])
    line = user("the pool of a shop", at=60, sessionId=OTHER)
    write(claude.projects / "-shop" / f"{OTHER}.jsonl", [line])
    collector.scan_and_index_turns()
    assert found(collector, "pool project:shop") == ["the pool of a shop"]
    assert found(collector, f"pool session:{SESSION[:6]}") == ["a pool", "an old pool"]
    assert found(collector, "pool project:nowhere") == []
    query = parse_turn_query("pool since:1h", START_MS + 2 * 3_600_000)
    with closing(open_reader(collector.writer.path)) as db:
        results = search_turns(db, collector.folder, query, {}, 50)
    assert [hit.excerpt.text for hit in results.hits] == ["a pool"]


def test_what_is_added_is_found_and_nothing_twice(collector: Collector, path: Path) -> None:
    write(path, [user("one pool")])
    collector.scan_and_index_turns()
    line = said("two pools", at=2)
    append(path, [line, line])
    collector.scan_and_index_turns()
    assert found(collector, "pool") == ["two pools", "one pool"]
    before = collector.writer.connection.total_changes
    collector.post_scan_jobs.index_all_turns()
    assert collector.writer.connection.total_changes == before


def test_half_a_line_is_indexed_once_it_is_whole(collector: Collector, path: Path) -> None:
    data = encode([user("one pool"), user("another pool", at=2)])
    path.parent.mkdir(parents=True)
    path.write_bytes(data[:-30])
    collector.scan_and_index_turns()
    assert found(collector, "pool") == ["one pool"]
    path.write_bytes(data)
    collector.scan_and_index_turns()
    assert found(collector, "pool") == ["another pool", "one pool"]


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ([user("another pond"), user("a pool", at=3)], ["a pool"]),
        ([user("a pool and a pond")], ["a pool and a pond"]),
        ([], []),
    ],
)
def test_a_rewritten_or_truncated_transcript_takes_its_turns_along(
    collector: Collector, path: Path, after: list[JsonLine], expected: list[str]
) -> None:
    write(path, [user("an old pool"), said("it is an old pool", at=2), said("yes, a pool", at=4)])
    collector.scan_and_index_turns()
    assert len(found(collector, "pool")) == 3
    write(path, after)
    collector.scan()
    # Before it is indexed again, nothing of the old text is shown.
    assert all(each in expected for each in found(collector, "pool"))
    collector.scan_and_index_turns()
    assert found(collector, "pool") == expected
    assert found(collector, "old") == []


def test_a_deleted_transcript_leaves_and_comes_back(
    collector: Collector, path: Path, writer: Writer
) -> None:
    write(path, [user("a pool")])
    collector.scan_and_index_turns()
    data = path.read_bytes()
    path.unlink()
    collector.scan()
    assert found(collector, "pool") == []
    collector.scan_and_index_turns()
    assert blocks(writer) == 0
    path.write_bytes(data)
    collector.scan_and_index_turns()
    assert found(collector, "pool") == ["a pool"]


def test_a_text_that_changed_since_it_was_indexed_is_no_hit(
    collector: Collector, path: Path
) -> None:
    write(path, [user("a pool"), user("a pond")])
    collector.scan_and_index_turns()
    path.write_bytes(path.read_bytes().replace(b"a pool", b"a tree"))
    assert found(collector, "pool") == []


def test_a_symlink_is_not_followed(collector: Collector, path: Path, tmp_path: Path) -> None:
    write(path, [user("a pool")])
    collector.scan_and_index_turns()
    outside = write(tmp_path / "outside.jsonl", [user("a pool")])
    path.unlink()
    path.symlink_to(outside)
    assert found(collector, "pool") == []


def test_no_secret_is_found_or_shown(collector: Collector, path: Path) -> None:
    write(path, [user(ALL_OF_THEM)])
    collector.scan_and_index_turns()
    for secret in TELLTALES.values():
        assert found(collector, secret) == []
    (excerpt,) = found(collector, "remember")
    assert not told_in(excerpt)
    db = collector.writer.connection
    db.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, search_fts, row)")
    terms = {row[0] for row in db.execute("SELECT term FROM temp.terms")}
    secrets = "s3cr3tpw iosfodnn7example dozjgnryp4j3 wjalrxutnfemi"
    assert index_terms("remember") <= terms
    assert not terms & index_terms(secrets)


def test_a_fork_s_copied_history_is_found_once_in_the_original(
    collector: Collector, claude: ClaudeFolder, path: Path
) -> None:
    lines = [user("a pool", at=1), said("fixed the pool", at=2)]
    write(path, lines)
    copied = [line | {"sessionId": OTHER, "forkedFrom": {"sessionId": SESSION}} for line in lines]
    write(claude.projects / PROJECT / f"{OTHER}.jsonl", copied)
    collector.scan_and_index_turns()
    assert [hit.session_id for hit in hits(collector, "pool")] == [SESSION, SESSION]


def test_the_order_is_that_of_time_across_blocks(
    collector: Collector, claude: ClaudeFolder, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxtop.collectors.claude_code.search_jobs.BLOCK_CHARS", 40)
    write(path, [user(f"pool {number}", at=number) for number in range(0, 60, 2)])
    other = [user(f"pool {number}", at=number, sessionId=OTHER) for number in range(1, 60, 3)]
    write(claude.projects / PROJECT / f"{OTHER}.jsonl", other)
    collector.scan_and_index_turns()
    assert blocks(collector.writer) > 4
    times = [hit.at for hit in hits(collector, "pool", 30)]
    assert len(times) == 30
    numbers = sorted([*range(0, 60, 2), *range(1, 60, 3)], reverse=True)
    assert times == sorted(times, reverse=True)  # type: ignore[type-var]
    assert found(collector, "pool", 5) == [f"pool {number}" for number in numbers[:5]]


def test_a_run_is_short_and_the_next_continues(
    collector: Collector, path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxtop.collectors.claude_code.search_jobs.BLOCK_CHARS", 200)
    monkeypatch.setattr("ctxtop.collectors.claude_code.search_jobs.FILE_LIST_INTERVAL_S", 0.0)
    write(path, [user(f"pool number {number}", at=number) for number in range(400)])
    collector.scan()
    job = SearchIndexJob(collector.folder.projects, writer)
    runs = 0
    while job.run(1e-9):
        runs += 1
        assert runs < 1_000
    assert runs > 5
    assert search_progress(writer.connection).is_complete
    assert len(found(collector, "pool", 1_000)) == 400


def test_files_that_cannot_be_read_hold_up_no_other(
    collector: Collector, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctxtop.collectors.claude_code.search_jobs.FILES_AT_ONCE", 1)
    write(path, [user("a pool")])
    os.utime(path, (1_000_000_000, 1_000_000_000))
    unreadable = write(path.with_name(f"{OTHER}.jsonl"), [user("a pool", sessionId=OTHER)])
    collector.scan()
    unreadable.unlink()
    collector.post_scan_jobs.index_all_turns()
    assert [hit.session_id for hit in hits(collector, "pool")] == [SESSION]


CHILD: Final = """
import os, signal, sys
from pathlib import Path
from ctxtop.collectors.claude_code import search_jobs
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.collectors.store_update import ScanOutcome
from ctxtop.core.store import search_index
from ctxtop.core.store.writer import Writer

encode, calls = search_index.encode_places, []

def killed(turns):
    calls.append(turns)
    if len(calls) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return encode(turns)

search_index.encode_places = killed
search_jobs.BLOCK_CHARS = 200
Collector(ClaudeFolder(Path(sys.argv[1])), Writer(Path(sys.argv[2])), ScanOutcome()
    ).scan_and_index_turns()
"""


@pytest.mark.parametrize("call", [1, 3])
def test_killed_in_between_it_holds_each_turn_once(
    claude: ClaudeFolder, path: Path, store: Path, child_env: dict[str, str], call: int
) -> None:
    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.store_update import ScanOutcome
    from ctxtop.core.store.writer import Writer

    write(path, [user(f"pool number {number}", at=number) for number in range(100)])
    command = [sys.executable, "-c", CHILD, str(claude.root), str(store), str(call)]
    ended = subprocess.run(command, env=child_env, check=False)
    assert ended.returncode == -signal.SIGKILL
    with closing(Writer(store)) as writer:
        assert blocks(writer) == 0
        collector = Collector(claude, writer, ScanOutcome())
        collector.scan_and_index_turns()
        assert len(found(collector, "pool", 1_000)) == 100


def test_two_at_once_index_nothing_twice(collector: Collector, path: Path, store: Path) -> None:
    write(path, [user("a pool")])
    collector.scan()
    job = SearchIndexJob(collector.folder.projects, collector.writer)
    (source,) = search_index.unindexed_transcripts(collector.writer, 9)
    job.run_all()
    assert not search_index.save_blocks(collector.writer, source, [], source.read_to)
    assert blocks(collector.writer) == 1


def test_other_rules_and_too_much_waste_build_the_index_again(
    collector: Collector, path: Path, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, [user("a pool")])
    collector.scan_and_index_turns()
    monkeypatch.setattr(search_index, "SEARCH_RULES", "other")
    collector.scan_and_index_turns()
    assert found(collector, "pool") == ["a pool"]
    monkeypatch.setattr(search_index, "MIN_WASTED_BLOCKS", 3)
    for number in range(9):
        append(path, [user(f"pool {number}", at=number + 2)])
        collector.scan_and_index_turns()
    assert len(found(collector, "pool")) == 10
    assert blocks(writer) < 9


def test_its_size_and_time_are_known(collector: Collector, path: Path, writer: Writer) -> None:
    write(path, [user("a pool")])
    collector.scan_and_index_turns()
    size = search_index_size(writer.connection)
    assert size.chars == len("a pool")
    assert size.size > 0
    assert size.seconds >= 0


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.builds(TurnPlace, st.integers(0, 1 << 40), st.sampled_from(TurnRole))))
def test_places_are_read_as_they_were_stored(places: list[TurnPlace]) -> None:
    assert decode_places(encode_places(places)) == places
