"""The history of all actions, and texts for each receipt's state, undo and checks."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...core.actions.session_compaction import undo_obstacle
from ...core.compaction.plan import Operation
from ...core.compaction.receipts import ApplyMode, BackupStore, CompactionReceipt, ReceiptState
from ..text.formats import plural, tokens

if TYPE_CHECKING:
    import sqlite3

    from ...collectors.install.install_plan import InstallReceipt
    from ...collectors.terminal.request_receipts import ClientCompactReceipt
    from ...core.store.automation_records import AutomaticRunRecord, PauseRecord
    from ..text.plan_text import OperationChange


CHECK_TEXTS: Final = {
    "V1": "every changed line is JSON",
    "V2": "no extra lines",
    "V3": "untouched lines byte for byte",
    "V4": "ids, roles and calls kept",
    "V5": "the same lines are sent",
    "V6": "no new roots or orphans",
    "V7": "every call has its result",
    "V8": "server tools in pairs",
    "V9": "no empty messages, types kept",
    "V10": "thinking whole or removed",
    "V11": "last compaction kept",
    "V12": "title and mode kept",
    "V13": "roles alternate",
    "V14": "prompts as planned",
    "V15": "protected content kept",
    "V16": "request as planned",
    "V17": "file no larger than planned",
    "V18": "no split characters",
    "V19": "images whole or replaced",
    "V20": "files beside it exist",
    "V21": "undo restores the same bytes",
    "V22": "idempotent",
    "V23": "owner and permissions kept",
    "V24": "no writes in the meantime",
}


def check_text(check: str) -> str:
    """Return the description of a check, or its code if a newer version wrote it."""
    return CHECK_TEXTS.get(check, check)


MODE_NAMES: Final = {
    ApplyMode.FORK: "fork",
    ApplyMode.IN_PLACE: "in place",
    ApplyMode.APPEND: "appended",
}

RECEIPT_STATE_TEXTS: Final = {
    ReceiptState.OPEN: "interrupted",
    ReceiptState.DONE: "can be undone",
    ReceiptState.PARTLY_UNDONE: "partly undone",
    ReceiptState.UNDONE: "undone",
}


def strategies_text(receipt: CompactionReceipt) -> str:
    return f"{len(receipt.plan.operations)}: {_strategy_names(receipt.plan.operations)}"


def _strategy_names(operations: Iterable[Operation]) -> str:
    return ", ".join(dict.fromkeys(each.strategy for each in operations))


def receipt_state_text(receipt: CompactionReceipt, state: Path) -> str:
    """Return the text for a receipt's state, without reading the content of its backup."""
    is_applied = receipt.state in {ReceiptState.DONE, ReceiptState.PARTLY_UNDONE}
    if is_applied and undo_obstacle(receipt, state):
        return "its file is gone"
    return RECEIPT_STATE_TEXTS[receipt.state]


def undo_question(receipt: CompactionReceipt, numbers: Collection[int] | None, title: str) -> str:
    """Return the text that asks to confirm an undo; `numbers` None means all operations."""
    operations = receipt.plan.operations
    total = len(operations)
    undone = receipt.now.undone if receipt.now else ()
    chosen = [
        operations[n] for n in (range(total) if numbers is None else numbers) if n not in undone
    ]
    freed = sum(each.tokens_saved for each in chosen)
    count = f"{len(chosen)} of {total}" if len(chosen) < total else f"all {total}"
    fork = receipt.new_session_id
    where = {
        ApplyMode.FORK: f"in its fork {fork}. Both the session and the fork are kept.",
        ApplyMode.IN_PLACE: "in the session itself. Everything written since is kept.",
        ApplyMode.APPEND: "at the end of the session. Everything written since is kept.",
    }[receipt.mode]
    return (
        f"“{title}”: {count} operations of receipt {receipt.receipt_id} will be undone {where}\n\n"
        f"{_strategy_names(chosen)}: ≈ {tokens(freed)} tokens return to its context."
    )


