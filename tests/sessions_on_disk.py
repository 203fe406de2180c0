"""Sessions on the disk for what changes them: a transcript, its plan, and who looks after it."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.compaction.compaction_target import CompactionTarget, WaitTimes
from ctxtop.core.compaction.plan import Operation, ReplaceValue, Severity, make_plan
from ctxtop.core.transcript.entry_decoder import read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from .transcripts import SESSION, chained, user

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctxtop.core.compaction.plan import CompactionPlan, Edit

JsonLine = dict[str, Any]

LONG_AGO_S: Final = 1_700_000_000

AT_ONCE: Final = WaitTimes(idle_s=120, quiet_s=0.001, max_wait_s=0.05)


def turns(count: int, result_chars: int = 900) -> list[JsonLine]:
    """A session of turns: a prompt, a call with its thought, its result, an answer."""
    lines: list[JsonLine] = [{"type": "mode", "mode": "normal", "sessionId": SESSION}]
    parent: str | None = None

    def put(line: JsonLine) -> str:
        nonlocal parent
        line["parentUuid"] = parent
        lines.append(line)
        parent = line["uuid"]
        return str(parent)

    for turn in range(count):
        put(user(f"Please do {turn} — “ünï” \u2028 now", turn))
        call = f"toolu_{turn}"
        blocks: list[JsonLine] = [
            {"type": "thinking", "thinking": f"Hm {turn}", "signature": f"sig{turn}"},
            {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"ls {turn}"}},
        ]
        for block in blocks:
            put(_answer(f"msg_{turn}a", block, turn))
        text = f"{turn} " + 'x\n\t"\\é' * (result_chars // 7)
        result = {"type": "tool_result", "tool_use_id": call, "content": text}
        put(user([result], turn, toolUseResult={"stdout": text, "interrupted": False}))
        put(_answer(f"msg_{turn}b", {"type": "text", "text": f"Done {turn}."}, turn))
    lines.append(
        {"type": "last-prompt", "lastPrompt": "x", "leafUuid": parent, "sessionId": SESSION}
    )
    return lines


def _answer(message_id: str, block: JsonLine, at: int) -> JsonLine:
    message = {"id": message_id, "role": "assistant", "type": "message", "model": "claude-x"}
    return chained("assistant", at, message=message | {"content": [block]})


def encoded(lines: Sequence[JsonLine]) -> bytes:
    """Write lines as the client does."""
    return b"".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        for line in lines
    )


def at_rest(root: Path, data: bytes) -> CompactionTarget:
    """A session of this content that nobody has open."""
    transcript = root / "projects" / "-p" / f"{SESSION}.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_bytes(data)
    rest(transcript)
    return subject_of(transcript, root)


def subject_of(transcript: Path, root: Path) -> CompactionTarget:
    """Look after a transcript."""
    return CompactionTarget(
        session_id=transcript.stem,
        transcript=transcript,
        cwd="/home/dev/proj",
        state_folder=root / "state",
        read_entries=read_entries,
        find_holder=lambda _: None,
        wait_times=AT_ONCE,
    )


def rest(path: Path) -> None:
    """Set the file's modification time so far back that it counts as idle."""
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))


def masks(data: bytes, numbers: Sequence[int], text: str = "[masked]") -> list[Operation]:
    """Operations that mask the results on some lines, counted from 1."""
    return [
        operation(
            ReplaceValue(*place(data, n), "/message/content/0/content", json.dumps(text)), line=n
        )
        for n in numbers
    ]


def operation(
    *edits: Edit, line: int | None = None, level: Severity = Severity.MASKED
) -> Operation:
    """An operation of one strategy."""
    return Operation("test", level, line, "tool_result", "Bash: ls", "old", 100, 100, edits)


def place(data: bytes, number: int) -> tuple[int, int, str]:
    """Return the position of a line for an edit: its number (from 1), byte offset and SHA-256."""
    *before, line = data.split(b"\n")[:number]
    return number, sum(len(each) + 1 for each in before), hashlib.sha256(line).hexdigest()


def plan_of(
    data: bytes, operations: Sequence[Operation], session_id: str = SESSION
) -> CompactionPlan:
    """Plan these for a transcript of this content."""
    sha256 = hashlib.sha256(data).hexdigest()
    return make_plan(session_id, sha256, len(data), operations, before_tokens=100_000)


def result_lines(lines: Sequence[JsonLine]) -> list[int]:
    """Number the lines that are results, counted from 1."""
    return [n for n, line in enumerate(lines, 1) if "toolUseResult" in line]


def said(path: Path) -> list[tuple[str | None, tuple[str, ...]]]:
    """What would be sent: the lines and their texts."""
    return [
        (each.uuid, tuple(piece.text for piece in each.parts))
        for each in visible_entries(read_entries(path))
    ]
