"""A folder like a heavy user's: 3,142 transcripts, 1.24 GB, of three eras; scaled by an argument.

Sizes follow what was measured of one: p50 105 kB, p75 234 kB, p90 654 kB, p95 1.5 MB,
p99 5.4 MB, one of 87 MB. Usage: heavy.py FOLDER [scale]
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
    (0.00, 6_000),
    (0.50, 105_000),
    (0.75, 234_000),
    (0.90, 654_000),
    (0.95, 1_500_000),
    (0.99, 5_400_000),
    (1.00, 14_000_000),
)
SESSIONS_WITH_AGENTS: Final = 0.35
SENTENCE: Final = (
    "the route answers with a cursor and the test that failed reads it twice because the "
    "migration renamed a column while src/api/orders.ts still asked for the old one"
)
WORDS: Final = tuple(SENTENCE.split())

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Era:
    """How one version of the client writes."""

    version: str
    model: str
    snapshots: int
    """Bytes of the system prompt and tools that stand in each file."""
    fragments: int
    """Lines of one answer, each with the same usage."""


ERAS: Final = (
    Era("2.1.45", "claude-opus-4-6", 0, 2),
    Era("2.1.217", "claude-opus-5", 20_000, 2),
    Era("2.1.329", "claude-opus-5-5", 60_000, 2),
    Era("2.1.329", "claude-haiku-4-5", 60_000, 1),
)


def size_at(share: float) -> int:
    """Interpolate the size in bytes of the file at a share of all files."""
    for (low, small), (high, large) in itertools.pairwise(QUANTILES):
        if share <= high:
            part = (share - low) / (high - low)
            return int(small * (large / small) ** part)
    return QUANTILES[-1][1]


def text(chance: random.Random, characters: int) -> str:
    """Make words of about this length."""
    count = max(1, characters // 6)
    return " ".join(chance.choices(WORDS, k=count))


def lines(chance: random.Random, era: Era, session: str, size: int, agent: str) -> Iterator[bytes]:
    """Write one transcript of about `size` bytes, line by line."""
    written, number, context, parent = 0, 0, 18_000, None
    envelope: Line = {
        "isSidechain": bool(agent),
        "userType": "external",
        "cwd": "/home/dev/shop",
        "sessionId": session,
        "version": era.version,
        "gitBranch": "main",
    }
    if agent:
        envelope["agentId"] = agent

    def chained(kind: str, fields: Line) -> Line:
        nonlocal parent, number
        number += 1
        own = str(uuid.UUID(int=chance.getrandbits(128)))
        moment = f"2026-11-{1 + number // 20_000 % 28:02}T{number // 1_000 % 20:02}:"
        moment += f"{number // 60 % 60:02}:{number % 60:02}.000Z"
        line = {"parentUuid": parent, **envelope, "type": kind, **fields}
        parent = own
        return line | {"uuid": own, "timestamp": moment}

    def out(line: Line) -> bytes:
        nonlocal written
        data = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        written += len(data)
        return data

    yield out(chained("user", {"message": {"role": "user", "content": text(chance, 300)}}))
    if era.snapshots:
        prompt = {"type": "prompt_snapshot", "systemPrompt": [text(chance, era.snapshots)]}
        yield out(chained("attachment", {"attachment": prompt}))
    while written < size:
        context += chance.randrange(400, 6_000)
        if context > 160_000:
            metadata = {"trigger": "auto", "preTokens": context, "postTokens": 9_000}
            yield out(
                chained("system", {"subtype": "compact_boundary", "compactMetadata": metadata})
            )
            summary = {"role": "user", "content": text(chance, 6_000)}
            yield out(chained("user", {"message": summary, "isCompactSummary": True}))
            context = 30_000
        usage = {
            "input_tokens": 10,
            "cache_creation_input_tokens": context // 10,
            "cache_read_input_tokens": context - context // 10 - 10,
            "output_tokens": chance.randrange(20, 900),
        }
        answer = f"msg_{chance.getrandbits(80):020x}"
        tool = f"toolu_{chance.getrandbits(80):020x}"
        blocks: list[Line] = [{"type": "text", "text": text(chance, chance.randrange(40, 900))}]
        arguments = {"file_path": "src/api/orders.ts", "old_string": text(chance, 300)}
        blocks.append({"type": "tool_use", "id": tool, "name": "Edit", "input": arguments})
        for block in blocks[-era.fragments :]:
            message = {
                "id": answer,
                "type": "message",
                "role": "assistant",
                "model": era.model,
                "content": [block],
                "usage": usage,
            }
            yield out(chained("assistant", {"message": message}))
        result = text(chance, min(400_000, int(chance.paretovariate(0.9) * 700)))
        content = [{"type": "tool_result", "tool_use_id": tool, "content": result}]
        message = {"role": "user", "content": content}
        yield out(chained("user", {"message": message, "toolUseResult": {"stdout": result}}))
        if era.version == "2.1.329":
            yield out({"type": "api-request-blob", "hash": answer, "blob": text(chance, 1_500)})
        yield out({"type": "last-prompt", "lastPrompt": "go on", "sessionId": session})


def make(root: Path, scale: float, seed: int = 7) -> tuple[int, int]:
    """Write the folder; return its files and bytes."""
    chance = random.Random(seed)
    wanted = max(4, round(FILES * scale))
    sizes = [size_at((number + 0.5) / wanted) for number in range(wanted - 1)]
    sizes.append(int(LARGEST * min(1.0, max(scale, 0.05))))
    chance.shuffle(sizes)
    files = total = 0
    session, folder = "", root
    for number, size in enumerate(sizes):
        era = ERAS[number % len(ERAS)]
        agent = ""
        if session and size < 300_000 and chance.random() < SESSIONS_WITH_AGENTS:
            agent = f"a{chance.getrandbits(64):016x}"
            path = folder / session / "subagents" / f"agent-{agent}.jsonl"
        else:
            session = str(uuid.UUID(int=chance.getrandbits(128)))
            folder = root / "projects" / f"-home-dev-project-{number % 40}"
            path = folder / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for line in lines(chance, era, session, size, agent):
                file.write(line)
        os.utime(path, (1_795_000_000 + number, 1_795_000_000 + number))
        files += 1
        total += path.stat().st_size
    return files, total


if __name__ == "__main__":
    found = make(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
    print(f"{found[0]} files, {found[1] / 1e6:.0f} MB")
