"""Reads the cache ledger of sessions: answers from the store, changes from their transcripts."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ...core.compaction.receipts import ReceiptStore
from ...core.measure.prompt_cache.cache_ledger import (
    CacheLedger,
    CacheMiss,
    CacheRequest,
    Change,
    ChangeKind,
    judge_miss,
    to_request,
)
from ...core.measure.prompt_cache.rewrites import Rewrite, SharedStarts, chains, find_rewrites
from ...core.model.answer_rows import CacheAnswerRow
from ...core.store.bulkhead import NOT_READ, bulkhead
from ...core.store.database import state_folder
from ...core.store.queries import cache_queries
from ...core.store.queries.spending_queries import decode_charges
from .transcripts.cache_changes import read_changes

EventTimes = Mapping[str, list[tuple[int, Change]]]  # by session, oldest first

_RESUMED: Final = Change(ChangeKind.RESUMED)


def read_cache_ledger(
    db: sqlite3.Connection,
    projects: Path,
    store: Path,
    custom_prices: Mapping[str, str],
    *,
    session_ids: Collection[str] | None = None,
    since_ms: int | None = None,
    known: Iterable[CacheMiss] = (),
) -> CacheLedger:
    """Read the ledger of every session, or of those named, with their agents.

    Of each transcript only the lines before a miss are read, and of `known` misses none. One that
    cannot be read says nothing of what changed. A message that several files hold counts once.
    """
    wanted = session_ids
    if wanted is None and since_ms is not None:
        wanted = cache_queries.sessions_since(db, since_ms)
    rows = cache_queries.cache_answers(db, wanted)

    def is_within(at: int | None) -> bool:
        return since_ms is None or (at or 0) >= since_ms

    starts = SharedStarts(cache_queries.first_reads(db))
    rewrites: list[Rewrite] = []
    for chain in chains(rows):
        with bulkhead(_name_of(chain[0].session_id), NOT_READ, store):
            rewrites += [
                each for each in find_rewrites(chain, starts) if is_within(each.current.at)
            ]
    judged = {_place_of(miss.rewrite): miss for miss in known}
    new = [each for each in rewrites if not _is_judged(each, judged)]
    events = _read_events(db, store, {each.current.session_id for each in new}) if new else {}
    for each in new:
        with bulkhead(_name_of(each.current.session_id), NOT_READ, store):
            changes = _changes(db, projects, each, events)
            judged[_place_of(each)] = judge_miss(each, changes, custom_prices)
    misses = [judged[place] for each in rewrites if (place := _place_of(each)) in judged]
    return CacheLedger(
        tuple(
            request
            for row in rows
            if row.is_counted and is_within(row.at)
            for request in _counted_requests(row)
        ),
        tuple(sorted(misses, key=_time_of, reverse=True)),
    )


def _counted_requests(row: CacheAnswerRow) -> list[CacheRequest]:
    """Return a request for each model and rate of an answer, of the session that it counts for."""
    request = to_request(replace(row, session_id=row.counts_for))
    return [
        replace(
            request,
            model=each.model,
            input_tokens=each.input_tokens,
            read_tokens=each.cache_read_tokens,
            written_5m_tokens=each.cache_creation_tokens - each.cache_1h_tokens,
            written_1h_tokens=each.cache_1h_tokens,
            answers=each.responses,
        )
        for each in decode_charges(row.charges)
    ] or [request]


def _name_of(session_id: str) -> str:
    return f"cache ledger of session {session_id}"


def _place_of(rewrite: Rewrite) -> tuple[int, str]:
    return rewrite.current.file_id, rewrite.current.message_id


def _is_judged(rewrite: Rewrite, judged: Mapping[tuple[int, str], CacheMiss]) -> bool:
    miss = judged.get(_place_of(rewrite))
    return miss is not None and miss.rewrite == rewrite


def _time_of(miss: CacheMiss) -> int:
    return miss.request.at or 0


def _changes(
    db: sqlite3.Connection, projects: Path, rewrite: Rewrite, events: EventTimes
) -> list[Change]:
    found = _events_between(rewrite, events)
    try:
        return [*found, *read_changes(db, projects, rewrite)]
    except OSError:
        # The transcript is gone: what the store knows is all there is.
        return found


def _read_events(db: sqlite3.Connection, store: Path, session_ids: Iterable[str]) -> EventTimes:
    """Read when sessions were resumed and when ctxtop changed them."""
    sessions = set(session_ids)
    events: dict[str, list[tuple[int, Change]]] = {}
    for start in cache_queries.session_starts(db, sessions):
        if start.source == "resume":
            events.setdefault(start.session_id, []).append((start.at, _RESUMED))
    for receipt in ReceiptStore(state_folder(store)).all():
        changed = receipt.new_session_id or receipt.session_id
        if changed in sessions:
            edit = Change(ChangeKind.EDITED, f"receipt {receipt.receipt_id}")
            events.setdefault(changed, []).append((receipt.at, edit))
    return {session: sorted(found, key=lambda each: each[0]) for session, found in events.items()}


def _events_between(rewrite: Rewrite, events: EventTimes) -> list[Change]:
    """List what happened to a session between two of its own requests; agents have none."""
    before, now = rewrite.previous.at, rewrite.current.at
    if rewrite.current.agent_id is not None or before is None or now is None:
        return []
    known = events.get(rewrite.current.session_id, [])
    times = [at for at, _ in known]
    return [change for _, change in known[bisect_right(times, before) : bisect_right(times, now)]]
