"""What one operation changes: the text before, and what stands in its place. Both are data."""

from __future__ import annotations

import hashlib
import textwrap
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from ..collectors.clean import clean_text
from ..core.compaction.files import reading
from ..core.compaction.line_file import LONGEST_LINE
from ..core.compaction.plan import Append, Remove, Replace
from ..core.compaction.pointer import PointerError, value_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
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
    """Read what some edits change of a transcript that is still as it was. Raises OSError."""
    with reading(transcript) as file:

        def line_at(offset: int) -> bytes:
            file.seek(offset)
            return file.readline(LONGEST_LINE)

        return [_change(edit, line_at) for edit in edits]


def changes_kept(edits: Sequence[Edit], lines: Iterable[bytes]) -> list[Change]:
    """Read what some edits changed, from the lines of the copy of what was."""
    wanted = {edit.line: edit.offset for edit in edits if not isinstance(edit, Append)}
    last = max(wanted, default=0)
    numbered = enumerate(islice(lines, last), 1)
    old = {wanted[number]: line for number, line in numbered if number in wanted}
    return [_change(edit, lambda offset: old.get(offset, b"")) for edit in edits]


def shortened(text: str, max_lines: int, width: int) -> list[str]:
    """Wrap a text to the width and keep its first lines; the rest is counted in one more."""
    wrapped: list[str] = []
    for line in text.split("\n"):
        if len(wrapped) > max_lines:
            break
        said = clean_text(line.expandtabs(4))
        wrapped += textwrap.wrap(
            said,
            max(width, NARROWEST),
            subsequent_indent="  ",
            replace_whitespace=False,
        ) or [""]
    if len(wrapped) <= max_lines:
        return wrapped
    kept = wrapped[:max_lines]
    left = len(clean_text(text)) - sum(len(each) for each in kept)
    return [*kept, f"… {max(left, 1):,} more of {len(text):,} characters"]


def _change(edit: Edit, line_at: Callable[[int], bytes]) -> Change:
    if isinstance(edit, Append):
        return Change("append", None, None, None, _words_of(edit.text))
    old = _old(line_at(edit.offset).rstrip(b"\n"), edit)
    if isinstance(edit, Remove):
        return Change("remove", edit.line, None, old, None)
    return Change("replace", edit.line, edit.pointer, old, _value(edit.value))


def _old(line: bytes, edit: Replace | Remove) -> str:
    if hashlib.sha256(line).hexdigest() != edit.sha256:
        return GONE
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
