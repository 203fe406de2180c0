"""What stands in the place of a text that was taken out: what it was, and how to get it back.

A stub names the tool and the file or command, and the identifiers of the text: measured, that
answers more later references in less room than the text's first characters (compaction.md 1.4b).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..summaries.cues import quote
from .text_hash import text_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

SHORTEST_CHARS: Final = 500
"""A shorter text stays (compaction.md 7.5; claude-code-tools has the same)."""

DIGEST_CHARS: Final = 700
"""Of the identifiers in a stub, at most (compaction.md 1.4b)."""

POINTER_BYTES: Final = 80
"""Of a stub for what stands elsewhere in the same context (compaction.md 7.5)."""

WORTH: Final = 2
"""A text that is not longer than so many of its stubs stays (compaction.md 7.2)."""

HASH_HEX: Final = 8

_WHAT_CHARS: Final = 160
_LINE_END: Final = "\n"
_STUB: Final = re.compile(rf"\[ctxtop [0-9a-f]{{{HASH_HEX}}}: ")


def is_stubbed(text: str) -> bool:
    """Say whether a text holds a stub already: such a one is left as it is."""
    return _STUB.search(text) is not None


def mark(text: str) -> str:
    """Give the hash by which a stub names the text that it stands for: the same in any plan."""
    return text_hash(text, HASH_HEX)


def stub(text: str, description: str, restore_hint: str, names: Iterable[str] = ()) -> str:
    """Say what a text was, how to get it back, and what it named.

    `what` is the tool with its path or command, range and status; `names` are what stands
    nowhere else, as much of it as DIGEST_CHARS hold.
    """
    return f"{_head(text, description, restore_hint)}{_digest(names)}]"


def stubs(text: str, description: str, restore_hint: str, names: Iterable[str]) -> str:
    """Write a stub for each part of a long text, so that all names are in one of the digests.

    A part begins at the line of its first name; DIGEST_CHARS hold for each.
    """
    at = sorted((text.find(name), name) for name in names)
    parts = [f"{_head(text, description, restore_hint)}"]
    left = DIGEST_CHARS
    held: list[str] = []
    for place, name in at:
        if held and len(name) + 2 > left:
            parts[-1] += f"{_digest(held)}]"
            parts.append(f"[ctxtop {mark(text)}: from line {text.count(_LINE_END, 0, place) + 1}.")
            held, left = [], DIGEST_CHARS
        held.append(name)
        left -= len(name) + 2
    return "\n".join([*parts[:-1], f"{parts[-1]}{_digest(held)}]"])


def _head(text: str, description: str, restore_hint: str) -> str:
    said = f"[ctxtop {mark(text)}: {quote(description, _WHAT_CHARS)}; {len(text):,} chars left out. {restore_hint}"
    return said.rstrip()


def pointer(text: str, reason: str, names: Iterable[str] = ()) -> str:
    """Say in POINTER_BYTES that a text stands elsewhere, or was overtaken.

    Where `names` stand nowhere else they come after it, as in a stub.
    """
    start = f"[ctxtop {mark(text)}: "
    room = POINTER_BYTES - len(start) - 1
    return f"{start}{reason.encode()[:room].decode('utf-8', 'ignore')}{_digest(names)}]"


def _digest(names: Iterable[str]) -> str:
    found = ", ".join(_fitting(names, DIGEST_CHARS))
    return f" It names: {found}" if found else ""


def is_worth(text: str, replacement: str) -> bool:
    """Say whether a text is long enough to be replaced, and no stub itself."""
    return (
        len(text) >= SHORTEST_CHARS
        and len(text) > WORTH * len(replacement)
        and not is_stubbed(text)
    )


def _fitting(names: Iterable[str], chars: int) -> list[str]:
    found: list[str] = []
    left = chars
    for name in names:
        if len(name) + 2 <= left:
            found.append(name)
            left -= len(name) + 2
    return found
