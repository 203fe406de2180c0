"""Carry out a pause: each session once, whatever else runs, and with a receipt."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ..compaction.plan import ROLLOVER, PlanOptions, RefusalKind
from ..compaction.receipts import ApplyMode, CompactionReceipt, ReceiptState, ReceiptStore
from ..model.pause_ways import PauseWay
from ..store import automation_records
from ..store.automation_records import PauseRecord
from ..store.database import StoreError, open_reader
from ..store.writer import Writer
from .pause_rules import MIN_LEFT_MS, PauseCandidate, PauseCheck, PauseItem
from .session_access import (
    ActionFailure,
    CompactFailure,
    NotCompactedError,
    NotPlannedError,
    ask_open_client,
)
from .session_compaction import PlanContext, apply_compaction, plan_compaction

if TYPE_CHECKING:
    from .session_access import SessionAccess


class PauseLook(msgspec.Struct, frozen=True):
    """A session at the moment before it is changed."""

    status: str | None  # by the client's registry; None if no client has it open
    bytes: int  # of its transcript


class PauseTarget(msgspec.Struct, frozen=True):
    """A session of a preview, and what pausing it takes; the collectors provide it."""

    item: PauseItem
    access: SessionAccess
    look: Callable[[], PauseLook]  # raises OSError
    write_note: Callable[[], CompactionReceipt | ActionFailure]
    """Makes a new session that starts with a hand-off note. Raises OSError."""


class PauseResult(msgspec.Struct, frozen=True):
    item: PauseItem
    outcome: str  # one line
    check: PauseCheck | None = None  # why nothing was done; None if it was paused
    tokens_left: int | None = None
    receipt: str | None = None
    resume_command: str | None = None  # of a new session that starts with a note

    @property
    def is_failure(self) -> bool:
        return self.check is PauseCheck.FAILED


MAX_AT_ONCE: Final = 4
"""Sessions that are paused at the same time: a summary takes minutes, and a cache may have five."""


def pause_all(targets: Iterable[PauseTarget], now: Callable[[], int]) -> Iterator[PauseResult]:
    """Pause all, those first whose cache expires first; results come as they are done.

    If it is interrupted, what has begun is waited for, and nothing else begins.
    """
    order = sorted(targets, key=lambda each: each.item.session.cache.expires_at or 0)
    with ThreadPoolExecutor(MAX_AT_ONCE, "ctxtop pause") as pool:
        try:
            for done in as_completed([pool.submit(pause_session, each, now) for each in order]):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def pause_session(target: PauseTarget, now: Callable[[], int]) -> PauseResult:
    """Pause one session as its preview says, unless it changed since; it raises nothing expected.

    It is claimed first: of several processes one acts, and whatever fails in between, no second
    attempt is made at the same state of the session before PAUSE_TIMEOUT_MS have passed.
    """
    item = target.item
    try:
        claim = _claim(target, now())
        if claim is None:
            why = "another ctxtop pauses it, or has just done so"
            return PauseResult(item, why, PauseCheck.PAUSED)
        return _act(target, claim, now)
    except (StoreError, sqlite3.Error) as error:
        return PauseResult(item, f"the store cannot be used: {error}", PauseCheck.FAILED)
    except OSError as error:
        why = f"{error.filename or item.session.path}: {error.strerror or error}"
        return PauseResult(item, why, PauseCheck.FAILED)


def _claim(target: PauseTarget, now_ms: int) -> PauseRecord | None:
    item = target.item
    session_id, answered_at = item.session.session_id, item.candidate.answered_at or 0
    claim = PauseRecord(session_id, answered_at, now_ms, item.decision.way.value)
    with closing(Writer(target.access.store)) as writer:
        return claim if automation_records.claim_pause(writer.connection, claim) else None


def _act(target: PauseTarget, claim: PauseRecord, now: Callable[[], int]) -> PauseResult:
    if changed := _what_changed(target, now()):
        _record(target, claim, None, now())
        return PauseResult(target.item, changed, PauseCheck.CHANGED)
    carry_out = _WAYS[target.item.decision.way]
    result = carry_out(target)
    _record(target, claim, result, now())
    return result


def _what_changed(target: PauseTarget, now_ms: int) -> str | None:
    """Return what keeps a session from being paused now that its preview did not show."""
    item, seen = target.item, target.look()
    if seen.status != "idle":
        return f"it is {seen.status or 'closed'} now"
    if seen.bytes != item.candidate.bytes:
        return "it was written to since the preview"
    if not item.session.cache.is_warm(now_ms + MIN_LEFT_MS):
        return "its prompt cache has expired meanwhile"
    return None


def _record(
    target: PauseTarget, claim: PauseRecord, result: PauseResult | None, now_ms: int
) -> None:
    """Record how it ended; what was not begun may be tried again."""
    with closing(Writer(target.access.store)) as writer:
        if result is None or result.check is PauseCheck.CHANGED:
            automation_records.release_pause(writer.connection, claim)
            return
        ended = replace(
            claim,
            outcome=result.outcome,
            ended_at=now_ms,
            left_tokens=result.tokens_left,
            receipt=result.receipt,
        )
        automation_records.end_pause(writer.connection, ended)


def _compact(target: PauseTarget) -> PauseResult:
    item = target.item
    try:
        done = ask_open_client(target.access.client)
    except NotCompactedError as error:
        # Of these two nothing was sent to the client.
        is_changed = error.failure in {CompactFailure.LIVE, CompactFailure.UNSAFE}
        return PauseResult(
            item, str(error), PauseCheck.CHANGED if is_changed else PauseCheck.FAILED
        )
    return PauseResult(
        item,
        f"compacted by Claude Code via {done.via}: {done.sizes_text}",
        tokens_left=done.left_tokens,
        receipt=done.boundary_uuid,
    )


def _hand_off(target: PauseTarget) -> PauseResult:
    receipt = target.write_note()
    if isinstance(receipt, ActionFailure):
        is_changed = receipt.kind is RefusalKind.LIVE
        check = PauseCheck.CHANGED if is_changed else PauseCheck.FAILED
        return PauseResult(target.item, str(receipt), check)
    return PauseResult(
        target.item,
        f"hand-off note in the new session {receipt.new_session_id}",
        tokens_left=receipt.plan.after_tokens,
        receipt=receipt.receipt_id,
        resume_command=receipt.resume_command,
    )


def write_hand_off(
    access: SessionAccess, candidate: PauseCandidate
) -> CompactionReceipt | ActionFailure:
    """Make a new session that starts with a note; the session itself is not changed.

    A note that an interrupted pause has written since its newest answer is not written again.
    """
    if (earlier := _earlier_note(access, candidate.answered_at or 0)) is not None:
        return earlier
    try:
        with closing(open_reader(access.store)) as db:
            plan = plan_compaction(PlanContext(access, db), PlanOptions(strategies=(ROLLOVER,)))
    except NotPlannedError as error:
        return ActionFailure((str(error),))
    if plan.refused:
        return ActionFailure(tuple(map(str, plan.refused)), refusals=plan.refused)
    if plan.base_bytes != candidate.bytes:
        return ActionFailure(("it was written to since the preview",), RefusalKind.LIVE)
    return apply_compaction(access.target, plan, ApplyMode.FORK)


def _earlier_note(access: SessionAccess, answered_at: int) -> CompactionReceipt | None:
    session_id, store = access.session.session_id, ReceiptStore(access.target.state_folder)
    return next(
        (
            receipt
            for receipt in store.for_session(session_id)
            if receipt.session_id == session_id
            and receipt.state is ReceiptState.DONE
            and receipt.at >= answered_at
            and any(each.strategy == ROLLOVER for each in receipt.plan.operations)
        ),
        None,
    )


_WAYS: Final[dict[PauseWay, Callable[[PauseTarget], PauseResult]]] = {
    PauseWay.CLIENT: _compact,
    PauseWay.HAND_OFF: _hand_off,
}
