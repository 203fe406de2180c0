"""Pages of a transcript: only what is shown is read, at any place of any file."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, BinaryIO

import pytest
from ctxtop.collectors.claude_code.transcripts import transcript_pages
from ctxtop.collectors.claude_code.transcripts.transcript_pages import (
    MAX_WINDOW_STEPS,
    PAGE_BYTES,
    ConversationFile,
    PagesOutdatedError,
    TranscriptWindow,
    extend_earlier,
    extend_later,
    open_window,
    read_line,
)
from ctxtop.collectors.claude_code.transcripts.transcript_search import (
    TextMatch,
    Words,
    search_earlier,
)
from ctxtop.core.files.safe_open import open_regular
from ctxtop.core.measure.conversation_steps import StepKind, join_results

from tests.transcripts import assistant, text, tool, tool_result, user

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.transcripts import JsonLine


def write(path: Path, *lines: JsonLine | bytes) -> list[int]:
    """Write a transcript and return the offset of each line."""
    offsets, data = [], b""
    for line in lines:
        offsets.append(len(data))
        data += line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode()
        data += b"\n"
    path.write_bytes(data)
    return offsets


def source(path: Path) -> ConversationFile:
    return ConversationFile(path)


def texts(window: TranscriptWindow) -> list[str]:
    return [step.body.text for step in window.steps]


def numbered(count: int, size: int = 400) -> list[JsonLine]:
    """Prompts with a number each, of about `size` bytes and the envelope."""
    return [user(f"prompt {n} " + "ü" * (size // 2)) for n in range(count)]


def numbers(window: TranscriptWindow) -> list[int]:
    return [int(words.split()[1]) for words in texts(window)]


def test_it_opens_at_the_end_and_reads_only_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    write(path, *numbered(3_000))
    read: list[int] = []

    class Counted:
        def __init__(self, file: BinaryIO) -> None:
            self._file = file

        def read(self, size: int = -1) -> bytes:
            data = self._file.read(size)
            read.append(len(data))
            return data

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

    class Opening:
        def __init__(self, given: Path) -> None:
            self._open: AbstractContextManager[BinaryIO] = open_regular(given)

        def __enter__(self) -> Counted:
            return Counted(self._open.__enter__())

        def __exit__(self, *found: object) -> None:
            self._open.__exit__(None, None, None)

    monkeypatch.setattr(transcript_pages, "open_transcript", Opening)
    monkeypatch.setattr(transcript_pages, "SCAN_BYTES", 4_096)
    window = open_window(source(path))
    assert numbers(window)[-1] == 2_999
    assert not window.has_later
    assert window.has_earlier
    assert sum(read) < 4 * PAGE_BYTES < path.stat().st_size


def test_pages_join_without_a_gap_or_a_repetition(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, *numbered(900))
    window = open_window(source(path))
    while window.has_earlier:
        window = extend_earlier(source(path), window)
    assert numbers(window) == list(range(900))
    again = open_window(source(path), 0)
    while again.has_later:
        again = extend_later(source(path), again)
    assert numbers(again) == list(range(900))


def test_any_byte_of_a_line_opens_that_line(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    offsets = write(path, *numbered(500))
    for byte in (offsets[250], offsets[250] + 7, offsets[251] - 1):
        window = open_window(source(path), byte)
        assert offsets[250] in {step.offset for step in window.steps}
        assert window.start < offsets[250] < window.end
        assert window.has_earlier
        assert window.has_later


def test_a_window_keeps_a_limited_number_of_steps(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, *numbered(4_000, 100))
    window = open_window(source(path))
    page = max(len(page.steps) for page in window.pages)
    for _ in range(30):
        window = extend_earlier(source(path), window)
        assert len(window.steps) <= MAX_WINDOW_STEPS + page
    assert window.has_later
    found = numbers(window)
    assert found == list(range(found[0], found[0] + len(found)))


def test_broken_lines_are_left_out_and_half_a_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, user("one"), b"{broken", b"\xff\xfe", b"", user("two"))
    whole = path.stat().st_size
    late = json.dumps(user("three")).encode()
    with path.open("ab") as file:
        file.write(late[:60])
    window = open_window(source(path))
    assert texts(window) == ["one", "two"]
    assert window.complete_size == whole
    assert not window.has_later
    with path.open("ab") as file:
        file.write(late[60:] + b"\n")
    assert texts(extend_later(source(path), window)) == ["one", "two", "three"]


def test_a_whole_last_line_needs_no_line_end(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, user("one"), user("two"))
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert texts(open_window(source(path))) == ["one", "two"]


def test_a_line_much_longer_than_a_page_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    huge = tool_result("t1", "é" * (3 * PAGE_BYTES), {})
    offsets = write(path, user("before"), huge, user("after"))
    window = open_window(source(path))
    while window.has_earlier:
        window = extend_earlier(source(path), window)
    assert [step.offset for step in window.steps] == offsets
    assert window.steps[1].body.chars == 3 * PAGE_BYTES
    assert window.steps[1].body.is_cut
    middle = open_window(source(path), offsets[1] + 2 * PAGE_BYTES + 1)
    assert [step.offset for step in middle.steps] == offsets


def test_a_line_too_long_for_memory_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    write(path, user("before"), user("x" * (4 * PAGE_BYTES)), user("after"))
    monkeypatch.setattr(transcript_pages, "MAX_LINE_BYTES", PAGE_BYTES)
    window = open_window(source(path))
    while window.has_earlier:
        window = extend_earlier(source(path), window)
    assert window.start == 0
    assert "x" * 10 not in "".join(texts(window))


def test_an_empty_file_has_no_steps(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"")
    window = open_window(source(path), 500)
    assert window.steps == ()
    assert not window.has_earlier
    assert not window.has_later


def rewrites() -> list[object]:
    def replaced(path: Path) -> None:
        other = path.with_suffix(".new")
        other.write_bytes(path.read_bytes())
        other.replace(path)

    def shortened(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-200])

    def edited(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[-20] ^= 1
        with path.open("r+b") as file:
            file.write(data)
        os.utime(path, ns=(1, 1))

    def edited_and_grown(path: Path) -> None:
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.write(data[:-80] + b"!" * 80 + data)

    ways = (replaced, shortened, edited, edited_and_grown)
    return [pytest.param(each, id=each.__name__) for each in ways]


@pytest.mark.parametrize("rewrite", rewrites())
def test_a_rewritten_file_is_noticed(tmp_path: Path, rewrite: object) -> None:
    path = tmp_path / "s.jsonl"
    write(path, *numbered(900))
    window = open_window(source(path))
    assert callable(rewrite)
    rewrite(path)
    for extend in (extend_earlier, extend_later):
        with pytest.raises(PagesOutdatedError):
            extend(source(path), window)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "real.jsonl", user("secret"))
    (tmp_path / "s.jsonl").symlink_to(tmp_path / "real.jsonl")
    with pytest.raises(OSError, match="symbolic link"):
        open_window(source(tmp_path / "s.jsonl"))


def test_lines_of_agents_are_not_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, user("mine"), user("an agent's", isSidechain=True), assistant("m1"))
    assert texts(open_window(ConversationFile(path))) == ["mine", "done"]
    own = open_window(ConversationFile(path, agent_id="a1"))
    assert texts(own) == ["mine", "an agent's", "done"]


def test_a_call_and_its_result_on_two_pages_join(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    call = assistant("m1", content=[tool("Bash", "t1", command="ls")])
    offsets = write(path, call, tool_result("t1", "y" * PAGE_BYTES * 2, {}))
    window = open_window(source(path), offsets[1])
    assert len(window.pages) > 1
    (step,) = join_results(window.steps)
    assert step.kind is StepKind.CALL
    assert step.result_offset == offsets[1]


def test_a_line_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    offsets = write(path, user("one"), user("z" * (2 << 20)), user("three"))
    entry = read_line(source(path), offsets[1])
    assert entry is not None
    assert len(entry.parts[0].text) == 2 << 20


def search_all(path: Path, words: str) -> list[TextMatch]:
    hits: list[TextMatch] = []
    end: int | None = None
    while end != 0:
        block = search_earlier(source(path), Words(words), end)
        hits += block.hits
        end = block.start
    return hits


def test_a_search_finds_what_is_shown_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    lines = numbered(300)
    lines[5] = user('The "Needle" in a haystack')
    lines[200] = assistant(
        "m1", content=[text("no"), tool("Bash", "t1", command="grep needle /src/a.py")]
    )
    lines[201] = tool_result("t1", "NEEDLE\nfound", {})
    offsets = write(path, *lines)
    monkeypatch.setattr(
        "ctxtop.collectors.claude_code.transcripts.transcript_search.SEARCH_BYTES", 20_000
    )
    expected = [TextMatch(offsets[201], 0), TextMatch(offsets[200], 1), TextMatch(offsets[5], 0)]
    assert search_all(path, "needle") == expected
    assert search_all(path, '"needle" in') == expected[-1:]
    assert search_all(path, "grep needle /src") == expected[1:2]
    assert search_all(path, "uuid") == []
    assert search_all(path, "t1") == []


def test_a_search_ignores_case_beyond_ascii(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    offsets = write(path, user("Привет мир"), user("grüße"), user("nothing"))
    assert search_all(path, "привет") == [TextMatch(offsets[0], 0)]
    assert search_all(path, "GRÜ") == [TextMatch(offsets[1], 0)]


def test_a_search_is_no_pattern(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    offsets = write(path, user("a.c"), user("abc"))
    assert search_all(path, "a.c") == [TextMatch(offsets[0], 0)]
    assert Words("[").pattern == re.compile(r"\[", re.IGNORECASE)


def test_a_search_stops_where_it_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    offsets = write(path, user("needle"), user("needle"), user("needle"))
    block = search_earlier(source(path), Words("needle"), offsets[2], offsets[1])
    assert block.hits == (TextMatch(offsets[1], 0),)
    assert block.start == offsets[1]
