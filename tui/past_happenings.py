"""What happened, as the store and ctxtop's own files tell it: also while no ctxtop was open."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ..collectors.own_changes import state_folder
from ..core.compaction.receipts import Receipts, State
from ..core.compaction.recovery.run import State as RunState
from ..core.sessions import title_of
from ..core.store import aside_queries, log_queries, queries
from ..core.store.recovery_rows import all_runs, automatic_runs
from ..core.store.warning_queries import last_id
from ..core.warning_log import read_log
from .formats import NOTHING, after_tokens, one_line, percent, plural, tokens
from .happenings import Happening, in_order
from .notices import WEIGHTS, Weight
from .receipt_words import MODES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator
    from pathlib import Path

MOST: Final = 1000
"""Entries of the past that are shown, the newest; the commands list all of each kind."""

MOST_OF_A_KIND: Final = 400
"""Else a file of garbage, with a bad line each, would be all that is seen."""

SHOWN_CHARS: Final = 200
"""Of the API's words in a row; the entry opened shows all."""

_ASIDE: Final = re.compile(r"\.aside-(\d{8}-\d{6})(?:-\d+)?$")
"""How the name of a store ends that was set aside: when that was, in UTC."""


def read_past(db: sqlite3.Connection, store: Path, limit: int = MOST) -> tuple[Happening, ...]:
    """List what is known of the past, oldest first, the newest `most`."""
    found = [
        *_aside(db),
        *_unknown(db),
        *_levels(db),
        *_compactions(db),
        *_runs(db),
        *_receipts(store),
        *_recoveries(db),
        *_refusals(db),
        *_troubles(db),
        *_hooks(db),
        *_faults(db, store),
        *_stores(store),
    ]
    return tuple(_with_titles(db, in_order(found, limit)))


def _with_titles(db: sqlite3.Connection, found: list[Happening]) -> Iterator[Happening]:
    """Call sessions by their titles."""
    named = {each.session_id for each in found if each.session_id}
    titles = {row.session_id: title_of(row) for row in queries.sessions(db, named)}
    for each in found:
        title = titles.get(each.session_id or "")
        yield replace(each, where=one_line(title)) if title else each


def _aside(db: sqlite3.Connection) -> Iterator[Happening]:
    for row in aside_queries.newest_aside(db, MOST_OF_A_KIND):
        whose = f"{row.log} log" if row.log else "transcript"
        yield Happening(
            key=f"line {row.path} {row.offset}",
            at=row.file_at,
            weight=Weight.WARNING,
            source="bad line",
            where=one_line(row.path),
            text=f"set aside: {one_line(row.reason)}",
            detail=(
                f"file    {one_line(row.path)} ({whose})\n"
                f"offset  {row.offset:,} bytes\n"
                f"length  {row.length:,} bytes\n"
                f"time    at the latest, as its file's\n"
                f"reason  {one_line(row.reason)}\n\n"
                "Nothing of it is lost: the file has it, and `ctxtop scan --bad` lists all."
            ),
            session_id=row.session_id,
        )


def _unknown(db: sqlite3.Connection) -> Iterator[Happening]:
    for row in aside_queries.unknown_rows(db)[:MOST_OF_A_KIND]:
        yield Happening(
            key=f"type {row.type}",
            at=row.last_at,
            weight=Weight.NOTE,
            source="unknown",
            where=one_line(row.type),
            text=f"{row.lines:,} of a type that is not known",
            detail="They are kept and counted; a newer ctxtop may know them.",
        )


def _levels(db: sqlite3.Connection) -> Iterator[Happening]:
    for each in read_log(db, after=last_id(db) - MOST_OF_A_KIND):
        warning = each.warning
        whose = f"agent {each.agent_id}" if each.agent_id else "the session"
        ended = _moment(warning.cleared_at) if warning.cleared_by else "it stands"
        yield Happening(
            key=f"level {each.log_id}",
            at=warning.at,
            weight=WEIGHTS[warning.level.severity],
            source="level",
            where=each.session_id[:8],
            text=f"{warning.level.value} reached at {percent(warning.ratio)}"
            + (", an agent" if each.agent_id else ""),
            detail=(
                f"context  {whose}\n"
                f"tokens   {warning.point.tokens:,}, {percent(warning.ratio)} of the window\n"
                f"line     {percent(warning.threshold)}\n"
                f"ended    {ended}"
            ),
            session_id=each.session_id,
        )


def _compactions(db: sqlite3.Connection) -> Iterator[Happening]:
    for row in aside_queries.newest_boundaries(db, MOST_OF_A_KIND):
        whose = f"agent {row.agent_id}" if row.agent_id else "the session"
        yield Happening(
            key=f"compaction {row.session_id} {row.uuid}",
            at=row.at,
            weight=Weight.NOTE,
            source="compaction",
            where=row.session_id[:8],
            text=f"{tokens(row.pre_tokens)} → "
            f"{after_tokens(row.next_tokens, row.estimated_next_tokens, row.post_tokens)} tokens"
            f", {row.trigger or 'of a kind that is not known'}"
            + (", an agent" if row.agent_id else ""),
            detail=(
                f"context  {whose}\n"
                f"kept     {NOTHING if row.kept_messages is None else row.kept_messages} messages\n"
                f"more     `ctxtop compactions --session {row.session_id[:8]}`"
            ),
            session_id=row.session_id,
        )


