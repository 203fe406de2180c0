"""What one operation changes: the text before, and what stands in its place. Both are data."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

import msgspec

from ..collectors.clean import clean_text
from ..core.compaction.files import reading
from ..core.compaction.line_file import LONGEST_LINE
from ..core.compaction.plan import Append, Remove, Replace
from ..core.compaction.pointer import PointerError, value_at

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ..core.compaction.plan import Edit, Operation

NARROWEST: Final = 20
"""Columns that a text is wrapped to at the least."""

GONE: Final = "(this line is not there any more)"


class Change(msgspec.Struct, frozen=True):
    """What happens to one value or line."""

    do: str
    """`replace`, `remove` or `append`."""
    line: int | None
    """Counted from 1; None for what is appended."""
    pointer: str | None
    """JSON pointer of the value; None for a whole line."""
    before: str | None
    after: str | None


def changes(operation: Operation, transcript: Path) -> list[Change]:
    """Read what an operation changes. Raises OSError."""
    return changes_of(operation.edits, transcript)


def changes_of(edits: Iterable[Edit], transcript: Path) -> list[Change]:
    """Read what some edits change. Raises OSError."""
    return [_change(edit, transcript) for edit in edits]


def shortened(text: str, lines: int, width: int) -> list[str]:
    """Wrap a text to the width and keep its first lines; the rest is counted in one more."""
    wrapped: list[str] = []
    for line in text.split("\n"):
        if len(wrapped) > lines:
            break
        said = clean_text(line.expandtabs(4))
        wrapped += textwrap.wrap(
            said,
            max(width, NARROWEST),
            subsequent_indent="  ",
            replace_whitespace=False,
        ) or [""]
    if len(wrapped) <= lines:
        return wrapped
    kept = wrapped[:lines]
    left = len(clean_text(text)) - sum(len(each) for each in kept)
    return [*kept, f"… {max(left, 1):,} more of {len(text):,} characters"]


def _change(edit: Edit, transcript: Path) -> Change:
    if isinstance(edit, Append):
        return Change("append", None, None, None, _words_of(edit.text))
    if isinstance(edit, Remove):
        return Change("remove", edit.line, None, _old(transcript, edit), None)
    return Change("replace", edit.line, edit.pointer, _old(transcript, edit), _value(edit.value))


def _old(transcript: Path, edit: Replace | Remove) -> str:
    with reading(transcript) as file:
        file.seek(edit.offset)
        line = file.readline(LONGEST_LINE).rstrip(b"\n")
    if isinstance(edit, Remove):
        return _words_of(line.decode("utf-8", "replace"))
    try:
        return _value(value_at(line, edit.pointer).decode("utf-8", "replace"))
    except PointerError:
        return GONE


def _value(text: str) -> str:
    """Give a JSON text's words; what is no string stays JSON."""
    try:
        decoded = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return decoded if isinstance(decoded, str) else text


def _words_of(line: str) -> str:
    """Give what a line says where that is one text, else the line."""
    try:
        decoded = msgspec.json.decode(line)
        content = decoded["message"]["content"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return line
    return content if isinstance(content, str) else line
