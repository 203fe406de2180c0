"""Taking appended lines out again where they did not come to stand where they should."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from .files import first_bytes, reading, write_beside
from .image import line_of
from .plan import Append
from .refused import NotAppliedError
from .subject import Patience
from .swap import swap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .plan import Plan

TRIES: Final = 20
"""A client that writes at every one of these is met by nobody."""


def take_out(target: Path, plan: Plan) -> None:
    """Take a plan's lines out of what stands behind its base, whole or cut off; the rest stays.

    Raises OSError, NotAppliedError where a client writes without a pause.
    """
    edits = [edit for each in plan.operations for edit in each.edits]
    added = b"".join(line_of(edit) for edit in edits if isinstance(edit, Append))
    for tries in range(1, TRIES + 1):
        seen = target.stat()
        with reading(target) as file:
            file.seek(plan.base_bytes)
            tail = file.read()
        place = tail.find(added)
        if place < 0:
            _cut(target, plan.base_bytes, tail, added)
            return
        # After a torn line ours began with a line end; another one's does not.
        start = 0 if tail[:place] == b"\n" else place
        rest = tail[:start] + tail[place + len(added) :]
        new = write_beside(target, _chunks(target, plan.base_bytes, rest), seen)
        try:
            swap(new, target, seen, Patience())
        except NotAppliedError:
            if tries == TRIES:
                raise
        else:
            return


def _chunks(target: Path, size: int, rest: bytes) -> Iterator[bytes]:
    with reading(target) as file:
        yield from first_bytes(file, size)
    yield rest


def _cut(target: Path, base: int, tail: bytes, added: bytes) -> None:
    """Cut off a beginning of ours at the end of the file, where a write was not finished."""
    start = tail.rfind(b"\n") + 1
    torn = tail[start:]
    begun = [n for n in range(len(added), 0, -1) if tail.endswith(added[:n])]
    if begun and (begun[0] >= len(torn)):
        place = len(tail) - begun[0]
        os.truncate(target, base + (0 if tail[:place] == b"\n" else place))
    elif tail == b"\n":
        os.truncate(target, base)
