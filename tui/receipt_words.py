"""A receipt in words: what was done where, how it stands, what keeps it from being undone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.compaction.backups import Backups
from ..core.compaction.plan import Refusal
from ..core.compaction.receipts import Mode, State
from ..core.compaction.undo import obstacle
from .formats import tokens

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..core.compaction.plan import Operation
    from ..core.compaction.receipts import Receipt
    from .operation_changes import Change

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


def newest_standing(store: Path) -> Receipt | None:
    """Give the newest receipt that is not undone. Raises OSError."""
    from ..collectors.subjects import state_folder
    from ..core.compaction.receipts import Receipts

    found = Receipts(state_folder(store)).all()
    return next((each for each in found if each.state is not State.UNDONE), None)


def undo_words(receipt: Receipt, numbers: Collection[int] | None, title: str) -> str:
    """Say what would be taken back, before a person confirms it."""
    plan = receipt.plan
    whole = len(plan.operations)
    undone = receipt.now.undone if receipt.now else ()
    left = [n for n in (range(whole) if numbers is None else numbers) if n not in undone]
    freed = sum(plan.operations[n].tokens_saved for n in left)
    count = f"{len(left)} of {whole}" if len(left) < whole else f"all {whole}"
    where = {
        Mode.FORK: f"in its fork {receipt.new_session_id}. The session and the fork both stay.",
        Mode.IN_PLACE: "in the session itself. What was written since stays.",
        Mode.APPEND: "at the end of the session. What was written since stays.",
    }[receipt.mode]
    what = ", ".join(dict.fromkeys(plan.operations[n].strategy for n in left))
    return (
        f"“{title}”: {count} operations of receipt {receipt.receipt_id} are taken back, {where}\n\n"
        f"{what}: ≈ {tokens(freed)} tokens come back into its context."
    )


def found_receipt(store: Path, receipt_id: str) -> tuple[Receipt | None, str | None]:
    """Read a receipt, and what keeps it from being undone. Raises OSError."""
    from ..collectors.subjects import state_folder
    from ..core.compaction.receipts import Receipts

    state = state_folder(store)
    found = next(iter(Receipts(state).find_by_prefix(receipt_id)), None)
    return found, why_not_undoable(found, state) if found else None


def changes_then(
    receipt: Receipt, operation: Operation, store: Path, max_changes: int
) -> list[Change]:
    """Read what an operation changed when it was carried out. Raises OSError."""
    from ..collectors.subjects import state_folder
    from .operation_changes import changes_kept, changes_of

    edits = operation.edits[:max_changes]
    if receipt.backup is None:
        return changes_of(edits, Path(receipt.transcript))
    with Backups(state_folder(store)).open_lines(receipt.backup) as lines:
        return changes_kept(edits, lines)


def checked_all(store: Path) -> dict[str, str]:
    """Try out of each receipt whether it can be taken back: "ok", or what stands in its way."""
    from ..collectors.subjects import state_folder
    from ..core.compaction.receipts import Receipts

    state = state_folder(store)
    found = {each.receipt_id: tried_out(each, state) for each in Receipts(state).all()}
    return {name: "ok" if why is None else why.check for name, why in found.items()}
