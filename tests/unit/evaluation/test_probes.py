"""Q4: which questions are asked of a conversation, and what answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...bench.evaluation.passages import PASSAGE_CHARS, Index, passages_of, words_of
from ...bench.evaluation.probes import (
    Kind,
    Probe,
    answerability,
    is_answered,
    negative_probes,
    probes_of,
)
from ...bench.evaluation.share import Share
from ...bench.evaluation.texts import texts_of
from ...entries import answered, asked, called, returned, touched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxtop.core.model.conversation import Entry


def test_names_are_taken_apart_into_words() -> None:
    assert words_of("loadOrder_cursor2") == ["load", "order", "cursor", "2"]


def test_long_paragraphs_are_cut_at_their_lines() -> None:
    line = "x" * (PASSAGE_CHARS // 2 - 10)

    assert list(passages_of([f"{line}\n{line}\n{line}\n\nend"])) == [
        f"{line}\n{line}",
        line,
        "end",
    ]


def test_the_passage_with_the_rarer_word_is_best() -> None:
    index = Index(["the port of the house", "the heron port is 5", "the house", "the port"])

    assert index.best("the heron port", 2) == ["the heron port is 5", "the port"]
    assert index.best("nothing of it", 1) == ["the port of the house"]
    assert Index([]).best("anything", 3) == []


def test_an_answer_must_stand_in_the_best_passages() -> None:
    probe = Probe(Kind.PLANTED, "heron quartz", "41234")
    hidden = [f"heron quartz {word}" for word in ("one", "two", "three")]

    assert is_answered(probe, Index(["service heron-quartz at localhost:41234"]))
    assert not is_answered(probe, Index([*hidden, "41234 and many other words of no matter"]))


def test_nearly_the_same_words_answer() -> None:
    answer = "the cursor of the order route is read twice by the test that failed"
    probe = Probe(Kind.RECALL, "cursor order", answer)

    assert is_answered(probe, Index([answer.replace("that", "which")]))
    assert not is_answered(probe, Index(["the cursor of the order route"]))


def test_what_the_original_does_not_answer_is_not_asked() -> None:
    probes = [Probe(Kind.PLANTED, "heron", "1234567"), Probe(Kind.PLANTED, "osprey", "7654321")]
    original = Index(["heron 1234567"])

    assert answerability(probes, original, original) == Share(1, 1)
    assert answerability(probes, original, Index(["heron gone"])) == Share(0, 1)


def test_errors_files_decisions_and_what_goes_on_are_asked_for() -> None:
    original = [
        asked("Fix the export."),
        called("Bash", "1", command="make test"),
        returned("Bash", "1", "running\nKeyError: 'tenant' in export\nran 12 tests"),
        answered("I decided to keep DATABASE_URL instead of the file."),
        *touched("Edit", "/p/export.py", "2"),
        called("TodoWrite", "3", todos=[{"content": "mend the cursor", "status": "in_progress"}]),
        returned("TodoWrite", "3"),
    ]
    made = {(probe.kind, probe.answer) for probe in probes_of(original)}

    assert (Kind.RECALL, "KeyError: 'tenant' in export") in made
    assert (Kind.DECISION, "DATABASE_URL") in made
    assert (Kind.ARTIFACT, "/p/export.py") in made
    assert (Kind.CONTINUATION, "mend the cursor") in made
    assert (Kind.CONTINUATION, "fix the export.") in made
    assert all(is_answered(probe, _index(original)) for probe in probes_of(original))


def test_too_many_questions_are_asked_evenly_over_the_session() -> None:
    original = [
        one for n in range(40) for one in touched("Edit", f"/p/file_number_{n}.py", f"t{n}")
    ]
    lines = [probe.line for probe in probes_of(original, most=10) if probe.kind is Kind.ARTIFACT]

    assert len(lines) == 10
    assert lines[0] == original[0].line
    assert lines[-1] >= original[70].line


def test_things_of_another_session_are_no_answers() -> None:
    original = [answered("DATABASE_URL")]
    made = negative_probes(original, [answered("DATABASE_URL and OTHER_NAME")], 5)

    assert [probe.answer for probe in made] == ["OTHER_NAME"]
    assert not is_answered(made[0], _index(original))
    assert negative_probes(original, [], 5) == []


def _index(entries: Sequence[Entry]) -> Index:
    return Index(passages_of(texts_of(entries)))
