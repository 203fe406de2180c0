"""Lines as the client writes them, appended to a folder while the dashboard looks."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from .support import NOW

if TYPE_CHECKING:
    from pathlib import Path

HAIKU: Final = "claude-haiku-4-5"
"""Its window is 200,000 tokens."""

Line = dict[str, Any]
_numbers: Final = count(1)


def line(kind: str, second: float = 0, **fields: Any) -> Line:  # noqa: ANN401 -- any field
    """One line, `second` seconds after the dashboard's clock."""
    moment = NOW + timedelta(seconds=second)
    return {
        "parentUuid": None,
        "isSidechain": False,
        "type": kind,
        "uuid": f"00000000-0000-4000-8000-{next(_numbers):012}",
        "timestamp": moment.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "cwd": "/home/dev/live",
        "version": "2.1.329",
        **fields,
    }


def prompt(words: str, second: float = 0) -> Line:
    return line("user", second, message={"role": "user", "content": words})


def answer(
    tokens: int, second: float = 0, model: str = HAIKU, content: list[Line] | None = None
) -> Line:
    """An answer whose context is `tokens`."""
    message = {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content or [{"type": "text", "text": "done"}],
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 7,
            "cache_read_input_tokens": tokens - 10,
            "output_tokens": 20,
        },
    }
    return line("assistant", second, message=message)


def boundary(after: int, second: float = 0) -> Line:
    """A compaction that leaves `after` tokens."""
    said = {"trigger": "auto", "preTokens": 190_000, "postTokens": after}
    return line("system", second, subtype="compact_boundary", compactMetadata=said)


def launch(
    tool_use_id: str, agent_type: str, description: str, tokens: int, second: float = 0
) -> Line:
    """An answer that starts an agent."""
    asked = {"subagent_type": agent_type, "description": description, "prompt": "do it"}
    call = {"type": "tool_use", "id": tool_use_id, "name": "Agent", "input": asked}
    return answer(tokens, second, content=[call])


def returned(tool_use_id: str, agent_id: str, words: str, second: float = 0) -> Line:
    """What an agent put into its parent's context."""
    block = {"type": "tool_result", "tool_use_id": tool_use_id, "content": words}
    result = {
        "status": "completed",
        "agentId": agent_id,
        "content": [{"type": "text", "text": words}],
        "totalToolUseCount": 1,
    }
    message = {"role": "user", "content": [block]}
    return line("user", second, message=message, toolUseResult=result)


def append(path: Path, *lines: Line | bytes) -> None:
    """Write whole lines, as the client does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        for one in lines:
            file.write(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n")


def session_file(root: Path, number: int, project: str = "-home-dev-live") -> Path:
    return root / "projects" / project / f"0000000{number}-0000-4000-8000-000000000000.jsonl"


def agent_files(transcript: Path, agent_id: str, meta: Line, *lines: Line) -> None:
    """Write an agent's files beside its session's."""
    below = transcript.with_suffix("") / "subagents"
    append(below / f"agent-{agent_id}.jsonl", *lines)
    (below / f"agent-{agent_id}.meta.json").write_text(json.dumps(meta), encoding="utf-8")
