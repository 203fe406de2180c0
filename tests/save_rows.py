"""Rows of the save flow as the store gives them back, made by hand."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ctxtop.core.model.config_records import (
    FileMark,
    SaveFileContent,
    SaveFileKind,
    SaveFileRecord,
    StagingLocation,
)
from ctxtop.core.model.conversation import Entry, MessagePart, PartKind, Role
from ctxtop.core.store.queries.config_queries import MemoryNoteRow, StopBlockRow

if TYPE_CHECKING:
    pass

HERE: Final = "/home/dev/shop"
NOW: Final = 1_795_168_800_000
"""Milliseconds since 1970; what the tests call now."""

_NAMES: Final = {
    SaveFileKind.RESULT: "last-save-result.json",
    SaveFileKind.TRIAGE: "triage-data.json",
    SaveFileKind.PENDING: ".triage-pending.json",
    SaveFileKind.HANDLED: ".triage-handled",
    SaveFileKind.CONTEXT: "context-decision.txt",
    SaveFileKind.FIRE_COUNT: ".triage-fire-count",
    SaveFileKind.CONFIG: "memory-config.json",
}


def file(
    kind: SaveFileKind,
    age_s: float = 10,
    *,
    generation: StagingLocation = StagingLocation.CACHE,
    project: str | None = HERE,
    problem: str | None = None,
    **content: Any,
) -> SaveFileRecord:
    """A file that was written so many seconds ago; `content` is what it says."""
    folder = f"/staging/{generation.value}"
    written = round((NOW - age_s * 1000) * 1_000_000)
    return SaveFileRecord(
        path=f"{folder}/{_NAMES[kind]}",
        folder=folder,
        kind=kind,
        generation=generation,
        project=project,
        mark=FileMark(100, written, 1),
        content=None if problem or kind is SaveFileKind.CONTEXT else SaveFileContent(**content),
        problem=problem,
    )


def result(age_s: float = 10, **more: Any) -> SaveFileRecord:
    """A result of one saved category, unless told otherwise."""
    said: dict[str, Any] = {"categories": ("decision",), "titles": ("Use JWT",)}
    return file(SaveFileKind.RESULT, age_s, **(said | more))


def triage(age_s: float = 10, **more: Any) -> SaveFileRecord:
    """Triage data of two categories, unless told otherwise."""
    said: dict[str, Any] = {"categories": ("decision", "runbook")}
    return file(SaveFileKind.TRIAGE, age_s, **(said | more))


def pending(age_s: float = 10, **more: Any) -> SaveFileRecord:
    """What is pending: one category, unless told otherwise."""
    said: dict[str, Any] = {"categories": ("decision",), "reason": "subagent_error"}
    return file(SaveFileKind.PENDING, age_s, **(said | more))


def handled(state: str | None, age_s: float = 10, **more: Any) -> SaveFileRecord:
    """The sentinel in one of its states."""
    return file(SaveFileKind.HANDLED, age_s, state=state, **more)


FILE_REASON: Final = (
    "Stop hook feedback:\n"
    "The following items should be saved as memories before stopping:\n"
    "- [DECISION] use PG (score 0.72)\n"
    "- [RUNBOOK] restart (score 0.61)\n"
    "\n"
    "<triage_data_file>/staging/triage-data.json</triage_data_file>"
)
INLINE_REASON: Final = FILE_REASON.partition("<triage_data_file>")[0] + (
    '<triage_data>\n{\n "categories": [\n  {"category": "preference"}\n ]\n}\n</triage_data>'
)


class Talk:
    """A conversation written down entry by entry, as a transcript is read."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, kind: str, *pieces: MessagePart, **more: Any) -> Talk:
        """Add a line."""
        number = len(self.entries)
        role = {"user": Role.USER, "assistant": Role.ASSISTANT}.get(kind)
        at = NOW + 1000 * number
        entry = Entry(offset=100 * number, length=99, line=number + 1, type=kind, at=at)
        self.entries.append(_replace(entry, role=role, parts=pieces, **more))
        return self

    def block(self, text: str = FILE_REASON) -> Talk:
        """What the plugin's Stop hook says."""
        return self.add("user", MessagePart(PartKind.META, text))

    def call(self, call_id: str, name: str, text: str, tokens: int | None = None) -> Talk:
        """A tool call, with what the answer saw."""
        piece = MessagePart(PartKind.TOOL_INPUT, text, name, call_id)
        return self.add("assistant", piece, context_tokens=tokens, output_tokens=5)

    def back(self, call_id: str, text: str, *, failed: bool = False) -> Talk:
        """A tool's result."""
        return self.add("user", MessagePart(PartKind.TOOL_RESULT, text, "", call_id, failed=failed))

    def agent_back(self, call_id: str, text: str) -> Talk:
        """What came back of an agent."""
        return self.add("user", MessagePart(PartKind.AGENT_RETURN, text, "Agent", call_id))

    def say(self, text: str, tokens: int | None = None) -> Talk:
        """An answer's words, with what it saw."""
        piece = MessagePart(PartKind.TEXT, text)
        return self.add("assistant", piece, context_tokens=tokens, output_tokens=5)

    def prompt(self, text: str = "Go on.") -> Talk:
        """A person's words."""
        return self.add("user", MessagePart(PartKind.PROMPT, text))


def _replace(entry: Entry, **more: Any) -> Entry:
    from msgspec.structs import replace

    return replace(entry, **more)


def block_row(noise: str | None = None, **more: Any) -> StopBlockRow:
    """A block's line, with its noise as it is kept."""
    row: dict[str, Any] = {
        "session_id": "s",
        "path": "p/s.jsonl",
        "cwd": HERE,
        "client_version": "2.1.329",
        "offset": 0,
        "uuid": "u",
        "at": NOW,
        "text": FILE_REASON,
        "lines": 6,
        "chars": 200,
        "noise": noise,
    }
    return StopBlockRow(**(row | more))


def note_row(text: str, at: int | None = NOW, cwd: str = HERE) -> MemoryNoteRow:
    """What the plugin told at a prompt."""
    return MemoryNoteRow(0, at, text, "s", "p/s.jsonl", cwd)
