"""What agents return: in a tool result, a notification or a message, or when asked for it."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import asdict

from ....core.model.result_formats import skill_in_prompt
from ....core.model.transcript_records import (
    OUTPUT_ID_PREFIX,
    AgentReturnRecord,
    LaunchRecord,
    SummaryRecord,
)
from ....core.transcript import client_messages
from ....core.transcript.client_messages import AGENT_TASK_TYPES, TASK_NOTIFICATION, find_tag
from ....core.transcript.line_decoder import (
    JSON_TRUE,
    AgentInput,
    AgentToolResult,
    Attachment,
    PlanInput,
    RawBlock,
    TaskOutput,
    TaskToolResult,
    TranscriptLine,
    decode_blocks,
    decode_optional,
    decode_string,
    decode_value,
    join_texts,
    message_blocks,
)
from ....core.transcript.line_types import AGENT_TOOLS, PLAN_TOOL
from ....core.transcript.raw_lines import text_key
from ....core.transcript.reported_usage import read_usage
from ....core.transcript.sanitize import sanitize_text, sanitize_title

ReturnRecords = tuple[AgentReturnRecord | SummaryRecord, ...]
"""A return, followed by its text if it has one."""

_TRANSCRIPT_START: Final = re.compile(r"\s*\{\"(?:parentUuid|isSidechain|type)\"")
"""How a whole transcript begins, which some clients give as an agent's output."""

STARTED_STATUSES: Final = frozenset({"async_launched", "remote_launched", "teammate_spawned"})
"""Statuses of a tool result that only says that the agent runs elsewhere."""


_UINT64_MASK: Final = (1 << 64) - 1


def make_summary(
    offset: int,
    uuid: str,
    kind: str,
    line: TranscriptLine,
    text: str,
    agent_id: str | None = None,
    source: str | None = None,
) -> SummaryRecord:
    stripped = text.strip("\n")
    return SummaryRecord(
        offset=offset,
        uuid=uuid,
        kind=kind,
        agent_id=agent_id,
        at=line.at,
        text=sanitize_text(stripped),
        lines=stripped.count("\n") + 1 if stripped else 0,
        chars=len(stripped),
        source=source,
    )


def read_compaction_summary(offset: int, line: TranscriptLine) -> SummaryRecord:
    text = join_texts(message_blocks(line))
    return make_summary(offset, line.name_at(offset), "boundary", line, text)


def read_plan(offset: int, line: TranscriptLine, tool: RawBlock) -> SummaryRecord | None:
    """Read a plan shown for approval; its copy in a fork has the same id."""
    plan = decode_optional(tool.input, PlanInput) if tool.name == PLAN_TOOL else None
    if plan is None or not (plan.plan or "").strip():
        return None
    uuid = sanitize_title(tool.id or line.name_at(offset))
    return make_summary(offset, uuid, "plan", line, plan.plan or "")


def read_launch(offset: int, line: TranscriptLine, tool: RawBlock) -> LaunchRecord | None:
    if tool.name not in AGENT_TOOLS or tool.id is None:
        return None
    call = decode_optional(tool.input, AgentInput) or AgentInput()
    return LaunchRecord(
        offset=offset,
        tool_use_id=tool.id,
        at=line.at,
        agent_type=call.subagent_type or "general-purpose",
        description=call.description or "",
        asked_model=call.model or None,
        prompt=prompt_key(call.prompt) if call.prompt else None,
        skill=skill_in_prompt(call.prompt or ""),
    )


def prompt_key(prompt: str) -> int:
    """Return the key that matches a tool call with the agent that it started."""
    return text_key(prompt.strip())


def read_returns(
    offset: int, line: TranscriptLine, blocks: Iterable[RawBlock], *, is_agent: bool = False
) -> ReturnRecords:
    """Read what a user's line brings from agents: a result, a start, or teammates' messages.

    `blocks` are those of its message. `is_agent` is true for a line of an agent's own file: its
    messages were sent to that agent, not to the agent that started it.
    """
    texts = _arrived_texts(line, blocks)
    messages = client_messages.parse_teammate_messages
    teammates = [] if is_agent else [each for text in texts for each in messages(text)]
    return (*_read_result(offset, line, texts), *_teammate_returns(offset, line, teammates))


