"""A transcript's lines before and after some operations; other lines keep every byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Final

import msgspec

from ..files.json_spans import JsonPointerError, find_span, replace_spans
from ..transcript.line_decoder import (
    NotJsonError,
    TranscriptLine,
    UnexpectedShapeError,
    decode_line,
)
from .plan import AppendLine, Operation, RemoveLine, ReplaceValue, edits_of


class EditMismatchError(ValueError):
    """The line is not the one that the edit was made for, or two edits are in each other's way."""


class RewrittenLine(msgspec.Struct, frozen=True):
    """A line of the file as it will be, and the one that it comes from; with their line ends."""

    before: bytes | None
    """None for a line that is added."""
    after: bytes | None
    """None for a line that is left out."""
    replacements: tuple[ReplaceValue, ...] = ()


def unchanged_line(line: bytes) -> bytes:
    return line


class LineTransform(msgspec.Struct, frozen=True):
    """How lines stand in the file that is written: as they are, or under a fork's id."""

    transform_existing: Callable[[bytes], bytes] = unchanged_line
    transform_added: Callable[[bytes], bytes] = unchanged_line
    trailing_lines: tuple[bytes, ...] = ()
    """Lines that stand behind all others, with their line ends."""


NO_TRANSFORM: Final = LineTransform()


def rewrite_lines(
    lines: Iterable[bytes],
    operations: Sequence[Operation],
    transform: LineTransform = NO_TRANSFORM,
) -> Iterator[RewrittenLine]:
    r"""Yield every line before and after the operations. Raises EditMismatchError.

    Only b"\n" ends a line.
    """
    by_line: dict[int, list[ReplaceValue | RemoveLine]] = {}
    added: list[AppendLine] = []
    for edit in edits_of(operations):
        if isinstance(edit, AppendLine):
            added.append(edit)
        else:
            by_line.setdefault(edit.line, []).append(edit)
    ended = True
    for number, line in enumerate(lines, 1):
        edits = by_line.pop(number, None)
        if edits is None:
            whole = transform.transform_existing(line)
            found = RewrittenLine(whole, whole)
        else:
            found = _rewrite_line(line, edits, transform.transform_existing)
        # A last line that is left out leaves the line end of the one before it.
        ended = found.after is None or found.after.endswith(b"\n")
        yield found
    if by_line:
        raise EditMismatchError(f"line {min(by_line)} is not there")
    for edit in added:
        # A torn last line stays as it is, and the next one begins behind it.
        yield RewrittenLine(
            None, (b"" if ended else b"\n") + transform.transform_added(appended_line(edit))
        )
        ended = True
    for line in transform.trailing_lines:
        yield RewrittenLine(None, (b"" if ended else b"\n") + line)
        ended = True


def lines_after(lines: Iterable[RewrittenLine]) -> Iterator[bytes]:
    """Yield the lines of the file after the operations."""
    return (line.after for line in lines if line.after is not None)


def appended_line(edit: AppendLine) -> bytes:
    """Encode the line to append, with its line end.

    Raises EditMismatchError if it is not a JSON object on one line.
    """
    try:
        line = edit.text.encode()
        whole = isinstance(json.loads(line), dict) and b"\n" not in line
    except ValueError as error:
        raise EditMismatchError(f"the line to add is no JSON: {error}") from error
    if not whole:
        raise EditMismatchError("the line to add is no JSON object on one line")
    return line + b"\n"


def decode_appended_lines(operation: Operation) -> Iterator[TranscriptLine]:
    """Yield the lines that an operation appends; one that cannot be read is left out."""
    for edit in operation.edits:
        if isinstance(edit, AppendLine):
            with suppress(NotJsonError, UnexpectedShapeError):
                yield decode_line(edit.text.encode())


def _rewrite_line(
    line: bytes, edits: Sequence[ReplaceValue | RemoveLine], transform: Callable[[bytes], bytes]
) -> RewrittenLine:
    body = line.removesuffix(b"\n")
    digest = hashlib.sha256(body).hexdigest()
    wrong = next((edit for edit in edits if edit.sha256 != digest), None)
    if wrong is not None:
        raise EditMismatchError(f"line {wrong.line} is another one than the plan was made for")
    replaced = tuple(edit for edit in edits if isinstance(edit, ReplaceValue))
    if len(replaced) < len(edits):
        return RewrittenLine(transform(line), None)
    new = apply_replacements(body, replaced) + line[len(body) :]
    return RewrittenLine(transform(line), transform(new), replaced)


def apply_replacements(body: bytes, edits: Sequence[ReplaceValue]) -> bytes:
    """Put new values into a line. Raises EditMismatchError."""
    try:
        spans = [(find_span(body, edit.pointer), edit) for edit in edits]
    except JsonPointerError as error:
        raise EditMismatchError(f"line {edits[0].line}: {error}") from error
    ordered = sorted((span.start, span.end) for span, _ in spans)
    if any(end > start for (_, end), (start, _) in pairwise(ordered)):
        raise EditMismatchError(f"line {edits[0].line}: two edits are in each other's way")
    return replace_spans(body, [(span, _new_value(edit)) for span, edit in spans])


def _new_value(edit: ReplaceValue) -> bytes:
    try:
        json.loads(edit.value)
        value = edit.value.encode()
    except ValueError as error:
        raise EditMismatchError(f"line {edit.line}: the new value is no JSON: {error}") from error
    if b"\n" in value:
        raise EditMismatchError(f"line {edit.line}: the new value holds a line end")
    return value
