"""Lines of a transcript as client 2.1.329 writes them, with ids that a seed decides."""

# ruff: noqa: ANN401 -- any field of a tool may be named

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random
    from pathlib import Path

CWD: Final = "/home/dev/shop"
START: Final = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
OVERHEAD: Final = 21_000
"""Tokens of the system prompt and the tools (compaction.md 1.1)."""
CHARS_A_TOKEN: Final = 3.1
"""Of what an answer's usage is made up from (compaction.md 7.5)."""
THOUGHT: Final = "Look at what the test says, then at the function that it calls."

Line = dict[str, Any]


class Writer:
    """Writes one session line by line, each behind the one before it."""

    def __init__(self, random_: random.Random, model: str, *, thinks: float = 0.0) -> None:
        self.session_id: Final = str(uuid.UUID(int=random_.getrandbits(128), version=4))
        self.lines: Final[list[Line]] = []
        self.chars = 0
        """Of what the model sees."""
        self._random: Final = random_
        self._model: Final = model
        self._thinks: Final = thinks
        self._parent: str | None = None
        self._now = START
        self._calls = 0

    @property
    def line(self) -> int:
        """Number of the newest line, from 1."""
        return len(self.lines)

    @property
    def tokens(self) -> int:
        """Roughly what the context has grown to."""
        return int(self.chars / CHARS_A_TOKEN)

    def prompt(self, text: str) -> None:
        """Write a user prompt."""
        self._now += timedelta(seconds=self._random.randint(20, 400))
        self.chars += len(text)
        message = {"role": "user", "content": text}
        self._chained("user", message=message, permissionMode="default", origin={"kind": "human"})

    def say(self, text: str) -> None:
        """Write a text answer of the model."""
        self._answer([{"type": "text", "text": text}], "end_turn")

    def call(
        self,
        name: str,
        given: Line,
        result: str | list[Line],
        side: Any = None,
        *,
        words: str = "",
        failed: bool = False,
    ) -> None:
        """Write a tool call and its result; `side` is the line's `toolUseResult`."""
        self._calls += 1
        call = f"toolu_{self._random.getrandbits(64):016x}{self._calls:06}"
        blocks: list[Line] = [{"type": "text", "text": words}] if words else []
        blocks.append({"type": "tool_use", "id": call, "name": name, "input": given})
        self._answer(blocks, "tool_use")
        block: Line = {"tool_use_id": call, "type": "tool_result", "content": result}
        if failed:
            block["is_error"] = True
        self.chars += len(result) if isinstance(result, str) else 4_800
        self._chained(
            "user",
            message={"role": "user", "content": [block]},
            toolUseResult=side if side is not None else result,
            sourceToolAssistantUUID=self._parent,
        )

    def attach(self, kind: str, **fields: Any) -> None:
        """Write an attachment, as the client adds by itself."""
        self.chars += sum(len(str(each)) for each in fields.values())
        self._chained("attachment", attachment={"type": kind} | fields)

    def aside(self, kind: str, **fields: Any) -> None:
        """Write a line that is no part of the conversation."""
        self.lines.append({"type": kind} | fields | {"sessionId": self.session_id})

    def write(self, folder: Path) -> Path:
        """Write the transcript as a file of its session's name."""
        path = folder / f"{self.session_id}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for line in self.lines:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        return path

    def _answer(self, blocks: list[Line], stop: str) -> None:
        message_id = f"msg_{self._random.getrandbits(80):020x}"
        if self._random.random() < self._thinks:
            signature = f"{self._random.getrandbits(1600):0400x}"
            blocks = [{"type": "thinking", "thinking": THOUGHT, "signature": signature}, *blocks]
        before = OVERHEAD + self.tokens
        said = sum(len(json.dumps(block)) for block in blocks)
        self.chars += said
        usage = {
            "input_tokens": 3,
            "cache_creation_input_tokens": before // 50,
            "cache_read_input_tokens": before - before // 50,
            "output_tokens": int(said / CHARS_A_TOKEN) + 1,
        }
        for block in blocks:
            message = {
                "id": message_id,
                "type": "message",
                "role": "assistant",
                "model": self._model,
                "content": [block],
                "stop_reason": stop,
                "usage": usage,
            }
            self._chained("assistant", message=message, requestId=f"req_{message_id[4:]}")

    def _chained(self, kind: str, **fields: Any) -> None:
        self._now += timedelta(seconds=self._random.randint(1, 9))
        own = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        self.lines.append(
            {
                "parentUuid": self._parent,
                "isSidechain": False,
                "type": kind,
                **fields,
                "uuid": own,
                "timestamp": self._now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "userType": "external",
                "cwd": CWD,
                "sessionId": self.session_id,
                "version": "2.1.329",
                "gitBranch": "main",
            }
        )
        self._parent = own
