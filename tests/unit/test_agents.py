"""What an agent is doing, and how full its own context is."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.measure.agent_building import (
    ANSWERED_MS,
    CLIENTS_OWN,
    ZOMBIE_AFTER_MS,
    has_new_zombie,
    make_agent,
    mark_zombies,
)
from ctxtop.core.measure.evidence import NO_EVIDENCE
from ctxtop.core.model.agent import Agent, AgentStatus
from ctxtop.core.model.answer_facts import AGENT_RESUMED_MS
from ctxtop.core.model.context import ContextState
from ctxtop.core.model.context_window import ClaimSource
from msgspec.structs import replace

from ..rows import agent_row
from ..transcripts import MODEL


def agent(live: bool = False, **fields: Any) -> Agent:
    return make_agent(agent_row(**fields), live, NO_EVIDENCE)


@pytest.mark.parametrize(
    ("live", "fields", "status"),
    [
        (True, {}, AgentStatus.RUNNING),
        (False, {}, AgentStatus.NEVER_STARTED),
        (False, {"has_returned": 1}, AgentStatus.UNKNOWN),
        (False, {"started_at": 1}, AgentStatus.UNKNOWN),
        (True, {"return_status": "rejected"}, AgentStatus.REJECTED),
        (True, {"return_status": "rejected", "started_at": 1}, AgentStatus.STOPPED),
        (True, {"return_status": "completed"}, AgentStatus.COMPLETED),
        (True, {"return_status": "failed"}, AgentStatus.FAILED),
        (True, {"return_status": "error"}, AgentStatus.FAILED),
        (True, {"return_status": "killed"}, AgentStatus.STOPPED),
        (True, {"return_status": "a word of tomorrow"}, AgentStatus.UNKNOWN),
        (True, {"finished": 1}, AgentStatus.COMPLETED),
        (True, {"finished": 0}, AgentStatus.RUNNING),
    ],
)
def test_status(live: bool, fields: dict[str, Any], status: AgentStatus) -> None:
    assert agent(live, **fields).status is status


def test_an_agent_that_writes_after_its_return_was_sent_another_message() -> None:
    returned: dict[str, Any] = {"return_status": "completed", "returned_at": 1_000_000}

    same_moment = agent(True, last_at=1_000_000 + AGENT_RESUMED_MS, **returned)
    later = agent(True, last_at=1_000_001 + AGENT_RESUMED_MS, **returned)

    assert same_moment.status is AgentStatus.COMPLETED
    assert later.status is AgentStatus.RUNNING


def test_a_running_agent_has_no_end() -> None:
    assert agent(True, last_at=5).ended_at is None
    assert agent(False, last_at=5).ended_at == 5
    assert agent(False, last_at=5, returned_at=4, return_status="completed").ended_at == 4


def test_a_running_agent_that_is_silent_for_half_an_hour_is_a_zombie() -> None:
    it = agent(True, launched_at=1, started_at=2, last_at=1_000)
    (early,) = mark_zombies([it], 1_000 + ZOMBIE_AFTER_MS - 1)
    assert (early.status, early.silent_since) == (AgentStatus.RUNNING, 1_000)
    assert not has_new_zombie([it], 1_000 + ZOMBIE_AFTER_MS - 1)
    (late,) = mark_zombies([it], 1_000 + ZOMBIE_AFTER_MS)
    assert (late.status, late.silent_since, late.ended_at) == (AgentStatus.ZOMBIE, 1_000, None)
    assert has_new_zombie([it], 1_000 + ZOMBIE_AFTER_MS)
    assert not has_new_zombie([late], 1_000 + ZOMBIE_AFTER_MS)


def test_an_agent_that_waits_for_another_or_for_messages_is_no_zombie() -> None:
    parent, middle = (agent(True, agent_id=name, started_at=1) for name in ("p", "m"))
    middle = replace(middle, parent_agent_id="p")
    child = agent(True, agent_id="c", parent_agent_id="m", last_at=ZOMBIE_AFTER_MS)
    marked = mark_zombies([parent, middle, child], ZOMBIE_AFTER_MS + 1)
    assert {each.status for each in marked} == {AgentStatus.RUNNING}
    assert mark_zombies(marked, 2 * ZOMBIE_AFTER_MS)[0].status is AgentStatus.ZOMBIE
    (teammate,) = mark_zombies([agent(True, started_at=1, awaits_messages=1)], ZOMBIE_AFTER_MS * 9)
    assert (teammate.status, teammate.silent_since) == (AgentStatus.RUNNING, None)
    (circle,) = mark_zombies([agent(True, agent_id="x", parent_agent_id="x", last_at=1)], 5)
    assert circle.status is AgentStatus.RUNNING


def test_the_end_of_its_session_completes_an_agent() -> None:
    ended = agent(False, started_at=1, last_at=5_000, session_ended_at=6_000)
    assert (ended.status, ended.ended_at) == (AgentStatus.COMPLETED, 6_000)
    assert ended.status_label == "completed (session end)"
    # Whoever resumes the session does not bring it back, unless it writes.
    assert agent(True, last_at=5_000, started_at=1, session_ended_at=6_000).ended_with_session
    again = agent(True, started_at=1, last_at=9_000, session_ended_at=6_000)
    assert (again.status, again.status_label) == (AgentStatus.RUNNING, "running")
    assert agent(False, session_ended_at=6_000).status is AgentStatus.NEVER_STARTED
    returned = agent(False, return_status="failed", started_at=1, session_ended_at=6_000)
    assert (returned.status, returned.ended_with_session) == (AgentStatus.FAILED, False)


def test_an_agent_that_was_closed_by_hand_opens_again_when_it_writes() -> None:
    closed = agent(True, last_at=5, closed_at=9)
    assert (closed.status, closed.ended_at) == (AgentStatus.CLOSED, 9)
    assert agent(True, last_at=10, closed_at=9).status is AgentStatus.RUNNING


def test_its_own_answer_is_better_than_what_its_parent_was_told() -> None:
    own = agent(answer_tokens=9_000, returned_context_tokens=8_000, returned_total_tokens=8_500)
    told = agent(returned_context_tokens=8_000, returned_total_tokens=8_500)
    only_total = agent(returned_total_tokens=8_500)

    assert (own.context.tokens, own.context.state) == (9_000, ContextState.MEASURED)
    assert (told.context.tokens, told.context.state) == (8_000, ContextState.MEASURED)
    assert (only_total.context.tokens, only_total.context.state) == (
        8_500,
        ContextState.ESTIMATED,
    )


def test_a_peak_above_the_small_window_tells_the_window() -> None:
    made = agent(model=MODEL, peak_tokens=250_000)

    assert made.context.window.source is ClaimSource.SESSION_USAGE


def test_a_result_has_its_measures() -> None:
    made = agent(summary_id=3, result_text="a\nb", result_lines=2, result_chars=3, result_tokens=3)

    assert made.result is not None
    assert (made.result.text, made.result.lines, made.result.estimated_tokens) == ("a\nb", 2, 3)
    assert agent().result is None


def test_the_mark_of_a_large_window_stands_in_the_name_that_was_asked_for() -> None:
    large = agent(model="claude-opus-4-6", asked_model="claude-opus-4-6[1m]")
    other = agent(model="claude-haiku-4-5", asked_model="claude-opus-4-6[1m]")

    assert large.context.window.tokens == 1_000_000
    assert other.context.window.tokens == 200_000


def test_an_agent_that_ended_is_no_zombie_though_no_message_says_so() -> None:
    """Its notification was lost: a full context, a crash, a message that was not delivered."""
    it = agent(True, started_at=1, last_at=1_000, has_answered=1)
    (early,) = mark_zombies([it], 999 + ANSWERED_MS)
    assert early.status is AgentStatus.RUNNING
    assert not has_new_zombie([it], 999 + ANSWERED_MS)
    assert has_new_zombie([it], 1_000 + ANSWERED_MS)
    for now_ms in (1_000 + ANSWERED_MS, 1_000 + 9 * ZOMBIE_AFTER_MS):
        (ended,) = mark_zombies([it], now_ms)
        assert (ended.status, ended.ended_at) == (AgentStatus.COMPLETED, 1_000)
    # It may go on as long as an agent that it started is at work.
    child = agent(True, agent_id="c", parent_agent_id="a1", last_at=1_000)
    waits, _ = mark_zombies([it, child], 1_000 + ANSWERED_MS)
    assert waits.status is AgentStatus.RUNNING
    (mate,) = mark_zombies([agent(True, last_at=1, has_answered=1, awaits_messages=1)], 1 << 40)
    assert mate.status is AgentStatus.RUNNING


def test_the_hook_that_an_agent_stopped_completes_it() -> None:
    it = agent(True, started_at=1, last_at=5_000, stopped_at=6_000)
    assert (it.status, it.ended_at) == (AgentStatus.COMPLETED, 6_000)
    # It was kept from stopping, or is a teammate that waits for messages.
    later = 6_001 + AGENT_RESUMED_MS
    assert agent(True, last_at=later, stopped_at=6_000).status is AgentStatus.RUNNING
    mate = agent(True, started_at=1, stopped_at=6_000, awaits_messages=1)
    assert mate.status is AgentStatus.RUNNING


@pytest.mark.parametrize(
    ("agent_id", "task"),
    [
        ("acompact-0123456789abcdef", "compaction"),
        ("areactive-compact-0123456789abcdef", "compaction"),
        ("aside_question-0123456789abcdef", "side question"),
        ("aaway_summary-0123456789abcdef", "away summary"),
        ("hook-agent-0f8fad5b-d9cb-469f-a165-70867728950e", "hook agent"),
    ],
)
def test_an_agent_of_the_clients_own_has_a_name_and_ends_with_its_answer(
    agent_id: str, task: str
) -> None:
    own = agent(True, agent_id=agent_id, started_at=1, last_at=9, answer_tokens=5)
    assert (own.agent_type, own.description) == (task, CLIENTS_OWN)
    assert (own.status, own.ended_at) == (AgentStatus.COMPLETED, 9)
    assert agent(True, agent_id=agent_id, started_at=1).status is AgentStatus.RUNNING
    (silent,) = mark_zombies([agent(True, agent_id=agent_id, started_at=1)], 9 * ZOMBIE_AFTER_MS)
    assert silent.status is AgentStatus.RUNNING


@pytest.mark.parametrize(
    "fields",
    [
        {"agent_id": "a0123456789abcdef"},
        {"agent_id": "amine-0123456789abcdef"},
        # A person may give an agent such a name.
        {"agent_id": "acompact-0123456789abcdef", "tool_use_id": "toolu_1"},
    ],
)
def test_any_other_agent_is_the_persons(fields: dict[str, Any]) -> None:
    assert agent(answer_tokens=5, started_at=1, **fields).agent_type == "agent"
