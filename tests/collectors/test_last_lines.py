"""A last line without a line end is counted once; an edit in place is seen wherever it stands."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..dump import FILE_STATE, dump
from ..histories import look_once
from ..recorder import Recorder
from ..transcripts import PROJECT, SESSION, assistant, encode, text, user, write
from ..usage import usage_of_sessions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder

LAST = assistant("m2", 2000, output=30)
MORE = assistant("m3", 3000, output=5)


@pytest.fixture
def path(claude: ClaudeFolder) -> Path:
    found = claude.projects / PROJECT / f"{SESSION}.jsonl"
    write(found, [user(), assistant("m1", 1000, output=7), LAST])
    found.write_bytes(found.read_bytes().rstrip(b"\n"))
    return found


def counted(store: Path) -> tuple[int, int]:
    """Answers, and their output."""
    with closing(open_reader(store)) as db:
        rows = list(usage_of_sessions(db))
    return sum(each.responses for each in rows), sum(each.output_tokens for each in rows)


def test_the_last_answer_of_a_file_without_a_line_end_counts(
    path: Path, collector: Collector, store: Path
) -> None:
    collector.scan()
    first = counted(store)
    collector.scan()

    assert first == counted(store) == (2, 37)


def ended(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n" + encode([MORE]))


def begun(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n" + encode([MORE])[:-30])


def written_into(path: Path) -> None:
    path.write_bytes(path.read_bytes() + encode([MORE]))


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("happens", "found"),
    [(ended, (3, 42)), (begun, (2, 37)), (written_into, (1, 7)), (cut_off, (1, 7))],
)
def test_whatever_follows_such_a_line_the_rows_are_those_of_one_clean_look(
    path: Path,
    claude: ClaudeFolder,
    collector: Collector,
    store: Path,
    tmp_path: Path,
    happens: Callable[[Path], None],
    found: tuple[int, int],
) -> None:
    collector.scan()
    happens(path)
    collector.scan()

    look_once(claude, tmp_path / "clean.db")
    assert counted(store) == found
    assert dump(store, FILE_STATE) == dump(tmp_path / "clean.db", FILE_STATE)


def test_a_line_that_is_replaced_goes_and_comes_in_one_transaction(
    path: Path, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.scan()
    written_into(path)
    seen: list[tuple[int, int]] = []
    insert = Writer._insert

    def looking(self: Writer, *given: object) -> None:
        seen.append(counted(store))
        insert(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Writer, "_insert", looking)
    collector.scan()

    assert seen == [(2, 37)]
    assert counted(store) == (1, 7)


def test_a_store_of_an_older_version_reads_such_a_line_at_its_next_look(
    path: Path, collector: Collector, claude: ClaudeFolder, store: Path
) -> None:
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-30])
    collector.scan()
    collector.writer.close()
    path.write_bytes(path.read_bytes() + encode([LAST])[-31:-1])
    assert path.stat().st_size == size
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()

    assert counted(store) == (2, 37)


def test_a_line_that_was_too_new_is_read_when_somebody_comes_back(
    path: Path, collector: Collector, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.scan()
    ended(path)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    collector.index_paths([path])
    before = counted(store)
    monkeypatch.setattr("ctxtop.collectors.claude_code.tail.SETTLE_S", 0.0)
    collector.index_unterminated()

    assert (before, counted(store)) == ((2, 37), (3, 42))


def test_an_edit_of_the_same_length_far_before_the_end_changes_the_numbers(
    claude: ClaudeFolder, collector: Collector, store: Path
) -> None:
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    words = [text("word " * 2_000)]
    write(path, [assistant("m1", 1000, output=111), *(user(words, at) for at in range(30))])
    collector.scan()
    data = path.read_bytes()
    assert data.count(b'"output_tokens":111') == 1
    path.write_bytes(data.replace(b'"output_tokens":111', b'"output_tokens":999'))
    collector.scan()

    assert counted(store) == (1, 999)


def test_a_file_that_is_only_touched_is_read_once_more(
    path: Path, collector: Collector, recorder: Recorder
) -> None:
    write(path, [user()])
    collector.scan()
    path.chmod(0o600)
    path.chmod(0o640)
    collector.scan()
    collector.scan()

    assert len([each for each in recorder.notices if PROJECT in each.where]) == 1
