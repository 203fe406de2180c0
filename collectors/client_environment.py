"""What a running client was started with: the few variables that move its compaction."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..core.client_setup import AUTOCOMPACT, VARIABLES
from .clean import clean_title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..core.store.facts import LiveSession

_NAMES: Final = frozenset(VARIABLES)

_VALUE: Final = re.compile(r"(?i)auto|\d{1,9}[km]?")
"""What the option takes; anything else is a word of a prompt."""


def read_environment(session: LiveSession) -> dict[str, str] | None:
    """Read these variables of a session's process; None where the system does not show them.

    What the command line says of compaction is among them, by its option's name. An environment
    and a command line hold secrets and prompts: nothing but these is looked at.
    """
    import psutil  # takes 30 ms, and the dashboard's first paint comes before

    try:
        process = psutil.Process(session.pid)
        found, words = process.environ(), process.cmdline()
    except (psutil.Error, OSError):
        return None
    variables = {name: clean_title(value) for name, value in found.items() if name in _NAMES}
    option = autocompact_option(words)
    return variables if option is None else variables | {AUTOCOMPACT: option}


def autocompact_option(words: Sequence[str]) -> str | None:
    """Find the value of the client's `--autocompact` on its command line; the last one counts."""
    found = None
    for place, word in enumerate(words):
        if word == "--":
            break
        if word == AUTOCOMPACT and place + 1 < len(words):
            found = words[place + 1]
        elif word.startswith(f"{AUTOCOMPACT}="):
            found = word.partition("=")[2]
    return None if found is None or not _VALUE.fullmatch(found) else found.lower()
