"""What agents return: at once, as a notification or message, or when their output is requested."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import asdict, replace

from ....core.store.transcript_records import OUTPUT_ID_PREFIX, AgentReturnRecord, SummaryRecord
from ....core.transcript.client_messages import (
    AGENT_TASK_TYPES,
    TASK_NOTIFICATION,
    TeammateMessage,
    find_tag,
    is_agent_notification,
    parse_mailbox,
    parse_teammate_messages,
    split_result,
)
from ....core.transcript.line_decoder import (
    JSON_TRUE,
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
    read_usage,
)
from ....core.transcript.line_types import PLAN_TOOL
from ....core.transcript.raw_lines import text_key
from ....core.transcript.sanitize import sanitize_text, sanitize_title

_TRANSCRIPT_START: Final = re.compile(r"\s*\{\"(?:parentUuid|isSidechain|type)\"")
"""How a whole transcript begins, which some clients give as an agent's output."""

STARTED_STATUSES: Final = frozenset({"async_launched", "remote_launched", "teammate_spawned"})
"""Statuses of a tool result that only says that the agent works elsewhere."""

REJECTED_STATUS: Final = "rejected"
INTERRUPTED_STATUS: Final = "interrupted"
CALL_FAILED_STATUS: Final = "call_failed"
"""Statuses of a return whose tool call failed: whether an agent ran, its own lines tell."""


_RUNNING_STATUSES: Final = frozenset({"running", "pending"})

_DENIED_KINDS: Final = frozenset({"user-rejected", "permission-rule"})
_INTERRUPTED_KINDS: Final = frozenset({"interrupted", "cancelled"})
"""Values of `toolDenialKind`, which clients since about 2.1.2x write."""

_DENIAL_TEXT: Final = re.compile(
    r"(?:Error: )?(?:The user doesn't want to|User (?:rejected|denied)"
    r"|Permission (?:to use|for this)|Hook PreToolUse|PreToolUse:)"
)
_INTERRUPTION_TEXT: Final = re.compile(
    r"(?:Error: )?\[?(?:Request interrupted|Tool call interrupted|Agent call interrupted"
    r"|User aborted|Interrupted)"
)
"""How a tool's error begins by which a person, a rule or a hook refused it, or ended it."""


class AgentReturn(msgspec.Struct, frozen=True):
    """A return and its text, where there is one."""

    fact: AgentReturnRecord
    texts: tuple[SummaryRecord, ...]


def make_text_fact(
    offset: int, uuid: str, kind: str, line: TranscriptLine, text: str, **who: str
) -> SummaryRecord:
    """Measure a text as it was written and keep it as it may be shown."""
    stripped = text.strip("\n")
    return SummaryRecord(
        offset=offset,
        uuid=uuid,
        kind=kind,
        agent_id=who.get("agent_id"),
        at=line.at,
        text=sanitize_text(stripped),
        lines=stripped.count("\n") + 1 if stripped else 0,
        chars=len(stripped),
    )


def read_compaction_summary(offset: int, line: TranscriptLine) -> SummaryRecord:
    """Read what a compaction kept."""
    text = join_texts(message_blocks(line))
    return make_text_fact(offset, line.name_at(offset), "boundary", line, text)


def read_plan(offset: int, line: TranscriptLine, tool: RawBlock) -> SummaryRecord | None:
    """Read a plan that the model shows for approval; a fork's copy of it has the same id."""
    if tool.name != PLAN_TOOL:
        return None
    asked = decode_optional(tool.input, PlanInput)
    if asked is None or not (asked.plan or "").strip():
        return None
    uuid = sanitize_title(tool.id or line.name_at(offset))
    return make_text_fact(offset, uuid, "plan", line, asked.plan or "")


def read_agent_result(offset: int, line: TranscriptLine) -> AgentReturn | None:
    """Read a user's line that brings an agent's result or says that it was started."""
    result = decode_optional(line.tool_use_result, AgentToolResult)
    agent_id = _agent_id_of(line, result) if result else None
    if result and agent_id:
        return _read_tool_result(offset, line, result, sanitize_title(agent_id))
    task = decode_optional(line.tool_use_result, TaskToolResult)
    if task:
        return _read_task_result(offset, line, task)
    for text in _arrived_texts(line):
        if text.startswith(TASK_NOTIFICATION):
            return _read_notification(offset, line, text)
    return None


