"""One size for each part: the API's growth between two answers, whatever is measured later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from ctxtop.core.measure.part_sizes import (
    MAX_GROWTH_FACTOR,
    NO_SNAPSHOT,
    RECORDED_GROWTH_FACTOR,
    PartSizes,
    growth_limit,
    lines_to_first_answer,
    measure_overhead,
    scale_to_total,
    size_parts,
    update_snapshot,
)
from ctxtop.core.model.conversation import (
    Entry,
    MessagePart,
    Microcompaction,
    PartKind,
    PromptSnapshot,
)
from ctxtop.core.transcript.visible_messages import visible_entries
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ..entries import answered, asked, called, returned

if TYPE_CHECKING:
    from collections.abc import Sequence

OVERHEAD: Final = 1_000


class Letters:
    """One token a letter."""

    def tokens(self, part: MessagePart) -> int:
        return len(part.text)


def linked(*entries: Entry) -> list[Entry]:
    """Hang each entry on the one before it, as `visible_entries` needs it."""
    before = None
    chain = []
    for each in entries:
        chain.append(replace(each, parent=before))
        before = each.uuid
    return chain


def sized(*entries: Entry, overhead: int = OVERHEAD) -> tuple[PartSizes, list[Entry]]:
    chain = linked(*entries)
    return size_parts(chain, visible_entries(chain), overhead, Letters()), chain


def tokens(sizes: PartSizes, entries: Sequence[Entry]) -> list[int | None]:
    return [sizes.of(entry, part) for entry in entries for part in entry.parts]


def with_id(entry: Entry, message_id: str, model: str = "claude-opus-4-6") -> Entry:
    return replace(entry, message_id=message_id, model=model)


def story(*contexts: int) -> list[Entry]:
    """A prompt of 100 letters, then for each size an answer with as many in its result."""
    entries = [asked("p" * 100)]
    for number, context in enumerate(contexts):
        call = with_id(called("Read", f"t{number}", context), f"m{number}")
        call = replace(call, parts=tuple(replace(each, text="c" * 50) for each in call.parts))
        entries += [call, returned("Read", f"t{number}", "r" * 950)]
    return entries


def test_estimates_that_fit_are_the_sizes() -> None:
    sizes, entries = sized(*story(1_100, 2_100, 3_100))
    assert tokens(sizes, entries) == [100, 50, 950, 50, 950, 50, 950]
    assert (sizes.overhead, sizes.unexplained, sizes.factor) == (1_000, 0, 1.0)


def test_what_came_in_takes_what_the_request_grew_by() -> None:
    sizes, entries = sized(*story(1_100, 1_800, 2_850))
    # The first step grew by 700 for 1,000 letters, the second by 1,050; the last is not measured.
    assert tokens(sizes, entries)[:5] == [100, 35, 665, 53, 997]
    assert sizes.factor == pytest.approx(1_850 / 2_100)
    assert tokens(sizes, entries)[5:] == [44, 837]
    assert sizes.factor_of(entries[2]) == pytest.approx(0.7)
    assert sizes.unexplained == 0


def test_more_than_the_estimates_is_unexplained_until_it_leaves() -> None:
    grown = 1_100 + round(1_000 * MAX_GROWTH_FACTOR) + 400
    sizes, entries = sized(*story(1_100, grown))
    assert tokens(sizes, entries)[:3] == [100, 50, 950]
    assert sizes.unexplained == grown - 2_100
    # The next request holds less of it: what came in keeps its estimate.
    sizes, entries = sized(*story(1_100, grown, 3_100))
    assert tokens(sizes, entries)[:5] == [100, 50, 950, 50, 950]
    assert sizes.unexplained == 0


def test_a_client_that_records_all_leaves_nothing_but_the_texts_to_explain_it() -> None:
    grown = 1_100 + round(1_000 * RECORDED_GROWTH_FACTOR)
    for version, sizes in (("2.1.205", [75, 1_425]), ("2.1.204", [50, 950]), (None, [50, 950])):
        lines = [replace(each, version=version) for each in story(1_100, grown)]
        found, entries = sized(*lines)
        assert tokens(found, entries)[1:3] == sizes
        assert found.unexplained == grown - 1_100 - sum(sizes)
    more = [replace(each, version="2.1.332") for each in story(1_100, grown + 10)]
    assert sized(*more)[0].unexplained == 510


def test_a_result_that_loaded_tools_holds_their_schemas() -> None:
    lines = story(1_100, 4_600)
    for names in ("", "\n"):
        loaded = returned("ToolSearch", "t0", names)
        found, entries = sized(*lines[:2], loaded, *lines[3:])
        assert tokens(found, entries)[1:3] == [50, 3_450]
        assert found.unexplained == 0
    # Words of a result are no references: what they do not explain is unexplained.
    told = returned("ToolSearch", "t0", "No tools match.")
    assert sized(*lines[:2], told, *lines[3:])[0].unexplained > 3_000


def test_a_usage_far_below_the_texts_measured_none_of_them() -> None:
    """Some gateways invent it: a plan by it would find nothing to free."""
    sizes, entries = sized(*story(1_100, 20, 3_100))
    assert tokens(sizes, entries) == [100, 50, 950, 50, 950, 50, 950]
    sizes, entries = sized(*story(1_100, 20))
    assert tokens(sizes, entries) == [100, 50, 950, 50, 950]


def test_what_did_not_change_has_the_same_size_after_every_answer() -> None:
    contexts = [1_100, 2_060, 3_190, 4_000, 5_150, 6_900]
    whole, entries = sized(*story(*contexts))
    for end in range(2, len(contexts)):
        chain = linked(*entries[: 2 * end])
        part = size_parts(chain, visible_entries(chain), OVERHEAD, Letters())
        measured = chain[: 2 * end - 1]
        assert tokens(part, measured) == tokens(whole, measured)


@given(st.lists(st.integers(2_500, 9_000), min_size=1, max_size=8))
def test_with_what_is_unexplained_all_adds_up_to_what_was_measured(contexts: list[int]) -> None:
    entries = story(*contexts)
    sizes, chain = sized(*entries)
    newest = contexts[-1]
    before = chain[: 2 * len(contexts) - 1]
    held = [each or 0 for each in tokens(sizes, before)]
    assert sizes.overhead + sizes.unexplained + sum(held) == newest
    assert min(held, default=0) >= 0
    assert sizes.unexplained >= 0


def test_what_left_the_context_unnamed_makes_all_smaller() -> None:
    sizes, entries = sized(*story(1_100, 2_100, 1_550))
    # 1,000 came in and 550 went: 3,100 became 1,550.
    assert tokens(sizes, entries)[:5] == [50, 25, 475, 25, 475]
    assert sizes.overhead == 500
    assert sizes.factor_of(entries[2]) == pytest.approx(0.5)


def test_cleared_results_are_in_no_later_request() -> None:
    first = story(1_100)
    clearing = replace(answered(), type="system", role=None, parts=(), context_tokens=None)
    clearing = replace(clearing, message_id=None, microcompaction=Microcompaction(("t0",), ()))
    entries = linked(*first, clearing, with_id(answered("ok", 1_200), "last"))
    sizes = size_parts(entries, visible_entries(entries), OVERHEAD, Letters())
    # 1,100 and 50 of the call, without the result: 50 are unexplained.
    assert sizes.of(entries[2], entries[2].parts[0]) == 950
    assert sizes.overhead + sizes.unexplained + 100 + 50 == 1_200


def test_another_models_answers_measure_nothing() -> None:
    prompt, *rest = story(1_100, 1_700, 3_100)
    older = [replace(each, model=each.model and "claude-opus-4-5") for each in rest[:4]]
    sizes, entries = sized(prompt, *older, *rest[4:])
    assert tokens(sizes, entries)[:5] == [100, 50, 950, 50, 950]


def test_thinking_is_as_large_as_the_api_said() -> None:
    prompt, call, result = story(1_100)
    thought = MessagePart(PartKind.THINKING)
    call = replace(call, parts=(thought, *call.parts), thinking_tokens=300, output_tokens=350)
    sizes, entries = sized(prompt, call, result, with_id(answered("ok", 2_300), "last"))
    assert tokens(sizes, entries)[:4] == [100, 300, 45, 855]
    assert sizes.is_measured(entries[1], thought)
    assert sizes.unexplained == 0


def test_the_system_prompt_is_what_the_first_request_had_beyond_its_messages() -> None:
    talk = linked(asked("x" * 300), answered("ok", 20_000), asked("On."), answered("y", 90_000))
    first = lines_to_first_answer(talk)
    assert [each.line for each in first] == [each.line for each in talk[:2]]
    assert measure_overhead(first, NO_SNAPSHOT, Letters()) == 19_700
    assert lines_to_first_answer(talk[:1]) == []
    assert measure_overhead([], NO_SNAPSHOT, Letters()) == 0


def test_a_recorded_prompt_is_on_the_scale_of_the_first_request() -> None:
    recorded = replace(asked(""), snapshot=PromptSnapshot(("s" * 1_000,), ()))
    tools = replace(asked(""), snapshot=PromptSnapshot((), (("Read", "t" * 2_500),)))
    prompt = update_snapshot(update_snapshot(NO_SNAPSHOT, recorded), tools)
    first = linked(asked("x" * 1_000), answered("ok", 4_000))
    # 1,000 and 2,500 and 500 around the tools, with the prompt's 1,000 in 4,000.
    assert measure_overhead(first, prompt, Letters()) == 3_200
    assert measure_overhead([], prompt, Letters()) == 4_000
    # A request that is recorded whole tells how far the estimate is off, also by more than a tenth.
    large = linked(asked("x" * 1_000), answered("ok", 6_250))
    assert measure_overhead(large, prompt, Letters()) == 5_000
    assert growth_limit(large, prompt, Letters()) == pytest.approx(1.25 * MAX_GROWTH_FACTOR)
    assert growth_limit(large, NO_SNAPSHOT, Letters()) == MAX_GROWTH_FACTOR
    sizes = size_parts(large, visible_entries(large), 5_000, Letters(), 1.25 * MAX_GROWTH_FACTOR)
    assert (sizes.of(large[0], large[0].parts[0]), sizes.unexplained) == (1_250, 0)


def test_agents_files_have_sidechains_alone() -> None:
    talk = [replace(each, sidechain=True) for each in linked(asked("Hi."), answered("ok", 500))]
    assert len(lines_to_first_answer(talk)) == 2


@given(st.lists(st.integers(0, 10**6), min_size=1), st.integers(0, 10**7))
def test_scaled_counts_add_up_to_the_total(counts: list[int], total: int) -> None:
    scaled = scale_to_total(counts, total)
    assert sum(scaled) == (total if any(counts) else 0)
    assert all(each >= 0 for each in scaled)
    whole = sum(counts) or 1
    assert all(
        abs(each - count * total / whole) < 1 for each, count in zip(scaled, counts, strict=True)
    )
