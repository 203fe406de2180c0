"""Learning from transcripts: each step once, however the file comes, and never more than kept."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.claude_code import calibration_jobs
from ctxtop.collectors.claude_code.calibration_jobs import TokenCalibrationJob
from ctxtop.core.measure.token_estimate import choose_factors
from ctxtop.core.measure.tokens import CACHED_FROM_CHARS, TextCount, count_text
from ctxtop.core.store import token_samples
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.token_samples import read_estimator, read_samples

from ..dump import dump
from ..transcripts import (
    PROJECT,
    SESSION,
    JsonLine,
    append,
    assistant,
    boundary,
    encode,
    tool,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.collector_thread import Collector
    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.store.writer import Writer

    from ..recorder import Recorder

LEARNT = ("growth", "learnt", "text_count")
MODEL = "claude-opus-5"
LONG = "a line that a tool returned\n" * (CACHED_FROM_CHARS // 20)


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_jobs, "FILE_LIST_INTERVAL_S", 0.0)
    monkeypatch.setattr(calibration_jobs, "SAVE_INTERVAL_S", 0.0)


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    return claude.projects / PROJECT / f"{SESSION}.jsonl"


def turn(number: int, name: str = "m", model: str = MODEL, words: str = LONG) -> list[JsonLine]:
    """An answer that calls a tool, and what it returned."""
    call = tool("Bash", f"t{number}", command=f"make {number}")
    context = 1_000 + 600 * number
    made = assistant(f"{name}{number}", context, 80, [call], at=number, model=model)
    return [made, tool_result(f"t{number}", f"{number} {words}", {}, at=number)]


def turns(count: int, name: str = "m", model: str = MODEL) -> list[JsonLine]:
    return [line for number in range(count) for line in turn(number, name, model)]


def learner_of(
    claude: ClaudeFolder, writer: Writer, count: Callable[[str], TextCount] = count_text
) -> TokenCalibrationJob:
    return TokenCalibrationJob(claude.projects, writer, lambda _: None, count)


def learn_all(claude: ClaudeFolder, writer: Writer) -> None:
    learner = learner_of(claude, writer)
    while learner.run():
        pass


def learnt(store: Path) -> dict[str, list[tuple[object, ...]]]:
    rows = dump(store)
    return {name: rows[name] for name in LEARNT}


def test_a_session_teaches_a_sample_a_step(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    write(path, [user(), *turns(5), boundary(), *turn(9), *turn(10)])
    collector.scan()
    learn_all(claude, writer)

    with closing(open_reader(store)) as db:
        found = read_samples(db)

    assert list(found) == [MODEL]
    assert [sample.growth for sample in found[MODEL]] == [600] * 5
    assert all(sample.fixed > 80 and sum(sample.by_kind) > 100 for sample in found[MODEL])


def test_rows_are_the_same_however_the_file_is_cut(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    lines = [user(), *turns(4), boundary(), *turns(3, "n"), user("and on")]
    for cut in range(1, len(lines)):
        path.unlink(missing_ok=True)
        write(path, lines[:cut])
        collector.scan()
        learn_all(claude, writer)
        append(path, lines[cut:])
        collector.scan()
        learn_all(claude, writer)
        found = learnt(store)
        path.unlink()
        write(path, lines)
        collector.scan()
        learn_all(claude, writer)

        assert learnt(store)["growth"] == found["growth"]
        assert learnt(store)["learnt"] == found["learnt"]
        assert len(found["growth"]) == 5
        path.write_bytes(encode([user("another file")]))
        collector.scan()
        assert learnt(store)["growth"] == []


def test_a_file_that_is_rewritten_is_learnt_anew(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    write(path, [user(), *turns(6)])
    collector.scan()
    learn_all(claude, writer)
    write(path, [user("other"), *turns(3, "n")])
    collector.scan()

    assert learnt(store)["growth"] == learnt(store)["learnt"] == []
    learn_all(claude, writer)
    assert len(learnt(store)["growth"]) == 2


def test_a_slice_that_is_over_goes_on_in_the_next(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    write(path, [user(), *turns(8)])
    collector.scan()
    learner = learner_of(claude, writer)
    slices = 1
    # Each slice is over as soon as it has begun.
    while learner.run(0):
        slices += 1

    assert slices >= 17
    assert len(learnt(store)["growth"]) == 7


def test_another_run_goes_on_where_this_one_ended(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer
) -> None:
    asked: list[str] = []

    def count(text: str) -> TextCount:
        asked.append(text)
        return count_text(text)

    write(path, [user(), *turns(4)])
    collector.scan()
    assert not learner_of(claude, writer, count).run(10)
    first = len(asked)
    assert not learner_of(claude, writer, count).run(10)
    assert len(asked) == first > 0

    append(path, turn(4))
    collector.scan()
    assert not learner_of(claude, writer, count).run(10)
    # The step that became whole, and none before it: a call, and a result.
    assert len(asked) == first + 2


def test_a_text_is_counted_once_in_all_files(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    asked: list[str] = []

    def count(text: str) -> TextCount:
        asked.append(text)
        return count_text(text)

    copied = [user(), *turns(4)]
    write(path, copied)
    write(path.with_name(f"{'9' * 8}-2222-4333-8444-555555555555.jsonl"), copied)
    collector.scan()
    assert not learner_of(claude, writer, count).run(10)

    long = [text for text in asked if len(text) >= CACHED_FROM_CHARS]
    assert len(long) == len(set(long)) == 3
    with closing(open_reader(store)) as db:
        # A fork's copy of an answer is the same answer.
        assert [len(found) for found in read_samples(db).values()] == [3]


def test_only_the_newest_samples_of_a_model_are_kept(
    path: Path,
    claude: ClaudeFolder,
    collector: Collector,
    writer: Writer,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_samples, "MAX_SAMPLES", 3)
    monkeypatch.setattr(token_samples, "MAX_SAMPLES", 3)
    write(path, [user(), *turns(8)])
    other = path.with_name(f"{'8' * 8}-2222-4333-8444-555555555555.jsonl")
    write(other, [user(), *turns(3, "o", "claude-opus-4-6")])
    collector.scan()
    learn_all(claude, writer)

    kept: dict[object, list[Any]] = {row[4]: [] for row in learnt(store)["growth"]}
    for row in learnt(store)["growth"]:
        kept[row[4]].append(row[3])

    assert {model: len(rows) for model, rows in kept.items()} == {MODEL: 3, "claude-opus-4-6": 2}
    every = [1_795_168_800_000 + 1_000 * number for number in range(8)]
    assert sorted(kept[MODEL]) == every[4:7]


def test_counts_of_texts_are_bounded(
    path: Path,
    claude: ClaudeFolder,
    collector: Collector,
    writer: Writer,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_samples, "MAX_TEXT_COUNTS", 4)
    write(path, [user(), *turns(8)])
    collector.scan()
    learn_all(claude, writer)

    assert len(learnt(store)["text_count"]) == 4


def test_what_is_older_than_all_that_is_kept_is_not_read(
    path: Path,
    claude: ClaudeFolder,
    collector: Collector,
    writer: Writer,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibration_jobs, "FILES_AT_ONCE", 1)
    monkeypatch.setattr(token_samples, "MAX_SAMPLES", 3)
    monkeypatch.setattr(token_samples, "MAX_SAMPLES", 3)
    old = write(path.with_name(f"{'7' * 8}-2222-4333-8444-555555555555.jsonl"), turns(5, "o"))
    os.utime(old, (1_000_000, 1_000_000))
    write(path, [user(), *turns(8)])
    collector.scan()
    learn_all(claude, writer)

    assert [row[0] for row in learnt(store)["learnt"]] == [f"{PROJECT}/{SESSION}.jsonl"]


def test_a_run_reads_no_more_than_its_share_of_what_is_new(
    path: Path,
    claude: ClaudeFolder,
    collector: Collector,
    writer: Writer,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibration_jobs, "MAX_NEW_BYTES", 1)
    for name in "789":
        write(path.with_name(f"{name * 8}-2222-4333-8444-555555555555.jsonl"), turns(4, name))
    collector.scan()
    learn_all(claude, writer)

    assert len(learnt(store)["learnt"]) == 1


def test_what_another_ctxtop_learnt_meanwhile_is_not_learnt_twice(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    write(path, [user(), *turns(6)])
    collector.scan()
    slow = learner_of(claude, writer)
    slow.run(0)
    learn_all(claude, writer)
    before = learnt(store)
    while slow.run():
        pass

    assert learnt(store) == before


def test_a_file_that_is_gone_teaches_nothing_and_stops_nothing(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    gone = write(path.with_name(f"{'6' * 8}-2222-4333-8444-555555555555.jsonl"), turns(4, "g"))
    write(path, [user(), *turns(4)])
    collector.scan()
    gone.unlink()
    learn_all(claude, writer)

    assert len(learnt(store)["growth"]) == 3


def test_the_scan_alone_learns_nothing(
    path: Path,
    collector: Collector,
    store: Path,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However long it takes to load the tokenizer.
    monkeypatch.setattr(calibration_jobs, "SAVE_INTERVAL_S", float("inf"))
    write(path, [user(), *turns(4)])
    collector.scan()
    assert learnt(store)["learnt"] == []

    told = len(recorder.changes)
    for _ in range(4):  # one for each turn at the most, and one to find the end
        collector.post_scan_jobs.calibrate()
    assert len(learnt(store)["growth"]) == 3
    # Once for the file, so that no screen takes it for another ctxtop's.
    assert [change.session_ids for change in recorder.changes[told:]] == [{SESSION}]


def test_an_estimator_of_the_store_has_what_was_learnt(
    path: Path, claude: ClaudeFolder, collector: Collector, writer: Writer, store: Path
) -> None:
    write(path, [user(), *turns(60)])
    collector.scan()
    learn_all(claude, writer)

    with closing(open_reader(store)) as db:
        estimator = read_estimator(db)

        learned = estimator.for_model(MODEL).factors
        assert learned != choose_factors(MODEL, {})
        assert estimator.for_model("claude-sonnet-5").factors == learned
        assert estimator.for_model("claude-opus-4-6").factors == choose_factors(
            "claude-opus-4-6", {}
        )
        # A result of the session, as what the session grew by says.
        assert 400 < estimator.tokens(f"7 {LONG}", MODEL) < 600
