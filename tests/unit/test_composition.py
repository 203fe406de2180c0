"""A context taken apart: sums to the token, names, and what is measured or estimated."""

from __future__ import annotations

import pytest
from ctxtop.core.composition import SCALE_LIMIT, compose, scale
from ctxtop.core.composition_kinds import Category, place_of, tool_place
from ctxtop.core.conversation import Entry, Piece, PieceKind, Role
from ctxtop.core.material import (
    CountedOnce,
    Material,
    Part,
    Source,
    Thought,
    parts_of,
    read_thoughts,
)
from ctxtop.core.thinking import drops_thinking, without_dropped
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace


class Letters:
    """One token a letter, so that sums are seen at once."""

    def __init__(self) -> None:
        self.asked: list[Piece] = []

    def tokens(self, part: Piece) -> int:
        self.asked.append(part)
        return len(part.text)


def part(kind: PieceKind, size: int, name: str = "", **more: str) -> Part:
    return Part(Piece(kind, "x" * size, name, **more), 1)  # type: ignore[arg-type]


PARTS = (
    part(PieceKind.PROMPT, 30),
    part(PieceKind.TOOL_INPUT, 10, "Read", tool_use_id="t", path="/a"),
    part(PieceKind.TOOL_RESULT, 50, "Read", tool_use_id="t", path="/a"),
    part(PieceKind.TOOL_RESULT, 10, "Bash"),
)


@given(st.lists(st.integers(0, 10**6), min_size=1), st.integers(0, 10**7))
def test_scaled_counts_add_up_to_the_total(counts: list[int], total: int) -> None:
    scaled = scale(counts, total)
    assert sum(scaled) == (total if any(counts) else 0)
    assert all(each >= 0 for each in scaled)
    whole = sum(counts) or 1
    assert all(
        abs(each - count * total / whole) < 1 for each, count in zip(scaled, counts, strict=True)
    )


@given(
    st.lists(st.tuples(st.sampled_from(PieceKind), st.integers(0, 300), st.sampled_from("ab"))),
    st.none() | st.integers(0, 5_000),
    st.sampled_from(Source),
    st.none() | st.integers(0, 400),
)
def test_the_categories_add_up_to_the_total(
    chosen: list[tuple[PieceKind, int, str]],
    measured: int | None,
    source: Source,
    overhead: int | None,
) -> None:
    material = Material(
        parts=tuple(part(kind, size, name) for kind, size, name in chosen),
        system=("s" * 20,),
        tools=(("Read", "{}"), ("mcp__shop__price", "{}")),
        overhead_tokens=overhead,
        measured_tokens=measured,
        source=source,
    )
    found = compose(material, Letters())
    assert sum(each.tokens for each in found.categories) == found.total_tokens
    assert measured is None or found.total_tokens == measured
    assert found.estimated is (measured is None)
    for each in found.categories:
        assert not each.parts or sum(below.tokens for below in each.parts) == each.tokens
        assert each.tokens >= 0


def test_what_was_sent_is_scaled_to_what_was_measured() -> None:
    found = compose(Material(parts=PARTS, measured_tokens=150, source=Source.REQUESTS), Letters())
    assert {each.name: each.tokens for each in found.categories} == {
        "tool results": 90,
        "user text": 45,
        "tool inputs": 15,
    }
    assert found.unexplained_tokens == 0
    results = found.categories[0]
    assert [(one.name, one.tokens) for one in results.parts] == [("Read", 75), ("Bash", 15)]
    assert [one.name for one in results.parts[0].parts] == ["/a"]


def test_what_no_tokenizer_explains_is_unexplained() -> None:
    material = Material(parts=PARTS, measured_tokens=1_000, source=Source.REQUESTS)
    found = compose(material, Letters())
    assert found.unexplained_tokens == 1_000 - 100 * SCALE_LIMIT
    assert found.categories[-1].name == Category.UNEXPLAINED
    assert found.categories[-1].estimated


def test_a_projection_is_never_scaled_up() -> None:
    more = compose(Material(parts=PARTS, measured_tokens=120), Letters())
    assert (more.unexplained_tokens, more.total_tokens) == (20, 120)
    less = compose(Material(parts=PARTS, measured_tokens=50), Letters())
    assert (less.unexplained_tokens, less.total_tokens) == (0, 50)
    assert less.categories[0].tokens == 30


def test_without_a_measurement_the_total_is_the_estimate() -> None:
    found = compose(Material(parts=PARTS, overhead_tokens=7), Letters())
    assert (found.total_tokens, found.estimated, found.unexplained_tokens) == (107, True, 0)


