"""ctxtop's own ways to compact, each level of harm with all that is below it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ctxtop.collectors.transcripts.conversation import read_conversation
from ctxtop.core.compaction.image import after, image
from ctxtop.core.compaction.plan import Harm
from ctxtop.core.compaction.planning import plan_transcript
from ctxtop.core.compaction.select import Aim
from ctxtop.core.estimate import Estimator

from .replay import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .replay import Compact

LEVELS: Final = tuple(level for level in Harm if level <= Harm.PROSE)
"""Those that edit in place; a summary and a cut are compared at the client's boundaries."""


def our_ways() -> Iterator[tuple[str, Compact]]:
    """Give the levels, the least harm first."""
    for level in LEVELS:
        yield f"level {level.value} {level.name.lower().replace('_', ' ')}", compact_at(level)


def compact_at(level: Harm) -> Compact:
    """Give the way to compact with all strategies up to a level."""
    return partial(_compact, level)


def _compact(level: Harm, path: Path) -> bytes:
    plan = plan_transcript(
        path.stem, path, read_conversation, Estimator({}).of, aim=Aim(level=level)
    )
    if plan.refused or not plan.operations:
        raise RefusedError("; ".join(f"{each.check}: {each.why}" for each in plan.refused))
    with path.open("rb") as lines:
        return b"".join(after(image(lines, plan.operations)))
