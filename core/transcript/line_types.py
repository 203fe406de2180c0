"""A first look at a transcript line: its type, what most lines are read for, why some are ignored.

Sources for the types, which are those of Claude Code 1.0 to 2.1.329: claude-code-formats 2.1 and
2.7 to 2.9, claude-code-live, and the tables by which client 2.1.329 decides what it keeps of each.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from .lenient_json import UnexpectedShapeError, decode_checked, drop_unreadable_fields, repair_line
from .line_decoder import JSON_TRUE, Attachment, TranscriptLine
from .reported_usage import ContextManagement, ForkSource, PausedResponse, RawUsage

LEADING_TYPE: Final = re.compile(rb'\{"type":"([a-z-]+)"')  # only lines without a parent begin so


def _read_reasons() -> dict[str, dict[str, str]]:
    """Read why lines of known types need no row: by kind and name.

    Most attachments are what `api-request` lines hold as sent, and clients up to about 2.1.9x
    wrote `progress`.
    """
    file = Path(__file__).parents[1] / "data" / "ignored_types.json"
    kinds = msgspec.json.decode(file.read_bytes(), type=dict[str, dict[str, tuple[str, ...]]])
    return {
        kind: {name: why for why, names in reasons.items() for name in names}
        for kind, reasons in kinds.items()
    }


_REASONS: Final = _read_reasons()

SKIPPED_TYPES: Final = frozenset(name.encode() for name in _REASONS["skipped"])
"""Types that are skipped unread where the line begins with its type."""

IGNORED_TYPES: Final = _REASONS["skipped"] | _REASONS["line"]
IGNORED_PROGRESS: Final = _REASONS["progress"]
IGNORED_SYSTEM: Final = _REASONS["system"]
IGNORED_ATTACHMENTS: Final = _REASONS["attachment"]


def why_ignored(name: str) -> str | None:
    """Return why lines counted under `name` produce no rows; None for an unknown name."""
    kind, _, detail = name.partition("/")
    return _REASONS.get(kind, {}).get(detail) if detail else IGNORED_TYPES.get(name)


AGENT_TOOLS: Final = frozenset({"Agent", "Task"})  # the tool's name since about 2.1.63, and before
EDIT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit"})

AGENT_OUTPUT_TOOLS: Final = frozenset({"TaskOutput", "AgentOutputTool", "AgentOutput"})
"""Tools that return a background task's output (clients 2.0.x to 2.1.x; 2.1.329 has none)."""

PLAN_TOOL: Final = "ExitPlanMode"  # the client puts the plan's file into its input (2.1.329)
DEDUP_PROTECTED_TOOLS: Final = AGENT_TOOLS | {
    "TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate", "TaskGet", "TaskList",
    PLAN_TOOL, "EnterPlanMode", "AskUserQuestion", "Skill",
}  # fmt: skip
"""Tools whose results are never removed as duplicates: plans, todos, agents' work, a person's
answers and instructions are state, and the same call again is another one (R002-17)."""

FULLY_DECODED_TOOLS: Final = AGENT_TOOLS | {PLAN_TOOL}  # an answer that calls one is decoded whole

NonObject = list[Raw] | str | int | float | bool | None
"""What some lines hold in place of an object: an error's text, or a future client's value."""


