"""`ctxtop context`: what programs and people read of what fills a context."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

SESSION = "0a000000-0000-4000-8000-000000000001"
OTHER = "0a000000-0000-4000-8000-000000000002"
EMPTY = "0b000000-0000-4000-8000-000000000003"
AGENT = "a0123456789abcdef"

KEYS = [
    "session_id",
    "forked_from",
    "agent_id",
    "total_tokens",
    "estimated",
    "source",
    "later_tokens",
    "read_bytes",
    "categories",
    "largest",
    "estimator",
    "window_tokens",
]


def line(kind: str, uuid: str, parent: str | None, **more: object) -> dict[str, object]:
    head = {"type": kind, "uuid": uuid, "parentUuid": parent, "cwd": "/home/dev/x"}
    return head | {"timestamp": f"2026-01-02T03:04:{len(uuid):02}.000Z"} | more


def user(uuid: str, parent: str | None, content: object, **more: object) -> dict[str, object]:
    return line("user", uuid, parent, message={"role": "user", "content": content}, **more)


def answer(uuid: str, parent: str, tokens: int, *blocks: object) -> dict[str, object]:
    usage = {"input_tokens": tokens, "output_tokens": 7}
    content = list(blocks) or [{"type": "text", "text": "done"}]
    message = {"id": f"m{uuid}", "model": "claude-haiku-4-5", "role": "assistant", "usage": usage}
    return line("assistant", uuid, parent, message=message | {"content": content})


def read(number: int) -> dict[str, object]:
    asked = {"file_path": "/home/dev/x/shop.py"}
    return {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": asked}


def result(number: int, words: str) -> list[dict[str, object]]:
    return [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": words}]


def write(path: Path, *lines: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(one)}\n" for one in lines), encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session that read a file twice, with an agent; another one, and one that says nothing."""
    for name in ("CLAUDE_CONFIG_DIR", "CTXTOP_CONFIG_DIR", "CTXTOP_DB", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "120")
    folder = tmp_path / ".claude" / "projects" / "-home-dev-x"
    write(
        folder / f"{SESSION}.jsonl",
        user("u1", None, "[red]Fix[/red] \x1b[31mthe parser"),
        answer("a1", "u1", 20_000, read(1)),
        user("u2", "a1", result(1, "price = 7\n" * 400)),
        answer("a2", "u2", 22_000, read(2)),
        user("u3", "a2", result(2, "price = 8\n" * 400)),
        answer("a3", "u3", 30_000),
    )
    write(
        folder / SESSION / "subagents" / f"agent-{AGENT}.jsonl",
        user("s1", None, "look", isSidechain=True),
        answer("s2", "s1", 9_000) | {"isSidechain": True},
    )
    write(folder / f"{OTHER}.jsonl", user("o1", None, "Hello"))
    write(folder / f"{EMPTY}.jsonl", {"type": "mode", "mode": "normal", "sessionId": EMPTY})
    return folder


