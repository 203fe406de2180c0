"""Every action ever taken, from all who keep books of them: newest first."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.compaction.receipts import State
from .formats import plural
from .receipt_words import MODES, standing_of, why_not_undoable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from ..collectors.asking.receipts import Receipt as AskedReceipt
    from ..core.compaction.receipts import Receipt
    from ..core.store.recovery_rows import AutomaticRun

_INSTALLED_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Action:
    """One of them; times in ms since 1970."""

    key: str
    at: int
    session_id: str | None
    mode: str
    what: str
    requested_by: str
    """"you", or why ctxtop did it by itself."""
    freed_tokens: int | None
    freed_bytes: int | None
    state: str
    receipt_id: str | None = None
    """Of what can be looked into, and taken back."""
    undo_obstacle: str | None = None
    """What keeps it from being undone; None where nothing does."""


def read_actions(db: sqlite3.Connection, store: Path) -> list[Action]:
    """List them. Raises OSError where a book cannot be read."""
    return sorted(_actions(db, store), key=lambda each: -each.at)


def signature(db: sqlite3.Connection, store: Path) -> tuple[object, ...]:
    """Give what changes with every action: it is cheap to look at."""
    from ..collectors.install.receipts import install_folder
    from ..collectors.plugin.exchange import kept_folder
    from ..collectors.subjects import state_folder
    from ..core.store.recovery_rows import automatic_mark

    asked = Path(kept_folder(str(store)))
    places = (state_folder(store) / "receipts", asked, install_folder(store))
    return (*map(_changed, places), *automatic_mark(db))


def _changed(place: Path) -> int | None:
    try:
        return place.stat().st_mtime_ns
    except OSError:
        return None


def _actions(db: sqlite3.Connection, store: Path) -> Iterator[Action]:
    from ..collectors.asking import receipts as asked
    from ..collectors.subjects import state_folder
    from ..core.compaction.receipts import Receipts
    from ..core.store.recovery_rows import all_runs, automatic_runs

    state = state_folder(store)
    mended = {run.receipt for run in all_runs(db) if run.receipt}
    kept = Receipts(state)
    for receipt in kept.all():
        yield _changed_session(receipt, state, is_recovery=receipt.receipt_id in mended)
    for path in kept.unreadable():
        yield _unreadable(path)
    for request in asked.receipts(store, time.time_ns() // 1_000_000):
        yield _asked(request)
    for run in automatic_runs(db, 0):
        if run.receipt is None:
            yield _by_itself(run)
    yield from _installs(store)


def _changed_session(receipt: Receipt, state: Path, *, is_recovery: bool) -> Action:
    plan = receipt.plan
    return Action(
        key=f"receipt:{receipt.receipt_id}",
        at=receipt.at,
        session_id=receipt.session_id,
        mode="recover" if is_recovery else MODES[receipt.mode],
        what=_what(receipt),
        requested_by=receipt.automatic or "you",
        freed_tokens=plan.before_tokens - plan.after_tokens,
        freed_bytes=plan.bytes_before - plan.bytes_after,
        state="stands" if receipt.state is State.DONE else standing_of(receipt, state),
        receipt_id=receipt.receipt_id,
        undo_obstacle=why_not_undoable(receipt, state),
    )


def _what(receipt: Receipt) -> str:
    operations = receipt.plan.operations
    names = ", ".join(dict.fromkeys(each.strategy for each in operations))
    return f"{plural(len(operations), 'operation')}: {names}"


def _unreadable(path: Path) -> Action:
    return Action(
        key=f"unreadable:{path.name}",
        at=path.stat().st_mtime_ns // 1_000_000,
        session_id=None,
        mode="?",
        what=f"{path.name} or its plan is damaged",
        requested_by="",
        freed_tokens=None,
        freed_bytes=None,
        state="cannot be read",
        undo_obstacle="put it back from a copy",
    )


def _asked(request: AskedReceipt) -> Action:
    freed = None
    if request.pre_tokens is not None and request.post_tokens is not None:
        freed = request.pre_tokens - request.post_tokens
    return Action(
        key=f"asked:{request.request}",
        at=request.requested_at,
        session_id=request.session_id,
        mode=f"/compact, {request.via}",
        what=request.why or _asked_what(request),
        requested_by="you",
        freed_tokens=freed,
        freed_bytes=None,
        state=request.state,
        undo_obstacle="Claude Code did it: ctxtop cannot take that back",
    )


def _asked_what(request: AskedReceipt) -> str:
    if not request.command:
        return "Claude Code was asked to compact it"
    return f"ran {shlex.join(request.command)} in {request.folder}"


def _by_itself(run: AutomaticRun) -> Action:
    return Action(
        key=f"run:{run.session_id}:{run.at}",
        at=run.at,
        session_id=run.session_id,
        mode="by itself",
        what=run.outcome or "it is at work, or ctxtop was ended meanwhile",
        requested_by=run.reason,
        freed_tokens=None,
        freed_bytes=None,
        state="done" if run.left_tokens is not None else "nothing written",
        undo_obstacle="nothing of ctxtop's was written",
    )


def _installs(store: Path) -> Iterator[Action]:
    import msgspec

    from ..collectors.install.receipts import Receipt, install_folder
    from ..collectors.regular import open_regular

    for path in sorted(install_folder(store).glob("*/receipt.json")):
        try:
            with open_regular(path) as file:
                found = msgspec.json.decode(file.read(_INSTALLED_BYTES), type=Receipt)
        except (OSError, msgspec.DecodeError):
            yield _unreadable(path)
            continue
        yield Action(
            key=f"install:{path.parent.name}",
            at=found.at_ms,
            session_id=None,
            mode="hooks",
            what=f"{found.form}: {', '.join(found.features)} in {found.settings}",
            requested_by="you",
            freed_tokens=None,
            freed_bytes=None,
            state="stands",
            undo_obstacle="`ctxtop hooks uninstall` takes it back",
        )
