"""A context taken apart: sums to the token, names, and what is measured or estimated."""

from __future__ import annotations

import json

import pytest
from ctxtop.core.measure.composition import (
    CompositionSource,
    ContextCategory,
    ContextContent,
    ContextPart,
    break_down_context,
    category_path,
    context_parts,
    tool_category_path,
)
from ctxtop.core.measure.part_sizes import size_parts
from ctxtop.core.measure.tokens import CachedPartCounter, ThinkingTokens, measure_thinking
from ctxtop.core.model.conversation import (
    Entry,
    MessagePart,
    PartKind,
    PromptSnapshot,
    Role,
    drops_thinking,
    remove_dropped_thinking,
)
from ctxtop.core.transcript.entry_decoder import decode_entry
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ..transcripts import assistant, attachment


class Letters:
    """One token a letter, so that sums are seen at once."""

    def __init__(self) -> None:
        self.asked: list[MessagePart] = []

    def tokens(self, part: MessagePart) -> int:
        self.asked.append(part)
        return len(part.text)


def part(kind: PartKind, size: int, name: str = "", **more: str) -> ContextPart:
    return ContextPart(MessagePart(kind, "x" * size, name, **more), 1)  # type: ignore[arg-type]


PARTS = (
    part(PartKind.PROMPT, 30),
    part(PartKind.TOOL_INPUT, 10, "Read", tool_use_id="t", path="/a"),
    part(PartKind.TOOL_RESULT, 50, "Read", tool_use_id="t", path="/a"),
    part(PartKind.TOOL_RESULT, 10, "Bash"),
)


@given(
    st.lists(st.tuples(st.sampled_from(PartKind), st.integers(0, 300), st.sampled_from("ab"))),
    st.none() | st.integers(0, 5_000),
    st.sampled_from(CompositionSource),
    st.none() | st.integers(0, 400),
)
def test_the_categories_add_up_to_the_total(
    chosen: list[tuple[PartKind, int, str]],
    measured: int | None,
    source: CompositionSource,
    overhead: int | None,
) -> None:
    material = ContextContent(
        parts=tuple(part(kind, size, name) for kind, size, name in chosen),
        prompt=PromptSnapshot(("s" * 20,), (("Read", "{}"), ("mcp__shop__price", "{}"))),
        overhead_tokens=overhead,
        measured_tokens=measured,
        source=source,
    )
    found = break_down_context(material, Letters())
    assert sum(each.tokens for each in found.categories) == found.total_tokens
    assert measured is None or found.total_tokens == measured
    assert found.estimated is (measured is None)
    for each in found.categories:
        assert not each.parts or sum(below.tokens for below in each.parts) == each.tokens
        assert each.tokens >= 0


@pytest.mark.parametrize("source", CompositionSource)
def test_sizes_stay_as_they_are_and_the_rest_is_unexplained(source: CompositionSource) -> None:
    more = break_down_context(
        ContextContent(parts=PARTS, measured_tokens=150, source=source), Letters()
    )
    assert {each.name: each.tokens for each in more.categories} == {
        "tool results": 60,
        "user text": 30,
        "tool inputs": 10,
        "unexplained": 50,
    }
    assert more.unexplained_tokens == 50
    assert more.categories[-1].name == ContextCategory.UNEXPLAINED
    assert more.categories[-1].estimated
    results = more.categories[0]
    assert [(one.name, one.tokens) for one in results.parts] == [("Read", 50), ("Bash", 10)]
    assert [one.name for one in results.parts[0].parts] == ["/a"]
    less = break_down_context(
        ContextContent(parts=PARTS, measured_tokens=50, source=source), Letters()
    )
    assert (less.unexplained_tokens, less.total_tokens) == (0, 50)
    assert less.categories[0].tokens == 30


def test_what_no_line_has_gets_no_more_than_the_others_leave() -> None:
    sized = tuple(replace(each, tokens=len(each.content.text)) for each in PARTS)
    reminder = ContextPart(MessagePart(PartKind.ATTACHMENT, "x" * 40, "reminder"))
    found = break_down_context(
        ContextContent(parts=(*sized, reminder), measured_tokens=125), Letters()
    )
    shares = {each.name: each.tokens for each in found.categories}
    assert shares["attachments"] == 25
    assert shares["tool results"] == 60


def test_without_a_measurement_the_total_is_the_estimate() -> None:
    found = break_down_context(ContextContent(parts=PARTS, overhead_tokens=7), Letters())
    assert (found.total_tokens, found.estimated, found.unexplained_tokens) == (107, True, 0)


