"""One operation in full: the text before, and what stands in its place. Both are data."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...collectors.clean import clean_text
from ...core.compaction.files import reading
from ...core.compaction.line_file import LONGEST_LINE
from ...core.compaction.plan import Append, Remove, Replace
from ...core.compaction.pointer import PointerError, value_at
from .columns import terminal_width

if TYPE_CHECKING:
    from pathlib import Path

    from ...core.compaction.plan import Edit, Plan

TEXT_LINES: Final = 12
"""Of a text, as it is shown: before and after fit a small terminal together. What is left out
is counted, and `--json` has all."""

ADDED_LINES: Final = 400
"""Of what is added: a summary of 12,000 tokens is read whole before it is used."""

NARROWEST: Final = 20
"""Columns that a text is wrapped to at the least."""

EDITS: Final = 10
"""Changes of one operation that are shown; a way back removes hundreds of lines."""

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


def changes(plan: Plan, number: int, transcript: Path) -> list[Change]:
    """Read what one operation changes; `number` counts from 1. Raises OSError."""
    return [_change(edit, transcript) for edit in plan.operations[number - 1].edits]


def explained(plan: Plan, number: int, transcript: Path) -> dict[str, Any]:
    """Say one operation for programs, with all of its texts. Raises OSError."""
    record: dict[str, Any] = msgspec.to_builtins(plan.operations[number - 1])
    del record["edits"]
    found = msgspec.to_builtins(changes(plan, number, transcript))
    return {"plan_id": plan.plan_id, "op": number} | record | {"changes": found}


def explain(plan: Plan, number: int, transcript: Path) -> list[str]:
    """Show one operation for people. Raises OSError."""
    operation = plan.operations[number - 1]
    found = changes(plan, number, transcript)
    freed = f"{operation.tokens_saved:,} tokens, {operation.bytes_saved:,} bytes"
    lines = [
        f"{number} of {len(plan.operations)}  {clean_text(operation.what)}",
        f"{operation.strategy}, level {int(operation.level)}: {clean_text(operation.why)}",
        f"frees {freed}",
    ]
    for each in found[:EDITS]:
        lines += ["", *_shown(each, terminal_width())]
    left = len(found) - EDITS
    if left > 0:
        lines += ["", f"… {left:,} more changes of this kind; --json has all"]
    return lines


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


def _shown(change: Change, width: int) -> list[str]:
    where = "at the end" if change.line is None else f"line {change.line:,}"
    place = f"{where} {change.pointer}" if change.pointer else where
    head = f"{_HEADS[change.do]} {place}"
    lines = [head if change.do == "append" else f"{head}, before:"]
    if change.before is not None:
        lines += _body("-", change.before, TEXT_LINES, width)
    if change.after is not None:
        lines += ["after:"] if change.do == "replace" else []
        most = ADDED_LINES if change.do == "append" else TEXT_LINES
        lines += _body("+", change.after, most, width)
    return lines


def _body(sign: str, text: str, lines: int, width: int) -> list[str]:
    return [f"  {sign} {each}".rstrip() for each in shortened(text, lines, width - 4)]


_HEADS: Final = {"replace": "changed", "remove": "removed", "append": "added"}


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
