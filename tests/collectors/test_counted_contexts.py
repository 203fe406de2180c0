"""A policy's way of counting holds for a context, its history, its timeline and its warnings."""

from __future__ import annotations

from contextlib import closing
from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.claude_code.collector_thread import Collector
from ctxtop.core.measure.counting_rule import CountingRule, UsageComponent, make_counting_rule
from ctxtop.core.model.context import ContextState
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import Policies, RawValue, resolve_policy
from ctxtop.core.store import automation_records
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import context_queries
from ctxtop.core.store.readers.fleet_reader import read_agents, read_sessions
from ctxtop.core.store.readers.timeline_reader import read_timeline
from ctxtop.core.transcript.conversation import TokenUsage

from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    agent_result,
    assistant,
    launch,
    user,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from sqlite3 import Connection

    from ctxtop.collectors.claude_code.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

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
    (agent,) = read_agents(db, read_sessions(db, START_MS), policies=policies)

    assert agent.context.tokens == 2_000 - 7 + 100
    assert agent.context.state is ContextState.MEASURED
    counting = agent.context.counting
    rows = context_queries.fill_history(db, SESSION, agent.agent_id, counting=counting)
    assert [row.tokens for row in rows] == [agent.context.tokens]


def test_the_result_of_an_agent_is_estimated_by_the_policy(db: Connection) -> None:
    policies = policies_of(estimator="chars4", per_message_overhead=3)
    (agent,) = read_agents(db, read_sessions(db, START_MS), policies=policies)

    assert agent.result is not None
    assert agent.result.estimated_tokens == -(-len("found") // 4) + 3


def test_what_was_spent_is_shown_where_the_policy_asks_for_it(db: Connection) -> None:
    assert session_by(db).spent_tokens is None
    shown = session_by(db, source="api_last+cumulative")
    own = (1_000 + 50) + (1_820 + 90) + (9_000 + 70)
    assert shown.spent_tokens == own + 2_000 + 100
    assert shown.context.tokens == 9_000, "what was spent is not in the window"
