"""What a transcript is after some operations: line by line, from its lines before.

The image of no operations is the transcript itself; taking one operation back is the image of
the others. A line that no edit names keeps every byte.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable  # noqa: TC003 -- msgspec reads it
from typing import TYPE_CHECKING, Final

import msgspec

from .plan import Append, Remove, Replace
from .pointer import PointerError, find_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .plan import Operation


class MismatchError(ValueError):
    """The line is not the one that the edit was made for, or two edits are in each other's way."""


class ImageLine(msgspec.Struct, frozen=True):
    """A line of the file as it will be, and the one that it comes from; with their line ends."""

    before: bytes | None
    """None for a line that is added."""
    after: bytes | None
    """None for a line that is left out."""
    replacements: tuple[Replace, ...] = ()


def same(line: bytes) -> bytes:
    """Let a line stand as it is."""
    return line


class Written(msgspec.Struct, frozen=True):
    """How lines stand in the file that is written: as they are, or under a fork's id."""

    transform_existing: Callable[[bytes], bytes] = same
    transform_added: Callable[[bytes], bytes] = same
    trailing_lines: tuple[bytes, ...] = ()
    """Lines that stand behind all others, with their line ends."""


AS_IT_IS: Final = Written()


def image(
    lines: Iterable[bytes],
    operations: Sequence[Operation],
    transform: Written = AS_IT_IS,
) -> Iterator[ImageLine]:
    """Give every line before and after; lines end at b"\\n" alone. Raises MismatchError."""
    by_line: dict[int, list[Replace | Remove]] = {}
    added: list[Append] = []
    for operation in operations:
        for edit in operation.edits:
            if isinstance(edit, Append):
                added.append(edit)
            else:
                by_line.setdefault(edit.line, []).append(edit)
    ended = True
    for number, line in enumerate(lines, 1):
        edits = by_line.pop(number, None)
        if edits is None:
            whole = transform.transform_existing(line)
            found = ImageLine(whole, whole)
        else:
            found = _edited(line, edits, transform.transform_existing)
        # A last line that is left out leaves the line end of the one before it.
        ended = found.after is None or found.after.endswith(b"\n")
        yield found
    if by_line:
        raise MismatchError(f"line {min(by_line)} is not there")
    for edit in added:
        # A torn last line stays as it is, and the next one begins behind it.
        yield ImageLine(None, (b"" if ended else b"\n") + transform.transform_added(line_of(edit)))
        ended = True
    for line in transform.trailing_lines:
        yield ImageLine(None, (b"" if ended else b"\n") + line)
        ended = True


def after(lines: Iterable[ImageLine]) -> Iterator[bytes]:
    """Give the bytes of the file as it will be."""
    return (line.after for line in lines if line.after is not None)


def line_of(edit: Append) -> bytes:
    """Give the line that is added. Raises MismatchError where it is none."""
    try:
        line = edit.text.encode()
        whole = isinstance(json.loads(line), dict) and b"\n" not in line
    except ValueError as error:
        raise MismatchError(f"the line to add is no JSON: {error}") from error
    if not whole:
        raise MismatchError("the line to add is no JSON object on one line")
    return line + b"\n"


def _edited(
    line: bytes, edits: Sequence[Replace | Remove], transform: Callable[[bytes], bytes]
) -> ImageLine:
    body = line.removesuffix(b"\n")
    digest = hashlib.sha256(body).hexdigest()
    wrong = next((edit for edit in edits if edit.sha256 != digest), None)
    if wrong is not None:
        raise MismatchError(f"line {wrong.line} is another one than the plan was made for")
    replaced = tuple(edit for edit in edits if isinstance(edit, Replace))
    if len(replaced) < len(edits):
        return ImageLine(transform(line), None)
    new = edited(body, replaced) + line[len(body) :]
    return ImageLine(transform(line), transform(new), replaced)


def edited(body: bytes, edits: Sequence[Replace]) -> bytes:
    """Put new values into a line, from the last to the first. Raises MismatchError."""
    try:
        spans = [(find_value(body, edit.pointer), edit) for edit in edits]
    except PointerError as error:
        raise MismatchError(f"line {edits[0].line}: {error}") from error
    before = len(body)
    for span, edit in sorted(spans, key=lambda each: (-each[0].start, -each[0].end)):
        if span.end > before:
            raise MismatchError(f"line {edit.line}: two edits are in each other's way")
        body = body[: span.start] + _value(edit) + body[span.end :]
        before = span.start
    return body


def _value(edit: Replace) -> bytes:
    try:
        json.loads(edit.value)
        value = edit.value.encode()
    except ValueError as error:
        raise MismatchError(f"line {edit.line}: the new value is no JSON: {error}") from error
    if b"\n" in value:
        raise MismatchError(f"line {edit.line}: the new value holds a line end")
    return value
