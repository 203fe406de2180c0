"""A tenth of the mutated files, planted faults and damaged stores of `make prove-engine`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .. import fuzz_archive, fuzz_reader, fuzz_status_line, fuzz_store
from ..fuzz_lines import mutated

if TYPE_CHECKING:
    from pathlib import Path

TRANSCRIPTS = range(1_000)
PLANTED = range(50)
STORES = 20
ARCHIVES = 8
STATUS_LINES = 52
AT_ONCE = 250
"""Transcripts in one folder: the first scan of a folder costs more than one of its files."""

EVERY = 25
"""One session of so many is looked at by itself."""


@pytest.mark.slow
def test_mutated_transcripts_break_no_command_and_no_other_session(tmp_path: Path) -> None:
    assert fuzz_reader.try_all(TRANSCRIPTS, tmp_path, AT_ONCE, print, EVERY) == []


@pytest.mark.slow
def test_planted_faults_change_no_other_session(tmp_path: Path) -> None:
    trial = fuzz_reader.try_planted(PLANTED, tmp_path, len(PLANTED), print)
    assert trial.found == []
    assert trial.raised > 0.9 * len(PLANTED)


@pytest.mark.slow
def test_damaged_stores_are_made_again_once(tmp_path: Path) -> None:
    assert fuzz_store.try_all(range(STORES), tmp_path, print, commands=2) == []


@pytest.mark.slow
def test_mutated_archives_break_no_command_and_no_other_copy(tmp_path: Path) -> None:
    assert fuzz_archive.try_all(range(ARCHIVES), tmp_path, print) == []


@pytest.mark.slow
def test_mutated_status_lines_print_no_wrong_number_and_break_no_session(tmp_path: Path) -> None:
    assert fuzz_status_line.try_all(range(STATUS_LINES), tmp_path, STATUS_LINES, print) == []


def test_a_seed_gives_the_same_transcript_again() -> None:
    assert [mutated(seed) for seed in range(20)] == [mutated(seed) for seed in range(20)]
    assert len({mutated(seed) for seed in range(20)}) == 20
    lines = [fuzz_status_line.mutated(seed) for seed in range(200)]
    assert lines == [fuzz_status_line.mutated(seed) for seed in range(200)]
    assert len({*lines}) > 150
