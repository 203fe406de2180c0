"""What comes back of an agent: at once, later as a task notification, or as a message."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import asdict

from ...core.keys import text_key
from ...core.store.facts import ReturnFact, TextFact
from ..clean import clean_text, clean_title
from ..times import to_ms
from .line_types import PLAN_TOOL
from .lines import (
    AgentResult,
    PlanInput,
    decode_blocks,
    decode_part,
    decode_value,
    decode_word,
)
from .usage import read_usage

if TYPE_CHECKING:
    from .lines import Attachment, Block, Line

STARTED: Final = frozenset({"async_launched", "remote_launched", "teammate_spawned"})
"""Statuses of a tool result that only says that the agent works elsewhere."""

MESSAGE: Final = "message"
"""Status of a return by which a teammate says something and works on."""

NOTIFICATION: Final = "<task-notification>"

_MESSAGE: Final = re.compile(
    r"<teammate-message\b[^>]*?\bteammate_id=\"([^\"]{1,200})\"[^>]*>(.*?)</teammate-message>",
    re.DOTALL,
)


class Returned(msgspec.Struct, frozen=True):
    """A return and its text, where there is one."""

    fact: ReturnFact
    texts: tuple[TextFact, ...]


def text_fact(offset: int, uuid: str, kind: str, line: Line, text: str, **who: str) -> TextFact:
    """Measure a text as it was written and keep it as it may be shown."""
    stripped = text.strip("\n")
    return TextFact(
        offset=offset,
        uuid=uuid,
        kind=kind,
        agent_id=who.get("agent_id"),
        at=to_ms(line.timestamp),
        text=clean_text(stripped),
        lines=stripped.count("\n") + 1 if stripped else 0,
        chars=len(stripped),
    )


def summary_fact(offset: int, line: Line) -> TextFact:
    """Read what a compaction kept."""
    blocks = decode_blocks(line.message.content) if line.message else []
    text = "\n".join(block.text or "" for block in blocks if block.type == "text")
    return text_fact(offset, line.uuid or f"at {offset}", "boundary", line, text)


def read_plan(offset: int, line: Line, tool: Block) -> TextFact | None:
    """Read a plan that the model shows for approval; a fork's copy of it has the same id."""
    if tool.name != PLAN_TOOL:
        return None
    asked = decode_part(tool.input, PlanInput)
    if asked is None or not (asked.plan or "").strip():
        return None
    uuid = clean_title(tool.id or line.uuid or f"at {offset}")
    return text_fact(offset, uuid, "plan", line, asked.plan or "")


def read_return(offset: int, line: Line) -> Returned | None:
    """Read a user's line that brings an agent's result or says that it was started."""
    result = decode_part(line.tool_use_result, AgentResult)
    if result:
        agent_id = result.agent_id or result.teammate_id or result.task_id
        if agent_id is None and result.total_tool_use_count is not None:
            # Clients up to 2.0 did not name the agent: its tool call does.
            agent_id = _tool_use_id(line)
        if agent_id:
            return _read_result(offset, line, result, clean_title(agent_id))
    if line.origin and line.origin.kind not in {None, "task-notification", "peer", "coordinator"}:
        return None
    blocks = decode_blocks(line.message.content) if line.message else []
    for block in blocks:
        if block.text and block.text.startswith(NOTIFICATION):
            return _read_notification(offset, line, block.text)
        if block.text and block.text.startswith("<teammate-message"):
            return _read_message(offset, line, block.text)
    return None


def read_queued_return(offset: int, line: Line, attachment: Attachment) -> Returned | None:
    """Read a notification that arrived while the session was at work."""
    prompt = decode_value(attachment.prompt)
    texts = [prompt] if isinstance(prompt, str) else []
    if isinstance(prompt, list):
        texts = [str(block.get("text", "")) for block in prompt if isinstance(block, dict)]
    for text in texts:
        if text.startswith(NOTIFICATION):
            return _read_notification(offset, line, text)
    return None


def read_queue_operation(offset: int, line: Line) -> Returned | None:
    """Read a notification that waits its turn: where the client ended first, nothing else says it.

    The line that it becomes later says the same, and has the same id.
    """
    text = decode_word(line.content)
    return _read_notification(offset, line, text) if text.startswith(NOTIFICATION) else None