def read_teammate_results(offset: int, line: TranscriptLine) -> list[AgentReturn]:
    """Read what teammates say in a user's line of the session that leads them."""
    said = [saying for text in _arrived_texts(line) for saying in parse_teammate_messages(text)]
    return list(_teammate_returns(offset, line, said))


def read_queued_result(
    offset: int, line: TranscriptLine, attachment: Attachment
) -> AgentReturn | None:
    """Read a notification that arrived while the session was at work."""
    for text in _queued_texts(attachment):
        if text.startswith(TASK_NOTIFICATION):
            return _read_notification(offset, line, text)
    return None


def read_queued_teammate_results(
    offset: int, line: TranscriptLine, attachment: Attachment
) -> list[AgentReturn]:
    """Read what teammates said while the session that leads them was at work."""
    said = [*parse_mailbox(attachment.messages)]
    said += [
        saying for text in _queued_texts(attachment) for saying in parse_teammate_messages(text)
    ]
    return list(_teammate_returns(offset, line, said))


def read_failed_calls(offset: int, line: TranscriptLine) -> list[AgentReturnRecord]:
    """Read the tool calls of a line that failed, each named by its own id.

    The transcript's reader does not know which of them were to start an agent: the store does.
    """
    blocks = message_blocks(line)
    return [
        replace(
            _return_fact(offset, f"failed {name}", name, line, _failure_status(line, block)),
            tool_use_id=name,
        )
        for block in blocks
        if block.is_error == JSON_TRUE and (name := sanitize_title(block.tool_use_id or ""))
    ]


def _failure_status(line: TranscriptLine, block: RawBlock) -> str:
    if line.tool_denial_kind in _DENIED_KINDS:
        return REJECTED_STATUS
    text = "\n".join(each.text or "" for each in decode_blocks(block.content)).strip()
    if line.tool_denial_kind in _INTERRUPTED_KINDS or _INTERRUPTION_TEXT.match(text):
        return INTERRUPTED_STATUS
    said = decode_string(line.tool_use_result)
    return (
        REJECTED_STATUS
        if _DENIAL_TEXT.match(text) or _DENIAL_TEXT.match(said)
        else CALL_FAILED_STATUS
    )


def _agent_id_of(line: TranscriptLine, result: AgentToolResult) -> str | None:
    named = result.agent_id or result.teammate_id
    if named is None and result.status == "remote_launched":
        # To-do lists and workflows have a `taskId` too, which names no agent.
        named = result.task_id
    if named is None and result.total_tool_use_count is not None:
        # Clients up to 2.0 did not name the agent: its tool call does.
        named = _tool_use_id(line)
    return named


def _arrived_texts(line: TranscriptLine) -> Iterator[str]:
    """List the texts of a user's line that neither a person nor a channel wrote."""
    if line.origin and line.origin.kind not in {None, "task-notification", "peer", "coordinator"}:
        return
    for block in message_blocks(line):
        if block.text:
            yield block.text


def _queued_texts(attachment: Attachment) -> list[str]:
    prompt = decode_value(attachment.prompt)
    if isinstance(prompt, list):
        return [str(block.get("text", "")) for block in prompt if isinstance(block, dict)]
    return [prompt] if isinstance(prompt, str) else []


def read_queued_notification(offset: int, line: TranscriptLine) -> AgentReturn | None:
    """Read a notification that waits its turn: where the client ended first, nothing else says it.

    The line that it becomes later says the same, and has the same id.
    """
    text = decode_string(line.content)
    return _read_notification(offset, line, text) if text.startswith(TASK_NOTIFICATION) else None