def read_applied_changes(
    receipt: CompactionReceipt, operation: Operation, store: Path, max_changes: int
) -> list[OperationChange]:
    """Read what an operation changed when it was applied. Raises OSError."""
    from ...core.store.database import state_folder
    from ..text.plan_text import read_backup_changes, read_edit_changes

    edits = operation.edits[:max_changes]
    if receipt.backup is None:
        return read_edit_changes(edits, Path(receipt.transcript))
    with BackupStore(state_folder(store)).open_lines(receipt.backup) as lines:
        return read_backup_changes(edits, lines)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One action; times in ms since 1970."""

    key: str
    at: int
    session_id: str | None
    mode: str
    what: str
    requested_by: str  # "you", or why ctxtop did it by itself
    state: str
    freed_tokens: int | None = None
    freed_bytes: int | None = None
    receipt_id: str | None = None  # of an action that can be opened and undone
    undo_obstacle: str | None = None  # what keeps it from being undone
    automatic: str | None = None  # why ctxtop did it by itself; None if a person asked


def read_history(db: sqlite3.Connection, store: Path) -> list[HistoryEntry]:
    """List all actions, newest first. Raises OSError if a record cannot be read."""
    return sorted(_entries(db, store), key=lambda entry: -entry.at)


def read_receipt_entries(
    store: Path, receipts: Sequence[CompactionReceipt]
) -> dict[str, HistoryEntry]:
    """Return what the history says of receipts, by id; without a store, what they say alone."""
    from ...core.store.database import StoreError, open_reader, state_folder

    entries = {each.receipt_id: receipt_entry(each, state_folder(store)) for each in receipts}
    if receipts:
        with suppress(StoreError), closing(open_reader(store)) as db:
            entries |= {
                each.receipt_id: each for each in read_history(db, store) if each.receipt_id
            }
    return entries


def history_signature(db: sqlite3.Connection, store: Path) -> tuple[object, ...]:
    """Return a fingerprint that changes with every action and is cheap to read."""
    from ...collectors.install.install_plan import install_folder
    from ...collectors.plugin_files.compact_requests import request_history_folder
    from ...core.store.automation_records import automatic_runs_fingerprint, pauses_fingerprint
    from ...core.store.database import state_folder

    requests = Path(request_history_folder(str(store)))
    folders = (state_folder(store) / "receipts", requests, install_folder(store))
    runs = *automatic_runs_fingerprint(db), *pauses_fingerprint(db)
    return (*map(_modified_ns, folders), *runs)


def _modified_ns(place: Path) -> int | None:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return None


def _entries(db: sqlite3.Connection, store: Path) -> Iterator[HistoryEntry]:
    from ...collectors.install.install_plan import read_install_receipts
    from ...collectors.terminal.request_receipts import read_client_receipts
    from ...core.actions.stored_recoveries import read_recoveries
    from ...core.compaction.receipts import ReceiptStore
    from ...core.store.automation_records import read_automatic_runs, read_pauses
    from ...core.store.database import state_folder

    state = state_folder(store)
    recovered = {run.receipt for run in read_recoveries(db) if run.receipt}
    receipts, pauses = ReceiptStore(state), read_pauses(db)
    notes = {pause.receipt for pause in pauses}
    written = receipts.all()
    for receipt in written:
        entry = receipt_entry(receipt, state, is_recovery=receipt.receipt_id in recovered)
        yield replace(entry, requested_by=BY_PAUSE) if receipt.receipt_id in notes else entry
    yield from map(_unreadable_entry, receipts.unreadable())
    requests = read_client_receipts(store, time.time_ns() // 1_000_000)
    for request in requests:
        entry = _client_compact_entry(request)
        is_pause = any(_was_asked_by(request, pause) for pause in pauses)
        yield replace(entry, requested_by=BY_PAUSE) if is_pause else entry
    known = {receipt.receipt_id for receipt in written}
    for pause in pauses:
        asked = any(_was_asked_by(each, pause) for each in requests)
        if not asked and pause.receipt not in known:
            yield _pause_entry(pause)
    for run in read_automatic_runs(db, 0):
        if run.receipt is None and not any(_belongs_to(each, run) for each in requests):
            yield _automatic_entry(run)
    for path, installed in read_install_receipts(store):
        yield _install_entry(path, installed) if installed else _unreadable_entry(path)


def receipt_entry(
    receipt: CompactionReceipt, state: Path, *, is_recovery: bool = False
) -> HistoryEntry:
    plan, is_done = receipt.plan, receipt.state is ReceiptState.DONE
    count = plural(len(plan.operations), "operation")
    return HistoryEntry(
        key=f"receipt:{receipt.receipt_id}",
        at=receipt.at,
        session_id=receipt.session_id,
        mode="recover" if is_recovery else MODE_NAMES[receipt.mode],
        what=f"{count}: {_strategy_names(plan.operations)}",
        requested_by=receipt.automatic or "you",
        automatic=receipt.automatic,
        freed_tokens=plan.tokens_saved,
        freed_bytes=plan.bytes_saved,
        state="done" if is_done else receipt_state_text(receipt, state),
        receipt_id=receipt.receipt_id,
        undo_obstacle=undo_obstacle(receipt, state),
    )


def _unreadable_entry(path: Path) -> HistoryEntry:
    return HistoryEntry(
        key=f"unreadable:{path.name}",
        at=path.stat().st_mtime_ns // 1_000_000,
        session_id=None,
        mode="?",
        what=f"{path.name} or its plan is damaged",
        requested_by="",
        state="cannot be read",
        undo_obstacle="restore it from a backup",
    )


def _client_compact_entry(request: ClientCompactReceipt) -> HistoryEntry:
    freed = None
    # What the client counts after it is without the system prompt and the tools.
    if request.pre_tokens is not None and request.estimated_next_tokens is not None:
        freed = request.pre_tokens - request.estimated_next_tokens
    what = "Claude Code was asked to compact it"
    if request.command:
        what = f"ran {shlex.join(request.command)} in {request.folder}"
    return HistoryEntry(
        key=f"asked:{request.request}",
        at=request.requested_at,
        session_id=request.session_id,
        mode=f"/compact, {request.via}",
        what=request.why or what,
        requested_by=request.automatic or "you",
        automatic=request.automatic,
        freed_tokens=freed,
        state=request.state,
        undo_obstacle="done by Claude Code: ctxtop cannot undo it",
    )


def _belongs_to(request: ClientCompactReceipt, run: AutomaticRunRecord) -> bool:
    """Whether an automatic run asked for this, so that the request shows it already."""
    return (
        (request.session_id, request.automatic) == (run.session_id, run.reason)
        and run.at <= request.requested_at
        and (run.ended_at is None or request.requested_at <= run.ended_at)
    )


BY_PAUSE: Final = "you, before a break"


def _was_asked_by(request: ClientCompactReceipt, pause: PauseRecord) -> bool:
    """Whether a pause asked for this, so that the request shows it already."""
    return (
        request.session_id == pause.session_id
        and pause.at <= request.requested_at
        and (pause.ended_at is None or request.requested_at <= pause.ended_at)
    )


def _pause_entry(pause: PauseRecord) -> HistoryEntry:
    return HistoryEntry(
        key=f"pause:{pause.session_id}:{pause.at}",
        at=pause.at,
        session_id=pause.session_id,
        mode=f"pause, {pause.way}",
        what=pause.outcome or "still running, or ctxtop ended meanwhile",
        requested_by=BY_PAUSE,
        state="nothing written" if pause.left_tokens is None else "done",
        undo_obstacle="ctxtop wrote nothing",
    )


def _automatic_entry(run: AutomaticRunRecord) -> HistoryEntry:
    return HistoryEntry(
        key=f"run:{run.session_id}:{run.at}",
        at=run.at,
        session_id=run.session_id,
        mode="automatic",
        what=run.outcome or "still running, or ctxtop ended meanwhile",
        requested_by=run.reason,
        automatic=run.reason,
        state="done" if run.left_tokens is not None else "nothing written",
        undo_obstacle="ctxtop wrote nothing",
    )


def _install_entry(path: Path, receipt: InstallReceipt) -> HistoryEntry:
    return HistoryEntry(
        key=f"install:{path.parent.name}",
        at=receipt.at_ms,
        session_id=None,
        mode="hooks",
        what=f"{receipt.form}: {', '.join(receipt.features)} in {receipt.settings}",
        requested_by="you",
        state="done",
        undo_obstacle="`ctxtop hooks uninstall` undoes it",
    )
