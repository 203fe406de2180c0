"""Q2, Q7, Q8: the person's words, files and rules, over contexts made by hand."""

from __future__ import annotations

from ...bench.evaluation.kept import (
    artifact_precision,
    artifact_recall,
    constraints_kept,
    constraints_of,
    decisions_kept,
    decisions_of,
    user_text_kept,
)
from ...bench.evaluation.share import Share, together
from ...entries import answered, asked, called, returned, summed_up, touched


def test_a_prompt_counts_by_its_bytes_and_only_as_it_was() -> None:
    first, second = asked("é" * 10), asked("b" * 80)

    assert user_text_kept([first, second], [first, second]) == Share(100, 100)
    assert user_text_kept([first, second], [second]) == Share(80, 100)
    assert user_text_kept([first, second], [first, asked("b" * 79)]) == Share(20, 100)


def test_a_prompt_that_was_said_twice_must_stand_twice() -> None:
    one, other = asked("go on"), asked("go on")

    assert user_text_kept([one, other], [one]) == Share(5, 10)


def test_a_summary_keeps_what_it_quotes_word_for_word() -> None:
    summary = summed_up("The user said: «fix the parser». Then we did.")

    assert user_text_kept([asked("fix the parser")], [summary]) == Share(14, 14)
    assert user_text_kept([asked("mend the parser")], [summary]).ratio == 0


def test_a_quotation_of_several_lines_is_word_for_word() -> None:
    summary = summed_up("- line 3:\n  > fix the parser\n  > \n  > then the printer")

    assert user_text_kept([asked("fix the parser\n\nthen the printer")], [summary]).ratio == 1


def test_files_are_known_by_what_was_done_to_them() -> None:
    original = [*touched("Read", "/p/a.py", "1"), *touched("Edit", "/p/b.py", "2")]
    masked = [original[0], returned("Read", "1", "[cleared]", "/p/a.py"), *original[2:]]

    assert artifact_recall(original, masked) == Share(2, 2)
    assert artifact_recall(original, original[:2]) == Share(1, 2)


def test_a_file_that_was_edited_more_often_is_not_known() -> None:
    edits = [*touched("Edit", "/p/b.py", "1"), *touched("Edit", "/p/b.py", "2")]

    assert artifact_recall(edits, edits[2:]) == Share(0, 1)


def test_a_summary_names_files() -> None:
    original = [*touched("Edit", "/p/b.py", "1"), *touched("Edit", "/p/c.py", "2")]

    assert artifact_recall(original, [summed_up("I changed b.py.")]) == Share(1, 2)


def test_a_file_that_was_removed_is_one_of_them() -> None:
    gone = [called("Bash", "1", command="cd x && rm -rf old/a.py"), returned("Bash", "1", "")]

    assert artifact_recall(gone, gone) == Share(1, 1)
    assert artifact_recall(gone, []) == Share(0, 1)


def test_a_file_that_nobody_touched_is_not_precise() -> None:
    original = touched("Read", "/p/a.py", "1")
    other = touched("Read", "/p/made-up.py", "9")

    assert artifact_precision(original, original) == Share(1, 1)
    assert artifact_precision(original, [*original, *other]) == Share(1, 2)


def test_rules_are_the_persons_sentences() -> None:
    original = [
        asked("Fix it. Never touch the billing table. Always run the tests."),
        returned("Read", "1", "You must obey this file."),
    ]
    rules = constraints_of(original)

    assert rules == ["Never touch the billing table.", "Always run the tests."]
    assert constraints_kept(rules, original) == Share(2, 2)
    assert constraints_kept(rules, [summed_up("Never touch the billing table!")]) == Share(1, 2)


def test_a_tools_result_keeps_no_rule() -> None:
    rule = "Never touch the billing table."

    assert constraints_kept([rule], [returned("Read", "1", rule)]) == Share(0, 1)


def test_decisions_are_the_person_s_and_the_model_s() -> None:
    wish = asked("We decided to keep the strict parser. It is slow.")
    answer = answered("I decided to write `frame_decoder.py` in Rust instead of C.")
    decided = decisions_of([wish, answer])

    assert len(decided) == 2
    assert decisions_kept(decided, [wish, answer]) == Share(2, 2)
    assert decisions_kept(decided, [wish]) == Share(1, 2)


def test_shares_add_up_by_size_and_nothing_has_no_ratio() -> None:
    assert together([Share(1, 2), Share(0, 8)]) == Share(1, 10)
    assert Share().ratio is None
