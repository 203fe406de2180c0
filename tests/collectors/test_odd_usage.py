"""What gateways and cut streams leave: one id for all answers, zeros, usage still to come."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.transcript_details import read_composition
from ctxtop.core.model.context import ContextState, TokenCounts
from ctxtop.core.model.counting_rule import UNREPORTED_USAGE
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import context_queries
from ctxtop.core.store.queries.spending_queries import model_usage
from ctxtop.tui.text.session_text import composition_total_text

from ..one_size import SizedSessions, compare_plan, compare_shown
from ..transcripts import MODEL, PROJECT, SESSION, START_MS, append, assistant, text, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.context import Context

    from ..transcripts import JsonLine

OTHER = "99999999-2222-4333-8444-555555555555"
NOTHING = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}
WORDS = "word " * 4_000
NIL_UUID = "00000000-0000-0000-0000-000000000000"
RANDOM_UUID = "7d1f6a52-93be-4c0d-8a17-5e2b9c64f0d3"


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def counted(store: Path) -> list[tuple[str, int, int]]:
    """Return the answers and the tokens sent, by session."""
    with closing(open_reader(store)) as db:
        rows = model_usage(db)
    return sorted((row.session_id, row.responses, row.cache_read_tokens) for row in rows)


def context(store: Path) -> Context:
    with closing(open_reader(store)) as db:
        (session,) = read_sessions(db, START_MS)
    return session.context


def relayed(count: int, session_id: str = SESSION, message_id: str = "relay") -> list[JsonLine]:
    """Write prompts and answers that all have one id; each answer has two lines."""
    lines: list[JsonLine] = []
    for number in range(count):
        answer = {
            "message_id": message_id,
            "context": 1_010 * (number + 1),
            "requestId": None,
        }
        lines += [
            user("go on", at=10 * number),
            assistant(at=10 * number + 1, **answer),  # type: ignore[arg-type]
            assistant(at=10 * number + 2, content=[text("more")], **answer),  # type: ignore[arg-type]
        ]
    return [each | {"sessionId": session_id} for each in lines]


@pytest.mark.parametrize(
    "message_id",
    ["ocgo", "chatcmpl-", "msg_1", "glm-5.2", MODEL, "chatcmpl-0000000000000001", NIL_UUID],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_a_relay_that_gives_all_answers_one_id(
    claude: ClaudeFolder, collector: Collector, store: Path, message_id: str, *, at_once: bool
) -> None:
    for session_id in (SESSION, OTHER):
        path = claude.projects / PROJECT / f"{session_id}.jsonl"
        lines = relayed(3, session_id, message_id)
        write(path, lines if at_once else [])
        for line in () if at_once else lines:
            append(path, [line])
            collector.scan()
    collector.scan()
    assert counted(store) == [(SESSION, 3, 6_030), (OTHER, 3, 6_030)]


@pytest.mark.parametrize(
    "message_id", ["msg_bdrk_01X5d8tWJ2vQwzE4rT9yKc", "gen-1764321098-a8Kd02mVx", RANDOM_UUID]
)
def test_a_random_id_without_a_request_is_one_answer_in_forks_too(
    claude: ClaudeFolder, collector: Collector, store: Path, message_id: str
) -> None:
    """Bedrock names no request; `--fork-session` does not say what it copies."""
    for session_id in (SESSION, OTHER):
        path = claude.projects / PROJECT / f"{session_id}.jsonl"
        write(path, relayed(1, session_id, message_id))
    collector.scan()
    assert [each[1:] for each in counted(store)] == [(1, 1_000)]


def test_a_fork_of_such_a_session_repeats_its_answers(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    history = relayed(2)
    write(path, history)
    origin = {"sessionId": OTHER, "forkedFrom": {"sessionId": SESSION, "messageUuid": "x"}}
    own = relayed(3, OTHER)[6:]
    forked = claude.projects / PROJECT / f"{OTHER}.jsonl"
    write(forked, [*(each | origin for each in history), *own])
    collector.scan()
    assert counted(store) == [(SESSION, 2, 3_010), (OTHER, 1, 3_020)]


@pytest.mark.parametrize("named", [{"requestId": "req_1"}, {"requestRef": "r-1"}])
def test_an_answer_whose_request_is_named_keeps_its_id(
    path: Path, collector: Collector, store: Path, named: JsonLine
) -> None:
    lines = [assistant("relay", context, at=context, **named) for context in (1_000, 2_000)]
    write(path, [user(), *lines])
    collector.scan()
    assert counted(store) == [(SESSION, 1, 1_990)]


def test_zeros_are_no_empty_context_but_an_estimate_of_the_text(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(WORDS), assistant(counts=NOTHING, content=[text(WORDS)])])
    collector.scan()
    found = context(store)
    assert found.state is ContextState.ESTIMATED
    assert 8_000 <= (found.tokens or 0) <= 8_100
    assert found.token_counts == TokenCounts(None, None, None)
    assert found.counting == UNREPORTED_USAGE
    assert "the API reported no tokens" in found.counting.description
    with closing(open_reader(store)) as db:
        (step,) = context_queries.fill_history(db, SESSION, counting=found.counting)
    assert step.tokens == found.tokens


def test_zeros_have_one_size_in_the_list_the_breakdown_and_the_plan(
    path: Path, collector: Collector, store: Path
) -> None:
    lines = [
        line
        for number in range(3)
        for line in (
            user(f"{number} {WORDS}"),
            assistant(f"m{number}", counts=NOTHING, model="qwen3", content=[text(WORDS)]),
        )
    ]
    write(path, lines)
    collector.scan()
    with closing(open_reader(store)) as db:
        found = SizedSessions(path.parents[1], db, START_MS)
        (session,) = found.sessions
        assert compare_plan(found, session).differences == []
        assert compare_shown(found, session).differences == []
        composed = found.composed(session)
        assert composed.total_tokens == found.planned(session).tokens == session.context.tokens
        assert sum(each.tokens for each in composed.categories) == composed.total_tokens
        assert "(estimated: the API reported no tokens)" in composition_total_text(composed)


def test_an_agent_with_zeros_has_the_size_of_its_text_in_its_breakdown(
    path: Path, collector: Collector, store: Path
) -> None:
    own: JsonLine = {"isSidechain": True, "agentId": "a1"}
    write(path, [user(), assistant("msg_9", 5_000)])
    lines = [user(WORDS, **own), assistant(counts=NOTHING, model="qwen3", **own)]
    write(path.parent / SESSION / "subagents" / "agent-a1.jsonl", lines)
    collector.scan()
    with closing(open_reader(store)) as db:
        (agent,) = read_agents(db, read_sessions(db, START_MS), START_MS)
        composed = read_composition(db, path.parents[1], SESSION, agent_id="a1")
    assert composed.total_tokens == agent.context.tokens


def test_an_answer_that_reports_again_measures_again(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(WORDS), assistant(counts=NOTHING)])
    collector.scan()
    append(path, [user("more"), assistant("msg_2", 12_000)])
    collector.scan()
    found = context(store)
    assert (found.tokens, found.state) == (12_000, ContextState.MEASURED)
    # Zeros after an answer that was measured say nothing of the context either.
    append(path, [user("more"), assistant("msg_3", counts=NOTHING)])
    collector.scan()
    estimated = context(store)
    assert 4_000 <= (estimated.tokens or 0) <= 4_100
    assert estimated.state is ContextState.ESTIMATED


def test_zeros_in_a_session_that_was_measured_say_nothing(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), assistant("msg_1", 12_000), user(), assistant("msg_2", counts=NOTHING)])
    collector.scan()
    found = context(store)
    assert (found.tokens, found.state) == (None, ContextState.UNKNOWN)
    assert found.counting.is_substitute


def test_an_agent_with_zeros_is_estimated_too(
    path: Path, collector: Collector, store: Path
) -> None:
    own: JsonLine = {"isSidechain": True, "agentId": "a1"}
    write(path, [user(), assistant("msg_9", 5_000)])
    lines = [user(WORDS, **own), assistant(counts=NOTHING, **own)]
    write(path.parent / SESSION / "subagents" / "agent-a1.jsonl", lines)
    collector.scan()
    with closing(open_reader(store)) as db:
        (agent,) = read_agents(db, read_sessions(db, START_MS), START_MS)
    assert agent.context.state is ContextState.ESTIMATED
    assert 4_000 <= (agent.context.tokens or 0) <= 4_100


def test_usage_that_is_still_to_come_does_not_count(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), assistant("msg_1", 40_000)])
    begun = assistant("msg_2", 41_000, at=5, isUnmetered=True)
    append(path, [user("more", at=4), begun])
    collector.scan()
    assert (context(store).tokens, counted(store)) == (40_000, [(SESSION, 1, 39_990)])
    append(path, [assistant("msg_2", 42_000, at=6)])
    collector.scan()
    assert (context(store).tokens, counted(store)) == (42_000, [(SESSION, 2, 81_980)])
