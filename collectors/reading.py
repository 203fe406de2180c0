"""One step of reading a file: the next block of it as facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..core.store.facts import Facts, TailState  # noqa: TC001 -- msgspec reads them
from .tail import Change, read_tail
from .transcripts.transcript import read_block

if TYPE_CHECKING:
    from pathlib import Path

    from ..core.store.facts import SourceFile


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """What the next block of a file says, and where reading stands after it."""

    change: Change
    after: TailState
    facts: Facts
    has_more: bool
    unterminated: bool = False
    """Its last line has no line end yet, and may still be written to."""


def read_next(path: Path, source: SourceFile, before: TailState) -> Reading:
    """Read on from `before`; raises OSError where the file cannot be read."""
    read = read_tail(path, before)
    facts = read_block(source, read.block)
    if read.bad_lines:
        bad, count = facts.bad + read.bad_lines, facts.bad_lines + len(read.bad_lines)
        facts = msgspec.structs.replace(facts, bad=bad, bad_lines=count)
    return Reading(read.change, read.after, facts, read.has_more, read.unterminated)
