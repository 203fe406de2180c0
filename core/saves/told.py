"""What a transcript tells of a save's end: the plugin's note at a prompt, and the closing line."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from .categories import expand

if TYPE_CHECKING:
    from .noise import Noise


class Teller(StrEnum):
    """Who tells it."""

    NOTE = "the plugin's note at a prompt"
    """From the result file itself, which is deleted with it (004-52)."""
    CLOSING_LINE = "the session's closing line"
    """The model's or a script's words (R004-17)."""


class Told(msgspec.Struct, frozen=True):
    """That a save was done."""

    source: Teller
    at: int
    """Milliseconds since 1970."""
    categories: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()


_NOTE: Final = re.compile(r"Memories saved(?: \(([^)]*)\))?(?:: (.*))?", re.DOTALL)
_ERRORS: Final = re.compile(r"\s*\[errors: .*\]\s*$", re.DOTALL)


def read_note(text: str, at: int | None) -> Told | None:
    """Read a note (004-58); None for one that tells of no save of its own project."""
    found = _NOTE.match(text)
    if found is None or at is None or text.startswith("Memories saved in project:"):
        return None
    titles = _ERRORS.sub("", found[2] or "").strip()
    named = expand((found[1] or "").split(","))
    return Told(Teller.NOTE, at, named, (titles,) if titles else ())


def read_closing(noise: Noise) -> Told | None:
    """Read what a save's closing line says; None where there is none."""
    if not noise.said or noise.said_at is None:
        return None
    return Told(Teller.CLOSING_LINE, noise.said_at, noise.categories, noise.said)
