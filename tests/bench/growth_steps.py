"""Steps of the shared corpus's sessions, for the benchmark of tokens and for measuring."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ctxtop.collectors.transcripts.conversation import read_conversation
from ctxtop.core.growth import steps_of

if TYPE_CHECKING:
    from ctxtop.core.growth import Step

SHARED: Final = Path(os.environ.get("CTXTOP_SHARED", Path(__file__).parents[3] / "shared"))

CORPORA: Final = ("older", "newer")
"""Real sessions; `current` was made by a scripted API that invents its usage."""

Family = tuple[str, list["Step"]]


def families(corpus: str) -> list[Family]:
    """Read a corpus: the files that share answers are one family, and each answer counts once."""
    found: list[tuple[str, set[str], list[Step]]] = []
    for path in sorted((SHARED / "corpus" / corpus).glob("*.jsonl")):
        steps = steps_of(read_conversation(path))
        ids = {step.message_id for step in steps}
        same = next((family for family in found if family[1] & ids), None)
        if same is None:
            found.append((path.name, ids, steps))
            continue
        same[2].extend(step for step in steps if step.message_id not in same[1])
        same[1].update(ids)
    return [(name, steps) for name, _, steps in found]
