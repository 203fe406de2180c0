"""Steps of recorded sessions, for the benchmark of tokens and for measuring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ctxtop.core.measure.token_estimate import GrowthTracker
from ctxtop.core.measure.tokens import model_tokenizer
from ctxtop.core.transcript.entry_decoder import read_entries

from .recordings import recordings, shared_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ctxtop.core.measure.token_estimate import GrowthStep

CORPORA: Final = ("older", "newer")
"""Real sessions; `current` was made by a scripted API that invents its usage."""

Family = tuple[str, list["GrowthStep"]]


def families(paths: Iterable[Path]) -> list[Family]:
    """Read sessions: files that share answers are one family, and each answer counts once."""
    found: list[tuple[str, set[str], list[GrowthStep]]] = []
    for path in paths:
        steps = [step for step in map(GrowthTracker().add, read_entries(path)) if step]
        ids = {step.message_id for step in steps}
        same = next((family for family in found if family[1] & ids), None)
        if same is None:
            found.append((path.name, ids, steps))
            continue
        same[2].extend(step for step in steps if step.message_id not in same[1])
        same[1].update(ids)
    return [(name, steps) for name, _, steps in found if steps]


def corpora() -> dict[str, list[Family]]:
    """Read the corpus; any other folder's sessions by the generation of their tokenizers."""
    shared = shared_folder()
    if (shared / "corpus").is_dir():
        return {
            name: families(sorted((shared / "corpus" / name).glob("*.jsonl"))) for name in CORPORA
        }
    found: dict[str, list[Family]] = {}
    for name, steps in families(recordings(shared)):
        by_tokenizer: dict[str, list[GrowthStep]] = {}
        for step in steps:
            by_tokenizer.setdefault(model_tokenizer(step.model).name.lower(), []).append(step)
        for tokenizer, some in by_tokenizer.items():
            found.setdefault(tokenizer, []).append((name, some))
    return found
