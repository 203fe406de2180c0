"""What each compaction was asked to keep, and whether it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def steered_by(
    row: CompactionRow, told: Told | None, asked: Sequence[GivenRow], before: int | None
) -> tuple[Steered, ...]:
    """List what a compaction was asked to keep, each once.

    `asked` is what was asked in its session, `before` the moment of the compaction before it:
    what was asked since then was asked of this one.
    """
    if row.at is None:
        return ()
    lost = told.forgotten if told else None
    found = {
        (each.kind, each.text): Steered(each.kind, each.text, _is_kept(each, lost))
        for each in asked
        if each.session_id == row.session_id
        and each.agent_id == row.agent_id
        and (before or 0) < each.at <= row.at
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
