"""Checks of how all lines of a transcript hang together, sent or not (compaction 7.6).

Each says what is wrong, or None. They compare: damage that was there before is not ours.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ..conversation import Role
from .project import is_call, is_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..conversation import Entry
    from .verify_list import Seen

_SERVER_CALL: Final = ("srvtoolu_", "mcptoolu_")
"""How the ids of calls begin that the API itself answers, in the same message."""


def same_graph(compared: Seen) -> str | None:
    """V6: no new roots, orphans, circles or second lines with one uuid; our boundary is a root."""
    for what, count in _DAMAGES:
        old, now = count(compared.before), count(compared.after)
        new = now - old
        if what == "root":
            # What followed the first line is the first when that goes.
            new = Counter({uuid: n for uuid, n in new.items() if uuid not in compared.added_uuids})
            new = new if new.total() > (old - now).total() else Counter()
        if new:
            return f"{sum(new.values())} new: {what}"
    return None


def same_server_pairs(compared: Seen) -> str | None:
    """V8: what the API itself called stands in one message with its result, if it did."""
    new = _parted(compared.after) - _parted(compared.before)
    return f"call {min(new)} of the API's own has lost its result or its answer" if new else None


def _roots(entries: Sequence[Entry]) -> Counter[str | None]:
    return Counter(each.uuid for each in entries if each.uuid and each.parent is None)


def _orphans(entries: Sequence[Entry]) -> Counter[str | None]:
    """Count the uuids that are missing: who hung behind one may leave, and hand it on."""
    there = {each.uuid for each in entries}
    return Counter({each.parent for each in entries if each.parent and each.parent not in there})


def _duplicates(entries: Sequence[Entry]) -> Counter[str | None]:
    counted = Counter(each.uuid for each in entries if each.uuid)
    return Counter({uuid: n for uuid, n in counted.items() if n > 1})


def _circling(entries: Sequence[Entry]) -> Counter[str | None]:
    """Count the lines whose parents lead back to them or into a circle."""
    parents = {each.uuid: each.parent for each in entries if each.uuid}
    leads_out: set[str | None] = {None}
    circling: set[str | None] = set()
    for uuid in parents:
        way: dict[str | None, None] = {}
        at: str | None = uuid
        while at in parents and at not in leads_out and at not in circling and at not in way:
            way[at] = None
            at = parents[at]
        (circling if at in way or at in circling else leads_out).update(way)
    return Counter(circling)


_DAMAGES: Final = (
    ("root", _roots),
    ("orphan", _orphans),
    ("duplicate uuid", _duplicates),
    ("line in a circle", _circling),
)


def _parted(entries: Sequence[Entry]) -> set[str]:
    """Name calls of an answer and results in an answer that do not stand in the same message."""
    answers = [each for each in entries if each.role is Role.ASSISTANT]
    calls, results = (
        {
            piece.tool_use_id or "": each.message_id
            for each in answers
            for piece in each.parts
            if is_half(piece)
        }
        for is_half in (is_call, is_result)
    )
    # A person's client answers the other calls.
    own = {uuid for uuid in calls if uuid.startswith(_SERVER_CALL)} | results.keys()
    return {uuid for uuid in own if calls.get(uuid, "") != results.get(uuid, "")}
