"""Every action ever taken, as `ctxtop receipts --all` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..formats import moment, tokens
from .columns import Column, draw, terminal_width
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..actions import Action
    from .columns import Cell

_COLUMNS: Final = (
    Column("receipt"),
    Column("at"),
    Column("session"),
    Column("how"),
    Column("what", flexible=True),
    Column("freed", right=True),
    Column("state"),
    Column("by", priority=1),
)


def record_of(action: Action) -> dict[str, Any]:
    """Say an action for programs; what does not apply is null."""
    return {
        "receipt_id": action.receipt_id,
        "at": time_of(action.at),
        "session_id": action.session_id,
        "how": action.mode,
        "what": action.what,
        "by": action.requested_by or None,
        "tokens_saved": action.freed_tokens,
        "bytes_saved": action.freed_bytes,
        "state": action.state,
        "can_be_undone": action.receipt_id is not None and action.undo_obstacle is None,
        "why_not": action.undo_obstacle,
    }


def table(actions: Sequence[Action]) -> list[str]:
    """Lay them out for people."""
    rows: list[list[Cell | str]] = [
        [
            each.receipt_id or "",
            moment(each.at),
            (each.session_id or "")[:8],
            each.mode,
            each.what,
            tokens(each.freed_tokens) if each.freed_tokens is not None else "",
            each.state,
            each.requested_by,
        ]
        for each in actions
    ]
    return draw(_COLUMNS, rows, terminal_width()) if rows else ["no actions yet"]
