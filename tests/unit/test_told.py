"""A conversation cut at its compactions, and what is told of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.core.model.conversation import CLEARED_RESULT_TEXT, split_segments
from ctxtop.core.summaries.compaction_report import (
    ClearedMessage,
    CompactionReport,
    decode_report,
    encode_report,
    find_retained_and_lost,
    report_compactions,
)

from ..entries import answered, asked, compacted, entry, returned, summed_up, touched

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import Entry


def told(*entries: Entry, shown: tuple[ClearedMessage, ...] = ()) -> list[CompactionReport]:
    return [each for _, each in report_compactions(entries, shown)]


def test_each_boundary_has_what_stands_before_it_and_the_summary_after() -> None:
    first, second = compacted(), compacted()
    words = [asked("a"), answered("b"), asked("c"), answered("d"), asked("e")]
    one, two = summed_up("one"), summed_up("two")
    cut = list(split_segments([*words[:2], first, one, *words[2:4], second, two, words[4]]))

    assert [each.entries for each in cut] == [tuple(words[:2]), (one, *words[2:4])]
    assert [each.summary for each in cut] == ["one", "two"]


def test_a_summary_that_comes_after_an_answer_is_not_this_boundarys() -> None:
    (cut,) = split_segments([compacted(), answered("went on"), summed_up("late")])

    assert cut.summary == ""


def test_history_that_is_appended_again_invents_and_loses_nothing() -> None:
    history = [asked("Never push."), *touched("Read", "/p/a.py", "t1"), answered("ok")]
    first = [compacted(), summed_up("kept one")]
    work = [*touched("Edit", "/p/b.py", "t2")]
    second = [compacted(), summed_up("kept two")]
    end = [answered("end")]
    plain = list(report_compactions([*history, *first, *work, *second, *end]))
    again = list(
        report_compactions(
            [*history, *first, *work, *history, *first, *second, *end, *history, *second]
        )
    )

    assert again == plain
    assert [[use.path for use in each.forgotten.files] for _, each in plain] == [
        ["/p/a.py"],
        ["/p/b.py"],
    ]


def test_kept_messages_are_listed_or_named_by_their_ends() -> None:
    words = [asked("a"), answered("b"), asked("c"), answered("d")]
    uuids = tuple(str(each.uuid) for each in words)
    for boundary, kept in (
        (compacted(kept_uuids=(*uuids[2:], "not on disk")), words[2:]),
        (compacted(kept_range=(uuids[1], uuids[2])), words[1:3]),
        (compacted(kept_range=(uuids[1], "not on disk")), []),
        (compacted(), []),
    ):
        (cut,) = split_segments([*words, boundary])
        assert cut.kept == tuple(kept)


def test_what_one_compaction_kept_the_next_can_forget() -> None:
    found = told(
        asked("Never touch the billing module."),
        *touched("Edit", "/p/a.py", "t1"),
        *touched("Edit", "/p/b.py", "t2"),
        compacted(),
        summed_up("Never touch the billing module. We changed a.py."),
        answered("on it"),
        compacted(),
        summed_up("Something was done."),
    )

    lost = [[use.path for use in each.forgotten.files] for each in found]
    assert lost == [["/p/b.py"], ["/p/a.py"]]
    assert [len(each.forgotten.constraints) for each in found] == [0, 1]


def test_all_but_the_first_say_how_soon_they_came() -> None:
    first, second = told(compacted(), summed_up("x"), answered("ok"), compacted())

    assert first.refill is None
    assert second.refill is not None
    assert second.refill.turns_since_last == 1


def test_cleared_results_count_once_where_they_show_first() -> None:
    replaced = entry(
        type="system",
        role=None,
        replaced_results=(("t1", CLEARED_RESULT_TEXT), ("t2", CLEARED_RESULT_TEXT)),
    )
    in_place = returned("Bash", "t3", CLEARED_RESULT_TEXT)
    end = compacted()
    later = returned("Bash", "t4", CLEARED_RESULT_TEXT)
    shown = (
        ClearedMessage(in_place.offset, ("t3", "t5")),
        ClearedMessage(later.offset, ("t5", "t6")),
        ClearedMessage(10**9, ("t7",)),
    )
    run = (replaced, in_place, end, summed_up("x"), later, compacted())

    assert [each.cleared_results for each in told(*run)] == [3, 1]
    assert [each.cleared_results for each in told(*run, shown=shown)] == [4, 2]


def test_what_is_told_is_kept_and_read_again() -> None:
    (found,) = told(asked("Never push."), *touched("Read", "/p/a.py", "t"), compacted())

    assert decode_report(encode_report(found)) == found
    assert decode_report(None) is None
    assert decode_report("{") is None
    assert decode_report('{"forgotten": 3}') is None


def test_a_file_that_begins_at_its_compaction_does_not_say_what_was_forgotten() -> None:
    cut = [compacted(), summed_up("one")]

    assert [each.is_known for each in told(*cut)] == [False]
    assert [each.is_known for each in told(asked("a"), *cut, answered("b"), compacted())] == [
        True,
        True,
    ]
    assert [each.is_known for each in told(*cut, compacted())] == [False, True]
    halves = find_retained_and_lost(cut, cut[0].uuid or "")
    assert halves is not None
    assert not halves.is_known
