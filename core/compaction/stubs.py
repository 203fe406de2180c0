"""What stands in the place of a text that was taken out: what it was, and how to get it back.

A stub names the tool and the file or command, and the identifiers of the text: measured, that
answers more later references in less room than the text's first characters (compaction.md 1.4b).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..summaries.cues import quote
from ..summaries.names import names_in_order
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
_STUB: Final = re.compile(rf"\[ctxtop [0-9a-f]{{{HASH_HEX}}}: ")


def is_stubbed(text: str) -> bool:
    """Say whether a text holds a stub already: such a one is left as it is."""
    return _STUB.search(text) is not None


def mark(text: str) -> str:
    """Give the hash by which a stub names the text that it stands for: the same in any plan."""
    return text_hash(text, HASH_HEX)


def stub(text: str, what: str, back: str) -> str:
    """Say what a text was, how to get it back, and which names it held.

    `what` is the tool with its path or command, range and status.
    """
    head = f"[ctxtop {mark(text)}: {quote(what, _WHAT_CHARS)}; {len(text):,} chars left out. {back}"
    names = digest_of(text)
    return f"{head} It names: {names}]" if names else f"{head}]"


def pointer(text: str, why: str) -> str:
    """Say in POINTER_BYTES that a text stands elsewhere, or was overtaken."""
    start = f"[ctxtop {mark(text)}: "
    room = POINTER_BYTES - len(start) - 1
    return f"{start}{why.encode()[:room].decode('utf-8', 'ignore')}]"


def digest_of(text: str, chars: int = DIGEST_CHARS) -> str:
    """List the identifiers and paths of a text in their order, each once and whole."""
    return ", ".join(_fitting(names_in_order(text), chars))


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
        if len(name) + 2 > left:
            break
        found.append(name)
        left -= len(name) + 2
    return found
