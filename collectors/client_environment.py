"""What a running client was started with: the few variables that move its compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.client_setup import VARIABLES
from .clean import clean_title

if TYPE_CHECKING:
    from ..core.store.facts import LiveSession

_NAMES: Final = frozenset(VARIABLES)


def read_environment(session: LiveSession) -> dict[str, str] | None:
    """Read these variables of a session's process; None where the system does not show them.

    An environment holds secrets: nothing but VARIABLES is looked at.
    """
    import psutil  # takes 30 ms, and the dashboard's first paint comes before

    try:
        found = psutil.Process(session.pid).environ()
    except (psutil.Error, OSError):
        return None
    return {name: clean_title(value) for name, value in found.items() if name in _NAMES}
