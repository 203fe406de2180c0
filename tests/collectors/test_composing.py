"""What fills a context, from files: as it was sent, by the transcript, and without either."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from ctxtop.collectors.claude_code.transcript_details import (
    TranscriptUnavailableError,
    read_composition,
)
from ctxtop.collectors.collector_thread import Collector
from ctxtop.core.measure.composition import CompositionSource
from ctxtop.core.store.database import open_reader
from ctxtop.core.store.writer import Writer

from ..processor_time import thread_seconds
from ..recorder import Recorder
from ..transcripts import (
    PROJECT,
    SESSION,
    JsonLine,
    assistant,
    attachment,
    boundary,
    refusal,
    summary,
    text,
    tool,
    tool_result,
    user,
    write,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ctxtop.collectors.locations.discover import ClaudeFolder
    from ctxtop.core.measure.composition import Composition

REMINDER: Final = "<system-reminder>\nContents of /p/CLAUDE.md:\n" + "Be careful. " * 60
LEFT: Final = "<system-reminder>\n9 tokens left\n</system-reminder>"
FILE: Final = "".join(f"{number}\tprice = {number}\n" for number in range(300))
SYSTEM: Final = "You are a careful engineer. " * 80
TOOLS: Final[list[JsonLine]] = [
    {"name": "Read", "description": "Read a file. " * 40, "input_schema": {"type": "object"}},
    {"name": "mcp__shop__price", "description": "A price. " * 40, "input_schema": {}},
]


class Letters:
    """A token for four letters: no table is loaded."""

    def tokens(self, part: Any) -> int:  # noqa: ANN401 -- any piece
        return len(part.name + part.text) // 4


def linked(*lines: JsonLine) -> list[JsonLine]:
    """Set each line's `parentUuid` to the line before it; a compaction boundary keeps its own."""
    before: str | None = None
    for line in lines:
        if "uuid" in line:
            if line.get("subtype") != "compact_boundary":
                line["parentUuid"] = before
            before = line["uuid"]
    return list(lines)


def attached(kind: str, words: str, **fields: object) -> JsonLine:
    return attachment(kind, **fields) | {"rendered": [{"content": words}]}


def hashed(message: JsonLine) -> str:
    data = json.dumps(message, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(data.encode()).hexdigest()


def blob(message: JsonLine) -> JsonLine:
    head = {"type": "api-request-blob", "sessionId": SESSION, "hash": hashed(message)}
    return head | {"message": message}


def session() -> list[JsonLine]:
    """One turn with a tool, and the lines in which the client kept what it sent."""
    asked = tool("Read", "toolu_1", file_path="/p/shop.py")
    first = {"role": "user", "content": [text(REMINDER), text("Fix the shop, please.")]}
    said = {"role": "assistant", "content": [text("I look."), asked]}
    read = {"type": "tool_result", "tool_use_id": "toolu_1", "content": f"{FILE}\n\n{LEFT}"}
    second = {"role": "user", "content": [read]}
    shape = {"system": [text(SYSTEM)], "tools": TOOLS}
    head = {"sessionId": SESSION, "timestamp": "2026-11-20T10:00:05.000Z"}
    request: JsonLine = {"type": "api-request"} | head | {"querySource": "sdk", "shapeHash": "s"}
    request |= {"params": {"model": "claude-haiku-4-5"}, "keep": 0}
    tail = [hashed(first), hashed(said), hashed(second)]
    prompt = user("Fix the shop, please.")
    memory = {"files": [{"path": "/p/CLAUDE.md", "content": "Be careful."}]}
    return linked(
        prompt,
        attached("instructions", REMINDER, **memory),
        attachment("prompt_snapshot", systemPrompt=[SYSTEM], tools=TOOLS),
        assistant("msg_1", 2_000, content=[text("I look.")]),
        assistant("msg_1", 2_000, content=[asked]),
        tool_result("toolu_1", FILE, {}),
        attached("total_tokens_reminder", LEFT),
        {"type": "api-request-shape", "sessionId": SESSION, "shapeHash": "s", "shape": shape},
        blob(first),
        blob(said),
        blob(second),
        request | {"id": "r2", "tail": tail},
        assistant("msg_2", 4_000, content=[text("Fixed.")], requestRef="r2"),
    )


def composed(claude: ClaudeFolder, tmp_path: Path, *lines: JsonLine | bytes) -> Composition:
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    write(path, lines)
    return looked(claude, tmp_path)


def looked(claude: ClaudeFolder, tmp_path: Path) -> Composition:
    store = tmp_path / "composed.db"
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(store)) as db:
        return read_composition(db, claude.projects, SESSION, counter=Letters())