@pytest.fixture
def run(project: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert project.exists()
    return partial(call_ctxtop, "context")


def test_json_adds_up_to_what_was_measured(run: Callable[..., Ended]) -> None:
    found = run(SESSION, "--json").json
    assert list(found) == KEYS
    assert (found["session_id"], found["agent_id"]) == (SESSION, None)
    assert (found["total_tokens"], found["estimated"]) == (30_000, False)
    assert found["source"] == "projection"
    assert sum(each["tokens"] for each in found["categories"]) == 30_000
    assert sum(each["share"] for each in found["categories"]) == pytest.approx(1.0)
    for each in found["categories"]:
        assert list(each) == ["name", "tokens", "share", "estimated", "parts"]
    assert found["categories"][-1]["name"] == "unexplained"
    first = next(each for each in found["largest"] if each["line"] == 3)
    assert first == {
        "kind": "tool results",
        "what": "Read /home/dev/x/shop.py",
        "tokens": first["tokens"],
        "line": 3,
        "superseded": "read again at line 5",
        "oversized": False,
    }


def test_results_above_the_policys_size_are_marked(run: Callable[..., Ended]) -> None:
    words = (SESSION, "--set", "tools.warn_result_chars=3999")
    oversized = [
        each["line"] for each in run(*words, "--json").json["largest"] if each["oversized"]
    ]
    assert sorted(oversized) == [3, 5]
    assert run(*words).out.count("4,000 characters") == 2
    words = (SESSION, "--set", "tools.warn_result_chars=4000")
    assert not any(each["oversized"] for each in run(*words, "--json").json["largest"])


def test_the_table_says_what_is_estimated(run: Callable[..., Ended]) -> None:
    ended = run(SESSION)
    assert ended.code == 0
    head, _, columns, *rows = ended.out.splitlines()
    assert head == "30 k tokens in context (measured), from the transcript, plus ≈1 since"
    assert columns.split() == ["BREAKDOWN", "TOKENS", "OF", "WINDOW"]
    assert rows[0].startswith("system prompt and tools")
    assert "≈" in rows[0]
    assert any("read again at line 5" in row for row in rows)
    assert "[red]Fix[/red]" in ended.out
    assert "\x1b" not in ended.out


def test_texts_are_counted_by_their_characters_where_the_policy_says_so(
    call_ctxtop: Callable[..., Ended], project: Path
) -> None:
    def price(*policy: str) -> tuple[object, ...]:
        found = call_ctxtop(*policy, "context", SESSION, "--json").json
        first = next(each for each in found["largest"] if each["line"] == 3)
        return found["estimator"], found["total_tokens"], first["tokens"]

    assert project.exists()
    chars4 = ("--set", "usage.estimator=chars4")
    assert price()[:2] == ("tiktoken", 30_000)
    # 400 lines of ten characters.
    assert price(*chars4) == ("chars4", 30_000, 1_000 + 4)
    overhead = ("--set", "usage.per_message_overhead=100")
    assert price(*chars4, *overhead) == ("chars4", 30_000, 1_000 + 100)
    assert price(*overhead) == price(), "the other estimator has measured what is around a text"
    said = call_ctxtop(*chars4, "context", SESSION).out.splitlines()[0]
    assert said.endswith("; texts counted as characters / 4")


def test_an_agent_by_the_start_of_its_id(run: Callable[..., Ended]) -> None:
    found = run(SESSION, "--agent", AGENT[:4], "--json").json
    assert (found["agent_id"], found["total_tokens"]) == (AGENT, 9_000)


def test_a_session_that_was_never_measured(run: Callable[..., Ended]) -> None:
    found = run(OTHER, "--json").json
    assert found["estimated"]
    assert [each["name"] for each in found["categories"]] == ["user text"]
    assert "not measured yet" in run(OTHER).out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "Missing argument"),
        (("zz",), 1, "no session id starts with 'zz'"),
        (("0a",), 1, "2 sessions have ids that start with '0a'"),
        ((SESSION, "--agent", "zz"), 1, "no agent id in session"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    run: Callable[..., Ended], words: tuple[str, ...], code: int, said: str
) -> None:
    ended = run(*words)
    assert (ended.code, ended.out) == (code, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_a_session_without_a_conversation_is_one_line(run: Callable[..., Ended]) -> None:
    ended = run(EMPTY)
    assert (ended.code, ended.out) == (1, "")
    assert "no session id starts with" in ended.err
    assert ended.err.count("\n") == 1


def test_a_transcript_that_is_gone_is_one_line(run: Callable[..., Ended], project: Path) -> None:
    run(SESSION)
    (project / f"{SESSION}.jsonl").unlink()
    ended = run(SESSION, "--no-scan")
    assert (ended.code, ended.out) == (1, "")
    assert "cannot be read: No such file or directory" in ended.err
    assert ended.err.count("\n") == 1
