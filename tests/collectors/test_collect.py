"""From a folder of transcripts to what the store says of them."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from ctxtop.collectors import collector_thread
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.discover import ClaudeFolder
from ctxtop.core.model.agent import Agent, AgentStatus
from ctxtop.core.model.context import ContextState
from ctxtop.core.model.levels import Level
from ctxtop.core.model.session import Session, SessionStatus
from ctxtop.core.model.transcript_records import TailState
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import session_queries
from ctxtop.core.store.warning_log import context_warnings
from ctxtop.core.store.writer import StaleTailError, Writer

from ..dump import FILE_STATE, dump
from ..recorder import Recorder
from ..stored import stored_summaries
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    agent_result,
    append,
    assistant,
    boundary,
    launch,
    launched,
    notification,
    refusal,
    summary,
    tool,
    user,
    write,
)
from ..usage import usage_of_sessions

LATER = START_MS + 86_400_000
OTHER = "99999999-2222-4333-8444-555555555555"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def session(store: Path, session_id: str = SESSION) -> Session:
    with closing(open_reader(store)) as db:
        (found,) = read_sessions(db, LATER, [session_id])
        return found


def agents(store: Path) -> list[Agent]:
    with closing(open_reader(store)) as db:
        return read_agents(db, read_sessions(db, LATER), LATER)


def test_fragments_of_a_message_count_once_with_their_last_usage(
    path: Path, collector: Collector, store: Path
) -> None:
    lines = [
        user(),
        assistant("m1", 1000, output=1, content=[tool("Bash", "t1")]),
        user([{"type": "tool_result", "tool_use_id": "t1", "content": "x"}]),
        assistant("m1", 1200, output=700, content=[tool("Bash", "t2")]),
        assistant("m1", 1200, output=3),
    ]
    write(path, lines[:2])
    collector.scan()
    append(path, lines[2:])
    collector.scan()

    with closing(open_reader(store)) as db:
        (spent,) = usage_of_sessions(db)
    assert (spent.responses, spent.output_tokens, spent.cache_read_tokens) == (1, 700, 1190)
    assert session(store).context.tokens == 1200


def test_before_the_first_answer_and_after_a_compaction(
    path: Path, collector: Collector, store: Path
) -> None:
    states = []
    for lines in (
        [user()],
        [assistant("m1", 190_000)],
        [boundary(postTokens=5000), summary()],
        [assistant("m2", 20_000)],
        [boundary()],
    ):
        (append if path.exists() else write)(path, lines)
        collector.scan()
        context = session(store).context
        states.append((context.state, context.tokens))

    assert states == [
        (ContextState.UNKNOWN, None),
        (ContextState.MEASURED, 190_000),
        (ContextState.ESTIMATED, 5000),
        (ContextState.MEASURED, 20_000),
        (ContextState.UNKNOWN, None),
    ]
    assert session(store).compactions == 2


def test_old_history_that_is_written_again_does_not_move_the_last_answer(
    path: Path, collector: Collector, store: Path
) -> None:
    old: list[JsonLine] = [user(), assistant("m1", 150_000, at=1), boundary(uuid="B1", at=2)]
    between: list[JsonLine] = [assistant("m2", 160_000, at=3), boundary(uuid="B2", postTokens=900)]
    write(path, [*old, *between])
    collector.scan()
    append(path, [*old, between[0]])
    collector.scan()
    after = session(store)

    assert (after.context.state, after.context.tokens) == (ContextState.ESTIMATED, 900)
    assert after.compactions == 2

    append(path, [assistant("m3", 30_000, at=9)])
    collector.scan()

    assert session(store).context.tokens == 30_000
    with closing(open_reader(store)) as db:
        assert usage_of_sessions(db)[0].responses == 3


def test_a_fork_counts_each_message_once(
    path: Path, collector: Collector, store: Path, claude: ClaudeFolder
) -> None:
    lines = [user(), assistant("m1", 1000, at=1), summary("kept", uuid="S"), assistant("m2", at=2)]
    write(path, lines)
    os.utime(path, ns=(0, 10**18))
    fork = claude.projects / PROJECT / f"{OTHER}.jsonl"
    write(fork, [line | {"sessionId": OTHER} for line in lines] + [assistant("m3", at=50)])
    collector.scan()

    with closing(open_reader(store)) as db:
        spent = {row.session_id: row.responses for row in usage_of_sessions(db)}
        assert [row.session_id for row in stored_summaries(db)] == [SESSION]
    assert spent == {SESSION: 2, OTHER: 1}
    assert session(store, OTHER).context.tokens == 1000


def test_an_answer_is_shared_while_two_files_hold_it(
    path: Path, collector: Collector, store: Path, claude: ClaudeFolder
) -> None:
    fork = claude.projects / PROJECT / f"{OTHER}.jsonl"

    def shared() -> set[tuple[str, str]]:
        collector.scan()
        return {(Path(row[0]).stem, row[1]) for row in dump(store)["shared_response"]}

    write(path, [assistant("m1"), assistant("m2", at=1)])
    assert shared() == set()
    write(fork, [assistant("m2", at=1), assistant("m3", at=2)])
    of_both = {(SESSION, "m2"), (OTHER, "m2")}
    assert shared() == of_both
    # The first file again, in a later run of its lines.
    append(path, [assistant("m3", at=2), assistant("m4", at=3)])
    assert shared() == of_both | {(SESSION, "m3"), (OTHER, "m3")}
    write(fork, [assistant("m5", at=9)])
    assert shared() == set()


def test_sidechain_lines_do_not_fill_the_session(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [assistant("m1", 1000), assistant("m2", 190_000, isSidechain=True)])
    collector.scan()
    found = session(store)

    assert found.context.tokens == 1000
    with closing(open_reader(store)) as db:
        assert context_warnings(db, found.session_id) == []


def test_a_prompt_that_is_too_long_until_the_next_answer(
    path: Path, collector: Collector, store: Path
) -> None:
    said = "prompt is too long: 210000 tokens > 200000 maximum"
    write(path, [user(), assistant("m1", 150_000), refusal(said)])
    collector.scan()
    refused = session(store)
    append(path, [assistant("m2", 20_000)])
    collector.scan()

    assert refused.status is SessionStatus.TOO_LONG
    assert refused.too_long is not None
    assert refused.too_long.prompt_tokens == 210_000
    assert refused.context.tokens == 150_000
    assert session(store).status is SessionStatus.ENDED


def test_a_prompt_is_too_long_only_until_the_session_is_compacted(
    path: Path, collector: Collector, store: Path
) -> None:
    said = "prompt is too long: 210000 tokens > 200000 maximum"
    write(path, [user(), assistant("m1", 150_000), refusal(said), boundary(postTokens=20_000)])
    collector.scan()

    assert session(store).too_long is None
    assert session(store).status is SessionStatus.ENDED


def test_levels_are_replayed_in_the_order_of_the_file(
    path: Path, collector: Collector, store: Path
) -> None:
    write(
        path,
        [
            assistant("m1", 145_000),
            assistant("m2", 165_000),
            boundary(postTokens=100),
            assistant("m3", 141_000),
        ],
    )
    collector.scan()
    with closing(open_reader(store)) as db:
        found = [warning.warning for warning in context_warnings(db, session(store).session_id)]

    assert [(warning.level, warning.ratio) for warning in found] == [
        (Level.NOTICE, 0.725),
        (Level.WARNING, 0.825),
        (Level.NOTICE, 0.705),
    ]


def test_an_agent_in_the_background_from_launch_to_result(
    path: Path, collector: Collector, store: Path, claude: ClaudeFolder
) -> None:
    write(path, [user(), launch("t1", "reviewer", "read it", at=1), launched("t1", "a1")])
    write(
        claude.projects / PROJECT / SESSION / "subagents" / "agent-a1.jsonl",
        [user("?", isSidechain=True), assistant("n1", 9000, at=2, isSidechain=True)],
    )
    collector.scan()
    (running,) = agents(store)
    append(path, [notification("a1", "all is well", tool_use_id="t1", at=3)])
    collector.scan()
    (ended,) = agents(store)

    assert (running.agent_id, running.agent_type, running.description) == (
        "a1",
        "reviewer",
        "read it",
    )
    assert (running.result, running.context.tokens) == (None, 9000)
    assert ended.status is AgentStatus.COMPLETED
    assert ended.result is not None
    assert ended.result.text == "all is well"
    assert session(store).agents == 1


def test_an_agent_without_a_file_is_known_by_its_launch_and_result(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [launch("t1"), agent_result("t1", "a1", "words"), launch("t2")])
    collector.scan()
    first, second = sorted(agents(store), key=lambda agent: agent.agent_id)

    assert (first.agent_id, first.context.tokens, first.tool_uses) == ("a1", 2000, 4)
    assert (second.agent_id, second.status) == ("t2", AgentStatus.NEVER_STARTED)


def test_a_background_shell_command_is_no_agent(
    path: Path, collector: Collector, store: Path
) -> None:
    call = tool("Bash", "toolu_bash", command="sleep 9", run_in_background=True)
    write(
        path,
        [assistant(content=[call]), notification("bash_1", None, tool_use_id="toolu_bash")],
    )
    collector.scan()

    assert agents(store) == []
    assert session(store).agents == 0


def test_a_second_look_changes_nothing(
    path: Path, claude: ClaudeFolder, writer: Writer, store: Path
) -> None:
    write(path, [user(), assistant(), b"not json", boundary(), launch("t1"), b'{"torn'])
    Collector(claude, writer, Recorder()).scan()
    before = dump(store)
    again = Recorder()
    Collector(claude, writer, again).scan()

    assert dump(store) == before
    assert again.changes == []


def test_a_rewritten_file_is_read_again_whole(
    path: Path, collector: Collector, recorder: Recorder, store: Path
) -> None:
    write(path, [user(), assistant("m1"), summary("commas"), {"type": "of-tomorrow"}, b"bad"])
    collector.scan()
    write(path, [user("other"), assistant("m2", 5000)])
    collector.scan()
    rows = dump(store)

    assert [notice.what for notice in recorder.notices] == ["was rewritten"]
    assert [row[1] for row in rows["response"]] == ["m2"]
    assert (rows["summary"], rows["bad_line"], rows["line_count"]) == ([], [], [])
    assert rows["words"] == []
    assert session(store).title == "other"


def test_two_collectors_on_one_store(
    path: Path, claude: ClaudeFolder, writer: Writer, store: Path
) -> None:
    write(path, [user(), assistant("m1")])
    with closing(Writer(store)) as second_writer:
        first = Collector(claude, writer, Recorder())
        second = Collector(claude, second_writer, Recorder())
        for number in range(2, 12):
            first.scan()
            second.scan()
            append(path, [assistant(f"m{number}"), {"type": "of-tomorrow"}])
            second.index_paths([path])
            first.index_paths([path])
        for alone in (first, second):
            # The first look may only find out that the other one was faster.
            append(path, [assistant(f"last of {alone is first}")])
            alone.scan()
            alone.scan()
    clean = store.with_name("clean.db")
    with closing(Writer(clean)) as third:
        Collector(claude, third, Recorder()).scan()

    assert dump(store, FILE_STATE) == dump(clean, FILE_STATE)


def test_a_stale_writer_stores_nothing(
    path: Path, claude: ClaudeFolder, writer: Writer, store: Path
) -> None:
    from ctxtop.collectors.claude_code.tail import read_tail
    from ctxtop.collectors.claude_code.transcripts.line_indexer import index_block

    write(path, [user(), assistant("m1")])
    Collector(claude, writer, Recorder()).scan()
    before = dump(store)
    (source, _) = writer.files()[f"{PROJECT}/{SESSION}.jsonl"]
    read = read_tail(path, TailState())

    with pytest.raises(StaleTailError):
        writer.append(source, TailState(), read.after, index_block(source, read.block))
    with pytest.raises(StaleTailError):
        writer.restart(source, TailState())
    assert dump(store) == before


def test_progress_ends_with_all_and_changes_name_their_sessions(
    claude: ClaudeFolder, collector: Collector, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_thread, "COMMIT_BYTES", 1)
    for number in range(5):
        write(claude.projects / PROJECT / f"s{number}.jsonl", [user(), assistant()])
    collector.scan()
    last = recorder.progress[-1]

    assert (last.files_read, last.files_total) == (5, 5)
    assert last.bytes_read == last.bytes_total > 0
    assert recorder.sessions == {f"s{number}" for number in range(5)}
    assert len(recorder.changes) == 5
    # What stood there before we looked is not late.
    assert all(changed.lag_s is None for changed in recorder.changes)

    with (claude.projects / PROJECT / "s0.jsonl").open("ab") as file:
        file.write(json.dumps(assistant()).encode() + b"\n")
    collector.scan()
    assert recorder.changes[-1].lag_s is not None


CORPUS = os.environ.get("CTXTOP_SHARED")


@pytest.mark.skipif(not CORPUS, reason="CTXTOP_SHARED does not name the shared folder")
@pytest.mark.parametrize("age", ["current", "newer", "older"])
def test_transcripts_of_the_real_client(age: str, tmp_path: Path) -> None:
    corpus = Path(CORPUS or "") / "corpus" / age
    root = corpus / "config"
    if not root.is_dir():
        root = tmp_path / "claude"
        shutil.copytree(corpus, root / "projects" / PROJECT)
    store, recorder = tmp_path / "ctxtop.db", Recorder()
    with closing(Writer(store)) as writer:
        Collector(ClaudeFolder(root), writer, recorder).scan()
    with closing(open_reader(store)) as db:
        found = read_sessions(db, LATER)
        assert found
        assert session_queries.store_counts(db)["bytes"] > 0
        for path, offset, length, _ in session_queries.bad_lines(db):
            data = (root / "projects" / path).read_bytes()[offset : offset + length]
            with pytest.raises(ValueError, match=r"escape|delimiter|Unterminated"):
                json.loads(data)
    assert recorder.troubles == []
    assert any(session.context.state is ContextState.MEASURED for session in found)


def test_what_another_model_saw_tells_nothing_of_the_window(
    path: Path, collector: Collector, store: Path
) -> None:
    large, small = "claude-opus-5-5", "claude-haiku-4-5"
    write(path, [user(), assistant("m1", 310_000, model=large), boundary(postTokens=3000)])
    agent = path.with_suffix("") / "subagents" / "agent-a1.jsonl"
    write(agent, [user(), assistant("a1", 310_000, model=large), assistant("a2", model=small)])
    collector.scan()
    assert session(store).context.window.tokens == 1_000_000

    append(path, [assistant("m2", 30_000, model=small, at=3)])
    collector.scan()

    assert session(store).context.window.tokens == 200_000
    assert agents(store)[0].context.window.tokens == 200_000
