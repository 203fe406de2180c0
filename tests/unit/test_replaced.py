"""What stood before a summary, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.core.summaries.mentions import split_path
from ctxtop.core.summaries.summary_comparison import (
    MAX_ITEMS_PER_KIND,
    MAX_MESSAGES,
    ItemFate,
    ReplacedItemKind,
    compare_boundary_summary,
    compare_plan_summary,
)
from ctxtop.core.summaries.summary_comparison import compare_agent_result as behind

from tests.entries import answered, asked, attached, called, compacted, summed_up, touched

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import Entry
    from ctxtop.core.summaries.summary_comparison import ReplacedContent


def story() -> list[Entry]:
    return [
        asked("Mend the decoder. Never push to main."),
        attached("environment", "You are powered by a model. Always be brief."),
        *touched("Edit", "/src/decoder.py", "t1"),
        *touched("Read", "/src/table.py", "t2"),
        answered("I decided to keep `DecodeTable` as it is.", context=52_000),
    ]


def where(found: ReplacedContent, sort: ReplacedItemKind) -> dict[str, ItemFate]:
    return {
        (split_path(each.text) or [each.text])[-1]: each.where
        for each in found.things
        if each.sort is sort
    }


def test_a_boundary_names_some_and_leaves_out_the_rest() -> None:
    entries = [*story(), compacted(), summed_up("Mended src/decoder.py. Never push to main.")]
    summary = entries[-1]
    entries.append(answered("Next."))
    found = compare_boundary_summary(
        entries, summary.offset, "Mended src/decoder.py. Never push to main."
    )
    assert found is not None
    assert where(found, ReplacedItemKind.FILE) == {
        "decoder.py": ItemFate.SUMMARY,
        "table.py": ItemFate.LOST,
    }
    assert where(found, ReplacedItemKind.RULE) == {"Never push to main.": ItemFate.SUMMARY}
    assert (
        where(found, ReplacedItemKind.DECISION)["I decided to keep `DecodeTable` as it is."]
        is ItemFate.LOST
    )
    files = next(each for each in found.tallies if each.sort is ReplacedItemKind.FILE)
    assert (files.all, files.summary, files.stays, files.lost) == (2, 1, 0, 1)
    assert (found.tool_uses, found.context_tokens) == (2, 52_000)
    assert found.last_words == "I decided to keep `DecodeTable` as it is."
    first = found.turns[0]
    assert (first.who, first.text) == ("you", "Mend the decoder. Never push to main.")


def test_only_the_turns_before_its_own_boundary_count() -> None:
    entries = [
        *story(),
        compacted(),
        summed_up("nothing of it"),
        asked("Now the encoder."),
        *touched("Write", "/src/encoder.py", "t3"),
        compacted(),
        summed_up("the tests"),
    ]
    one, two = (each for each in entries if each.parts and each.parts[0].kind == "summary")
    first = compare_boundary_summary(entries, one.offset, "nothing of it")
    second = compare_boundary_summary(entries, two.offset, "the tests")
    assert first is not None
    assert second is not None
    assert where(first, ReplacedItemKind.FILE) == {
        "decoder.py": ItemFate.LOST,
        "table.py": ItemFate.LOST,
    }
    assert where(second, ReplacedItemKind.FILE) == {"encoder.py": ItemFate.LOST}
    assert compare_boundary_summary(entries, 0, "anything") is None


def test_what_stays_as_it_is_is_not_left_out() -> None:
    entries = story()
    last = entries[-1]
    found = compare_plan_summary(
        entries, [last.uuid or ""], "The decoder is mended: `src/decoder.py`."
    )
    assert (
        where(found, ReplacedItemKind.DECISION)["I decided to keep `DecodeTable` as it is."]
        is ItemFate.STAYS
    )
    assert [turn.stays for turn in found.turns] == [*[False] * (len(found.turns) - 1), True]


def test_passages_that_are_quoted_are_known() -> None:
    text = "Please look at how the retry of the gateway waits for the lock, and mend it."
    found = compare_plan_summary(
        [asked(text)], [], "- the retry of the gateway waits for the lock (kept)"
    )
    (turn,) = found.turns
    assert [turn.text[a:b] for a, b in turn.quoted] == [
        "the retry of the gateway waits for the lock"
    ]


def test_an_agent_s_result_is_compared_with_what_it_did() -> None:
    result = "Changed src/decoder.py."
    entries = [*story(), answered(result)]
    found = behind(entries, result)
    assert where(found, ReplacedItemKind.FILE) == {
        "decoder.py": ItemFate.SUMMARY,
        "table.py": ItemFate.LOST,
    }
    assert all(turn.text != result for turn in found.turns)


def test_calls_are_told_by_what_they_are_about() -> None:
    found = behind([called("Bash", "t1", command="make test", description="Test it")], "done")
    assert [turn.text for turn in found.turns] == ["Bash make test"]


def test_much_is_bounded_and_counted() -> None:
    entries = [asked(f"Never touch `module_{n}_of_many`.") for n in range(MAX_ITEMS_PER_KIND + 50)]
    entries += [
        each
        for n in range(MAX_MESSAGES)
        for each in (answered(f"Answer {n}."), asked(f"Next {n}."))
    ]
    found = compare_plan_summary(entries, [], "nothing")
    assert (
        len([each for each in found.things if each.sort is ReplacedItemKind.RULE])
        == MAX_ITEMS_PER_KIND
    )
    assert (
        next(each.all for each in found.tallies if each.sort is ReplacedItemKind.RULE)
        == MAX_ITEMS_PER_KIND + 50
    )
    assert len(found.turns) == MAX_MESSAGES
    assert found.messages > MAX_MESSAGES
