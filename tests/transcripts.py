"""Transcripts made by hand: plain functions that give lines as the client writes them."""

# ruff: noqa: ANN401 -- any field may be named

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SESSION: Final = "11111111-2222-4333-8444-555555555555"
PROJECT: Final = "-home-dev-proj"
MODEL: Final = "claude-haiku-4-5-20251001"
START_MS: Final = 1_795_168_800_000
"""2026-11-20T10:00:00Z, the moment of `time(0)`."""

JsonLine = dict[str, Any]

_numbers: Final = count(1)


def time(second: int = 0) -> str:
    """The client's time, `second` seconds after ten o'clock."""
    hour, rest = divmod(second, 3600)
    return f"2026-11-20T{10 + hour:02}:{rest // 60:02}:{rest % 60:02}.000Z"


def uuid() -> str:
    """An id that no other line has."""
    return f"00000000-0000-4000-8000-{next(_numbers):012}"


def chained(kind: str, at: int = 0, **fields: Any) -> JsonLine:
    """A line with the envelope of the conversation."""
    return {
        "parentUuid": None,
        "isSidechain": False,
        "type": kind,
        "uuid": uuid(),
        "timestamp": time(at),
        "cwd": "/home/dev/proj",
        "sessionId": SESSION,
        "version": "2.1.329",
    } | fields


def user(text: str | list[JsonLine] = "fix the parser", at: int = 0, **fields: Any) -> JsonLine:
    """What a person asked, or any other line of the user's role."""
    return chained("user", at, message={"role": "user", "content": text}, **fields)


def usage(context: int = 1000, output: int = 50, **fields: Any) -> JsonLine:
    """Counts of an answer that saw `context` tokens, most of them from the cache."""
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": 7,
        "cache_read_input_tokens": context - 10,
        "output_tokens": output,
    } | fields


def assistant(
    message_id: str = "msg_1",
    context: int = 1000,
    output: int = 50,
    content: list[JsonLine] | None = None,
    at: int = 1,
    counts: object = None,
    model: str = MODEL,
    **fields: Any,
) -> JsonLine:
    """One line of an answer.

    It names its request, as all but relays do: their ids may be those of many answers.
    """
    fields.setdefault("requestId", f"req_{message_id}")
    message = {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [text("done")] if content is None else content,
        "usage": usage(context, output) if counts is None else counts,
    }
    return chained("assistant", at, message=message, **fields)


def text(words: str) -> JsonLine:
    """A block of text."""
    return {"type": "text", "text": words}


def tool(name: str, tool_use_id: str, **asked: Any) -> JsonLine:
    """A block that calls a tool."""
    return {"type": "tool_use", "id": tool_use_id, "name": name, "input": asked}


def launch(
    tool_use_id: str, agent_type: str = "reviewer", description: str = "look", **fields: Any
) -> JsonLine:
    """An answer that starts an agent."""
    call = tool("Agent", tool_use_id, subagent_type=agent_type, description=description, prompt="?")
    fields.setdefault("message_id", f"msg_{tool_use_id}")
    return assistant(content=[call], **fields)


def tool_result(tool_use_id: str, words: str, result: object, **fields: Any) -> JsonLine:
    """What a tool returned."""
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": words}
    return user([block], toolUseResult=result, **fields)


def agent_result(tool_use_id: str, agent_id: str, words: str, **fields: Any) -> JsonLine:
    """The result of an agent that ran in the foreground."""
    result = {
        "status": "completed",
        "agentId": agent_id,
        "content": [text(words)],
        "resolvedModel": MODEL,
        "totalTokens": 2100,
        "totalToolUseCount": 4,
        "totalDurationMs": 9000,
        "usage": usage(2000, 100),
    }
    return tool_result(tool_use_id, words, result, **fields)


def launched(tool_use_id: str, agent_id: str, **fields: Any) -> JsonLine:
    """The result that only says that an agent works in the background."""
    result = {"status": "async_launched", "agentId": agent_id, "isAsync": True, "prompt": "?"}
    return tool_result(tool_use_id, "launched", result, **fields)


def notification_text(
    task_id: str, result: str | None, status: str = "completed", tool_use_id: str = "toolu_x"
) -> str:
    """What the client says when a background task has ended."""
    parts = [
        f"<task-id>{task_id}</task-id>",
        f"<tool-use-id>{tool_use_id}</tool-use-id>",
        f"<status>{status}</status>",
        "<summary>it ended</summary>",
    ]
    if result is not None:
        parts.append(f"<result>{result}</result>")
        parts.append(
            "<usage><subagent_tokens>3100</subagent_tokens><tool_uses>5</tool_uses>"
            "<duration_ms>7000</duration_ms></usage>"
        )
    return "<task-notification>\n" + "\n".join(parts) + "\n</task-notification>"


def notification(
    task_id: str,
    result: str | None,
    *,
    status: str = "completed",
    tool_use_id: str = "toolu_x",
    **fields: Any,
) -> JsonLine:
    """A user's line that brings the result of a background task."""
    words = notification_text(task_id, result, status, tool_use_id)
    return user(words, origin={"kind": "task-notification"}, **fields)


def boundary(at: int = 2, trigger: str = "auto", uuid: str | None = None, **meta: Any) -> JsonLine:
    """A compaction."""
    said = {"trigger": trigger, "preTokens": 180_000} | meta
    line = chained("system", at, subtype="compact_boundary", compactMetadata=said)
    return line if uuid is None else line | {"uuid": uuid}


def microcompacted(calls: Iterable[str], saved: int = 20_000, **fields: Any) -> JsonLine:
    """What the client says when it cleared results by itself (2.1.9 and some later clients)."""
    said = {
        "trigger": "auto",
        "preTokens": 68_000,
        "tokensSaved": saved,
        "compactedToolIds": list(calls),
        "clearedAttachmentUUIDs": [],
    }
    return chained("system", subtype="microcompact_boundary", microcompactMetadata=said | fields)


def summary(
    words: str = "This session is being continued. We fixed it.", **fields: Any
) -> JsonLine:
    """What a compaction kept."""
    return user(words, isCompactSummary=True, isVisibleInTranscriptOnly=True, **fields)


def refusal(shown: str, at: int = 3, **fields: Any) -> JsonLine:
    """An answer that the API refused."""
    counts = dict.fromkeys(usage(), 0)
    return assistant(
        f"refused_{at}",
        content=[text(shown)],
        at=at,
        counts=counts,
        model="<synthetic>",
        isApiErrorMessage=True,
        **fields,
    )


def attachment(kind: str, **fields: Any) -> JsonLine:
    """What the client put in by itself."""
    return chained("attachment", attachment={"type": kind} | fields)


def encode(lines: Iterable[JsonLine | bytes]) -> bytes:
    """The bytes of whole lines."""
    return b"".join(
        (item if isinstance(item, bytes) else json.dumps(item, separators=(",", ":")).encode())
        + b"\n"
        for item in lines
    )


def write(path: Path, lines: Iterable[JsonLine | bytes]) -> Path:
    """Write a transcript anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(lines))
    return path


def append(path: Path, lines: Iterable[JsonLine | bytes]) -> Path:
    """Add lines as the client does."""
    with path.open("ab") as file:
        file.write(encode(lines))
    return path