def test_what_came_later_is_told_apart_and_is_among_the_largest() -> None:
    later = (part(PartKind.TOOL_RESULT, 500, "Bash"),)
    found = break_down_context(
        ContextContent(parts=PARTS, later=later, measured_tokens=100), Letters()
    )
    assert (found.total_tokens, found.later_tokens) == (100, 500)
    assert found.largest[0].tokens == 500


def test_no_text_is_counted_twice() -> None:
    letters = Letters()
    twice = (*PARTS, *PARTS)
    break_down_context(ContextContent(parts=twice), letters)
    assert len(letters.asked) == len(set(letters.asked))
    once = CachedPartCounter(letters)
    assert once.tokens(PARTS[0].content) == once.tokens(PARTS[0].content) == 30


def test_the_largest_are_named_by_what_was_asked() -> None:
    asked = MessagePart(PartKind.TOOL_INPUT, '{"command":"make\\n test"}', "Bash", "t1")
    answered = MessagePart(PartKind.TOOL_RESULT, "y" * 90, "Bash", "t1")
    memory = MessagePart(PartKind.ATTACHMENT, "m" * 80, "instructions", path="/p/CLAUDE.md")
    notice = "<task-notification><summary>Agent found it</summary></task-notification>"
    parts = [asked, answered, memory, MessagePart(PartKind.AGENT_RETURN, notice)]
    found = break_down_context(
        ContextContent(parts=tuple(ContextPart(each, 4) for each in parts)), Letters()
    )
    assert [(item.kind, item.name) for item in found.largest] == [
        ("tool results", "Bash make test"),
        ("memory files", "/p/CLAUDE.md"),
        ("agent returns", "Agent found it"),
        ("tool inputs", "Bash make test"),
    ]
    assert {item.line for item in found.largest} == {4}


@pytest.mark.parametrize(
    ("piece", "place"),
    [
        (MessagePart(PartKind.PROMPT, "hi"), ("user text",)),
        (MessagePart(PartKind.META, "<command-name>/x"), ("user text", "reported by Claude Code")),
        (MessagePart(PartKind.META, "Stop hook feedback:\nno"), ("hook additions", "feedback")),
        (
            MessagePart(PartKind.META, "Base directory for this skill: /s/polish\n\nRub."),
            ("skills", "polish"),
        ),
        (MessagePart(PartKind.ATTACHMENT, "x", "skill_listing"), ("skills", "listing")),
        (MessagePart(PartKind.ATTACHMENT, "x", "agent_listing_delta"), ("agent listings",)),
        (MessagePart(PartKind.ATTACHMENT, "x", "mcp_instructions_delta"), ("MCP instructions",)),
        (MessagePart(PartKind.ATTACHMENT, "x", "nested_memory", path="/m"), ("memory files", "/m")),
        (
            MessagePart(PartKind.ATTACHMENT, "x", "hook_additional_context"),
            ("hook additions", "hook_additional_context"),
        ),
        (MessagePart(PartKind.ATTACHMENT, "x", "file", path="/f"), ("attachments", "file", "/f")),
        (MessagePart(PartKind.ATTACHMENT, "x"), ("attachments", "reminder")),
        (MessagePart(PartKind.SUMMARY, "x"), ("summaries",)),
    ],
)
def test_each_piece_has_its_category(piece: MessagePart, place: tuple[str, ...]) -> None:
    assert category_path(piece) == place


def test_tools_of_a_server_stand_below_it() -> None:
    assert tool_category_path("Read") == ("system tools", "Read")
    assert tool_category_path("mcp__shop__price") == ("MCP tools", "shop", "price")
    assert tool_category_path("mcp__shop") == ("MCP tools", "shop", "shop")


def answer(thinking: str = "", told: int | None = None) -> Entry:
    pieces = (MessagePart(PartKind.THINKING, thinking), MessagePart(PartKind.TEXT, "x" * 30))
    return Entry(
        offset=0,
        length=1,
        line=1,
        type="assistant",
        role=Role.ASSISTANT,
        message_id="m",
        parts=pieces,
        output_tokens=100,
        thinking_tokens=told,
    )


