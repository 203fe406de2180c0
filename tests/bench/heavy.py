"""A folder like a heavy user's: 3,142 transcripts, 1.24 GB, of four eras; scaled by an argument.

Sizes follow what was measured of one: p50 105 kB, p75 234 kB, p90 654 kB, p95 1.5 MB,
p99 5.4 MB, one of 87 MB. What stands in a file, and how large each line is, follows the
real sessions of shared/corpus. Usage: python -m tests.bench.heavy FOLDER [scale]
"""

from __future__ import annotations

import itertools
import json
import os
import random
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES: Final = 3_142
LARGEST: Final = 87_000_000
QUANTILES: Final = (
    (0.00, 3_000),
    (0.50, 105_000),
    (0.75, 234_000),
    (0.90, 654_000),
    (0.95, 1_400_000),
    (0.99, 5_400_000),
    (1.00, 5_600_000),
)
SESSIONS_WITH_AGENTS: Final = 0.35
COMPACTS_AT: Final = 160_000
SENTENCE: Final = (
    "the route answers with a cursor and the test that failed reads it twice because the "
    "migration renamed a column while src/api/orders.ts still asked for the old one — and a "
    "comment\\nsaid: \\u201cnobody calls this\\u201d"
)
WORDS: Final = tuple(SENTENCE.split(" "))
PAGE: Final = " ".join(random.Random(3).choices(WORDS, k=90_000))
"""Half a megabyte, of which every text is a piece."""

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Era:
    """How one version of the client writes."""

    version: str
    model: str
    agents: str
    """Where an agent's file stands: beside the session's, or below it."""
    snapshot: int
    """Bytes of the system prompt and tools that stand in each file."""
    is_current: bool = False
    """Writes what it sent: api-request lines and blobs."""
    has_progress: bool = False
    """Repeats an agent's steps in its parent's file."""


ERAS: Final = (
    Era("2.0.14", "claude-sonnet-4-5", "{session}/../agent-{agent}.jsonl", 0),
    Era(
        "2.1.45",
        "claude-opus-4-6",
        "{session}/subagents/agent-{agent}.jsonl",
        0,
        has_progress=True,
    ),
    Era("2.1.217", "claude-opus-5", "{session}/subagents/agent-{agent}.jsonl", 20_000),
    Era(
        "2.1.329",
        "claude-opus-5-5",
        "{session}/subagents/agent-{agent}.jsonl",
        60_000,
        is_current=True,
    ),
)


def size_at(share: float) -> int:
    """Interpolate the size in bytes of the file at a share of all files."""
    for (low, small), (high, large) in itertools.pairwise(QUANTILES):
        if share <= high:
            part = (share - low) / (high - low)
            return int(small * (large / small) ** part)
    return QUANTILES[-1][1]


