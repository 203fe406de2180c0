"""The stub that replaces a removed text: what it was, how to get it back, lost names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..summaries.decision_patterns import quote_line
from .transcript_view import hash_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .transcript_view import TranscriptView


MIN_STUBBED_CHARS: Final = 500
"""A shorter text stays (compaction.md 7.5; claude-code-tools has the same)."""

MAX_NAMES_CHARS: Final = 700
"""Of the identifiers in a stub, at most (compaction.md 1.4b)."""

SHORT_STUB_BYTES: Final = 80
"""Of a stub for what stands elsewhere in the same context (compaction.md 7.5)."""

MIN_STUB_RATIO: Final = 2
"""A text that is not longer than so many of its stubs stays (compaction.md 7.2)."""

MARK_HEX_CHARS: Final = 8

_WHAT_CHARS: Final = 160
_LINE_END: Final = "\n"
_STUB_START: Final = re.compile(rf"\[ctxtop [0-9a-f]{{{MARK_HEX_CHARS}}}: ")


def has_stub(text: str) -> bool:
    """Whether a text contains a stub already; such a text is left as it is."""
    return _STUB_START.search(text) is not None


def text_mark(text: str) -> str:
    """Return the hash by which a stub identifies the text it replaces; equal in every plan."""
    return hash_text(text, MARK_HEX_CHARS)


def make_stub(text: str, description: str, restore_hint: str, names: Iterable[str] = ()) -> str:
    """Write a stub: what a text was, how to restore it, and which names it held.

    `description` is the tool with its path or command, range and status; `names` are those found
    nowhere else, up to MAX_NAMES_CHARS.
    """
    return f"{_stub_head(text, description, restore_hint)}{_names_suffix(names)}]"


def make_stubs(text: str, description: str, restore_hint: str, names: Iterable[str]) -> str:
    """Write a stub for each part of a long text, so that all names are in one of the digests.

    A part begins at the line of its first name; DIGEST_CHARS hold for each.
    """
    at = sorted((text.find(name), name) for name in names)
    parts = [f"{_stub_head(text, description, restore_hint)}"]
    left = MAX_NAMES_CHARS
    held: list[str] = []
    for place, name in at:
        if held and len(name) + 2 > left:
            parts[-1] += f"{_names_suffix(held)}]"
            parts.append(
                f"[ctxtop {text_mark(text)}: from line {text.count(_LINE_END, 0, place) + 1}."
            )
            held, left = [], MAX_NAMES_CHARS
        held.append(name)
        left -= len(name) + 2
    return "\n".join([*parts[:-1], f"{parts[-1]}{_names_suffix(held)}]"])


def _stub_head(text: str, description: str, restore_hint: str) -> str:
    said = (
        f"[ctxtop {text_mark(text)}: {quote_line(description, _WHAT_CHARS)}; {len(text):,}"
        f" chars left out. {restore_hint}"
    )
    return said.rstrip()


def make_short_stub(text: str, reason: str, names: Iterable[str] = ()) -> str:
    """Write a stub of SHORT_STUB_BYTES for a text that is repeated elsewhere or superseded.

    `names` that are found nowhere else are added after it, as in a stub.
    """
    start = f"[ctxtop {text_mark(text)}: "
    room = SHORT_STUB_BYTES - len(start) - 1
    return f"{start}{reason.encode()[:room].decode('utf-8', 'ignore')}{_names_suffix(names)}]"


def _names_suffix(names: Iterable[str]) -> str:
    found = ", ".join(_names_that_fit(names, MAX_NAMES_CHARS))
    return f" It names: {found}" if found else ""


def is_worth_stubbing(text: str, replacement: str) -> bool:
    """Whether a text is long enough to be replaced and contains no stub yet."""
    return (
        len(text) >= MIN_STUBBED_CHARS
        and len(text) > MIN_STUB_RATIO * len(replacement)
        and not has_stub(text)
    )


def _names_that_fit(names: Iterable[str], chars: int) -> list[str]:
    found: list[str] = []
    left = chars
    for name in names:
        if len(name) + 2 <= left:
            found.append(name)
            left -= len(name) + 2
    return found


def stub_with_unique_names(
    view: TranscriptView,
    removed_text: str,
    description: str,
    restore_hint: str,
    kept_text: str = "",
) -> str:
    """Write a stub for a part of a piece; it names what no other piece does, nor `kept`.

    What one digest does not hold gets several, if the text is long enough for that.
    """
    names = view.name_index.unique_names(removed_text, kept_text)
    if sum(len(name) + 2 for name in names) > MAX_NAMES_CHARS:
        several = make_stubs(removed_text, description, restore_hint, names)
        if is_worth_stubbing(removed_text, several):
            return several
    return make_stub(removed_text, description, restore_hint, names)


def superseded_stub(
    view: TranscriptView, removed_text: str, reason: str, kept_text: str = ""
) -> str:
    """Write a pointer for a part of a piece, with what no other piece names, nor `kept`."""
    return make_short_stub(
        removed_text, reason, view.name_index.unique_names(removed_text, kept_text)
    )