def read_journal(offset: int, line: Line) -> Returned | None:
    """Read a line of a workflow's journal.jsonl that brings an agent's result or its failure."""
    if line.type not in {"result", "failed"} or not line.agent_id:
        return None
    agent_id = clean_title(line.agent_id)
    uuid = f"{agent_id} at {offset}"
    status = "completed" if line.type == "result" else "failed"
    value = decode_value(line.result)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    fact = _return_fact(offset, uuid, agent_id, line, status)
    if value is None or not text.strip():
        return Returned(fact, ())
    return Returned(fact, (text_fact(offset, uuid, "agent", line, text, agent_id=agent_id),))


def _return_fact(offset: int, uuid: str, agent_id: str, line: Line, status: str) -> ReturnFact:
    return ReturnFact(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=None,
        at=to_ms(line.timestamp),
        status=status,
        model=None,
        context_tokens=None,
        total_tokens=None,
        tool_uses=None,
        duration_ms=None,
    )


def _read_message(offset: int, line: Line, text: str) -> Returned | None:
    found = _MESSAGE.match(text)
    if not found:
        return None
    agent_id, words = clean_title(found[1]), found[2]
    uuid = line.uuid or f"at {offset}"
    fact = _return_fact(offset, uuid, agent_id, line, MESSAGE)
    return Returned(fact, (text_fact(offset, uuid, "agent", line, words, agent_id=agent_id),))


def _tool_use_id(line: Line) -> str | None:
    for block in decode_blocks(line.message.content) if line.message else []:
        if block.type == "tool_result" and block.tool_use_id:
            return block.tool_use_id
    return None


def _read_result(offset: int, line: Line, result: AgentResult, agent_id: str) -> Returned:
    uuid = line.uuid or f"at {offset}"
    spent, context = read_usage(result.usage) if result.usage else (None, None)
    fact = ReturnFact(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=_tool_use_id(line),
        at=to_ms(line.timestamp),
        status=clean_title(result.status or "completed"),
        model=clean_title(result.resolved_model) if result.resolved_model else None,
        context_tokens=context,
        total_tokens=result.total_tokens,
        tool_uses=result.total_tool_use_count,
        duration_ms=result.total_duration_ms,
        **(asdict(spent) if spent else {}),
    )
    text = "\n".join(block.text or "" for block in decode_blocks(result.content))
    if fact.status in STARTED or not text.strip():
        return Returned(fact, ())
    return Returned(fact, (text_fact(offset, uuid, "agent", line, text, agent_id=agent_id),))


def _read_notification(offset: int, line: Line, text: str) -> Returned | None:
    agent_id = clean_title(_tag(text, "task-id") or "")
    if not agent_id:
        return None
    # A user's line, an attachment and a queue-operation may bring the same text: one return.
    uuid = f"notified {text_key(text.strip()) & _UNSIGNED:016x}"
    result, around = _split_result(text)
    usage = _tag(around, "usage") or ""
    fact = ReturnFact(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=_tag(around, "tool-use-id"),
        at=to_ms(line.timestamp),
        status=clean_title(_tag(around, "status") or "completed"),
        model=None,
        context_tokens=None,
        total_tokens=_count(usage, "subagent_tokens"),
        tool_uses=_count(usage, "tool_uses"),
        duration_ms=_count(usage, "duration_ms"),
    )
    if not result:
        return Returned(fact, ())
    return Returned(fact, (text_fact(offset, uuid, "agent", line, result, agent_id=agent_id),))


_UNSIGNED: Final = (1 << 64) - 1


def _tag(text: str, name: str) -> str | None:
    found = re.search(rf"<{name}>\s*(.*?)\s*</{name}>", text, re.DOTALL)
    return found[1] if found else None


def _split_result(text: str) -> tuple[str | None, str]:
    """Take out all between the first <result> and the last </result>: it may name any tag."""
    start, end = text.find("<result>"), text.rfind("</result>")
    if not 0 <= start < end:
        return None, text
    return text[start + len("<result>") : end], text[:start] + text[end:]


def _count(text: str, name: str) -> int | None:
    found = _tag(text, name)
    # Twelve digits fit the store.
    return int(found) if found and found.isdecimal() and len(found) <= 12 else None
