"""`ctxtop inject`: what an agent that starts now would be given, for programs and people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin.answers.inject import answer
from ctxtop.collectors.plugin.hook_answer import HookCall

from ..agents_at_work import write_agent
from ..transcripts import assistant, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

SESSION = "0a000000-0000-4000-8000-000000000001"
WORKER = "[COMPRESSED] agent_type: worker\nChanged files: a.py\nResult: The cart rounds."


@pytest.fixture
def transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session with an agent that found something and one that runs."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("COLUMNS", "120")
    path = tmp_path / ".claude" / "projects" / "-shop" / f"{SESSION}.jsonl"
    write(path, [user(cwd=str(tmp_path)), assistant(cwd=str(tmp_path))])
    write_agent(path, "a1", WORKER)
    write_agent(path, "a2", "", finished=None)
    return path


@pytest.fixture
def run(transcript: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert transcript.exists()
    return call_ctxtop


def test_what_would_be_given_and_what_not(run: Callable[..., Ended]) -> None:
    ended = run("inject", "--session", "0a", "--agent-type", "reviewer", "--json")
    assert (ended.code, ended.err) == (0, "")
    found = ended.json
    assert list(found) == [
        "context",
        "tokens",
        "at_most_tokens",
        "budget_tokens",
        "entries",
        "excluded",
    ]
    assert "The cart rounds." in found["context"]
    (entry,) = found["entries"]
    assert (entry["stage"], entry["agent_id"], entry["session_id"]) == ("sibling", "a1", SESSION)
    assert 0 < entry["tokens"] < found["tokens"] <= found["at_most_tokens"] <= 4_000
    assert found["excluded"] == [
        {
            "session_id": SESSION,
            "agent_id": "a2",
            "agent_type": "worker",
            "reason": "not finished",
        }
    ]


def test_it_is_what_the_hook_gives(
    run: Callable[..., Ended], transcript: Path, tmp_path: Path
) -> None:
    shown = run("inject", "--session", "0a", "--agent-type", "reviewer", "--json").json
    told = {"transcript_path": str(transcript), "agent_type": "reviewer", "cwd": str(tmp_path)}
    reply = answer(HookCall("SubagentStart", told, tmp_path / "none.db", 0))
    assert reply is not None
    assert reply.context == shown["context"]


def test_a_budget_of_ones_own(run: Callable[..., Ended]) -> None:
    ended = run("inject", "--session", "0a", "--agent-type", "x", "--budget", "10", "--json")
    assert (ended.json["context"], ended.json["entries"]) == ("", [])
    assert ended.json["budget_tokens"] == 10
    assert any(each["reason"].startswith("over the budget") for each in ended.json["excluded"])


def test_for_people(run: Callable[..., Ended]) -> None:
    ended = run("inject", "--session", "0a", "--agent-type", "reviewer")
    assert ended.code == 0
    assert "| Result: The cart rounds." in ended.out
    assert "tokens, " in ended.out
    assert "worker a2 of 0a000000: not finished" in ended.out
    nothing = run("inject", "--session", "0a", "--agent-type", "reviewer", "--budget", "0")
    assert nothing.out.startswith("nothing would be injected")


def test_tags_of_the_task(run: Callable[..., Ended], transcript: Path) -> None:
    other = write(transcript.with_name(f"1{SESSION[1:]}.jsonl"), [user()])
    write_agent(other, "f1", "About payment.\ntags: payment", agentType="front")
    words = ("inject", "--session", "0a", "--agent-type", "reviewer", "--json")
    assert "payment" not in run(*words).json["context"]
    assert "About payment." in run(*words, "--prompt", "tags: payment\nDo it.").json["context"]


def test_a_policy_that_switches_it_off(run: Callable[..., Ended]) -> None:
    words = ("inject", "--session", "0a", "--agent-type", "reviewer")
    ended = run(*words, "--set", "disabled_modules=injection")
    assert (ended.code, ended.out) == (1, "")
    assert "injection is disabled" in ended.err


@pytest.mark.parametrize("words", [(), ("--session", "0a"), ("--agent-type", "x")])
def test_what_has_to_be_named(run: Callable[..., Ended], words: tuple[str, ...]) -> None:
    assert run("inject", *words).code == 2


def test_an_agent_says_what_it_was_given(run: Callable[..., Ended], transcript: Path) -> None:
    store = transcript.parents[3] / "ctxtop.db"
    told = {"transcript_path": str(transcript), "agent_type": "worker", "agent_id": "a2"}
    assert answer(HookCall("SubagentStart", told, store, 0)) is not None
    listed = run("agents", "--json", "--db", str(store)).json
    given = {each["agent_id"]: each["injected"] for each in listed}
    assert given["a1"] is None
    (entry,) = given["a2"]
    assert entry.pop("at_most_tokens") > 0
    assert entry == {
        "stage": "sibling",
        "session_id": SESSION,
        "agent_id": "a1",
        "reason": "finished in this session, perhaps under the same parent",
    }