def tokens(found: Composition) -> dict[str, int]:
    return {each.name: each.tokens for each in found.categories}


def test_both_sources_say_the_same(claude: ClaudeFolder, tmp_path: Path) -> None:
    lines = session()
    sent = composed(claude, tmp_path, *lines)
    bare = [line for line in lines if not line["type"].startswith("api-request")]
    projected = composed(claude, tmp_path / "bare", *bare)

    assert (sent.source, projected.source) == (
        CompositionSource.REQUESTS,
        CompositionSource.PROJECTION,
    )
    assert sent.total_tokens == projected.total_tokens == 4_000
    assert sum(tokens(sent).values()) == sum(tokens(projected).values()) == 4_000
    assert tokens(sent) == tokens(projected)
    assert sent.unexplained_tokens == projected.unexplained_tokens > 0


def test_of_a_transcript_above_the_limit_only_the_end_is_read(
    claude: ClaudeFolder, tmp_path: Path
) -> None:
    early = [user("early " * 500), assistant("msg_0", 3_000, content=[text("first " * 500)])]
    late = [user("late " * 100), assistant("msg_1", 9_000, content=[text("second")])]
    late += [user("more")]
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    write(path, linked(*early, *late))
    size = path.stat().st_size
    store = tmp_path / "large.db"
    with closing(Writer(store)) as writer:
        Collector(claude, writer, Recorder()).scan()
    with closing(open_reader(store)) as db:
        whole = read_composition(
            db, claude.projects, SESSION, counter=Letters(), max_whole_bytes=size
        )
        found = read_composition(
            db,
            claude.projects,
            SESSION,
            counter=Letters(),
            max_whole_bytes=size - 1,
            tail_bytes=2_000,
        )
    assert (whole.total_tokens, whole.read_bytes) == (9_000, None)
    assert (found.total_tokens, found.read_bytes) == (9_000, 2_000)
    assert "early" in " ".join(item.name for item in whole.largest)
    said = " ".join(item.name for item in found.largest)
    assert "late" in said
    assert "early" not in said
    assert {item.line for item in found.largest} == {None}
    assert found.unexplained_tokens > whole.unexplained_tokens
    assert sum(tokens(found).values()) == 9_000


def test_each_text_is_named(claude: ClaudeFolder, tmp_path: Path) -> None:
    found = composed(claude, tmp_path, *session())
    shares = {each.name: each for each in found.categories}
    assert [part.name for part in shares["tool results"].parts] == ["Read"]
    assert [part.name for part in shares["tool results"].parts[0].parts] == ["/p/shop.py"]
    assert {part.name for part in shares["memory files"].parts} == {"/p/CLAUDE.md", "around them"}
    assert [part.name for part in shares["MCP tools"].parts] == ["shop"]
    assert {"Read", "around them"} == {part.name for part in shares["system tools"].parts}
    assert [part.name for part in shares["attachments"].parts] == ["total_tokens_reminder"]
    largest = found.largest[0]
    assert (largest.kind, largest.name, largest.line) == ("tool results", "Read /p/shop.py", 6)
    assert found.later_tokens == len("Fixed.") // 4