@pytest.mark.parametrize(
    ("model", "tokens"), [("claude-opus-4-6", 1_000), ("claude-sonnet-4-6", 1_000), (None, 1_306)]
)
def test_where_the_output_is_a_placeholder_the_signature_tells_how_long_it_thought(
    model: str | None, tokens: int
) -> None:
    """Clients up to 2.1.5x wrote a summary of the thinking, and hardly any output."""
    signed = replace(answer("x" * 300), signature_chars=330 + 4_700, model=model, output_tokens=8)
    assert measure_thinking([signed], Letters()) == {"m": ThinkingTokens(tokens, measured=False)}
    hidden = replace(signed, parts=answer().parts)
    assert measure_thinking([hidden], Letters()) == {"m": ThinkingTokens(tokens, measured=False)}
    # What the API counted, and an output that is none, are believed.
    counted = replace(signed, thinking_tokens=55)
    assert measure_thinking([counted], Letters()) == {"m": ThinkingTokens(55, measured=True)}
    written = replace(signed, output_tokens=930)
    assert measure_thinking([written], Letters()) == {"m": ThinkingTokens(900, measured=False)}
    # A short one signs no more than its text, which is all of it.
    assert measure_thinking([replace(signed, signature_chars=340)], Letters()) == {}


def test_a_reminder_lists_the_tasks_as_the_client_sends_them() -> None:
    """Clients up to 2.1.2xx recorded the tasks, not the text."""
    tasks = [
        {"id": "1", "subject": "Read the issue", "description": "All of it", "status": "completed"},
        {"id": "2", "subject": "Mend it", "status": "in_progress"},
    ]
    todos = [{"content": "Read it", "status": "pending", "activeForm": "Reading it"}]
    for kind, items, text in (
        ("task_reminder", tasks, "#1. [completed] Read the issue\n#2. [in_progress] Mend it"),
        ("todo_reminder", todos, "1. [pending] Read it"),
        ("task_reminder", [], ""),
    ):
        line = attachment(kind, content=items, itemCount=len(items))
        entry = decode_entry(0, json.dumps(line).encode(), {})
        assert entry is not None
        assert [part.text.rstrip(" ") for part in entry.parts] == [text]


def test_a_signature_counts_without_its_quotes() -> None:
    block = {"type": "thinking", "thinking": "", "signature": "c2ln" * 100}
    line = assistant("m", content=[block, {"type": "text", "text": "Done.", "signature": "x"}])
    entry = decode_entry(0, json.dumps(line).encode(), {})
    assert entry is not None
    assert entry.signature_chars == 400


def test_thinking_is_what_the_api_told_or_what_is_left_of_the_output() -> None:
    assert measure_thinking([answer()], Letters()) == {"m": ThinkingTokens(70, measured=False)}
    assert measure_thinking([answer(told=55)], Letters()) == {
        "m": ThinkingTokens(55, measured=True)
    }
    # A summary of it is no measure; where the output is a placeholder, its text is.
    short, long = answer("thought aloud"), answer("x" * 71)
    assert measure_thinking([short], Letters()) == {"m": ThinkingTokens(70, measured=False)}
    assert measure_thinking([long], Letters()) == {}
    entries = [answer(told=55)]
    told = context_parts(entries, size_parts(entries, entries, 0, Letters()))
    found = break_down_context(ContextContent(parts=tuple(told)), Letters())
    assert {each.name: each.estimated for each in found.categories} == {
        "thinking": False,
        "assistant text": True,
    }


@pytest.mark.parametrize(
    ("model", "drops"),
    [
        ("claude-opus-4-1-20250805", True),
        ("claude-sonnet-4-20250514", True),
        ("claude-sonnet-4-5", True),
        ("claude-haiku-4-5-20251001", True),
        ("claude-3-7-sonnet-20250219", True),
        ("claude-opus-4-5", False),
        ("claude-sonnet-4-6", False),
        ("claude-opus-5-5", False),
        ("claude-haiku-5-5", False),
        (None, False),
    ],
)
def test_models_that_drop_earlier_thoughts(model: str | None, drops: bool) -> None:
    assert drops_thinking(model) is drops


def test_thoughts_of_the_turn_at_hand_stay() -> None:
    prompt = Entry(
        offset=0,
        length=1,
        line=1,
        type="user",
        role=Role.USER,
        parts=(MessagePart(PartKind.PROMPT, "next"),),
    )
    kept = remove_dropped_thinking([answer(), prompt, answer()], "claude-haiku-4-5")
    kinds = [[piece.kind for piece in each.parts] for each in kept]
    assert kinds[0] == [PartKind.TEXT]
    assert kinds[2] == [PartKind.THINKING, PartKind.TEXT]


def test_a_model_is_not_sent_what_another_thought() -> None:
    own, other = replace(answer(), model="claude-opus-5-5"), replace(answer(), model="claude-x-6")
    kept = remove_dropped_thinking([own, other, own], "claude-opus-5-5")
    assert [len(each.parts) for each in kept] == [2, 1, 2]
