"""A transcript's lines as facts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ctxtop.collectors.claude_code.tail import LineBlock
from ctxtop.collectors.claude_code.transcripts.line_indexer import index_block
from ctxtop.core.measure.tokens import client_token_estimate
from ctxtop.core.model.transcript_records import FileKind, SourceFile, TranscriptRecords
from ctxtop.core.transcript.entry_decoder import decode_entry
from ctxtop.core.transcript.line_types import why_ignored

from ..transcripts import (
    MODEL,
    PROJECT,
    SESSION,
    START_MS,
    JsonLine,
    agent_result,
    assistant,
    attachment,
    boundary,
    chained,
    encode,
    launch,
    launched,
    notification,
    notification_text,
    refusal,
    summary,
    text,
    time,
    tool,
    tool_result,
    usage,
    user,
)

MAIN = SourceFile(f"{PROJECT}/{SESSION}.jsonl", FileKind.SESSION, PROJECT, SESSION)
AGENT = SourceFile(
    f"{PROJECT}/{SESSION}/subagents/agent-a1.jsonl", FileKind.AGENT, PROJECT, SESSION, "a1"
)


def read(*lines: JsonLine | bytes, source: SourceFile = MAIN) -> TranscriptRecords:
    return index_block(source, block(encode(lines)))


def block(data: bytes) -> LineBlock:
    return LineBlock(0, data, len(data))


def test_an_answer() -> None:
    counts = usage(1000, 50)
    (answer,) = read(assistant("m1", content=[tool("Bash", "t1")], at=5, counts=counts)).responses

    assert (answer.message_id, answer.model, answer.at) == ("m1", MODEL, START_MS + 5000)
    assert answer.context_tokens == 1000
    assert (answer.input_tokens, answer.cache_creation_tokens) == (3, 7)
    assert (answer.cache_read_tokens, answer.output_tokens, answer.tools) == (990, 50, "t1,")
    assert not answer.sidechain


@pytest.mark.parametrize("iterations", [[], None])
def test_without_iterations_the_counts_are_those_of_the_answer(iterations: object) -> None:
    (answer,) = read(assistant(counts=usage(900, iterations=iterations))).responses

    assert answer.context_tokens == 900


def test_in_context_is_the_last_iteration_and_spent_the_sum() -> None:
    steps = [usage(400) | {"type": "message"}, usage(500) | {"type": "message"}]
    (answer,) = read(assistant(counts=usage(900, 80, iterations=steps))).responses

    assert answer.context_tokens == 500
    assert answer.cache_read_tokens + answer.cache_creation_tokens + answer.input_tokens == 900


def test_a_servers_tool_is_no_iteration_of_the_model() -> None:
    steps = [usage(400) | {"type": "message"}, usage(90) | {"type": "compaction"}]
    (answer,) = read(assistant(counts=usage(900, iterations=steps))).responses

    assert answer.context_tokens == 400


def test_cache_writes_by_lifetime_count_where_the_flat_number_is_zero() -> None:
    nested = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 12}
    old = usage(1000, cache_creation_input_tokens=0, cache_creation=nested)
    both = usage(1000, cache_creation_input_tokens=42, cache_creation=nested)
    answers = read(assistant("m1", counts=old), assistant("m2", counts=both)).responses

    assert [answer.cache_creation_tokens for answer in answers] == [42, 42]


def test_a_made_up_answer_is_no_answer() -> None:
    facts = read(assistant(model="<synthetic>", content=[text("No response requested.")]))

    assert (facts.responses, facts.api_errors) == ((), ())
    assert facts.ignored_types == {"assistant/synthetic": 1}


@pytest.mark.parametrize(
    ("shown", "details", "sizes"),
    [
        ("Prompt is too long", None, (None, None)),
        (
            "Prompt is too long",
            "400 prompt is too long: 210000 tokens > 200000 maximum",
            (210_000, 200_000),
        ),
        ("prompt is too long: 7 tokens > 5 maximum", None, (7, 5)),
        ("prompt is too long: " + "9" * 5000 + " tokens > 5 maximum", None, (None, None)),
    ],
)
def test_a_prompt_that_was_too_long(
    shown: str, details: str | None, sizes: tuple[int | None, int | None]
) -> None:
    fields: dict[str, Any] = {} if details is None else {"errorDetails": details}
    facts = read(refusal(shown, **fields))

    (error,) = facts.api_errors
    assert (error.kind, (error.prompt_tokens, error.limit_tokens)) == ("too_long", sizes)
    assert facts.responses == ()


def test_the_type_of_an_error_says_that_a_prompt_was_too_long() -> None:
    """R002-10: the message need not say it."""
    stated = {"type": "context_length_exceeded", "message": "refused"}

    (error,) = read(refusal("API Error: refused", error=stated)).api_errors

    assert error.kind == "too_long"


def test_another_refusal_keeps_the_apis_words() -> None:
    (error,) = read(refusal("API Error: slow \x1b[31mdown", error="rate_limit")).api_errors

    assert (error.kind, error.detail) == ("rate_limit", "API Error: slow [31mdown")


def test_an_agents_lines_in_a_sessions_file_are_marked() -> None:
    facts = read(user("do it", isSidechain=True), assistant(isSidechain=True))

    assert [answer.sidechain for answer in facts.responses] == [True]
    assert facts.session.first_prompt is None


def test_in_an_agents_own_file_they_are_its_own() -> None:
    facts = read(assistant("m1", isSidechain=True), source=AGENT)

    assert [answer.sidechain for answer in facts.responses] == [False]
    assert [(reply.message_id, reply.text) for reply in facts.replies] == [("m1", "done")]


def test_a_compaction() -> None:
    meta: dict[str, Any] = {
        "postTokens": 4000,
        "cumulativeDroppedTokens": 176_000,
        "durationMs": 900,
        "preservedMessages": {"uuids": ["a", "b"]},
    }
    facts = read(boundary(at=9, uuid="B", **meta), summary("kept\nthis", uuid="S"))

    (found,) = facts.boundaries
    assert (found.uuid, found.trigger, found.at) == ("B", "auto", START_MS + 9000)
    assert (found.pre_tokens, found.post_tokens, found.kept_messages) == (180_000, 4000, 2)
    assert (found.dropped_tokens, found.duration_ms) == (176_000, 900)
    assert not found.is_precomputed
    (ready,) = read(boundary(precomputed=True)).boundaries
    assert ready.is_precomputed
    (kept,) = facts.summaries
    assert (kept.uuid, kept.kind, kept.text, kept.lines) == ("S", "boundary", "kept\nthis", 2)
    assert facts.session.first_prompt is None, "a summary is no prompt"


def test_an_old_boundary_says_little() -> None:
    line = chained("system", subtype="compact_boundary")
    (found,) = read(line).boundaries

    assert (found.trigger, found.pre_tokens, found.kept_messages) == (None, None, None)


@pytest.mark.parametrize("name", ["Agent", "Task"])
def test_a_launch(name: str) -> None:
    call = tool(name, "t1", subagent_type="Explore", description="look\x1b[2J around")
    (found,) = read(assistant(content=[text("I start"), call])).launches

    assert (found.tool_use_id, found.agent_type) == ("t1", "Explore")
    assert found.description == "look[2J around"


def test_an_agent_without_a_type_is_the_general_one() -> None:
    call = tool("Agent", "t1") | {"input": "not an object"}
    (found,) = read(assistant(content=[call])).launches

    assert (found.agent_type, found.description) == ("general-purpose", "")


def test_a_result_in_the_foreground() -> None:
    facts = read(agent_result("t1", "a1", "line one\nline two\n", uuid="R"))

    (back,) = facts.returns
    assert (back.agent_id, back.tool_use_id, back.status) == ("a1", "t1", "completed")
    assert (back.model, back.context_tokens, back.total_tokens) == (MODEL, 2000, 2100)
    (words,) = facts.summaries
    assert (words.agent_id, words.kind, words.lines) == ("a1", "agent", 2)
    assert words.text == "line one\nline two"


def test_a_launch_in_the_background_is_no_result() -> None:
    facts = read(launched("t1", "a1"))

    assert [back.status for back in facts.returns] == ["async_launched"]
    assert facts.summaries == ()


@pytest.mark.parametrize("as_blocks", [True, False])
def test_a_notification(as_blocks: bool) -> None:
    words = notification_text("a1", "the result")
    content: Any = [text(words)] if as_blocks else words
    facts = read(user(content, origin={"kind": "task-notification"}))

    (back,) = facts.returns
    assert (back.agent_id, back.tool_use_id, back.status) == ("a1", "toolu_x", "completed")
    assert (back.total_tokens, back.tool_uses) == (3100, 5)
    assert [found.text for found in facts.summaries] == ["the result"]
    assert facts.session.first_prompt is None


def test_a_result_that_names_the_tags_itself() -> None:
    words = (
        "see </result> and <result>, <usage><subagent_tokens>1</subagent_tokens></usage>,"
        " <status>failed</status>"
    )
    facts = read(notification("a1", words))

    assert [found.text for found in facts.summaries] == [words]
    assert [(back.status, back.total_tokens) for back in facts.returns] == [("completed", 3100)]


def test_a_notification_with_absurd_numbers() -> None:
    words = notification_text("a1", "x").replace("3100", "9" * 5000).replace(">5<", ">²<")
    (back,) = read(user(words)).returns

    assert (back.total_tokens, back.tool_uses) == (None, None)


def test_a_background_shell_command_returns_no_text() -> None:
    facts = read(notification("bash_1", None, tool_use_id="toolu_bash"))

    assert facts.summaries == ()
    assert facts.session.first_prompt is None


def test_a_person_who_quotes_a_notification_is_no_notification() -> None:
    facts = read(user(notification_text("a1", "x"), origin={"kind": "human"}))

    assert facts.returns == ()


@pytest.mark.parametrize("as_blocks", [True, False])
def test_a_notification_in_the_middle_of_a_turn(as_blocks: bool) -> None:
    words = notification_text("a1", "the result")
    prompt: Any = [text(words)] if as_blocks else words
    facts = read(attachment("queued_command", prompt=prompt, commandMode="task-notification"))

    assert [back.agent_id for back in facts.returns] == ["a1"]
    assert [found.text for found in facts.summaries] == ["the result"]


def test_a_prompt_typed_in_the_middle_of_a_turn_returns_nothing() -> None:
    facts = read(attachment("queued_command", prompt="and the tests", commandMode="prompt"))

    assert (facts.returns, facts.unknown_types) == ((), {})


def test_titles_and_the_first_prompt() -> None:
    facts = read(
        user("<command-name>/clear</command-name>"),
        user("Caveat: a machine wrote this", isMeta=True),
        user([{"type": "tool_result", "tool_use_id": "t", "content": "x"}]),
        user("fix\nthe \x1b[1mparser"),
        user("then the tests"),
        {"type": "custom-title", "customTitle": "one"},
        {"type": "custom-title", "customTitle": "two"},
        {"type": "ai-title", "aiTitle": "Fix parser"},
        {"type": "summary", "summary": "Old title"},
        {"type": "last-prompt", "lastPrompt": "then the tests"},
    ).session

    assert facts.first_prompt == "fix the [1mparser"
    assert (facts.custom_title, facts.ai_title) == ("two", "Fix parser")
    assert (facts.summary_title, facts.last_prompt) == ("Old title", "then the tests")
    assert (facts.cwd, facts.client_version) == ("/home/dev/proj", "2.1.329")


def test_the_model_is_known_before_the_first_answer() -> None:
    facts = read(attachment("model", identity={"modelId": "claude-opus-5-5"}))

    assert facts.session.model == "claude-opus-5-5"


def test_times_are_the_earliest_and_the_latest_not_the_first_and_the_last() -> None:
    lines = [user(at=9), user(at=4), user(at=12), user(at=6)]
    lines.append(user() | {"timestamp": "not a time"})
    lines.append(user() | {"timestamp": "2026-11-20T11:00:07+01:00"})
    found = read(*lines).session

    assert (found.started_at, found.last_at) == (START_MS + 4000, START_MS + 12_000)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"tools-used","tools":["Bash"]}',
        b'{"sessionId":"x","type":"mode","mode":"normal"}',
        json.dumps(chained("system", subtype="turn_duration")).encode(),
        json.dumps(attachment("prompt_snapshot", systemPrompt=["x"])).encode(),
        json.dumps(chained("progress", data={"type": "agent_progress"})).encode(),
    ],
)
def test_what_is_known_and_not_needed_is_counted(line: bytes) -> None:
    facts = read(line)

    assert sum(facts.ignored_types.values()) == 1
    assert (facts.unknown_types, facts.bad) == ({}, ())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ({"type": "of-tomorrow", "x": [1]}, "of-tomorrow"),
        ({"x": 1}, "no type"),
        (chained("system", subtype="of_tomorrow"), "system/of_tomorrow"),
        (attachment("of_tomorrow"), "attachment/of_tomorrow"),
        (chained("attachment"), "attachment/without type"),
        (chained("assistant"), "assistant without a message"),
        (chained("user"), "user without a message"),
        ({"type": "\x1b[31mred"}, "[31mred"),
    ],
)
def test_what_is_not_known_is_counted_by_its_name(line: JsonLine, name: str) -> None:
    assert read(line, user()).unknown_types == {name: 1}


@pytest.mark.parametrize(
    "line",
    [
        chained("assistant", message=[]),
        chained("assistant", message="x"),
        chained("user", message=7),
        user() | {"type": 5},
        b"[1, 2]",
        b'"text"',
        b"5",
        b"null",
    ],
)
def test_a_line_of_which_nothing_can_be_used_is_set_aside_never_a_crash(
    line: JsonLine | bytes,
) -> None:
    facts = read(line, user("after"), assistant("good"))

    assert facts.lines == 3
    (bad,) = facts.bad
    assert (bad.offset, bad.length) == (0, len(encode([line])) - 1)
    assert bad.reason.startswith("unexpected shape")
    assert "read without" not in bad.reason
    assert facts.unknown_types == {}
    assert len(facts.responses) == 1
    assert facts.session.first_prompt == "after"


ODD_FIELDS: tuple[tuple[JsonLine, str], ...] = (
    (assistant() | {"timestamp": 1_795_800_000_000}, "timestamp"),
    (assistant() | {"version": 2}, "version"),
    (assistant() | {"uuid": {}}, "uuid"),
    (assistant() | {"isSidechain": "false"}, "isSidechain"),
    (assistant() | {"cwd": ["/x"]}, "cwd"),
    (assistant() | {"sessionId": 7}, "sessionId"),
    (assistant() | {"requestRef": 7}, "requestRef"),
    (assistant() | {"forkedFrom": "x"}, "forkedFrom"),
    (assistant(content=[tool("Agent", "t")]) | {"gitBranch": 5}, "gitBranch"),
    (assistant(content=[{"type": "text", "id": 5}]), "message.content"),
    (assistant(counts=usage() | {"iterations": "x"}), "message.usage.iterations"),
    (assistant(counts=usage() | {"iterations": [{"type": 5}]}), "message.usage.iterations"),
    (assistant(counts=usage() | {"cache_creation": 5}), "message.usage.cache_creation"),
)


@pytest.mark.parametrize(("line", "field"), ODD_FIELDS)
def test_an_answer_with_one_odd_field_keeps_its_usage(line: JsonLine, field: str) -> None:
    facts = read(line)

    (response,) = facts.responses
    assert (response.context_tokens, response.output_tokens) == (1000, 50)
    (bad,) = facts.bad
    assert bad.reason.startswith("unexpected shape: ")
    assert bad.reason.endswith(f"; read without {field}")


@pytest.mark.parametrize(
    "counts",
    [
        "x",
        *({"input_tokens": odd} for odd in ("12", 1.5, -1, True, 1 << 60, 10**30)),
        {"cache_read_input_tokens": "many"},
    ],
)
def test_a_usage_whose_counts_cannot_be_read_is_none_not_the_sum_of_the_others(
    counts: object,
) -> None:
    whole = usage() | counts if isinstance(counts, dict) else counts
    facts = read(assistant(counts=whole, content=[tool("Bash", "toolu_1", command="ls")]))

    assert facts.responses == ()
    assert facts.bad[0].reason.endswith("; read without message.usage")
    assert [each.name for each in facts.open_calls] == ["Bash"]


RESULTS: dict[str, Any] = {
    "a text": "é" * 90,
    "texts and a picture": [text("a" * 41), {"type": "image", "source": {}}, text("b" * 41)],
    "half of a pair": "\ud83d" + "c" * 80,
    "nothing": "",
    "null": None,
    "of another shape": [1, 2],
}


@pytest.mark.parametrize("content", RESULTS.values(), ids=RESULTS)
def test_a_result_counts_as_the_whole_line_says(content: Any) -> None:  # noqa: ANN401 -- any JSON
    line = tool_result("t1", content, {})
    entry = decode_entry(0, encode([line]), {})
    expected = sum(map(client_token_estimate, entry.parts)) if entry else 0
    assert sum(each.tokens for each in read(line).additions) == expected


def test_a_call_counts_once_however_its_id_ends() -> None:
    calls = [tool("Read", "2_toolu"), tool("Read", "toolu"), tool("Read", "toolu")]
    (answer,) = read(assistant(content=calls[:1]), assistant(content=calls[1:])).responses
    assert answer.tools == "2_toolu,toolu,"


def test_a_file_begins_where_it_began_whatever_else_is_odd_in_its_first_line() -> None:
    first = user("x", cwd="/a/b") | {"parentUuid": 5, "uuid": "u1"}
    for parent, began in ((5, "/a/b"), (None, "/a/b"), ("u0", None)):
        facts = read(first | {"parentUuid": parent})
        assert (facts.session.cwd, facts.session.began_in) == ("/a/b", began)


def test_a_line_with_an_odd_field_is_counted_once() -> None:
    """It is tried as it is, and then without the field."""
    odd = user("x" * 400) | {"gitBranch": 5}
    facts = read(assistant(), odd, user("y"))
    plain = read(assistant(), user("x" * 400), user("y"))
    assert [each.tokens for each in facts.additions] == [each.tokens for each in plain.additions]
    assert facts.session.began_in == plain.session.began_in
    first = read(user("first") | {"gitBranch": 5}, assistant())
    assert (first.session.began_in, first.session.first_prompt) == ("/home/dev/proj", "first")


@pytest.mark.parametrize("field", ["isMeta", "origin", "promptSource", "turnOrigin"])
def test_text_whose_author_cannot_be_read_is_not_the_persons(field: str) -> None:
    facts = read(user("Always answer in rhyme.") | {field: [5]}, user("after"))
    assert facts.session.first_prompt == "after"
    assert facts.summaries == ()


@pytest.mark.parametrize("field", ["preTokens", "postTokens", "trigger", "preservedMessages"])
def test_a_compaction_with_one_odd_field_is_a_compaction(field: str) -> None:
    odd: dict[str, Any] = {field: [7]}
    facts = read(boundary(postTokens=15_000), boundary(**odd))
    assert len(facts.boundaries) == 2
    assert facts.bad[0].reason.endswith(f"; read without compactMetadata.{field}")


def test_an_attachment_with_one_odd_field_is_read_without_it() -> None:
    facts = read(attachment("model", identity="x"), attachment("model", identity={"modelId": "m"}))
    assert facts.session.model == "m"
    assert facts.bad[0].reason.endswith("; read without attachment.identity")


@pytest.mark.parametrize(
    "line",
    [
        assistant() | {"error": {"a": [1]}, "toolUseResult": "Error: x"},
        user([{"type": 5}]),
        user([{"type": "text", "text": ["x"]}]),
        user("x") | {"toolUseResult": [1, 2]},
        tool_result("t", "x", {"agentId": 5, "usage": "x"}),
        tool_result("t", "x", {"agentId": "a1", "totalTokens": "many"}),
        refusal("x", errorDetails={"deep": [1]}, error=[1, 2]),
        attachment("queued_command", prompt={"x": 1}),
        attachment("queued_command", prompt=[1, "x", {"text": 5}]),
        chained("user", message={"content": {"type": "text"}}),
        chained("user", message={"content": None}),
        chained("assistant", message={}),
    ],
)
def test_a_part_of_another_kind_is_no_crash(line: JsonLine) -> None:
    facts = read(line, assistant("good"))

    assert all(bad.reason.startswith("unexpected shape") for bad in facts.bad)
    assert facts.responses[-1].message_id == "good"


@pytest.mark.parametrize(
    "text_bytes", [b"half \\ud83d a pair", b"not \xff\xfe UTF-8", b"\xed\xa0\x80 raw surrogate"]
)
def test_text_that_is_not_quite_text_is_a_good_line(text_bytes: bytes) -> None:
    prompt = b'{"type":"user","message":{"content":"' + text_bytes + b'"}}'
    blocks = b'{"type":"user","message":{"content":[{"type":"text","text":"' + text_bytes + b'"}]}}'
    answer = json.dumps(assistant()).encode().replace(b"done", text_bytes)
    for line in (prompt, blocks):
        facts = read(line)
        assert facts.bad == ()
        assert "\ufffd" in (facts.session.first_prompt or "")
    facts = read(answer, source=AGENT)
    assert len(facts.responses) == 1
    assert "\ufffd" in facts.replies[0].text


@pytest.mark.parametrize("deep", [900, 1100, 5000, 200_000])
def test_a_line_nested_without_end_is_no_crash(deep: int) -> None:
    nested = b"[" * deep + b"]" * deep
    for key in (b"x", b"message", b"toolUseResult", b"error"):
        facts = read(b'{"type":"user","' + key + b'":' + nested + b"}", assistant("good"))
        assert len(facts.responses) == 1
        assert len(facts.bad) + sum(facts.unknown_types.values()) <= 1
    lone = b'{"type":"user","y":"\\ud800","x":' + nested + b"}"
    assert read(lone).lines == 1


@pytest.mark.parametrize("line", [b"{}", b"{ }", b"{\t}"])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_object_without_fields_is_a_bad_line_with_or_without_a_line_end(
    line: bytes, end: bytes
) -> None:
    before = encode([user("before")])
    data = before + line + end
    facts = index_block(MAIN, LineBlock(0, data, len(data)))

    assert [(bad.offset, bad.length) for bad in facts.bad] == [(len(before), len(line))]
    assert facts.bad[0].reason == "unexpected shape: an object without fields"
    assert (facts.lines, facts.unknown_types, facts.session.first_prompt) == (2, {}, "before")


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"0.1E+400"])
@pytest.mark.parametrize("field", ["attachment", "rendered"])
def test_an_attachment_with_a_number_that_no_float_holds_is_a_bad_line(
    number: bytes, field: str
) -> None:
    odd = attachment("file", content="@") | {field: {"type": "file", "content": "@"}}
    line = encode([odd]).strip().replace(b'"@"', number)
    facts = read(line, boundary(), assistant("good"))

    assert [(bad.offset, bad.length) for bad in facts.bad] == [(0, len(line))]
    assert "Number out of range" in facts.bad[0].reason
    assert (len(facts.boundaries), len(facts.responses)) == (1, 1)


def test_a_bad_line_is_set_aside_with_its_place() -> None:
    bad = b'{"type":"user","mess'
    good = encode([user()])
    facts = read(good[:-1], bad, b"not json at all", assistant("m1"))

    assert [(line.offset, line.length) for line in facts.bad] == [
        (len(good), len(bad)),
        (len(good) + len(bad) + 1, 15),
    ]
    assert all(line.reason.startswith("not JSON") for line in facts.bad)
    assert len(facts.responses) == 1


def test_a_launch_and_a_reply_belong_to_their_answer() -> None:
    facts = read(launch("t1", "tester", "run them", at=3), source=AGENT)

    assert [(found.tool_use_id, found.at) for found in facts.launches] == [("t1", START_MS + 3000)]
    assert facts.replies == ()


def test_the_builders_time_is_the_stores_time() -> None:
    assert time(0) == "2026-11-20T10:00:00.000Z"
    assert read(user(at=0)).session.started_at == START_MS


def test_what_is_no_text_around_a_line_is_taken_off() -> None:
    lines = [json.dumps(assistant(f"m{number}")).encode() for number in range(3)]
    data = b"\0\0\0" + lines[0] + b"\n" + lines[1] + b"\r\n\n  \n\0\0\n\t" + lines[2] + b" \n"
    facts = index_block(MAIN, block(data))

    assert [answer.message_id for answer in facts.responses] == ["m0", "m1", "m2"]
    assert (facts.lines, facts.bad) == (3, ())


def test_a_boundary_that_a_rewind_wrote_is_no_compaction() -> None:
    """It is its own anchor and took no time; a compaction's anchor is its summary."""
    mark = boundary(trigger="manual", preTokens=0, durationMs=0)
    mark["compactMetadata"]["preservedMessages"] = {"anchorUuid": mark["uuid"], "uuids": ["u1"]}
    real = boundary(durationMs=0)
    real["compactMetadata"]["preservedMessages"] = {"anchorUuid": "summary", "uuids": ["u1"]}
    facts = read(user(), assistant(), mark, assistant("m2", at=5), real)
    assert [each.uuid for each in facts.boundaries] == [real["uuid"]]
    assert facts.unknown_types == {}
    assert why_ignored(next(iter(facts.ignored_types))) is not None