def _runs(db: sqlite3.Connection) -> Iterator[Happening]:
    for run in automatic_runs(db, 0)[-MOST_OF_A_KIND:]:
        outcome = run.outcome or "it runs, or ctxtop was ended meanwhile"
        undo = f"`ctxtop undo {run.receipt}`" if run.receipt else "nothing was written"
        yield Happening(
            key=f"run {run.session_id} {run.at}",
            at=run.ended_at or run.at,
            weight=Weight.NOTE if run.receipt or run.left_tokens else Weight.WARNING,
            source="automatic",
            where=run.session_id[:8],
            text=one_line(outcome),
            detail=(
                f"began    {_moment(run.at)}\n"
                f"why      {one_line(run.reason)}\n"
                f"outcome  {one_line(outcome)}\n"
                f"undo     {undo}"
            ),
            session_id=run.session_id,
        )


def _receipts(store: Path) -> Iterator[Happening]:
    for receipt in Receipts(state_folder(store)).all()[:MOST_OF_A_KIND]:
        freed = receipt.plan.before_tokens - receipt.plan.after_tokens
        state = "" if receipt.state is State.DONE else f", {receipt.state.replace('_', ' ')}"
        made = f"fork     {receipt.new_session_id}\n" if receipt.new_session_id else ""
        yield Happening(
            key=f"receipt {receipt.receipt_id}",
            at=receipt.at,
            weight=Weight.WARNING if receipt.state is State.OPEN else Weight.NOTE,
            source="receipt",
            where=receipt.session_id[:8],
            text=f"{MODES[receipt.mode]}: ≈ {tokens(freed)} tokens freed{state}",
            detail=(
                f"receipt  {receipt.receipt_id}\n"
                f"{made}"
                f"why      {one_line(receipt.automatic or 'a person asked')}\n"
                f"checks   {len(receipt.verified)} passed\n"
                f"undo     `ctxtop undo {receipt.receipt_id}`"
            ),
            session_id=receipt.session_id,
        )


def _recoveries(db: sqlite3.Connection) -> Iterator[Happening]:
    newest = sorted(all_runs(db), key=lambda run: -run.changed_at)[:MOST_OF_A_KIND]
    for run in newest:
        session_id, state = run.found.session_id, run.state.replace("_", " ")
        yield Happening(
            key=f"recovery {session_id}",
            at=run.changed_at,
            weight=Weight.NOTE if run.state is RunState.SUCCEEDED else Weight.WARNING,
            source="recovery",
            where=session_id[:8],
            text=f"recovery {state}: {plural(run.counters.attempts, 'attempt')}",
            detail=(
                f"refusal  {one_line(run.found.error_type)}\n"
                f"steps    {', '.join(run.steps)}\n"
                f"receipt  {run.receipt or NOTHING}\n"
                f"more     `ctxtop recover {session_id[:8]}`"
            ),
            session_id=session_id,
        )


def _refusals(db: sqlite3.Connection) -> Iterator[Happening]:
    for row in aside_queries.newest_refusals(db, MOST_OF_A_KIND):
        whose = f"agent {row.agent_id}" if row.agent_id else "the session"
        sizes = f"{_count(row.prompt_tokens)} tokens, the limit {_count(row.limit_tokens)}"
        yield Happening(
            key=f"refusal {row.path} {row.offset}",
            at=row.at,
            weight=Weight.WARNING,
            source="refusal",
            where=row.session_id[:8],
            text=one_line(row.detail)[:SHOWN_CHARS] + (", an agent" if row.agent_id else ""),
            detail=(
                f"context  {whose}\n"
                f"kind     {one_line(row.kind)}\n"
                f"prompt   {sizes}\n\n"
                f"{one_line(row.detail)}"
            ),
            session_id=row.session_id,
        )


def _count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}"


def _troubles(db: sqlite3.Connection) -> Iterator[Happening]:
    for row in queries.troubles(db)[:MOST_OF_A_KIND]:
        yield Happening(
            key=f"trouble {row.where}",
            at=row.at,
            weight=Weight.TROUBLE,
            source="trouble",
            where=one_line(row.where),
            text=one_line(row.what),
            detail=one_line(row.fix),
        )


def _hooks(db: sqlite3.Connection) -> Iterator[Happening]:
    last = log_queries.last_events(db)
    for event, count in log_queries.event_counts(db).items():
        yield Happening(
            key=f"hook {event}",
            at=last.get(event),
            weight=Weight.NOTE,
            source="hook",
            where=one_line(event),
            text="1 record" if count == 1 else f"{count:,} records, the last",
        )


def _faults(db: sqlite3.Connection, store: Path) -> Iterator[Happening]:
    from .cli.log_checks import log_checks

    for check in log_checks(store, log_queries.parts(db)):
        if not check.ok:
            yield Happening(
                key=f"fault {check.name}",
                at=None,
                weight=Weight.TROUBLE,
                source="own log",
                where=check.name,
                text=one_line(check.detail),
                detail=one_line(check.fix or ""),
            )


def _stores(store: Path) -> Iterator[Happening]:
    for path in store.parent.glob(f"{store.name}.aside-*"):
        found = _ASIDE.search(path.name)
        if found is None:
            continue
        moment = datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        yield Happening(
            key=f"store {path.name}",
            at=int(moment.timestamp() * 1000),
            weight=Weight.WARNING,
            source="store",
            where=path.name,
            text="a store was set aside and made again",
            detail=f"{path}\nNothing is lost: remove it when you have no use for it.",
        )


def _moment(ms: int | None) -> str:
    if ms is None:
        return NOTHING
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "seconds")
