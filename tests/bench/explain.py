"""Where ccusage 20.0.24 counts otherwise than ctxtop, and by how much.

Both were found by taking the recorded transcripts apart answer by answer:
- it counts a copied answer again (a fork's file) where no line names its request;
- it adds cache writes up by their lifetime, and takes none where an answer names none.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNTS: Final = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
)
CREATION: Final = 1

Answer = dict[str, Any]


def differences(config: Path) -> tuple[list[int], list[int]]:
    """Add up what it counts again, and what of the cache's writes it leaves out (negative)."""
    again, left_out = [0, 0, 0, 0], [0, 0, 0, 0]
    for copies in _answers(config).values():
        first, *others = copies.values()
        left_out[CREATION] += _as_ccusage(first)[CREATION] - _counts(first)[CREATION]
        if first["request"] is None:
            for other in others:
                again = [a + b for a, b in zip(again, _as_ccusage(other), strict=True)]
    return again, left_out


def _answers(config: Path) -> dict[str, dict[Path, Answer]]:
    """Find each answer's last line in each file that holds it."""
    found: dict[str, dict[Path, Answer]] = defaultdict(dict)
    for path in sorted((config / "projects").rglob("*.jsonl")):
        for line in _lines(path):
            message = line.get("message")
            if line.get("type") == "assistant" and isinstance(message, dict):
                usage = message.get("usage")
                if usage and message.get("model") != "<synthetic>":
                    answer = {"usage": usage, "request": line.get("requestId")}
                    found[message["id"]][path] = answer
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for data in file:
            try:
                line = json.loads(data)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line


def _counts(answer: Answer) -> list[int]:
    return [answer["usage"].get(name) or 0 for name in COUNTS]


def _as_ccusage(answer: Answer) -> list[int]:
    counts = _counts(answer)
    lifetimes = answer["usage"].get("cache_creation")
    if lifetimes:
        counts[CREATION] = sum(
            lifetimes.get(f"ephemeral_{name}_input_tokens") or 0 for name in ("5m", "1h")
        )
    return counts
