"""Agents whose lines stand in another file than their own: sidechains and `progress` lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.keys import text_key
from ...core.store.facts import AsideFact, StepFact
from ..clean import clean_title
from ..times import to_ms
from .answers import Answer, to_fact
from .lines import Message, ProgressData, Step, decode_blocks, decode_part

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...core.store.facts import ResponseFact
    from .glance import BlockGlance
    from .lines import Block, Line

AGENT_PROGRESS: Final = frozenset({"agent_progress", "skill_progress"})
"""Kinds of `progress` that hold an agent's own lines."""

TOOL_CHARS: Final = 8
"""The end of a tool call's id, which tells it from the others of one answer."""


def read_aside(offset: int, line: Line) -> AsideFact | None:
    """Read a line of a session's file that belongs to an agent; None where it has no uuid."""
    if not line.uuid:
        return None
    message = line.message or Message()
    answered = line.type == "assistant" and message.id
    return AsideFact(
        offset=offset,
        line=text_key(line.uuid),
        parent=text_key(line.parent_uuid) if line.parent_uuid else None,
        message_id=message.id if answered else None,
        prompt=_prompt(message) if line.type == "user" and not line.parent_uuid else None,
    )


def prompt_key(prompt: str) -> int:
    """Make the key by which a tool call and the agent that it started find each other."""
    return text_key(prompt.strip())


def read_step(offset: int, line: Line) -> StepFact | None:
    """Read an agent's line inside a `progress` line; None for progress of another kind."""
    data = decode_part(line.data, ProgressData)
    if not data or data.type not in AGENT_PROGRESS or not data.agent_id:
        return None
    step = decode_part(data.message, Step) or Step()
    timestamp = step.timestamp or line.timestamp
    return StepFact(
        offset=offset,
        agent_id=clean_title(data.agent_id),
        tool_use_id=line.parent_tool_use_id,
        at=to_ms(timestamp),
        answer=_answer(offset, timestamp, step) if step.type == "assistant" else None,
    )


def progress_kind(line: Line) -> str:
    """Name the kind of a `progress` line."""
    data = decode_part(line.data, ProgressData)
    return (data.type if data else None) or "without type"


def tools_in(blocks: Iterable[Block | BlockGlance]) -> str:
    """Name the tool calls of a line, each by the end of its id and a comma."""
    named = ""
    for block in blocks:
        if block.type == "tool_use":
            named += (block.id or "?")[-TOOL_CHARS:].replace(",", "") + ","
    return named


def _answer(offset: int, timestamp: str | None, step: Step) -> ResponseFact | None:
    message = step.message
    if message is None or message.usage is None:
        return None
    return to_fact(
        Answer(
            message_id=message.id or step.uuid or f"at {offset}",
            offset=offset,
            last_offset=offset,
            timestamp=timestamp,
            model=message.model,
            usage=message.usage,
            output_tokens=message.usage.output_tokens or 0,
            sidechain=True,
            tools=tools_in(decode_blocks(message.content)),
            request_ref=None,
        )
    )


def _prompt(message: Message) -> int | None:
    texts = [block.text or "" for block in decode_blocks(message.content) if block.type == "text"]
    return prompt_key("\n".join(texts)) if texts else None
