"""What comes back of an agent: at once, or later as a task notification."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..core.store.facts import ReturnFact, TextFact
from .clean import clean_text, clean_title
from .lines import AgentResult, decode_blocks, decode_part, decode_value
from .times import to_ms
from .usage import read_usage

if TYPE_CHECKING:
    from .lines import Attachment, Line

LAUNCHED: Final = "async_launched"
"""Status of a tool result that only says that the agent works in the background."""

_NOTIFICATION: Final = "<task-notification>"


@dataclass(frozen=True, slots=True)
class Returned:
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


def read_return(offset: int, line: Line) -> Returned | None:
    """Read a user's line that brings an agent's result or says that it was started."""
    result = decode_part(line.tool_use_result, AgentResult)
    if result and result.agent_id:
        return _read_result(offset, line, result)
    if line.origin and line.origin.kind not in {None, "task-notification"}:
        return None
    blocks = decode_blocks(line.message.content) if line.message else []
    for block in blocks:
        if block.text and block.text.startswith(_NOTIFICATION):
            return _read_notification(offset, line, block.text)
    return None


def read_queued_return(offset: int, line: Line, attachment: Attachment) -> Returned | None:
    """Read a notification that arrived while the session was at work."""
    prompt = decode_value(attachment.prompt)
    texts = [prompt] if isinstance(prompt, str) else []
    if isinstance(prompt, list):
        texts = [str(block.get("text", "")) for block in prompt if isinstance(block, dict)]
    for text in texts:
        if text.startswith(_NOTIFICATION):
            return _read_notification(offset, line, text)
    return None


def _read_result(offset: int, line: Line, result: AgentResult) -> Returned:
    agent_id = clean_title(result.agent_id or "")
    uuid = line.uuid or f"at {offset}"
    context = read_usage(result.usage)[1] if result.usage else None
    tool_use_ids = [
        block.tool_use_id
        for block in (decode_blocks(line.message.content) if line.message else [])
        if block.type == "tool_result"
    ]
    fact = ReturnFact(
        offset=offset,
        uuid=uuid,
        agent_id=agent_id,
        tool_use_id=tool_use_ids[0] if tool_use_ids else None,
        at=to_ms(line.timestamp),
        status=clean_title(result.status or "completed"),
        model=clean_title(result.resolved_model) if result.resolved_model else None,
        context_tokens=context,
        total_tokens=result.total_tokens,
        tool_uses=result.total_tool_use_count,
        duration_ms=result.total_duration_ms,
    )
    text = "\n".join(block.text or "" for block in decode_blocks(result.content))
    if fact.status == LAUNCHED or not text.strip():
        return Returned(fact, ())
    return Returned(fact, (text_fact(offset, uuid, "agent", line, text, agent_id=agent_id),))


def _read_notification(offset: int, line: Line, text: str) -> Returned | None:
    agent_id = clean_title(_tag(text, "task-id") or "")
    if not agent_id:
        return None
    uuid = line.uuid or f"at {offset}"
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
