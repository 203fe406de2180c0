"""Q5 and Q6: what the next requests would have missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ctxtop.core.model.conversation import MessagePart, PartKind
from ctxtop.core.summaries.summary_facts import FILES_TITLE
from ctxtop.core.summaries.tool_outcomes import READ_AGAIN

from ...bench.evaluation.edited_texts import EditedTexts, edited_texts
from ...bench.evaluation.regret import Regret, next_requests, refetched, regret
from ...bench.evaluation.replay import moments_of
from ...entries import answered, asked, called, entry, returned, summed_up

if TYPE_CHECKING:
    from ctxtop.core.model.conversation import Entry

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


def edit(call: str, old: str, path: str = A_FILE) -> Entry:
    return called("Edit", call, file_path=path, old_string=old, new_string="new text")


def test_the_old_text_of_an_edit_is_needed_word_for_word() -> None:
    original = read("1", "    1\tdef total(cart):\n    2\t    return 0")
    after = [edit("9", "def total(cart):\n    return 0")]
    gone = [original[0], returned("Read", "1", "[left out]", A_FILE)]

    assert edited_texts(original, original, after) == EditedTexts((A_FILE,))
    assert edited_texts(original, gone, after) == EditedTexts((A_FILE,), (A_FILE,), (A_FILE,))
    assert regret(original, gone, after).lost == (f"old text in {A_FILE}",)
    assert regret(original, gone, after).references == 2, "the path, and the text"


def test_what_says_to_read_a_file_again_explains_its_old_text() -> None:
    original = [*read("1", "return 0"), *read("2", "return 0", "/p/b.py")]
    after = [edit("8", "return 0"), edit("9", "return 0", "/p/b.py")]
    named = returned("Read", "1", f"[left out. {READ_AGAIN}]", A_FILE)
    stubs = [original[0], named, original[2], returned("Read", "2", "[left out]", "/p/b.py")]
    digest = [summed_up(f"{FILES_TITLE}:\n- {A_FILE} (read 1×)\nEnded with:\n- /p/b.py")]

    for compacted in (stubs, digest):
        found = edited_texts(original, compacted, after)
        assert found.gone == (A_FILE, "/p/b.py")
        assert found.unnamed == ("/p/b.py",)


def test_what_was_read_again_or_never_held_is_not_needed() -> None:
    again = [*read("3", "return 0"), edit("9", "return 0")]

    assert edited_texts(read("1", "return 0"), [], again) == EditedTexts()
    assert edited_texts(read("1", "other"), [], [edit("9", "return 0")]) == EditedTexts()


def length(piece: MessagePart) -> int:
    return len(piece.text)