def read_workflow_result(offset: int, line: TranscriptLine) -> AgentReturn | None:
    """Read a line of a workflow's journal.jsonl that brings an agent's result or its failure."""
    if line.type not in {"result", "failed"} or not line.agent_id:
        return None
    agent_id = sanitize_title(line.agent_id)
    uuid = f"{agent_id} at {offset}"
    status = "completed" if line.type == "result" else "failed"
    value = decode_value(line.result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    fact = _return_fact(offset, uuid, agent_id, line, status)
    return _with_text(offset, line, fact, "" if value is None else text)


def _return_fact(
    offset: int, uuid: str, agent_id: str, line: TranscriptLine, status: str
) -> AgentReturnRecord:
    return AgentReturnRecord(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=None,
        at=line.at,
        status=status,
        model=None,
        context_tokens=None,
        total_tokens=None,
        tool_uses=None,
        duration_ms=None,
    )


def _teammate_returns(
    offset: int, line: TranscriptLine, said: Iterable[TeammateMessage]
) -> Iterator[AgentReturn]:
    for place, saying in enumerate(said):
        # One line may bring several messages.
        uuid = f"{line.uuid or f'at {offset}'}{f' {place}' if place else ''}"
        fact = replace(
            _return_fact(offset, uuid, saying.name, line, saying.status), name=saying.name
        )
        yield _with_text(offset, line, fact, saying.text)


def _read_task_result(
    offset: int, line: TranscriptLine, result: TaskToolResult
) -> AgentReturn | None:
    task = result.task
    if task and result.retrieval_status:
        return _read_task_output(offset, line, task)
    if result.task_id and result.task_type in AGENT_TASK_TYPES:
        # TaskStop says no more than what it stopped.
        agent_id = sanitize_title(result.task_id)
        fact = _return_fact(offset, f"stopped {agent_id}", agent_id, line, "stopped")
        return AgentReturn(fact, ())
    return None


def _read_task_output(offset: int, line: TranscriptLine, task: TaskOutput) -> AgentReturn | None:
    """Read what TaskOutput says of an agent that ended; None of one at work or of a shell."""
    ended = task.status and task.status not in _RUNNING_STATUSES
    if not (ended and task.task_id and task.task_type in AGENT_TASK_TYPES):
        return None
    text = task.result or task.output or ""
    # Asked for twice it is the same result; a resumed agent brings another one.
    agent_id = sanitize_title(task.task_id)
    uuid = f"{OUTPUT_ID_PREFIX}{agent_id} {text_key(text.strip()) & _UINT64_MASK:016x}"
    fact = _return_fact(offset, uuid, agent_id, line, sanitize_title(task.status or ""))
    fact = replace(fact, tool_use_id=_tool_use_id(line))
    return _with_text(offset, line, fact, "" if _TRANSCRIPT_START.match(text) else text)


def _with_text(
    offset: int, line: TranscriptLine, fact: AgentReturnRecord, text: str
) -> AgentReturn:
    if not text.strip():
        return AgentReturn(fact, ())
    return AgentReturn(
        fact, (make_text_fact(offset, fact.uuid, "agent", line, text, agent_id=fact.agent_id),)
    )


def _tool_use_id(line: TranscriptLine) -> str | None:
    for block in message_blocks(line):
        if block.type == "tool_result" and block.tool_use_id:
            return block.tool_use_id
    return None


def _read_tool_result(
    offset: int, line: TranscriptLine, result: AgentToolResult, agent_id: str
) -> AgentReturn:
    uuid = line.name_at(offset)
    spent, context = read_usage(result.usage) if result.usage else (None, None)
    fact = AgentReturnRecord(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=_tool_use_id(line),
        at=line.at,
        status=sanitize_title(result.status or "completed"),
        model=sanitize_title(result.resolved_model) if result.resolved_model else None,
        context_tokens=context,
        total_tokens=result.total_tokens,
        tool_uses=result.total_tool_use_count,
        duration_ms=result.total_duration_ms,
        name=sanitize_title(decode_string(result.name)) or None,
        **(asdict(spent) if spent else {}),
    )
    text = "\n".join(block.text or "" for block in decode_blocks(result.content))
    return _with_text(offset, line, fact, "" if fact.status in STARTED_STATUSES else text)


def _read_notification(offset: int, line: TranscriptLine, text: str) -> AgentReturn | None:
    agent_id = sanitize_title(find_tag(text, "task-id") or "")
    if not agent_id or not is_agent_notification(text):
        return None
    # A user's line, an attachment and a queue-operation may bring the same text: one return.
    uuid = f"notified {text_key(text.strip()) & _UINT64_MASK:016x}"
    result, around = split_result(text)
    usage = find_tag(around, "usage") or ""
    fact = AgentReturnRecord(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=find_tag(around, "tool-use-id"),
        at=line.at,
        status=sanitize_title(find_tag(around, "status") or "completed"),
        model=None,
        context_tokens=None,
        total_tokens=_tag_count(usage, "subagent_tokens"),
        tool_uses=_tag_count(usage, "tool_uses"),
        duration_ms=_tag_count(usage, "duration_ms"),
    )
    return _with_text(offset, line, fact, result or "")


_UINT64_MASK: Final = (1 << 64) - 1


def _tag_count(text: str, name: str) -> int | None:
    found = find_tag(text, name)
    # Twelve digits fit the store.
    return int(found) if found and found.isdecimal() and len(found) <= 12 else None
