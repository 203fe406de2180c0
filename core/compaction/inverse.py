"""The inverse of operations in a file that others changed too, and in what was appended since."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

import msgspec

from .files import reading, write_all
from .image import line_of
from .plan import Append, Remove, Replace
from .pointer import PointerError, members, replace_value, value_at
from .refused import Stop, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from .image import Written
    from .plan import Operation

_PARENT: Final = "parentUuid"


class _Old(msgspec.Struct, frozen=True):
    """A value that was replaced, as JSON text."""

    pointer: str
    old: bytes
    new: bytes


def patched(
    target: Path, base: Iterable[bytes], operations: Sequence[Operation], transform: Written
) -> Iterator[bytes]:
    """Give a file's lines with old values put back, found by uuid, pointer and what we put there.

    Raises NotAppliedError where one of them is not there any more.
    """
    wanted = _wanted(base, operations, transform)
    missing = {(uuid, each.pointer) for uuid, found in wanted.items() for each in found}
    with reading(target) as file:
        for line in file:
            uuid = _uuid(line)
            for each in wanted.get(uuid, ()) if uuid else ():
                if _value(line, each.pointer) == each.new:
                    line = replace_value(line, each.pointer, each.old)  # noqa: PLW2901
                    missing.discard((uuid, each.pointer))
            yield line
    if missing:
        raise _later_first(f"{len(missing)} values are not what was put there")


def without_added(target: Path, operations: Sequence[Operation]) -> Iterator[bytes]:
    """Give a file's lines without those that operations appended, wherever they stand by now.

    Nothing of the file before them is needed, for they changed nothing there. Raises
    NotAppliedError where one of them is not there any more.
    """
    edits = [edit for each in operations for edit in each.edits]
    missing = {line_of(edit) for edit in edits if isinstance(edit, Append)}
    hung = _before_appended(operations)
    with reading(target) as file:
        for line in file:
            if line in missing:
                missing.discard(line)
            else:
                yield _hang(line, hung)
    if missing:
        raise _later_first(f"{len(missing)} lines that were added are gone")


def add_tail(new: Path, target: Path, start: int, new_parents: Mapping[str, str | None]) -> None:
    """Append what a file holds behind `start`; children of the lines `hung` go where it says."""
    with reading(target) as file:
        file.seek(start)
        lines = (_hang(line, new_parents) for line in file)
        with open(new, "r+b", buffering=0) as head:  # noqa: PTH123 -- ours, unbuffered
            size = head.seek(0, os.SEEK_END)
            if new_parents and os.fstat(file.fileno()).st_size > start and size:
                head.seek(-1, os.SEEK_END)
                if head.read(1) != b"\n":
                    write_all(head.fileno(), [b"\n"])
            write_all(head.fileno(), lines)
            os.fsync(head.fileno())


def _wanted(
    base: Iterable[bytes], operations: Sequence[Operation], transform: Written
) -> dict[bytes, list[_Old]]:
    by_line: dict[int, list[Replace]] = {}
    for each in operations:
        for edit in each.edits:
            if not isinstance(edit, Replace):
                raise _later_first("lines were removed or added")
            by_line.setdefault(edit.line, []).append(edit)
    wanted: dict[bytes, list[_Old]] = {}
    for number, line in enumerate(base, 1):
        for edit in by_line.get(number, ()):
            uuid = _uuid(line)
            if uuid is None:
                raise _later_first(f"line {number} has no uuid")
            old = value_at(transform.transform_existing(line), edit.pointer)
            wanted.setdefault(uuid, []).append(_Old(edit.pointer, old, edit.value.encode()))
    return wanted


def _later_first(why: str) -> Exception:
    return refuse(
        Stop.UNSAFE, "changed", why, "something changed it since: undo the later receipts first"
    )


def _uuid(line: bytes) -> bytes | None:
    return _value(line, "/uuid")


def _value(line: bytes, pointer: str) -> bytes | None:
    try:
        return value_at(line, pointer)
    except PointerError:
        return None


def hung_anew(base: Iterable[bytes], operations: Sequence[Operation]) -> dict[str, str | None]:
    """Say where lines go that were written since, when operations are taken back.

    Children of a line that was appended go behind what stood before it. Where all that
    followed a line was removed, and stands again, its new children go behind the end of that:
    else the client would leave out what came back, for it follows the newest line upwards.
    """
    return _behind_restored(base, operations) | _before_appended(operations)


def _behind_restored(base: Iterable[bytes], operations: Sequence[Operation]) -> dict[str, str]:
    removed = {edit.line for each in operations for edit in each.edits if isinstance(edit, Remove)}
    if not removed:
        return {}
    ends: dict[str, str] = {}
    roots: dict[str, str] = {}
    followed: set[str] = set()
    for number, line in enumerate(base, 1):
        uuid, parent = _text(line, "/uuid"), _text(line, f"/{_PARENT}")
        if uuid is None or parent is None:
            continue
        if number in removed:
            roots[uuid] = roots.get(parent, parent)
            ends[roots[uuid]] = uuid
        else:
            followed.add(roots.get(parent, parent))
    return {root: end for root, end in ends.items() if root not in followed}


def _before_appended(operations: Sequence[Operation]) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for each in operations:
        for edit in each.edits:
            if isinstance(edit, Append):
                line = json.loads(line_of(edit))
                if "uuid" in line:
                    parents[line["uuid"]] = line.get(_PARENT) or line.get("logicalParentUuid")
    hung: dict[str, str | None] = {}
    for uuid, above in parents.items():
        parent, seen = above, {uuid}
        while parent in parents and parent not in seen:
            seen.add(parent)
            parent = parents[parent]
        hung[uuid] = parent
    return hung


def _text(line: bytes, pointer: str) -> str | None:
    value = _value(line, pointer)
    found = json.loads(value) if value else None
    return found if isinstance(found, str) else None


def _hang(line: bytes, parents: Mapping[str, str | None]) -> bytes:
    if not parents:
        return line
    try:
        span = members(line).get(_PARENT)
        parent = json.loads(line[span.start : span.end]) if span else None
    except ValueError:
        return line
    if span is None or not isinstance(parent, str) or parent not in parents:
        return line
    return line[: span.start] + json.dumps(parents[parent]).encode() + line[span.end :]
