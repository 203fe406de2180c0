"""Which thoughts of earlier turns a model still sees."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from .conversation import Entry, PieceKind, Role

if TYPE_CHECKING:
    from collections.abc import Sequence

_DROPS: Final = re.compile(
    r"claude-(?:3-|haiku-[34]|(?:opus-4(?:-[01])?|sonnet-4(?:-[05])?)(?:[-@]\d{8}|$))"
)
"""Models that see the thoughts of the turn at hand alone: before Opus 4.5, before Sonnet 4.6,
and the Haikus before 5.5 (claude-code-formats 3.4)."""


def drops_thinking(model: str | None) -> bool:
    """Say whether a model sees no thoughts of earlier turns; one that is not known does."""
    return model is not None and _DROPS.match(model) is not None


def is_of_another(entry: Entry, model: str | None) -> bool:
    """Say whether an answer is another model's: none is sent what another thought.

    Source: client 2.1.329, which sends a model its own thoughts again once it is back.
    """
    return model is not None and entry.model is not None and entry.model != model


def without_dropped(entries: Sequence[Entry], model: str | None) -> list[Entry]:
    """Leave out the thoughts that a model does not see.

    Another model's, and those before the last prompt where it sees the turn at hand alone.
    """
    last = 0
    if drops_thinking(model):
        last = max((place for place, each in enumerate(entries) if _is_prompt(each)), default=0)
    kept = [
        _without_thinking(each) if place < last or is_of_another(each, model) else each
        for place, each in enumerate(entries)
    ]
    return [each for each in kept if each.parts]


def _is_prompt(entry: Entry) -> bool:
    return entry.role is Role.USER and any(piece.kind is PieceKind.PROMPT for piece in entry.parts)


def _without_thinking(entry: Entry) -> Entry:
    if not any(piece.kind is PieceKind.THINKING for piece in entry.parts):
        return entry
    return replace(
        entry,
        parts=tuple(piece for piece in entry.parts if piece.kind is not PieceKind.THINKING),
    )
