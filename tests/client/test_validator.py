"""What the scripted API refuses; no client is needed for these."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from .thoughts import BOUND, Thoughts
from .validator import LONGEST_REQUEST, refusals

Json = dict[str, Any]

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()


def user(*content: Json | str) -> Json:
    return _message("user", content)


def answer(*content: Json | str) -> Json:
    return _message("assistant", content)


def call(name: str, given: object = None) -> Json:
    return {"type": "tool_use", "id": name, "name": "Bash", "input": given or {"command": "ls"}}


def result(name: str, content: object = "a.py") -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": content}


def image(data: str = PNG, kind: str = "image/png") -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def _message(role: str, content: tuple[Json | str, ...]) -> Json:
    if content and isinstance(content[0], str):
        return {"role": role, "content": content[0]}
    return {"role": role, "content": list(content)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([user("hi")], id="a prompt"),
        pytest.param([user("hi"), user("and")], id="prompts that the api joins"),
        pytest.param([user("hi"), {"role": "system", "content": "now"}], id="a system message"),
        pytest.param(
            [user("hi"), answer(call("a"), call("b")), user(result("b"), result("a"), text("x"))],
            id="calls side by side",
        ),
        pytest.param(
            [user("hi"), answer(call("a")), user(result("a")), user("more")], id="joined results"
        ),
        pytest.param([user(text("look"), image())], id="an image"),
        pytest.param(
            [user("hi"), answer(call("a")), user(result("a", [text("x"), image()]))],
            id="an image in a result",
        ),
        pytest.param([user("hi"), answer(call("a")), user(result("a", ""))], id="nothing said"),
    ],
)
def test_what_is_taken(messages: list[Json]) -> None:
    assert refusals({"messages": messages}) == []


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one message is required"),
        ([answer("hi"), user("hi")], 'first message must use the "user" role'),
        ([user("hi"), answer("a"), answer("b"), user("c")], "roles must alternate"),
        ([user("hi"), answer("a")], "must end with a user message"),
        ([{"role": "tool", "content": "x"}], "messages.0.role: Input should be"),
        ([user()], "messages.0: all messages must have non-empty content"),
        ([{"role": "user", "content": ""}], "messages.0: all messages must have non-empty"),
        ([{"role": "user", "content": {}}], "messages.0.content: Input should be a valid list"),
        ([user(text(""))], "text content blocks must be non-empty"),
        ([user(text(" \n"))], "must contain non-whitespace text"),
        ([user({"text": "x"})], "messages.0.content.0.type: Field required"),
        (
            [user("hi"), answer(call("a")), user("x")],
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately",
        ),
        (
            [user("hi"), answer(call("a")), user(text("x"), result("a"))],
            "immediately after: a.",
        ),
        (
            [user("hi"), answer(call("a"), call("b")), user(result("a"))],
            "immediately after: b.",
        ),
        (
            [user("hi"), answer("x"), user(result("a"))],
            "messages.2.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a.",
        ),
        (
            [user("hi"), answer(call("a")), user(result("a"), result("a"))],
            "each tool_use must have a single result",
        ),
        (
            [
                *[user("hi"), answer(call("a")), user(result("a"))],
                *[answer(call("a")), user(result("a"))],
            ],
            "`tool_use` ids must be unique",
        ),
        ([user("hi"), answer(call("a", "ls")), user(result("a"))], "valid dictionary"),
        ([user("hi"), answer(call("a b")), user(result("a b"))], "should match pattern"),
        ([user("hi"), answer(call("a")), user(result("a", 3))], "tool_result.content: Input"),
        (
            [user("hi"), answer(call("a")), user(result("a", [text("")]))],
            "text content blocks must be non-empty",
        ),
        (
            [user("hi"), answer(call("a")), user(result("a", "") | {"is_error": True})],
            "content cannot be empty if `is_error` is true",
        ),
        ([user(image("AAAA"))], "does not appear to be one"),
        ([user(image("A"))], "should be a valid base64"),
        ([user(image(PNG, "image/bmp"))], "media_type: Input should be"),
        ([user(image(PNG + "A" * (6 << 20)))], "exceeds 5 MB maximum"),
        ([user({"type": "image"})], "messages.0.content.0.image.source: Field required"),
        (
            [user("hi"), answer({"type": "thinking", "thinking": "x"}), user("y")],
            "The final block in an assistant message cannot be `thinking`.",
        ),
        (
            [user("hi"), answer({"type": "web_search_tool_result", "tool_use_id": "s"}), user("y")],
            "unexpected `tool_use_id` found in `web_search_tool_result` blocks: s.",
        ),
    ],
)
def test_what_is_refused(messages: list[Json], words: str) -> None:
    found = refusals({"messages": messages})
    assert any(words in one for one in found), found


def test_a_request_that_is_too_large() -> None:
    assert refusals({"messages": [user("x" * LONGEST_REQUEST)]}) == [
        "Request exceeds the maximum size"
    ]


class Talk:
    """A conversation that the API answers with a thought and a call, turn by turn."""

    def __init__(self, model: str = "claude-opus-5-5") -> None:
        self.thoughts = Thoughts()
        self.body: Json = {"model": model, "system": "Be kind.", "tools": [], "messages": []}

    def turn(self, number: int) -> None:
        name = f"call{number}"
        self.body["messages"].append(
            user(text(f"go {number}"))
            if number == 1
            else user(result(f"call{number - 1}", f"out {number}"))
        )
        blocks: list[Json] = [{"type": "thinking", "thinking": f"hm {number}", "signature": ""}]
        blocks.append(call(name))
        self.thoughts.hand_out(number, self.body, blocks)
        self.body["messages"].append(answer(*blocks))

    def end(self) -> Json:
        calls = sum(one["role"] == "assistant" for one in self.body["messages"])
        body: Json = copy.deepcopy(self.body)
        body["messages"].append(user(result(f"call{calls}", "end")))
        return body


@pytest.fixture
def talk() -> Talk:
    found = Talk()
    for number in (1, 2, 3):
        found.turn(number)
    return found


def test_thinking_that_is_sent_back_as_it_was(talk: Talk) -> None:
    body = talk.end()
    assert [*talk.thoughts.refusals(body)] == []
    assert [*talk.thoughts.unbound(body)] == []


def test_where_a_cache_begins_changes_nothing(talk: Talk) -> None:
    body = talk.end()
    body["messages"][0]["content"][0]["cache_control"] = {"type": "ephemeral"}
    body["messages"][0]["content"] = [*body["messages"][0]["content"]]
    assert [*talk.thoughts.unbound(body)] == []


def test_thinking_that_was_rewritten(talk: Talk) -> None:
    body = talk.end()
    body["messages"][1]["content"][0]["thinking"] = "hm?"
    body["messages"][5]["content"][0]["signature"] = "bm8="
    first, last = talk.thoughts.refusals(body)
    assert first == "messages.1.content.0: Invalid `signature` in `thinking` block"
    assert last.startswith("messages.5.content.0: `thinking` or `redacted_thinking` blocks in the")


@pytest.mark.parametrize("kind", ["enabled", "adaptive"])
def test_thinking_that_the_last_answer_lacks(talk: Talk, kind: str) -> None:
    body: Json = talk.end() | {"thinking": {"type": kind}}
    del body["messages"][5]["content"][0]
    found = [*talk.thoughts.refusals(body)]
    assert [one[:32] for one in found] == (
        ["messages.5.content.0.type: Expec"] if kind == "enabled" else []
    )


def test_an_answer_of_an_open_turn_without_its_thinking(talk: Talk) -> None:
    body = talk.end()
    assert [*talk.thoughts.missing(body)] == []
    del body["messages"][3]["content"][0]
    (found,) = talk.thoughts.missing(body)
    assert found == "messages.3: the thinking of this answer is missing."
    body["messages"][-1]["content"].append(text("And go on."))
    assert len([*talk.thoughts.missing(body)]) == 1
    body["messages"] += [answer(text("Done.")), user(text("Next."))]
    assert [*talk.thoughts.missing(body)] == []


def unbound(talk: Talk, body: Json) -> list[str]:
    return [one.partition(": ")[0] for one in talk.thoughts.unbound(body)]


def test_what_a_change_unbinds(talk: Talk) -> None:
    changed = talk.end()
    changed["messages"][2]["content"][0]["content"] = "[cut]"
    assert unbound(talk, changed) == ["messages.3.content.0", "messages.5.content.0"]
    assert all(BOUND in one for one in talk.thoughts.unbound(changed))
    system = talk.end() | {"system": "Be brief."}
    assert len(unbound(talk, system)) == 3
    tools = talk.end() | {"tools": [{"name": "New"}]}
    assert len(unbound(talk, tools)) == 3


def test_thinking_that_was_left_out(talk: Talk) -> None:
    leading = talk.end()
    del leading["messages"][1]["content"][0]
    assert unbound(talk, leading) == []
    between = talk.end()
    del between["messages"][3]["content"][0]
    assert unbound(talk, between) == ["messages.5.content.0"]


def test_models_that_bind_nothing() -> None:
    talk = Talk("claude-haiku-4-5")
    talk.turn(1)
    assert [*talk.thoughts.unbound(talk.end() | {"system": "Be brief."})] == []
