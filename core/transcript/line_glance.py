"""A first look at a line: what it is, and what most lines are read for. No text is decoded."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from .line_decoder import JSON_TRUE, ForkSource, RawUsage, decode_checked

NonObject = list[Raw] | str | int | float | bool | None
"""What stands where an object is usual: an error's text, or what nobody has written yet."""


class BlockGlance(msgspec.Struct, gc=False):
    """One block of a message's content."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    is_error: Raw | UnsetType = UNSET


class MessageGlance(msgspec.Struct, gc=False):
    """`message` of a user's or assistant's line."""

    id: str | None = None
    model: str | None = None
    content: list[BlockGlance | NonObject] | BlockGlance | str | int | float | bool | None = None
    usage: RawUsage | None = None


class ResultGlance(msgspec.Struct, gc=False):
    """`toolUseResult`: the fields of which an agent's has one, and another tool's none."""

    agent_id: Raw | UnsetType = field(name="agentId", default=UNSET)
    teammate_id: Raw | UnsetType = field(name="teammate_id", default=UNSET)
    task_id: Raw | UnsetType = field(name="taskId", default=UNSET)
    retrieval_status: Raw | UnsetType = field(name="retrieval_status", default=UNSET)
    stopped_task_id: Raw | UnsetType = field(name="task_id", default=UNSET)
    tool_uses: Raw | UnsetType = field(name="totalToolUseCount", default=UNSET)


class LineGlance(msgspec.Struct, gc=False, rename="camel"):
    """What the reading of any line begins with."""

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


glance_unchecked: Final = msgspec.json.Decoder(LineGlance).decode
"""Look at a line; raises what msgspec does, for a caller that looks at every line."""


def glance(line: bytes) -> LineGlance:
    """Look at a line; raises NotJsonError or UnexpectedShapeError with the reason."""
    return decode_checked(line, glance_unchecked)


def starts_with_tool_result(message: MessageGlance) -> bool:
    content = message.content
    first = content[0] if type(content) is list and content else None
    return type(first) is BlockGlance and first.type == "tool_result"


def has_failed_result(message: MessageGlance) -> bool:
    """Return whether a user's message brings a tool call's failure."""
    content = message.content
    return type(content) is list and any(
        type(block) is BlockGlance and block.is_error is not UNSET and block.is_error == JSON_TRUE
        for block in content
    )


def list_tool_calls(message: MessageGlance) -> list[BlockGlance]:
    """List the tool calls of an answer."""
    if type(message.content) is not list:
        return []
    return [
        block
        for block in message.content
        if type(block) is BlockGlance and block.type == "tool_use"
    ]


def has_agent_result(line: LineGlance) -> bool:
    """Whether a tool's result has one of the fields that refer to an agent."""
    result = line.tool_use_result
    return type(result) is ResultGlance and not (
        result.agent_id is UNSET
        and result.teammate_id is UNSET
        and result.task_id is UNSET
        and result.retrieval_status is UNSET
        and result.stopped_task_id is UNSET
        and result.tool_uses is UNSET
    )
