"""What the client puts in anew behind a boundary: it announces again what left with the rest.

Client 2.1.329 writes it at the next prompt, as at the start of a session: so its size is known
from what the session was told last. Files it reads again only behind a compaction of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..conversation import Entry

_DELTAS: Final = frozenset(
    {"deferred_tools_delta", "agent_listing_delta", "mcp_instructions_delta"}
)
"""Attachments that add to what was said before: all of them together are what holds."""

_STATES: Final = frozenset(
    {
        "environment", "model", "skill_listing", "auto_mode", "session_context", "date",
        "remote_session_change", "total_tokens_reminder",
    }
)  # fmt: skip
"""Attachments of which the newest holds."""


def announced_again(removed: Sequence[Entry], retained: Iterable[Entry]) -> list[Entry]:
    """List the attachments that come back when `away` leaves: not those that `kept` holds."""
    known = {each.subtype for each in retained}
    found = [each for each in removed if each.type == "attachment" and each.subtype not in known]
    newest = {each.subtype: each for each in found}
    return [
        each
        for each in found
        if each.subtype in _DELTAS or (each.subtype in _STATES and newest[each.subtype] is each)
    ]