def read_queued_returns(
    offset: int, line: TranscriptLine, attachment: Attachment, *, is_agent: bool
) -> ReturnRecords:
    texts = _queued_texts(attachment)
    first = next((text for text in texts if text.startswith(TASK_NOTIFICATION)), "")
    returns = read_notification(offset, line, first)
    if is_agent:
        return returns
    teammates = [*client_messages.parse_mailbox(attachment.messages)]
    for text in texts:
        teammates += client_messages.parse_teammate_messages(text)
    return (*returns, *_teammate_returns(offset, line, teammates))


def read_notification(offset: int, line: TranscriptLine, text: str) -> ReturnRecords:
    """Read a notification of an agent's result; empty for any other text.

    A user's line, an attachment and a queue operation may hold the same notification; all of
    them get the same id. If the client ended first, only the queue operation is written.
    """
    if not text.startswith(TASK_NOTIFICATION):
        return ()
    agent_id = sanitize_title(find_tag(text, "task-id") or "")
    if not agent_id or not client_messages.is_agent_notification(text):
        return ()
    result, around = client_messages.split_result(text)
    usage = find_tag(around, "usage") or ""
    return _make_return(
        offset,
        line,
        f"notified {text_key(text.strip()) & _UINT64_MASK:016x}",
        agent_id,
        sanitize_title(find_tag(around, "status") or "completed"),
        result or "",
        tool_use_id=find_tag(around, "tool-use-id"),
        total_tokens=_tag_count(usage, "subagent_tokens"),
        tool_uses=_tag_count(usage, "tool_uses"),
    )


def read_failed_calls(offset: int, line: TranscriptLine) -> list[AgentReturnRecord]:
    """Read the failed tool calls of a line; the store knows which were to start an agent."""
    return [
        AgentReturnRecord(
            offset=offset,
            uuid=f"failed {tool_use_id}",
            agent_id=tool_use_id,
            tool_use_id=tool_use_id,
            at=line.at,
            status=_failure_status(line, block),
        )
        for block in message_blocks(line)
        if block.is_error == JSON_TRUE and (tool_use_id := sanitize_title(block.tool_use_id or ""))
    ]


