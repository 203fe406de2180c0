"""What each compaction was asked to keep, and whether it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .store.answer_queries import GivenRow
    from .store.rows import CompactionRow
    from .summaries.forgotten import Forgotten
    from .told import Told


class Steered(msgspec.Struct, frozen=True):
    """One thing that a compaction was asked to keep."""

    kind: str
    text: str
    kept: bool | None
    """None where it is not told yet, or of an agent, which nobody looks for."""
    tokens: int | None = None
    """What it takes at the most, in the instructions and, of a compaction by hand, once more in
    the context: the client shows the model what its hooks said."""


def steered_by(
    compactions: Sequence[tuple[CompactionRow, Told | None]], requests: Sequence[GivenRow]
) -> list[tuple[Steered, ...]]:
    """List what each compaction was asked to keep, each thing once; they stand newest first.

    `asked` is what was asked in their sessions: since the compaction before it, of this one.
    """
    if not requests:
        return [()] * len(compactions)
    return [
        _steered(row, told, requests, _before(row, compactions[place + 1 :]))
        for place, (row, told) in enumerate(compactions)
    ]


def _before(row: CompactionRow, older: Iterable[tuple[CompactionRow, Told | None]]) -> int:
    same = (each for each, _ in older if each.session_id == row.session_id)
    return next((each.at or 0 for each in same if each.agent_id == row.agent_id), 0)


def _steered(
    row: CompactionRow, told: Told | None, asked: Iterable[GivenRow], before: int
) -> tuple[Steered, ...]:
    lost = told.forgotten if told else None
    found = {
        (each.kind, each.text): Steered(each.kind, each.text, _is_kept(each, lost), each.tokens)
        for each in asked
        if each.session_id == row.session_id
        and each.agent_id == row.agent_id
        and before < each.at <= (row.at or 0)
    }
    return tuple(found.values())


def _is_kept(asked: GivenRow, lost: Forgotten | None) -> bool | None:
    if lost is None or asked.kind == "agent":
        return None
    names = {
        "file": [use.path for use in lost.files],
        "todo": [todo.text for todo in lost.todos],
        "decision": [said.text for said in lost.decisions],
        "constraint": [said.text for said in lost.constraints],
    }
    return not any(name in asked.text for name in names.get(asked.kind, []))
