"""Benchmarks of recorded sessions answer any folder with figures or with one clear line."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from ..bench import bench_accuracy, bench_forecast, bench_tokens
from ..bench.recordings import recordings
from ..transcripts import assistant, boundary, text, user, write

if TYPE_CHECKING:
    from pathlib import Path

BENCHMARKS = (bench_accuracy, bench_tokens, bench_forecast)


def name(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000.jsonl"


def session(path: Path, number: int) -> None:
    source = random.Random(number)
    lines, tokens = [user()], 20_000
    for turn in range(12):
        tokens += source.randrange(100, 4_000)
        words = [text(f"answer {turn} " + "of several words " * source.randrange(40))]
        lines.append(assistant(f"m{number}-{turn}", tokens, 80, words, at=turn))
    write(path / name(number), lines)


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setenv("CTXTOP_SHARED", str(folder))
    # What is made for comparison takes longer than what a folder holds.
    monkeypatch.setattr(bench_forecast, "show_made", lambda: None)
    return folder


@pytest.mark.parametrize("bench", BENCHMARKS)
def test_an_empty_folder_is_said_to_have_no_sessions(
    bench: object, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.main()  # type: ignore[attr-defined]

    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("nothing is measured: ")
    assert f"{shared} has 0" in line


@pytest.mark.parametrize("bench", [bench_tokens, bench_forecast])
def test_one_session_is_said_to_be_too_few_to_hold_one_out(
    bench: object, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session(shared, 1)
    bench.main()  # type: ignore[attr-defined]

    (line,) = capsys.readouterr().out.splitlines()
    assert f"{shared} has 1" in line


def test_a_session_that_begins_at_its_compaction_is_measured_without_a_crash(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = boundary(trigger="auto", preTokens=160_000)
    write(shared / name(1), [first, user(), assistant("m1", 20_000, 80)])
    bench_accuracy.main()

    assert "no automatic compaction" in capsys.readouterr().out


def test_a_configuration_folder_is_measured(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        session(shared / "projects" / f"-home-dev-{number % 2}", number)
    write(shared / "projects" / "-home-dev-1" / "agent-1.jsonl", [user()])

    assert len(recordings(shared)) == 4
    for bench in BENCHMARKS:
        bench.main()

    printed = capsys.readouterr().out
    assert "nothing is measured" not in printed
    assert "recorded sessions by the other projects alone" in printed
    assert "interval" in printed
    assert "p80" in printed
    assert "median" in printed
