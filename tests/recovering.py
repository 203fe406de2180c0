"""A session that is to be mended: a transcript of a test's own, as recovery looks at it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.compaction.plan import AppendLine, RemoveLine, ReplaceValue
from ctxtop.core.compaction.recovery.limit_errors import LimitErrorType, SessionRefusal
from ctxtop.core.compaction.recovery.recovery_run import RecoverySettings
from ctxtop.core.compaction.recovery.recovery_steps import RecoveryContext
from ctxtop.core.compaction.transcript_view import (
    FileLine,
    TranscriptView,
    VisibleBlock,
    text_digest,
)
from ctxtop.core.files.json_spans import replace_value
from ctxtop.core.transcript.entry_decoder import iter_lines, read_entries
from ctxtop.core.transcript.visible_messages import visible_entries

from . import transcripts as made

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ctxtop.core.compaction.plan import Operation
    from ctxtop.core.model.conversation import MessagePart

SETTINGS: Final = RecoverySettings()


class Chars4:
    """Counts a token for every four characters."""

    def tokens(self, part: MessagePart) -> int:
        return len(part.text) // 4


def chain(*lines: made.JsonLine) -> list[made.JsonLine]:
    """Hang each line behind the one before it."""
    before = None
    for line in lines:
        if line.get("uuid"):
            line["parentUuid"] = before
            before = line["uuid"]
    return list(lines)


def turn(call: str, words: str | list[made.JsonLine], name: str = "Bash") -> list[made.JsonLine]:
    """A tool's call and its result."""
    asked = made.assistant(f"msg_{call}", content=[made.tool(name, call, command=f"run {call}")])
    result = {"type": "tool_result", "tool_use_id": call, "content": words}
    return [asked, made.user([result])]


def view_of(path: Path, model: str | None = made.MODEL) -> TranscriptView:
    """Look at a transcript as a strategy does."""
    lines = [
        FileLine(number, offset, len(data) - 1, json.loads(data).get("type", ""))
        for offset, number, data in iter_lines(path)
    ]
    slots: list[VisibleBlock] = []
    for entry in visible_entries(read_entries(path)):
        for piece in entry.parts:
            tokens = Chars4().tokens(piece)
            position = sum(each.tokens for each in slots)
            chars = len(piece.text)
            slots.append(
                VisibleBlock(
                    len(slots), entry, piece, position, tokens, chars, text_digest(piece.text)
                )
            )
    entries, data = read_entries(path), path.read_bytes()

    def read_line(line: FileLine) -> bytes:
        return data[line.offset : line.offset + line.content_bytes]

    return TranscriptView(slots, lines, read_line, Chars4().tokens, model=model, entries=entries)


def ground(
    path: Path,
    lines: Sequence[made.JsonLine],
    *,
    current: int | None = None,
    most: int | None = None,
    error_type: LimitErrorType = LimitErrorType.TOKEN_LIMIT,
    index: int | None = None,
    settings: RecoverySettings = SETTINGS,
    **fields: Any,  # noqa: ANN401 -- of any kind
) -> RecoveryContext:
    """Write a transcript and say what the API refused."""
    made.write(path, lines)
    found = SessionRefusal(made.SESSION, "k", error_type, current, most, index)
    data = path.read_bytes()
    base = hashlib.sha256(data).hexdigest(), len(data)
    return RecoveryContext(view_of(path), found, settings, *base, reserve_tokens=0, **fields)


def carried_out(path: Path, operations: Sequence[Operation]) -> list[Any]:
    """Do to a copy of the lines what operations say, and decode them."""
    lines: list[bytes | None] = list(path.read_bytes().splitlines())
    added: list[bytes] = []
    for edit in (edit for each in operations for edit in each.edits):
        if isinstance(edit, AppendLine):
            added.append(edit.text.encode())
            continue
        line = lines[edit.line - 1]
        assert line is not None
        if isinstance(edit, RemoveLine):
            lines[edit.line - 1] = None
        elif isinstance(edit, ReplaceValue):
            lines[edit.line - 1] = replace_value(line, edit.pointer, edit.value.encode())
    return [json.loads(line) for line in (*lines, *added) if line is not None]
