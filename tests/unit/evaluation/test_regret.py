"""Q5 and Q6: what the next requests would have missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ctxtop.core.transcript.conversation import MessagePart, PartKind

from ...bench.evaluation.regret import Regret, next_requests, refetched, regret
from ...bench.evaluation.replay import moments_of
from ...entries import answered, asked, called, entry, returned

if TYPE_CHECKING:
    from ctxtop.core.transcript.conversation import Entry

A_FILE: Final = "/home/dev/proj/a.py"


def read(call: str, words: str, path: str = A_FILE) -> list[Entry]:
    return [called("Read", call, file_path=path), returned("Read", call, words, path)]


def test_a_reference_to_what_was_removed_is_regretted() -> None:
    original = read("1", "OLD_NAME and KEPT_NAME")
    compacted = [original[0], returned("Read", "1", "[cleared: KEPT_NAME]", A_FILE)]
    after = [answered("use OLD_NAME, KEPT_NAME and NEW_NAME")]

    assert regret(original, compacted, after) == Regret(("OLD_NAME",), 2)
    assert regret(original, original, after) == Regret((), 2)


def test_what_came_in_between_explains_a_reference() -> None:
    original = read("1", "OLD_NAME")
    after = [*read("2", "OLD_NAME again"), answered("use OLD_NAME")]

    assert regret(original, [], after) == Regret((A_FILE,), 2)


def test_what_is_lost_is_lost_once() -> None:
    after = [answered("OLD_NAME"), answered("OLD_NAME again")]

    assert regret(read("1", "OLD_NAME"), [], after) == Regret(("OLD_NAME",), 2)


def test_only_the_model_refers() -> None:
    assert regret(read("1", "OLD_NAME"), [], [asked("OLD_NAME")]) == Regret((), 0)


def test_a_result_that_is_asked_for_again_is_fetched_again() -> None:
    original = [*read("1", "aaaa"), *read("2", "bb", "/p/b.py")]
    compacted = [original[0], returned("Read", "1", "[cleared]"), *original[2:]]
    after = [called("Read", "3", file_path=A_FILE), called("Read", "4", file_path="/p/b.py")]

    assert refetched(original, compacted, after, length) == 4
    assert refetched(original, original, after, length) == 0
    assert refetched(original, compacted, after[1:], length) == 0


def test_another_part_of_a_file_is_another_call() -> None:
    after = [called("Read", "3", file_path=A_FILE, offset=9)]

    assert refetched(read("1", "aaaa"), [], after, length) == 0


def test_an_older_copy_of_what_still_stands_is_not_missed() -> None:
    original = [*read("1", "old"), *read("2", "new")]
    compacted = [original[0], returned("Read", "1", "[read again below]"), *original[2:]]

    assert refetched(original, compacted, read("3", "x"), length) == 0


def test_the_next_requests_end_before_one_too_many() -> None:
    after = [
        answered("1", message_id="a"),
        answered("2", message_id="a"),
        asked("go on"),
        answered("3", message_id="b"),
        answered("4", message_id="c"),
    ]

    assert next_requests(after, 2) == after[:4]
    assert next_requests(after, 9) == after


def test_moments_stand_before_answers_evenly() -> None:
    entries = [answered(str(n)) for n in range(8)]

    assert moments_of(entries, 3) == [entries[n].offset for n in (2, 4, 6)]
    assert moments_of([], 3) == []


def test_a_thought_is_no_reference() -> None:
    thought = entry(MessagePart(PartKind.THINKING, "OLD_NAME"), type="assistant")

    assert regret(read("1", "OLD_NAME"), [], [thought]).references == 0


def length(piece: MessagePart) -> int:
    return len(piece.text)
