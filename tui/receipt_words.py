"""A receipt in words: what was done where, how it stands, what keeps it from being undone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.compaction.backups import Backups
from ..core.compaction.plan import Refusal
from ..core.compaction.receipts import Mode, State
from ..core.compaction.undo import obstacle

if TYPE_CHECKING:
    from ..core.compaction.receipts import Receipt

MODES: Final = {Mode.FORK: "fork", Mode.IN_PLACE: "in place", Mode.APPEND: "appended"}

STATES: Final = {
    State.OPEN: "interrupted",
    State.DONE: "can be undone",
    State.PARTLY_UNDONE: "partly undone",
    State.UNDONE: "undone",
}


def why_not_undoable(receipt: Receipt, state: Path) -> str | None:
    """Say why it cannot be taken back; None where it can. The copy's content is not read."""
    if receipt.state is State.UNDONE:
        return "it is undone already"
    if receipt.state is State.OPEN:
        return "it was interrupted: the next change of the session settles it"
    if not Path(receipt.target).is_file():
        return f"{receipt.target} is gone"
    copy = Backups(state).path(receipt.backup) if receipt.backup else None
    if copy is not None and not copy.is_file() and not Path(receipt.transcript).is_file():
        return f"{copy} and {receipt.transcript} are gone"
    return None


def tried_out(receipt: Receipt, state: Path) -> Refusal | None:
    """Take one back into nowhere, and give what stands in its way; None where nothing does."""
    try:
        found = obstacle(receipt, state)
    except OSError as error:
        why = f"{error.filename or receipt.target}: {error.strerror}"
        return Refusal("file", why, "make it readable again")
    return found.refusals[0] if found else None


def strategies_of(receipt: Receipt) -> str:
    """Count the operations and name their strategies."""
    operations = receipt.plan.operations
    names = dict.fromkeys(each.strategy for each in operations)
    return f"{len(operations)}: {', '.join(names)}"


def standing_of(receipt: Receipt, state: Path) -> str:
    """Say how it stands; the copy's content is not read."""
    if receipt.state in {State.DONE, State.PARTLY_UNDONE} and why_not_undoable(receipt, state):
        return "its file is gone"
    return STATES[receipt.state]
