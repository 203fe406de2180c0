"""What sessions cost and how warm their caches are, from what the client wrote."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.model.cold_prompt import RewriteCost
from ctxtop.core.model.session_activity import CostSource, PromptCache, SessionCost
from ctxtop.core.model.transcript_records import LogKind
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import Policies, RawValue, resolve_policy
from ctxtop.core.readers.fleet_reader import read_sessions
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.queries import spending_queries

from ..logs import line as log_line
from ..logs import lines, log_file
from ..transcripts import (
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    append,
    assistant,
    boundary,
    encode,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.model.session import Session

OTHER = "99999999-2222-4333-8444-555555555555"
MINUTE_MS = 60_000
MILLION = 1_000_000


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def sessions(store: Path, policies: Policies | None = None) -> dict[str, Session]:
    with closing(open_reader(store)) as db:
        found = read_sessions(db, START_MS, policies=policies or Policies())
        return {each.session_id: each for each in found}


def usd(store: Path, session_id: str = SESSION) -> float | None:
    cost = sessions(store)[session_id].cost
    return round(cost.usd, 9) if cost else None


def counts(hour: int = 0, minutes: int = 0, **fields: int) -> dict[str, Any]:
    written = {"ephemeral_1h_input_tokens": hour, "ephemeral_5m_input_tokens": minutes}
    return {
        "input_tokens": 0,
        "cache_creation_input_tokens": hour + minutes,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
        "cache_creation": written,
    } | fields


def fork(lines_of: list[JsonLine]) -> list[JsonLine]:
    origin = {"forkedFrom": {"sessionId": SESSION, "messageUuid": "x"}}
    return [each | {"sessionId": OTHER} | origin for each in lines_of]


@pytest.mark.parametrize(
    ("model", "used", "expected"),
    [
        ("claude-opus-5-5", {"input_tokens": MILLION}, 4),
        ("claude-opus-5-5", {"output_tokens": MILLION}, 20),
        ("claude-opus-5-5", {"cache_read_input_tokens": MILLION}, 0.2),
        ("claude-opus-5-5", {"hour": MILLION}, 8),
        ("claude-opus-5-5", {"minutes": MILLION}, 5),
        ("claude-opus-5-5", {"hour": 500_000, "minutes": 500_000}, 6.5),
        ("claude-opus-4-6", {"cache_read_input_tokens": MILLION}, 0.5),
        ("claude-opus-4-1-20250805", {"output_tokens": MILLION}, 75),
        ("claude-haiku-4-5-20251001", {"hour": MILLION}, 2),
        # Prompts of some models cost more where they are long, their answers too.
        ("claude-haiku-5-5", {"input_tokens": 100_000}, 0.01),
        ("claude-haiku-5-5", {"input_tokens": 100_001}, 0.0500005),
        ("claude-haiku-5-5", {"input_tokens": 200_000, "output_tokens": 1000}, 0.1025),
        ("claude-sonnet-4-5-20250929", {"input_tokens": 300_000}, 0.9),
    ],
)
def test_answers_cost_by_model_and_kind(
    path: Path,
    collector: Collector,
    store: Path,
    model: str,
    used: dict[str, int],
    expected: float,
) -> None:
    write(path, [user(), assistant(model=model, counts=counts(**used))])
    collector.scan()

    cost = sessions(store)[SESSION].cost
    assert cost is not None
    assert cost.usd == pytest.approx(expected)
    assert (cost.estimated, cost.partial, cost.source) == (True, False, CostSource.PRICES)


def test_an_answer_counts_once_with_its_last_numbers(
    path: Path, collector: Collector, store: Path
) -> None:
    first = assistant("m1", model="claude-opus-5", counts=counts(input_tokens=9, output_tokens=1))
    last = assistant("m1", model="claude-sonnet-5", counts=counts(output_tokens=MILLION))
    write(path, [user(), first])
    collector.scan()
    append(path, [last, last])
    collector.scan()

    assert usd(store) == 10
    with closing(open_reader(store)) as db:
        (row,) = spending_queries.model_usage(db)
    assert (row.model, row.responses) == ("claude-sonnet-5", 1)


def test_agents_cost_with_their_session(path: Path, collector: Collector, store: Path) -> None:
    write(path, [user(), assistant("m1", model="claude-opus-5", counts=counts(hour=MILLION))])
    agent = path.parent / SESSION / "subagents" / "agent-a1.jsonl"
    own: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    answer = assistant("m2", model="claude-sonnet-5", counts=counts(output_tokens=MILLION), **own)
    write(agent, [user(**own), answer])
    collector.scan()

    assert usd(store) == 20


def test_a_fork_pays_for_its_own_answers_alone(
    claude: ClaudeFolder, path: Path, collector: Collector, store: Path
) -> None:
    history = [
        user(),
        assistant("m1", model="claude-opus-5", counts=counts(hour=MILLION), at=1),
    ]
    more = assistant("m2", model="claude-opus-5", counts=counts(output_tokens=40_000), at=9)
    write(path, history)
    forked = claude.projects / PROJECT / f"{OTHER}.jsonl"
    write(forked, [*fork(history), more | {"sessionId": OTHER}])
    collector.scan()
    assert (usd(store), usd(store, OTHER)) == (10, 1)
    with closing(open_reader(store)) as db:
        assert [row.session_id for row in spending_queries.model_usage(db, [OTHER])] == [OTHER]
        (alone,) = spending_queries.model_usage(db, [SESSION])
        assert alone.cache_1h_tokens == MILLION
    # The parent goes, and what it wrote is kept: the fork pays no more than before.
    path.unlink()
    collector.scan()
    assert (usd(store), usd(store, OTHER)) == (10, 1)


def test_a_file_that_begins_anew_costs_what_stands_there_now(
    path: Path, collector: Collector, store: Path
) -> None:
    answer = assistant("m1", model="claude-opus-5", counts=counts(hour=MILLION))
    write(path, [user(), answer])
    collector.scan()
    write(path, [user("other words")])
    collector.scan()

    assert usd(store) is None
    with closing(open_reader(store)) as db:
        assert db.execute("SELECT COUNT(*) FROM spending").fetchone()[0] == 0


def test_a_model_without_a_price(path: Path, collector: Collector, store: Path) -> None:
    unknown = assistant("m1", model="glm-9", counts=counts(output_tokens=1000))
    write(path, [user(), unknown])
    collector.scan()
    assert sessions(store)[SESSION].cost is None

    append(path, [assistant("m2", model="claude-opus-5", counts=counts(hour=MILLION))])
    collector.scan()
    assert sessions(store)[SESSION].cost == SessionCost(10.0, estimated=True, partial=True)


def test_a_policy_sets_prices(path: Path, collector: Collector, store: Path) -> None:
    write(path, [user(), assistant("m1", model="glm-9-x", counts=counts(output_tokens=MILLION))])
    collector.scan()
    said = RawValue(
        "price", {"glm": "1/2", "glm-9": "1/3/0/0/0"}, PolicyOrigin.USER_FILE, "config.toml"
    )
    policy = resolve_policy([said])

    assert policy.notices == ()
    assert sessions(store, Policies(policy))[SESSION].cost == SessionCost(3.0)


@pytest.mark.parametrize("price", ["5", "a/b", "5/-1", "1/2/3/4/5/6", "", "1/inf", "1/nan"])
def test_what_is_no_price(price: str) -> None:
    (notice,) = resolve_policy(
        [RawValue("price", {"glm": price}, PolicyOrigin.USER_FILE, "config.toml")]
    ).notices

    assert "input/output" in notice.fix


def cost_state(dollars: float) -> JsonLine:
    return {"type": "cost-state", "sessionId": SESSION, "totalCostUSD": dollars}


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([cost_state(12.5)], SessionCost(12.5, estimated=False, source=CostSource.TRANSCRIPT)),
        ([cost_state(9.0)], SessionCost(9.0, estimated=False, source=CostSource.TRANSCRIPT)),
        # It began to count after the session did.
        ([cost_state(0.4)], SessionCost(10.0)),
        ([cost_state(0.0)], SessionCost(10.0)),
        (
            [cost_state(99.0), cost_state(11.0)],
            SessionCost(11.0, False, source=CostSource.TRANSCRIPT),
        ),
        # Answers came after it.
        ([cost_state(9.0), "answer"], SessionCost(20.0)),
        ([cost_state(30.0), "answer"], SessionCost(30.0, False, source=CostSource.TRANSCRIPT)),
        ([{"type": "cost-state", "totalCostUSD": 1e99}], SessionCost(10.0)),
        ([{"type": "cost-state", "totalCostUSD": "much"}], SessionCost(10.0)),
    ],
)
def test_the_client_says_what_it_cost(
    path: Path, collector: Collector, store: Path, steps: list[Any], expected: SessionCost
) -> None:
    answer = counts(hour=MILLION)
    write(path, [user(), assistant("m1", model="claude-opus-5", counts=answer, at=1)])
    for step in steps:
        later = assistant("m2", model="claude-opus-5", counts=answer, at=9)
        append(path, [later if step == "answer" else step])
        collector.scan()

    assert sessions(store)[SESSION].cost == expected


def test_the_status_line_says_what_it_cost_and_how_warm_it_is(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), assistant("m1", model="claude-opus-5", counts=counts(hour=MILLION), at=1)])
    expires = START_MS // 1000 + 600
    said = {
        "session_id": SESSION,
        "cost": {"total_cost_usd": 10.25},
        "prompt_cache": {"warm": True, "ttl": "1h", "expires_at": expires},
    }
    log_file(store, LogKind.STATUS_LINE).write_bytes(lines([log_line(START_MS + 2000, **said)]))
    collector.scan()
    found = sessions(store)[SESSION]
    assert found.cost == SessionCost(10.25, estimated=False, source=CostSource.STATUS_LINE)
    used_at = START_MS + 1000
    hour_ms = 60 * MINUTE_MS
    assert found.cache == PromptCache(expires * 1000, False, MILLION, hour_ms, used_at=used_at)
    assert found.cache.is_warm(expires * 1000 - 1)
    assert not found.cache.is_warm(expires * 1000)

    # A later answer begins the cache's time anew, and is not in what the client said.
    append(path, [assistant("m2", model="claude-opus-5", counts=counts(minutes=4), at=60)])
    collector.scan()
    found = sessions(store)[SESSION]
    lives_ms = 5 * MINUTE_MS
    used_at = START_MS + 60_000
    assert found.cache == PromptCache(used_at + lives_ms, True, 4, lives_ms, used_at=used_at)
    assert found.cost == SessionCost(10.25, estimated=False, source=CostSource.STATUS_LINE)


def test_the_status_line_says_what_a_cold_prompt_writes_again(
    path: Path, collector: Collector, store: Path
) -> None:
    write(path, [user(), assistant("m1", model="claude-opus-5", counts=counts(minutes=9), at=1)])
    cache = {"warm": True, "ttl": "1h", "expires_at": START_MS // 1000 + 3600}
    cache["recache_tokens_if_cold"] = MILLION
    said = {"session_id": SESSION, "prompt_cache": cache}
    log_file(store, LogKind.STATUS_LINE).write_bytes(lines([log_line(START_MS + 2000, **said)]))
    collector.scan()

    found = sessions(store)[SESSION]
    assert (found.cache.tokens, found.cache.tokens_estimated) == (MILLION, False)
    assert found.cache.lifetime_ms == 60 * MINUTE_MS
    assert found.rewrite_cost == RewriteCost(10.0, 0.5)  # an hour costs twice the input

    # Not of the next answer.
    append(path, [assistant("m2", model="claude-opus-5", counts=counts(minutes=4), at=60)])
    collector.scan()
    assert sessions(store)[SESSION].cache.tokens == 4


@pytest.mark.parametrize(
    ("given", "expired", "tokens"),
    [
        ({"context_tokens": 20, "prompt_cache_likely_expired": True}, True, 20),
        ({"context_tokens": 20, "prompt_cache_likely_expired": False}, False, 20),
        ({"context_tokens": "many", "prompt_cache_likely_expired": [1]}, False, 9),
        ({}, False, 9),
    ],
)
def test_a_resumed_client_says_what_its_first_prompt_writes_again(
    path: Path,
    collector: Collector,
    store: Path,
    given: dict[str, Any],
    expired: bool,
    tokens: int,
) -> None:
    write(path, [user(), assistant("m1", counts=counts(hour=9), at=1)])
    said = {"hook_event_name": "SessionStart", "source": "resume", "session_id": SESSION, **given}
    log_file(store, LogKind.HOOKS).write_bytes(lines([log_line(START_MS + 2000, **said)]))
    collector.scan()

    cache = sessions(store)[SESSION].cache
    assert (cache.is_warm(START_MS + 3000), cache.tokens) == (not expired, tokens)
    assert cache.tokens_estimated == (tokens == 9)


def test_a_cache_that_the_client_calls_cold(path: Path, collector: Collector, store: Path) -> None:
    write(path, [user(), assistant(at=1, counts=counts(hour=9))])
    said = {"session_id": SESSION, "prompt_cache": {"warm": False, "expires_at": None}}
    log_file(store, LogKind.STATUS_LINE).write_bytes(lines([log_line(START_MS + 2000, **said)]))
    collector.scan()

    cache = sessions(store)[SESSION].cache
    assert (cache.is_warm(START_MS + 2000), cache.estimated) == (False, False)


@pytest.mark.parametrize(
    ("answers", "lives_ms", "tokens"),
    [
        ([counts(hour=10)], 60 * MINUTE_MS, 10),
        ([counts(minutes=10)], 5 * MINUTE_MS, 10),
        ([counts(hour=10), counts(cache_read_input_tokens=10)], 60 * MINUTE_MS, 10),
        ([counts(hour=10), counts(minutes=3, cache_read_input_tokens=10)], 5 * MINUTE_MS, 13),
        ([counts(input_tokens=500)], None, None),
        ([counts(cache_read_input_tokens=10)], 5 * MINUTE_MS, 10),
    ],
)
def test_how_long_a_cache_lives_and_what_it_holds(
    path: Path,
    collector: Collector,
    store: Path,
    answers: list[dict[str, Any]],
    lives_ms: int | None,
    tokens: int | None,
) -> None:
    told = [assistant(f"m{n}", counts=each, at=n) for n, each in enumerate(answers, 1)]
    write(path, [user(), *told])
    collector.scan()

    last_ms = START_MS + 1000 * len(answers)
    cache = sessions(store)[SESSION].cache
    expires_at = None if lives_ms is None else last_ms + lives_ms
    used_at = None if lives_ms is None else last_ms
    assert cache == PromptCache(expires_at, True, tokens, lives_ms, used_at=used_at)
    cost = sessions(store)[SESSION].rewrite_cost
    assert (cost is None) == (tokens is None)


def test_a_compaction_leaves_no_cache_and_a_point_of_its_own(
    path: Path, collector: Collector, store: Path
) -> None:
    told = [assistant(f"m{n}", 1000 * n, at=n) for n in range(1, 31)]
    write(path, [user(), *told])
    collector.scan()
    assert sessions(store)[SESSION].recent_contexts == tuple(range(7000, 31_000, 1000))

    append(path, [boundary(at=40, postTokens=500)])
    collector.scan()
    found = sessions(store)[SESSION]
    # The estimate of the next request, which has the system prompt too.
    left = found.context.tokens or 0
    assert left > 500
    assert found.recent_contexts == (*range(8000, 31_000, 1000), left)
    assert found.cache == PromptCache(None)

    append(path, [assistant("m99", 2000, at=50)])
    collector.scan()
    assert sessions(store)[SESSION].recent_contexts[-2:] == (500, 2000)


def test_the_same_rows_however_the_lines_are_cut(
    path: Path, collector: Collector, store: Path
) -> None:
    told = encode([user(), assistant("m1", counts=counts(hour=9)), cost_state(2.0)])
    write(path, [])
    for end in range(len(told)):
        with path.open("ab") as file:
            file.write(told[end : end + 1])
        if end % 97 == 0:
            collector.scan()
    collector.scan()

    with closing(open_reader(store)) as db:
        (row,) = spending_queries.model_usage(db)
        (said,) = db.execute("SELECT turn, cost_usd FROM session").fetchall()
    assert (row.cache_1h_tokens, row.responses) == (9, 1)
    assert tuple(said) == ("answered", 2.0)