class Transcript:
    """One file's lines, made one after the other."""

    def __init__(
        self, chance: random.Random, era: Era, session: str, agent: str, page: str = PAGE
    ) -> None:
        self.chance = chance
        self.page = page
        self.era = era
        self.session = session
        self.agent = agent
        self.parent: str | None = None
        self.second = 0
        self.context = 18_000
        self.written = 0

    def lines(self, size: int) -> Iterator[bytes]:
        """Write about `size` bytes, line by line."""
        for line in self._story(size):
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
            data = text.encode() + b"\n"
            self.written += len(data)
            yield data

    def _story(self, size: int) -> Iterator[Line]:
        chance = self.chance
        if self.era.snapshot:
            prompt = {"type": "prompt_snapshot", "systemPrompt": [self._text(self.era.snapshot)]}
            yield self._chained({"attachment": prompt}, "attachment", {})
        while self.written < size:
            yield from self._prompt()
            for _ in range(chance.randrange(2, 14)):
                yield from self._round()
                if self.written >= size:
                    break
            yield {"type": "last-prompt", "lastPrompt": "go on", "sessionId": self.session}

    def _prompt(self) -> Iterator[Line]:
        said = self._text(self.chance.randrange(20, 900))
        yield {
            "type": "queue-operation",
            "operation": "enqueue",
            "timestamp": self._time(),
            "sessionId": self.session,
            "content": said,
        }
        message = {"role": "user", "content": said}
        yield self._chained({}, "user", {"message": message})
        snapshot: Line = {
            "messageId": self.parent,
            "trackedFileBackups": {},
            "timestamp": self._time(),
        }
        yield {"type": "file-history-snapshot", "messageId": self.parent, "snapshot": snapshot}

    def _round(self) -> Iterator[Line]:
        chance = self.chance
        self.context += chance.randrange(200, 4_000)
        if self.context > COMPACTS_AT:
            yield from self._compaction()
        answer, tool = f"msg_{chance.getrandbits(80):020x}", f"toolu_{chance.getrandbits(80):020x}"
        if self.era.is_current:
            yield from self._request()
        arguments = {"file_path": "src/api/orders.ts", "old_string": self._text(600)}
        blocks: list[Line] = [
            {"type": "thinking", "thinking": "", "signature": f"{chance.getrandbits(4_000):x}"},
            {"type": "text", "text": self._text(chance.randrange(40, 900))},
            {"type": "tool_use", "id": tool, "name": "Edit", "input": arguments},
        ]
        usage = self._usage()
        for block in chance.choices((blocks, blocks[1:], blocks[2:]), (1, 2, 3))[0]:
            yield self._chained(
                {"message": self._answer(answer, block, usage), "requestId": answer},
                "assistant",
                {},
            )
        caller = self.parent
        result = self._text(min(400_000, int(chance.paretovariate(1.05) * 900)))
        content = [{"tool_use_id": tool, "type": "tool_result", "content": result}]
        yield self._chained(
            {},
            "user",
            {"message": {"role": "user", "content": content}},
            {"toolUseResult": {"stdout": result}, "sourceToolAssistantUUID": caller},
        )
        if self.era.has_progress and chance.random() < 0.1:
            step = {"type": "agent_progress", "agentId": "a1", "message": self._text(800)}
            yield self._chained({}, "progress", {"data": step, "parentToolUseID": tool})
        if chance.random() < 0.2:
            reminder = {"type": "task_reminder", "content": self._text(700)}
            yield self._chained({"attachment": reminder}, "attachment", {})

    def _request(self) -> Iterator[Line]:
        mark = f"{self.chance.getrandbits(256):064x}"
        blob = {"role": "user", "content": [{"type": "text", "text": self._text(2_500)}]}
        head = {"sessionId": self.session}
        yield {"type": "api-request-blob", **head, "hash": mark, "message": blob}
        yield {
            "type": "api-request",
            **head,
            "id": str(uuid.UUID(int=self.chance.getrandbits(128))),
            "timestamp": self._time(),
            "querySource": "sdk",
            "shapeHash": "1181b7ad2beaaf11c61bd973e4b1b907",
            "params": {"model": self.era.model, "max_tokens": 64_000},
            "keep": 3,
            "tail": [mark],
        }

    def _compaction(self) -> Iterator[Line]:
        metadata = {"trigger": "auto", "preTokens": self.context, "postTokens": 9_000}
        boundary = {"subtype": "compact_boundary", "compactMetadata": metadata}
        yield self._chained({}, "system", boundary)
        kept = {"role": "user", "content": self._text(6_000)}
        yield self._chained({}, "user", {"message": kept}, {"isCompactSummary": True})
        self.context = 30_000

    def _usage(self) -> Line:
        created = self.context // 10
        return {
            "input_tokens": 10,
            "cache_creation_input_tokens": created,
            "cache_read_input_tokens": self.context - created - 10,
            "cache_creation": {
                "ephemeral_5m_input_tokens": created,
                "ephemeral_1h_input_tokens": 0,
            },
            "output_tokens": self.chance.randrange(20, 900),
            "service_tier": "standard",
        }

    def _answer(self, message_id: str, block: Line, usage: Line) -> Line:
        return {
            "model": self.era.model,
            "id": message_id,
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": usage,
        }

    def _chained(self, before: Line, kind: str, fields: Line, after: Line | None = None) -> Line:
        own = str(uuid.UUID(int=self.chance.getrandbits(128)))
        line: Line = {"parentUuid": self.parent, "isSidechain": bool(self.agent)}
        if self.agent:
            line["agentId"] = self.agent
        line |= {**before, "type": kind, **fields, "uuid": own, "timestamp": self._time()}
        line |= {
            **(after or {}),
            "userType": "external",
            "entrypoint": "cli",
            "cwd": "/home/dev/shop",
            "sessionId": self.session,
            "version": self.era.version,
            "gitBranch": "main",
        }
        self.parent = own
        return line

    def _time(self) -> str:
        self.second += 1
        day, rest = divmod(self.second, 80_000)
        hour, rest = divmod(rest, 3_600)
        return f"2026-11-{1 + day % 28:02}T{hour:02}:{rest // 60:02}:{rest % 60:02}.000Z"

    def _text(self, characters: int) -> str:
        start = self.chance.randrange(len(self.page) - characters)
        return self.page[start : start + characters]


def make(root: Path, scale: float, seed: int = 7, page: str = PAGE) -> tuple[int, int]:
    """Write the folder with pieces of `page` as its texts; return its files and bytes."""
    chance = random.Random(seed)
    wanted = max(4, round(FILES * scale))
    sizes = [size_at((number + 0.5) / wanted) for number in range(wanted - 1)]
    sizes.append(int(LARGEST * min(1.0, max(scale, 0.05))))
    chance.shuffle(sizes)
    total = 0
    session, era, folder = "", ERAS[0], root
    for number, size in enumerate(sizes):
        agent = ""
        if session and size < 300_000 and chance.random() < SESSIONS_WITH_AGENTS:
            agent = f"a{chance.getrandbits(64):016x}"
            path = folder / era.agents.format(session=session, agent=agent)
        else:
            era = ERAS[number % len(ERAS)]
            session = str(uuid.UUID(int=chance.getrandbits(128)))
            folder = root / "projects" / f"-home-dev-project-{number % 40}"
            path = folder / f"{session}.jsonl"
        path = Path(os.path.normpath(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(Transcript(chance, era, session, agent, page).lines(size))
        os.utime(path, (1_795_000_000 + number, 1_795_000_000 + number))
        total += path.stat().st_size
    return wanted, total


if __name__ == "__main__":
    found = make(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
    print(f"{found[0]:,} files, {found[1] / 1e6:,.0f} MB")
