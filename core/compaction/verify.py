"""Whether a written file is what its plan says: run on the temporary file, and on the final one.

The checks and their codes are those of compaction 7.6; all compare with the file before.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .files import reading
from .image import edited
from .plan import Harm, Refusal
from .pointer import find_value, value_at
from .verify_lines import LINE_CHECKS
from .verify_list import LIST_CHECKS, see

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..conversation import Entry
    from .image import ImageLine
    from .plan import Operation

MARKER_BYTES: Final = 4096
"""What one operation may add to a file that it is to make smaller (V17)."""

VERIFIED: Final = (*(f"V{number}" for number in range(1, 25)),)
"""Checks that a receipt names: all of these were passed. V21 to V24 are those of the whole file:
`apply` runs the last three, and `undo` runs V21 once more when it takes a plan back."""

_SINGLE: Final = re.compile(
    rb'\{"type":"(permission-mode|mode|last-prompt|ai-title|custom-title|pr-link|worktree-state)"'
)
"""Lines of which the client reads the last one."""

_SIDECAR_FOLDERS: Final = (b"/tool-results/", b"/subagents/")
_SIDECAR: Final = re.compile(rb"""/[^\s"'<>|\\]*/(?:tool-results|subagents)/[^\s"'<>|\\]+\.\w+""")
"""Paths of files beside a transcript, as a result names them whose text is kept there."""

_WHAT_TO_DO: Final = "the file is as it was; leave this operation out, or report it"


def verify_lines(
    path: Path, lines: Iterable[ImageLine], operations: Sequence[Operation]
) -> Iterator[Refusal]:
    """Compare a written file with what it should be, line by line."""
    level = max((each.level for each in operations), default=Harm.FILE_ONLY)
    singles: dict[bytes, bytes] = {}
    named: set[bytes] = set()
    size, before, appended = 0, 0, 0
    with reading(path) as file:
        for line in lines:
            before += len(line.before or b"")
            _remember(singles, line.before)
            named |= sidecars(line.before)
            if line.after is None:
                continue
            found = file.read(len(line.after))
            if found != line.after:
                yield _failed("V3", "a line does not stand in the file as it should")
                return
            size += len(found)
            if line.before is None or line.replacements:
                yield from _verify_sidecars(sidecars(found) - named)
            if line.before is None:
                appended += len(found)
            elif line.replacements:
                yield from _verify_edit(line, level)
            if _is_single(found) and line.before is not None:
                _keep(singles, found)
        if file.read(1):
            yield _failed("V2", "the file has more lines than it should")
    if singles and level is not Harm.CUT:
        kind = next(iter(singles)).decode()
        yield _failed("V12", f"the last line of {kind} is gone or changed")
    if size > before + appended + MARKER_BYTES * len(operations):
        yield _failed("V17", f"the file grew from {before:,} to {size:,} bytes")


def verify_list(
    before: Sequence[Entry], after: Sequence[Entry], operations: tuple[Operation, ...]
) -> Iterator[Refusal]:
    """Compare what would be sent before and after."""
    seen = see(before, after, operations)
    for code, check in LIST_CHECKS:
        wrong = check(seen)
        if wrong:
            yield _failed(code, wrong)


def _verify_edit(line: ImageLine, level: Harm) -> Iterator[Refusal]:
    number = line.replacements[0].line
    try:
        old, new = json.loads(line.before or b""), json.loads(line.after or b"")
    except (ValueError, RecursionError) as error:
        yield _failed("V1", f"line {number} is no JSON: {error}")
        return
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield _failed("V1", f"line {number} is no JSON object")
        return
    for code, check in LINE_CHECKS:
        wrong = check(old, new, level)
        if wrong:
            yield _failed(code, f"line {number}: {wrong}")
    if taken_back(line) != line.before:
        yield _failed("V21", f"line {number} cannot be taken back byte for byte")
    if done_again(line) != line.after:
        yield _failed("V22", f"line {number} would change once more")


def _verify_sidecars(named: Iterable[bytes]) -> Iterator[Refusal]:
    for path in sorted(named):
        if not Path(os.fsdecode(path)).is_file():
            yield _failed("V20", f"{os.fsdecode(path)!r} would be named, which is not there")


def sidecars(line: bytes | None) -> set[bytes]:
    """Name the files beside a transcript that a line names."""
    if line is None or not any(folder in line for folder in _SIDECAR_FOLDERS):
        return set()
    return set(_SIDECAR.findall(line))


def verify_status(path: Path, original_status: os.stat_result) -> Iterator[Refusal]:
    """V23: who may read a written file is who may read the transcript, and nobody else."""
    now = path.stat()
    for what, was, new in (
        ("permissions", stat.S_IMODE(original_status.st_mode), stat.S_IMODE(now.st_mode)),
        ("owner", original_status.st_uid, now.st_uid),
        ("group", original_status.st_gid, now.st_gid),
    ):
        if was != new:
            yield _failed("V23", f"the written file's {what} would be {new:o}, not {was:o}")


def taken_back(line: ImageLine) -> bytes:
    """Give an edited line with its old values, taken from the line before. Raises PointerError."""
    before, after = line.before or b"", line.after or b""
    spans = [(find_value(after, each.pointer), each) for each in line.replacements]
    for span, edit in sorted(spans, key=lambda each: -each[0].start):
        after = after[: span.start] + value_at(before, edit.pointer) + after[span.end :]
    return after


def done_again(line: ImageLine) -> bytes:
    """Give an edited line after the same edits once more. Raises MismatchError."""
    after = line.after or b""
    body = after.removesuffix(b"\n")
    return edited(body, line.replacements) + after[len(body) :]


def _remember(singles: dict[bytes, bytes], line: bytes | None) -> None:
    found = _SINGLE.match(line or b"")
    if found and line:
        singles[found[1]] = line


def _is_single(line: bytes) -> bool:
    return _SINGLE.match(line) is not None


def _keep(singles: dict[bytes, bytes], line: bytes) -> None:
    found = _SINGLE.match(line)
    if found and singles.get(found[1]) == line:
        del singles[found[1]]


def _failed(code: str, why: str) -> Refusal:
    return Refusal(code, why, _WHAT_TO_DO)