def read_workflow_result(offset: int, line: TranscriptLine) -> ReturnRecords:
    if line.type not in {"result", "failed"} or not line.agent_id:
        return ()
    agent_id = sanitize_title(line.agent_id)
    status = "completed" if line.type == "result" else "failed"
    value = decode_value(line.result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return _make_return(
        offset, line, f"{agent_id} at {offset}", agent_id, status, "" if value is None else text
    )


def _make_return(
    offset: int,
    line: TranscriptLine,
    uuid: str,
    agent_id: str,
    status: str,
    text: str = "",
    **fields: Any,  # noqa: ANN401 -- further fields of the record
) -> ReturnRecords:
    record = AgentReturnRecord(
        offset=offset, uuid=uuid, agent_id=agent_id, at=line.at, status=status, **fields
    )
    if not text.strip():
        return (record,)
    return (record, make_summary(offset, uuid, "agent", line, text, agent_id))


def _read_result(offset: int, line: TranscriptLine, texts: Iterable[str]) -> ReturnRecords:
    result = decode_optional(line.tool_use_result, AgentToolResult)
    agent_id = _agent_id_of(line, result) if result else None
    if result and agent_id:
        return _read_tool_result(offset, line, result, sanitize_title(agent_id))
    task = decode_optional(line.tool_use_result, TaskToolResult)
    if task:
        return _read_task_result(offset, line, task)
    first = next((text for text in texts if text.startswith(TASK_NOTIFICATION)), "")
    return read_notification(offset, line, first)


_DENIAL_TEXT: Final = re.compile(
    r"(?:Error: )?(?:The user doesn't want to|User (?:rejected|denied)"
    r"|Permission (?:to use|for this)|Hook PreToolUse|PreToolUse:)"
)
_INTERRUPTION_TEXT: Final = re.compile(
    r"(?:Error: )?\[?(?:Request interrupted|Tool call interrupted|Agent call interrupted"
    r"|User aborted|Interrupted)"
)
"""The start of a tool's error when a person, a rule or a hook denied or interrupted the call."""


def _failure_status(line: TranscriptLine, block: RawBlock) -> str:
    """Return how a tool call failed; only an agent's own lines show whether it ran."""
    # Clients since about 2.1.2x write `toolDenialKind`.
    if line.tool_denial_kind in {"user-rejected", "permission-rule"}:
        return "rejected"
    text = "\n".join(part.text or "" for part in decode_blocks(block.content)).strip()
    if line.tool_denial_kind in {"interrupted", "cancelled"} or _INTERRUPTION_TEXT.match(text):
        return "interrupted"
    is_denied = _DENIAL_TEXT.match(text) or _DENIAL_TEXT.match(decode_string(line.tool_use_result))
    return "rejected" if is_denied else "call_failed"


def _agent_id_of(line: TranscriptLine, result: AgentToolResult) -> str | None:
    agent_id = result.agent_id or result.teammate_id
    if agent_id is None and result.status == "remote_launched":
        # To-do lists and workflows have a `taskId` too, which names no agent.
        agent_id = result.task_id
    if agent_id is None and result.total_tool_use_count is not None:
        # Clients up to 2.0 did not name the agent: its tool call does.
        agent_id = _tool_use_id(line)
    return agent_id


def _arrived_texts(line: TranscriptLine, blocks: Iterable[RawBlock]) -> list[str]:
    """List the texts of a user's line that neither a person nor a channel wrote."""
    if line.origin and line.origin.kind not in {None, "task-notification", "peer", "coordinator"}:
        return []
    return [block.text for block in blocks if block.text]


def _queued_texts(attachment: Attachment) -> list[str]:
    prompt = decode_value(attachment.prompt)
    if isinstance(prompt, list):
        return [str(block.get("text", "")) for block in prompt if isinstance(block, dict)]
    return [prompt] if isinstance(prompt, str) else []


def _teammate_returns(
    offset: int, line: TranscriptLine, messages: Iterable[client_messages.TeammateMessage]
) -> Iterator[AgentReturnRecord | SummaryRecord]:
    for place, message in enumerate(messages):
        # One line may bring several messages.
        uuid = f"{line.name_at(offset)}{f' {place}' if place else ''}"
        name = message.name
        yield from _make_return(offset, line, uuid, name, message.status, message.text, name=name)


def _read_task_result(offset: int, line: TranscriptLine, result: TaskToolResult) -> ReturnRecords:
    if result.task and result.retrieval_status:
        return _read_task_output(offset, line, result.task)
    if result.task_id and result.task_type in AGENT_TASK_TYPES:
        # TaskStop only names the agent that it stopped.
        agent_id = sanitize_title(result.task_id)
        return _make_return(offset, line, f"stopped {agent_id}", agent_id, "stopped")
    return ()


def _read_task_output(offset: int, line: TranscriptLine, task: TaskOutput) -> ReturnRecords:
    """Read what TaskOutput returned for an agent that ended; empty for a running one or a shell."""
    ended = task.status and task.status not in {"running", "pending"}
    if not (ended and task.task_id and task.task_type in AGENT_TASK_TYPES):
        return ()
    text = task.result or task.output or ""
    # Requested twice it is the same result; a resumed agent returns another one.
    agent_id = sanitize_title(task.task_id)
    return _make_return(
        offset,
        line,
        f"{OUTPUT_ID_PREFIX}{agent_id} {text_key(text.strip()) & _UINT64_MASK:016x}",
        agent_id,
        sanitize_title(task.status or ""),
        "" if _TRANSCRIPT_START.match(text) else text,
        tool_use_id=_tool_use_id(line),
    )


def _tool_use_id(line: TranscriptLine) -> str | None:
    blocks = (block for block in message_blocks(line) if block.type == "tool_result")
    return next((block.tool_use_id for block in blocks if block.tool_use_id), None)


def _read_tool_result(
    offset: int, line: TranscriptLine, result: AgentToolResult, agent_id: str
) -> ReturnRecords:
    usage, context = read_usage(result.usage) if result.usage else (None, None)
    status = sanitize_title(result.status or "completed")
    text = "\n".join(block.text or "" for block in decode_blocks(result.content))
    return _make_return(
        offset,
        line,
        line.name_at(offset),
        agent_id,
        status,
        "" if status in STARTED_STATUSES else text,
        tool_use_id=_tool_use_id(line),
        model=result.resolved_model or None,
        context_tokens=context,
        total_tokens=result.total_tokens,
        tool_uses=result.total_tool_use_count,
        name=sanitize_title(decode_string(result.name)) or None,
        **(asdict(usage) if usage else {}),
    )


def _tag_count(text: str, name: str) -> int | None:
    digits = find_tag(text, name)
    # Twelve digits fit the store.
    return int(digits) if digits and digits.isdecimal() and len(digits) <= 12 else None