class BlockGlance(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    is_error: Raw | UnsetType = UNSET
    content: Raw | UnsetType = UNSET  # of a tool's result


class MessageGlance(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    content: list[BlockGlance | NonObject] | BlockGlance | str | int | float | bool | None = None
    usage: RawUsage | None = None
    diagnostics: Raw | UnsetType = UNSET
    paused: list[PausedResponse] | None = field(name="pausedResponses", default=None)
    context_management: ContextManagement | None = None


class ResultGlance(msgspec.Struct, gc=False):
    """`toolUseResult`: an agent's has at least one of these fields, another tool's has none."""

    agent_id: Raw | UnsetType = field(name="agentId", default=UNSET)
    teammate_id: Raw | UnsetType = field(name="teammate_id", default=UNSET)
    task_id: Raw | UnsetType = field(name="taskId", default=UNSET)
    retrieval_status: Raw | UnsetType = field(name="retrieval_status", default=UNSET)
    stopped_task_id: Raw | UnsetType = field(name="task_id", default=UNSET)
    tool_uses: Raw | UnsetType = field(name="totalToolUseCount", default=UNSET)


_OTHER_RESULT: Final = ResultGlance()


class LineGlance(msgspec.Struct, gc=False, rename="camel"):
    """The few fields that most lines are read for; no text is decoded."""

    type: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    message: MessageGlance | None = None
    tool_use_result: ResultGlance | NonObject = None
    is_sidechain: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    forked_from: ForkSource | None = None
    uuid: str | None = None
    session_id: str | None = None
    request_ref: str | None = None
    request_id: str | None = None
    is_unmetered: bool | None = None  # the answer's usage is not known yet, or never will be
    parent_uuid: Raw | UnsetType = UNSET
    logical_parent_uuid: Raw | UnsetType = UNSET


def client_times(lines: Iterable[LineGlance]) -> list[str]:
    """Return when the client wrote lines, without those that say nothing about that."""
    return [
        line.timestamp
        for line in lines
        if line.timestamp
        and ((line.type != "system" and not line.is_compact_summary) or not is_own_compaction(line))
    ]


def is_own_compaction(seen: LineGlance) -> bool:
    """Whether ctxtop wrote a line of a compaction: its uuids are of version 5, the client's of 4.

    It says nothing about when the client was at work.
    """
    is_part = seen.type == "system" or seen.is_compact_summary is True
    return is_part and seen.uuid is not None and seen.uuid[14:15] == "5"


glance_unchecked: Final = msgspec.json.Decoder(LineGlance).decode
"""Decode a glance; raises msgspec's own errors, for the reader of every line."""


def glance(line: bytes) -> LineGlance:
    """Decode a glance; raises NotJsonError or UnexpectedShapeError with the reason."""
    return decode_checked(line, glance_unchecked)


class _AttachmentLine(msgspec.Struct):
    attachment: Attachment | None = None


def without_unreadable_fields(line: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return a line without the fields of a type that no client wrote, and their names.

    Raises NotJsonError, and UnexpectedShapeError if nothing of use is left.
    """
    kinds = (LineGlance, TranscriptLine, _AttachmentLine)
    readable, unread = drop_unreadable_fields(repair_line(line), *kinds)
    if not unread or {"type", "message"}.intersection(unread):
        raise UnexpectedShapeError(", ".join(unread))
    return readable, unread


def starts_with_tool_result(message: MessageGlance) -> bool:
    content = message.content
    first = content[0] if type(content) is list and content else None
    return type(first) is BlockGlance and first.type == "tool_result"


def has_failed_result(message: MessageGlance) -> bool:
    content = message.content
    if type(content) is not list:
        return False
    for block in content:  # noqa: SIM110 -- takes half as long, for every line of a result
        if type(block) is BlockGlance and block.is_error == JSON_TRUE:
            return True
    return False


class AnswerBlocks(msgspec.Struct, frozen=True, gc=False):
    """What a line of an answer holds."""

    calls: list[BlockGlance]  # of tools
    has_text: bool  # whether that is empty is not decoded


def read_answer_blocks(message: MessageGlance) -> AnswerBlocks:
    content = message.content
    calls: list[BlockGlance] = []
    if type(content) is not list:
        return AnswerBlocks(calls, type(content) is str)
    has_text = False
    for block in content:
        if type(block) is BlockGlance:
            if block.type == "tool_use":
                calls.append(block)
            elif block.type == "text":
                has_text = True
    return AnswerBlocks(calls, has_text)


def has_agent_result(line: LineGlance) -> bool:
    """Return whether a tool's result has one of the fields that refer to an agent."""
    result = line.tool_use_result
    return type(result) is ResultGlance and result != _OTHER_RESULT
