"""A policy's way of counting holds for a context, its history, its timeline and its warnings."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.collectors.locations.places import PolicySources
from ctxtop.collectors.locations.policy_files import PolicyFiles
from ctxtop.core.measure.tokens import estimate_tokens
from ctxtop.core.model.answer_facts import TokenUsage
from ctxtop.core.model.context import ContextState
from ctxtop.core.model.counting_rule import (
    CountingRule,
    UsageComponent,
    UsageSource,
    make_counting_rule,
)
from ctxtop.core.model.levels import Level
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import Policies, RawValue, resolve_policy
from ctxtop.core.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.readers.timeline_reader import read_timeline
from ctxtop.core.store import automation_records
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import context_queries
from ctxtop.core.store.warning_log import read_warnings

from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    agent_result,
    assistant,
    boundary,
    launch,
    summary,
    user,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from sqlite3 import Connection

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session
    from ctxtop.core.store.writer import Writer

    from ..recorder import Recorder

STEPS = TokenUsage(20, 300, 1_500, 90)  # of two steps, of which the last one saw 900 tokens
LAST = TokenUsage(5, 95, 800, 60)


def counts(usage: TokenUsage) -> JsonLine:
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    }


IN_STEPS = counts(STEPS) | {
    "iterations": [
        {"type": "message"} | counts(TokenUsage(15, 205, 700, 30)),
        {"type": "message"} | counts(LAST),
    ]
}


@pytest.fixture
def db(claude: ClaudeFolder, collector: Collector, store: Path) -> Iterator[Connection]:
    """A session of three answers with an agent; the second answer has several steps."""
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    write(
        path,
        [
            user(),
            launch("t1", message_id="m1", context=1_000),
            agent_result("t1", "a1", "found", at=3),
            assistant("m2", counts=IN_STEPS, at=4),
            user("and then", 5),
            assistant("m3", 9_000, output=70, at=6),
        ],
    )
    write(
        path.with_suffix("") / "subagents" / "agent-a1.jsonl",
        [user("look", 2, isSidechain=True), assistant("s1", 2_000, 100, at=3, isSidechain=True)],
    )
    collector.scan()
    with closing(open_reader(store)) as found:
        yield found


def policies_of(**values: object) -> Policies:
    raw = [
        RawValue(f"usage.{key}", value, PolicyOrigin.USER_FILE, "here")
        for key, value in values.items()
    ]
    return Policies(resolve_policy(raw), {})


def session_by(db: Connection, **values: object) -> Session:
    (session,) = read_sessions(db, START_MS, policies=policies_of(**values))
    return session


RULES = [
    make_counting_rule("api_last", chosen)
    for size in range(len(UsageComponent) + 1)
    for chosen in combinations(UsageComponent, size)
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.description)
def test_a_history_is_counted_as_its_context(db: Connection, rule: CountingRule) -> None:
    """The store adds up in SQL what the rule adds up for one answer."""
    wanted = [
        rule.count(1_000, TokenUsage(3, 7, 990, 50)),
        rule.count(900, TokenUsage(20, 300, 1_500, 60)),
        rule.count(9_000, TokenUsage(3, 7, 8_990, 70)),
    ]
    session = session_by(db, components=list(rule.component_names))

    assert session.context.tokens == wanted[-1]
    assert session.recent_contexts == tuple(wanted)
    history = context_queries.fill_history(db, SESSION, counting=rule)
    assert [row.tokens for row in history] == wanted
    timeline = read_timeline(db, (SESSION, None), session.context)
    assert [turn.tokens for turn in timeline.turns] == wanted
    found = automation_records.context_range_since(db, SESSION, 0, rule)
    assert found == (min(wanted), wanted[-1])


def test_an_agent_is_counted_by_the_policy_of_its_project(db: Connection) -> None:
    policies = policies_of(components=["input", "cache_read", "output"])
    (agent,) = read_agents(db, read_sessions(db, START_MS), START_MS, policies=policies)

    assert agent.context.tokens == 2_000 - 7 + 100
    assert agent.context.state is ContextState.MEASURED
    counting = agent.context.counting
    rows = context_queries.fill_history(db, SESSION, agent.agent_id, counting=counting)
    assert [row.tokens for row in rows] == [agent.context.tokens]


def test_the_result_of_an_agent_is_estimated_by_the_policy(db: Connection) -> None:
    policies = policies_of(estimator="chars4", per_message_overhead=3)
    (agent,) = read_agents(db, read_sessions(db, START_MS), START_MS, policies=policies)

    assert agent.result is not None
    assert agent.result.estimated_tokens == -(-len("found") // 4) + 3


def test_what_was_spent_is_shown_where_the_policy_asks_for_it(db: Connection) -> None:
    assert session_by(db).spent_tokens is None
    shown = session_by(db, source="api_last+cumulative")
    own = (1_000 + 50) + (1_820 + 90) + (9_000 + 70)
    assert shown.spent_tokens == own + 2_000 + 100
    assert shown.context.tokens == 9_000, "what was spent is not in the window"


@pytest.fixture
def rescan(
    claude: ClaudeFolder, writer: Writer, recorder: Recorder, tmp_path: Path
) -> Callable[..., Connection]:
    """Scans with a policy of the person, as a new start of ctxtop does."""

    def scan(**values: object) -> Connection:
        lines = [f"usage.{key} = {json.dumps(value)}" for key, value in values.items()]
        user_file = tmp_path / "config.toml"
        user_file.write_text("\n".join(lines))
        files = PolicyFiles(PolicySources(user_file=user_file))
        Collector(claude, writer, recorder, files).scan()
        return writer.connection

    return scan


def conversation(claude: ClaudeFolder, *lines: JsonLine) -> None:
    """Write a session in which each line follows the one before, and an agent of it."""
    parents = (None, *(line["uuid"] for line in lines))
    linked = [line | {"parentUuid": parent} for line, parent in zip(lines, parents, strict=False)]
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    write(path, linked)
    prompt = user("look" * 10, 2, isSidechain=True)
    found = assistant("s1", 2_000, 100, at=3, isSidechain=True, parentUuid=prompt["uuid"])
    write(path.with_suffix("") / "subagents" / "agent-a1.jsonl", [prompt, found])


TEXT = {"source": "chars4", "per_message_overhead": 0}
TALK = (
    user("x" * 400_000),
    assistant("m1", 90_000, at=1),
    user("y" * 400_000, 2),
    assistant("m2", 150_000, at=3),
)


def test_a_text_is_counted_at_each_answer(
    claude: ClaudeFolder, rescan: Callable[..., Connection]
) -> None:
    conversation(claude, *TALK)
    db = rescan(**TEXT)
    session = session_by(db, **TEXT)
    counting = session.context.counting

    wanted = [100_001, 200_002]
    assert (session.context.tokens, session.context.state) == (wanted[-1], ContextState.ESTIMATED)
    assert session.recent_contexts == tuple(wanted)
    assert [row.tokens for row in context_queries.fill_history(db, SESSION, counting=counting)] == (
        wanted
    )
    timeline = read_timeline(db, (SESSION, None), session.context)
    assert [(turn.tokens, turn.is_estimate) for turn in timeline.turns] == [
        (tokens, 1) for tokens in wanted
    ]
    assert automation_records.context_range_since(db, SESSION, 0, counting) == tuple(wanted)
    levels = {each.warning.level: each.warning.point.tokens for each in read_warnings(db)}
    assert levels[Level.OVERFLOW] == wanted[-1]
    (agent,) = read_agents(db, [session], START_MS, policies=policies_of(**TEXT))
    assert agent.context.tokens == 10 + 1
    # By the API's count it is not even near a threshold's end.
    assert session_by(db).context.tokens == 150_000


def test_a_text_falls_with_a_compaction_and_grows_with_what_follows(
    claude: ClaudeFolder, rescan: Callable[..., Connection]
) -> None:
    after = (boundary(), summary("s" * 4_000))
    for lines, tokens in (
        (TALK, 200_002),
        ((*TALK, *after), 1_000),
        ((*TALK, *after, user("z" * 40), assistant("m3", 30_000, at=9)), 1_011),
    ):
        conversation(claude, *lines)
        db = rescan(**TEXT)
        session = session_by(db, **TEXT)
        assert session.context.tokens == tokens
    counting = session.context.counting
    history = context_queries.fill_history(db, SESSION, counting=counting)
    assert [row.tokens for row in history] == [100_001, 200_002, 1_010, 1_011], "with the prompt"


def test_each_way_of_counting_has_its_counts(
    claude: ClaudeFolder, rescan: Callable[..., Connection]
) -> None:
    conversation(claude, *TALK)
    db = rescan(**TEXT)
    by_tokens = {"source": "tiktoken", "per_message_overhead": 4}
    assert session_by(db, **by_tokens).context.counting.source is UsageSource.API_LAST
    db = rescan(**by_tokens)
    context = session_by(db, **by_tokens).context
    assert context.counting.source is UsageSource.TIKTOKEN
    assert context.tokens == sum(
        estimate_tokens(text) + 4 for text in ("x" * 400_000, "done", "y" * 400_000, "done")
    )
    assert session_by(db, **TEXT).context.tokens == 200_002


def test_no_text_is_counted_unless_a_policy_asks_for_it(
    claude: ClaudeFolder, rescan: Callable[..., Connection]
) -> None:
    conversation(claude, *TALK)
    db = rescan()
    assert db.execute("SELECT COUNT(*) FROM context_text").fetchone()[0] == 0
