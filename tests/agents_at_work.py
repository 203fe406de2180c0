"""Agents below a session's `subagents/`, as the client (2.1.329) leaves them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from .transcripts import assistant, text, tool, tool_result, user, write

if TYPE_CHECKING:
    from pathlib import Path

    from .transcripts import JsonLine


def write_agent(transcript: Path, agent_id: str, words: str, **meta: Any) -> Path:  # noqa: ANN401
    """Write an agent's two files beside its session's; `at_s` is when they changed."""
    at_s, asked = meta.pop("at_s", 1_000), meta.pop("prompt", "Do it.")
    folder = transcript.with_suffix("") / "subagents"
    lines = [user(asked, isSidechain=True)]
    lines += [assistant(f"m {agent_id}", content=[text(words)], isSidechain=True)] if words else []
    path = write(folder / f"agent-{agent_id}.jsonl", lines)
    told = {"agentType": "worker", "description": "Do it", "finished": True} | meta
    (folder / f"agent-{agent_id}.meta.json").write_text(json.dumps(told), encoding="utf-8")
    os.utime(path, (at_s, at_s))
    return path


def called(name: str, call_id: str, words: str = "done", **asked: Any) -> list[JsonLine]:  # noqa: ANN401
    """A tool's call and its result."""
    call = assistant(f"m {call_id}", content=[tool(name, call_id, **asked)])
    return [call, tool_result(call_id, words, words)]