def test_what_came_later_is_told_apart_and_is_among_the_largest() -> None:
    later = (part(PieceKind.TOOL_RESULT, 500, "Bash"),)
    found = compose(Material(parts=PARTS, later=later, measured_tokens=100), Letters())
    assert (found.total_tokens, found.later_tokens) == (100, 500)
    assert found.largest[0].tokens == 500


def test_no_text_is_counted_twice() -> None:
    letters = Letters()
    twice = (*PARTS, *PARTS)
    compose(Material(parts=twice), letters)
    assert len(letters.asked) == len(set(letters.asked))
    once = CountedOnce(letters)
    assert once.tokens(PARTS[0].content) == once.tokens(PARTS[0].content) == 30


def test_the_largest_are_named_by_what_was_asked() -> None:
    asked = Piece(PieceKind.TOOL_INPUT, '{"command":"make\\n test"}', "Bash", "t1")
    answered = Piece(PieceKind.TOOL_RESULT, "y" * 90, "Bash", "t1")
    memory = Piece(PieceKind.ATTACHMENT, "m" * 80, "instructions", path="/p/CLAUDE.md")
    notice = "<task-notification><summary>Agent found it</summary></task-notification>"
    parts = [asked, answered, memory, Piece(PieceKind.AGENT_RETURN, notice)]
    found = compose(Material(parts=tuple(Part(each, 4) for each in parts)), Letters())
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
        (Piece(PieceKind.PROMPT, "hi"), ("user text",)),
        (Piece(PieceKind.META, "<command-name>/x"), ("user text", "said by the client")),
        (Piece(PieceKind.META, "Stop hook feedback:\nno"), ("hook additions", "feedback")),
        (
            Piece(PieceKind.META, "Base directory for this skill: /s/polish\n\nRub."),
            ("skills", "polish"),
        ),
        (Piece(PieceKind.ATTACHMENT, "x", "skill_listing"), ("skills", "listing")),
        (Piece(PieceKind.ATTACHMENT, "x", "agent_listing_delta"), ("agent listings",)),
        (Piece(PieceKind.ATTACHMENT, "x", "mcp_instructions_delta"), ("MCP instructions",)),
        (Piece(PieceKind.ATTACHMENT, "x", "nested_memory", path="/m"), ("memory files", "/m")),
        (
            Piece(PieceKind.ATTACHMENT, "x", "hook_additional_context"),
            ("hook additions", "hook_additional_context"),
        ),
        (Piece(PieceKind.ATTACHMENT, "x", "file", path="/f"), ("attachments", "file", "/f")),
        (Piece(PieceKind.ATTACHMENT, "x"), ("attachments", "reminder")),
        (Piece(PieceKind.SUMMARY, "x"), ("summaries",)),
    ],
)
def test_each_piece_has_its_category(piece: Piece, place: tuple[str, ...]) -> None:
    assert place_of(piece) == place


def test_tools_of_a_server_stand_below_it() -> None:
    assert tool_place("Read") == ("system tools", "Read")
    assert tool_place("mcp__shop__price") == ("MCP tools", "shop", "price")
    assert tool_place("mcp__shop") == ("MCP tools", "shop", "shop")


def answer(thinking: str = "", told: int | None = None) -> Entry:
    pieces = (Piece(PieceKind.THINKING, thinking), Piece(PieceKind.TEXT, "x" * 30))
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


def test_thinking_is_what_the_api_told_or_what_is_left_of_the_output() -> None:
    assert read_thoughts([answer()], Letters()) == {"m": Thought(70, measured=False)}
    assert read_thoughts([answer(told=55)], Letters()) == {"m": Thought(55, measured=True)}
    assert read_thoughts([answer("thought aloud")], Letters()) == {}
    told = parts_of([answer(told=55)], read_thoughts([answer(told=55)], Letters()))
    found = compose(Material(parts=tuple(told)), Letters())
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
        parts=(Piece(PieceKind.PROMPT, "next"),),
    )
    kept = without_dropped([answer(), prompt, answer()], "claude-haiku-4-5")
    kinds = [[piece.kind for piece in each.parts] for each in kept]
    assert kinds[0] == [PieceKind.TEXT]
    assert kinds[2] == [PieceKind.THINKING, PieceKind.TEXT]


def test_a_model_is_not_sent_what_another_thought() -> None:
    own, other = replace(answer(), model="claude-opus-5-5"), replace(answer(), model="claude-x-6")
    kept = without_dropped([own, other, own], "claude-opus-5-5")
    assert [len(each.parts) for each in kept] == [2, 1, 2]
