"""How a filter's last word may go on: the keys, then what may stand after each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .formats import model
from .session_filter import KEYS, LEVELS, STATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.sessions import Session


def choices_of(sessions: Iterable[Session]) -> dict[str, tuple[str, ...]]:
    """Name what may stand after each key, for these sessions."""
    models, projects = set(), set()
    for session in sessions:
        models.add(model(session.model).partition(" ")[0].casefold())
        projects.add(session.project.casefold())
    return {
        "level:": LEVELS,
        "is:": tuple(STATES),
        "model:": tuple(sorted(models)),
        "project:": tuple(sorted(name for name in projects if " " not in name)),
    }


def complete(words: str, choices: dict[str, tuple[str, ...]]) -> str | None:
    """Write the words as they may go on; None where nothing is known."""
    start, space, last = words.rpartition(" ")
    sign = "!" if last.startswith("!") else ""
    typed = last[len(sign) :].casefold()
    if not typed:
        return None
    key, colon, value = typed.partition(":")
    known = choices.get(f"{key}:", ()) if colon else KEYS
    wanted = value if colon else typed
    found = next((each for each in known if each.startswith(wanted) and each != wanted), None)
    if found is None or (colon and not value):
        return None
    # What was typed stays as it was typed: a suggestion is drawn behind it.
    return f"{start}{space}{last}{found[len(wanted) :]}"
