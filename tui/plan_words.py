"""A plan in words: its levels, why it is refused, what it appends, when it has paid."""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..core.compaction.plan import Operation, Refusal

LEVELS: Final = (
    "file only",
    "lossless",
    "superseded",
    "masked",
    "inputs",
    "reasoning",
    "prose",
    "summary",
    "cut",
)

NOTHING: Final = frozenset({"nothing", "target", "too_few"})
"""Checks that say that there is nothing to gain."""


HARMS: Final = (
    "the model sees what it saw",
    "nothing is lost, it is said elsewhere in the context",
    "what something newer says in its place",
    "of old results a digest stays",
    "of what tools were called with a digest stays",
    "thinking goes",
    "the model's words and long pastes are shortened",
    "a summary stands in the place of what was",
    "turns are gone",
)
"""What each level takes from the model."""

_ON_SCREEN: Final = {
    "target": "move the target further down",
    "live": "a fork can be made at any time",
    "changed": "it is worked out again as soon as it rests",
    "thinking": "let the session finish its turn first, or take level 0",
    "file-size": "`ctxtop compact --force` takes it on",
    "open": "close it there, or write a fork",
    "agent": "wait until it rests, or write a fork",
    "no_prompt": "choose another prompt",
}
"""What to do here, where a command would say its options."""


_OPTION: Final = re.compile(r" \((?:a smaller )?--[^)]*\)")
"""How a refusal names the option of a command behind what it says."""


def what_to_do(refusal: Refusal) -> str:
    """Say what to do about a refusal on the screen."""
    return _ON_SCREEN.get(refusal.check, _OPTION.sub("", refusal.what_to_do))


def refusal_line(refusal: Refusal) -> str:
    """Say a refusal in one line: what it is, why, what to do."""
    label = "nothing to do" if refusal.check in NOTHING else refusal.check
    return f"{label}: {refusal.why}; {refusal.what_to_do}"


def added_texts(operation: Operation) -> Iterator[str]:
    """Give the words of the lines that an operation appends."""
    for edit in operation.edits:
        text = getattr(edit, "text", None)
        if isinstance(text, str):
            message = msgspec.json.decode(text).get("message")
            if isinstance(message, dict):
                yield str(message.get("content", ""))


def paid_after(requests: float) -> str:
    """Say after how many requests a warm cache has paid for it."""
    count = ceil(requests)
    if count <= 0:
        return "at once"
    return f"after {count} requests" if count > 1 else "after 1 request"
