"""The size of a context by its text: what the model sees, at each answer and compaction."""

from __future__ import annotations

import pytest
from ctxtop.core.measure.text_context import (
    TextProgress,
    count_later_text,
    count_text,
    count_visible_text,
)
from ctxtop.core.measure.tokens import estimate_tokens
from ctxtop.core.model.conversation import Entry, Microcompaction
from ctxtop.core.model.counting_rule import CountingRule, TextEstimator, make_counting_rule
from msgspec.structs import replace

from ..entries import answered, asked, called, compacted, returned, summed_up

CHARS = make_counting_rule("chars4", (), message_overhead=0)
AROUND = 10


def linked(*entries: Entry) -> list[Entry]:
    """Each line the parent of the next, as the client writes them."""
    parents = (None, *(entry.uuid for entry in entries))
    return [
        entry if entry.parent else replace(entry, parent=parent)
        for entry, parent in zip(entries, parents, strict=False)
    ]


def sizes(entries: list[Entry], counting: CountingRule = CHARS) -> list[int]:
    return [tokens for _, tokens in count_text(entries, counting).sizes]


WORK = linked(
    asked("x" * 40),
    called("Bash", "t1", command="y" * 33),  # Bash command, a line end, and its value
    returned("Bash", "t1", "z" * 400),
    answered("w" * 20),
    asked("v" * 80),
    answered("u" * 4),
)


def test_a_context_is_the_text_up_to_its_answer() -> None:
    call = (len("Bash command\n") + 33 + 3) // 4
    first = 10 + call
    assert sizes(WORK) == [first, first + 100 + 5, first + 100 + 5 + 20 + 1]
    assert sizes(WORK)[-1] == count_visible_text(WORK, CHARS)


def test_each_message_has_something_around_it() -> None:
    with_overhead = make_counting_rule("chars4", (), message_overhead=AROUND)
    plain = sizes(WORK)
    assert sizes(WORK, with_overhead) == [
        each + messages * AROUND for each, messages in zip(plain, (2, 4, 6), strict=True)
    ]
    assert count_visible_text(WORK, with_overhead) == plain[-1] + 6 * AROUND


def test_tokens_of_cl100k_are_counted_where_the_policy_asks_for_them() -> None:
    words = "The parser fails on an empty line, so I skip it."
    counting = make_counting_rule("tiktoken", (), message_overhead=4)
    assert sizes([asked(words), answered(words)], counting) == [2 * (estimate_tokens(words) + 4)]


@pytest.mark.parametrize(
    ("estimator", "tokens"),
    [(TextEstimator.TIKTOKEN, 3), (TextEstimator.CHARS4, 3), (TextEstimator.CHARS_BY_SCRIPT, 6)],
)
def test_korean_text_counts_more_where_the_script_matters(
    estimator: TextEstimator, tokens: int
) -> None:
    """R003-10: 1.5 characters of Korean are a token."""
    counting = make_counting_rule("chars4", (), estimator, 0)
    assert sizes([answered("요약해 주세요 now")], counting) == [tokens]


def test_a_count_is_continued_at_the_last_answer() -> None:
    for cut in range(2, len(WORK) + 1):
        begun = count_text(WORK[:cut], CHARS)
        later = [entry for entry in WORK if entry.offset >= begun.progress.offset]
        counted = count_later_text(later, CHARS, begun.progress)
        assert counted is not None
        before = [each for each in begun.sizes if each[0] < counted.begins_at]
        assert (*before, *counted.sizes) == count_text(WORK, CHARS).sizes


CHANGES = {
    "a compaction": ([compacted(), summed_up("s" * 200), asked("q" * 40)], 50 + 10),
    "a rewind": ([asked("q" * 40, parent=WORK[3].uuid)], sizes(WORK)[1] + 10),
    "a replaced result": (
        [asked("q" * 40, replaced_results=(("t1", "r" * 8),))],
        sizes(WORK)[-1] - 100 + 2 + 10,
    ),
    "a clearing": (
        [
            replace(compacted(), boundary=None, microcompaction=Microcompaction(("t1",), ())),
            asked("q" * 40),
        ],
        # [Old tool result content cleared]
        sizes(WORK)[-1] - 100 + 9 + 10,
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_only_what_the_model_sees_counts(name: str) -> None:
    more, before = CHANGES[name]
    entries = [*WORK, *linked(*more, answered("a" * 4))]
    first = entries[len(WORK)]
    if not (first.parent or first.boundary):
        entries[len(WORK)] = replace(first, parent=WORK[-1].uuid)

    assert sizes(entries)[-1] == before + 1
    assert sizes(entries)[:3] == sizes(WORK), "what was seen earlier stays"
    later = [entry for entry in entries if entry.offset >= WORK[-1].offset]
    progress = count_text(WORK, CHARS).progress
    assert count_later_text(later, CHARS, progress) is None, "the whole file has to be counted"


def test_a_compaction_without_an_answer_is_counted_at_its_boundary() -> None:
    entries = [*WORK, *linked(compacted(), summed_up("s" * 200))]
    counted = count_text(entries, CHARS)
    assert counted.sizes[-1] == (entries[len(WORK)].offset, 50)
    assert counted.progress == TextProgress(WORK[-1].offset, sizes(WORK)[-1] - 1)
