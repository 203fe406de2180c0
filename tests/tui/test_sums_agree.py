"""Every place that adds up answers says the same: sessions, totals, cache, limits and exports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sums import Sums, all_sums
from ..transcripts import PROJECT, SESSION, agent_result, assistant, launch, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..transcripts import JsonLine
    from .ended import Ended
    from .support import Stage

FORKS = ("99999999-2222-4333-8444-555555555555", "88888888-2222-4333-8444-555555555555")
OLD_CLIENT = {"version": "2.1.39"}


def counts(read: int, output: int = 10, **fields: object) -> JsonLine:
    written = {"ephemeral_1h_input_tokens": 30, "ephemeral_5m_input_tokens": 10}
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": 40,
        "cache_read_input_tokens": read,
        "output_tokens": output,
        "cache_creation": written,
    } | fields


def with_paused(answer: JsonLine) -> JsonLine:
    """An answer that the API paused once, and that another request resumed."""
    answer["message"]["pausedResponses"] = [{"usage": counts(70, 6), "limit": "time"}]
    return answer


def step(answer: JsonLine, agent_id: str) -> JsonLine:
    """An agent's answer inside a line of its parent's file."""
    message = {name: answer[name] for name in ("type", "uuid", "timestamp", "requestId", "message")}
    data = {"type": "agent_progress", "agentId": agent_id, "message": message}
    envelope = {"sessionId": answer["sessionId"], "timestamp": answer["timestamp"]}
    return {"type": "progress", "parentToolUseID": "t1", "data": data, **envelope}


def forked(lines: list[JsonLine], session_id: str) -> list[JsonLine]:
    origin = {"forkedFrom": {"sessionId": SESSION, "messageUuid": "x"}}
    return [each | {"sessionId": session_id} | origin for each in lines]


def returned(agent_id: str) -> JsonLine:
    """What a return says of the agent's last request, which no other line holds."""
    spent = {"totalTokens": 50_113, "totalToolUseCount": 1, "usage": counts(50_000, 70)}
    return {"status": "completed", "agentId": agent_id, "content": [], **spent}


def write_sessions(projects: Path) -> None:
    """Write a session with everything that counts apart, two forks of it, and their agents."""
    advice = {"type": "advisor_message", "model": "claude-opus-4-7", **counts(0, 800)}
    own, searches = {"type": "message", **counts(700)}, {"web_search_requests": 2}
    of_agent = assistant(
        "msg_agent_1", counts=counts(900, 20), at=4, isSidechain=True, agentId="a1"
    )
    history = [
        user(at=0),
        launch("t1", counts=counts(500), at=1, model="claude-opus-5-5"),
        step(assistant("msg_step_1", counts=counts(40_000, 1), at=2), "p1"),
        step(assistant("msg_step_1", counts=counts(40_000, 90), at=3), "p1"),
        step(of_agent, "a1"),
        agent_result("t1", "p1", "done", at=5) | {"toolUseResult": returned("p1")},
        assistant("msg_fast_1", counts=counts(600, speed="fast"), model="claude-opus-5-5", at=6),
        assistant("msg_advised_1", counts=counts(700, iterations=[own, advice]), at=7),
        assistant("msg_us_1", counts=counts(5, inference_geo="us", server_tool_use=searches), at=8),
        with_paused(assistant("msg_resumed_1", counts=counts(9), at=9)),
        assistant("msg_without_time_1", counts=counts(6)) | {"timestamp": "yesterday"},
    ]
    write(projects / PROJECT / f"{SESSION}.jsonl", history)
    agent = [user(isSidechain=True, agentId="a1", at=2), of_agent]
    write(projects / PROJECT / SESSION / "subagents" / "agent-a1.jsonl", agent)
    for number, fork in enumerate(FORKS):
        more = assistant(f"msg_of_fork_{number}", counts=counts(800), at=20, sessionId=fork)
        # The first copy of an answer may be one that was written early.
        early = assistant("msg_of_both_forks_1", counts=counts(850, 1 + number * 70), at=19)
        lines = [*forked(history, fork), early | {"sessionId": fork}, more]
        write(projects / PROJECT / f"{fork}.jsonl", lines)
        copied = [each | {"sessionId": fork} for each in agent]
        write(projects / PROJECT / fork / "subagents" / "agent-a1.jsonl", copied)


def check(run: Callable[..., Ended], stage: Stage) -> Sums:
    store = ("--config-dir", str(stage.root), "--db", str(stage.places.store))
    found = all_sums(lambda *words: run(*words, *store).out, stage.places.store)
    expected = found["totals"]
    assert {place: each.differs(expected) for place, each in found.items()} == {
        place: [] for place in found
    }
    return expected


def test_all_places_agree_on_answers_that_count_apart(
    stage: Stage, call_ctxtop: Callable[..., Ended]
) -> None:
    write_sessions(stage.root / "projects")
    total = check(call_ctxtop, stage)
    # Eight answers of the session and its agents, the last one of an agent without a file, a piece
    # of advice, and those of the forks.
    assert total.answers == 8 + 1 + 1 + 3
    assert total.output == 10 + 90 + 70 + 20 + 10 + 10 + 800 + 10 + 10 + 6 + 10 + 71 + 10 + 10


def test_an_agent_that_forks_contain_counts_once_and_says_where_it_is(
    stage: Stage, call_ctxtop: Callable[..., Ended]
) -> None:
    write_sessions(stage.root / "projects")
    store = ("--config-dir", str(stage.root), "--db", str(stage.places.store))
    assert call_ctxtop("scan", "--json", *store).json["agents"] == 2
    agents = call_ctxtop("agents", "--json", "--no-scan", *store).json
    assert len(agents) == 2 * 3
    assert {(each["sessions"], each["counted_in"]) for each in agents} == {(3, SESSION)}
    answers = [each["progress_responses"] for each in agents if each["agent_id"] == "p1"]
    assert sorted(answers) == [0, 0, 2]
    shown = call_ctxtop("agents", "--no-scan", *store).out
    assert shown.count("3 sessions") == 6
    metrics = call_ctxtop("export", "--format", "prometheus", "--no-scan", *store).out
    assert "\nctxtop_agents 2\n" in metrics
    report = call_ctxtop("export", "--format", "markdown", "--no-scan", *store).out
    assert "3 sessions, 2 agents" in report


def test_all_places_agree_on_the_demo(untold: Stage, call_ctxtop: Callable[..., Ended]) -> None:
    assert check(call_ctxtop, untold).answers