def test_a_request_whose_parts_are_gone_is_left_to_the_transcript(
    claude: ClaudeFolder, tmp_path: Path
) -> None:
    lines = session()
    del lines[8]
    assert composed(claude, tmp_path, *lines).source is CompositionSource.PROJECTION


def test_an_overhead_that_nothing_tells_is_learnt_from_the_first_request(
    claude: ClaudeFolder, tmp_path: Path
) -> None:
    lines = linked(
        user("x" * 400),
        assistant("msg_1", 9_100, content=[text("y" * 400)]),
        user("z" * 400),
        assistant("msg_2", 9_300),
    )
    found = composed(claude, tmp_path, *lines)
    assert tokens(found) == {
        "system prompt and tools": 9_000,
        "user text": 200,
        "assistant text": 100,
    }
    assert found.unexplained_tokens == 0


def test_after_a_compaction_nothing_is_measured_yet(claude: ClaudeFolder, tmp_path: Path) -> None:
    prompt, answer = user("x" * 400), assistant("msg_1", 9_100, content=[text("y" * 400)])
    kept = {"uuids": [answer["uuid"]]}
    told = summary("s" * 800)
    line = boundary(preservedMessages=kept | {"anchorUuid": told["uuid"]})
    found = composed(claude, tmp_path, *linked(prompt, answer, line, told))
    assert found.estimated
    assert tokens(found) == {
        "system prompt and tools": 9_000,
        "summaries": 200,
        "assistant text": 100,
    }
    assert found.total_tokens == 9_300


def test_answers_of_zero_measure_nothing(claude: ClaudeFolder, tmp_path: Path) -> None:
    found = composed(claude, tmp_path, *linked(user("x" * 400), refusal("Overloaded")))
    assert (found.total_tokens, found.estimated) == (100, True)


def test_damaged_lines_are_passed_over(claude: ClaudeFolder, tmp_path: Path) -> None:
    found = composed(
        claude, tmp_path, b"{not json", *linked(user("x" * 400)), b"\xff\xfe", b'{"type":'
    )
    assert tokens(found) == {"user text": 100}


def test_a_transcript_without_a_conversation(claude: ClaudeFolder, tmp_path: Path) -> None:
    with pytest.raises(TranscriptUnavailableError, match="is empty"):
        composed(claude, tmp_path, {"type": "mode", "mode": "normal", "sessionId": SESSION})


def test_a_transcript_that_is_gone(claude: ClaudeFolder, tmp_path: Path) -> None:
    composed(claude, tmp_path, *session())
    (claude.projects / PROJECT / f"{SESSION}.jsonl").unlink()
    with pytest.raises(TranscriptUnavailableError, match="cannot be read: No such file"):
        looked(claude, tmp_path)


def test_names_are_cleaned(claude: ClaudeFolder, tmp_path: Path) -> None:
    hostile = "\x1b]0;owned\x07\x1b[31mred\n\n text" + "x" * 90
    found = composed(claude, tmp_path, *linked(user(hostile)))
    assert found.largest[0].name.startswith("]0;owned[31mred textxxx")


@pytest.mark.slow
def test_ten_megabytes_take_less_than_a_second(claude: ClaudeFolder, tmp_path: Path) -> None:
    turns: list[JsonLine] = []
    for number in range(120):
        call = tool("Bash", f"toolu_{number}", command=f"seq {number}")
        turns.append(assistant(f"msg_{number}", 1_000 + number, content=[call]))
        words = f"line {number} of the output, as any tool writes it\n" * 850
        turns.append(tool_result(f"toolu_{number}", words, {"stdout": words}))
    path = claude.projects / PROJECT / f"{SESSION}.jsonl"
    write(path, linked(user("Go."), *turns, assistant("msg_last", 900_000)))
    assert path.stat().st_size > 9_000_000
    looked(claude, tmp_path)
    with closing(open_reader(tmp_path / "composed.db")) as db:
        took = thread_seconds(
            lambda: read_composition(db, claude.projects, SESSION, counter=Letters())
        )
    assert took < 1.0
