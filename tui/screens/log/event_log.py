"""The event log: what this run noted, and what store, receipts and hooks keep of earlier ones."""

from __future__ import annotations

import re
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ....core.compaction.receipts import ReceiptState, ReceiptStore
from ....core.compaction.recovery.recovery_run import RecoveryState as RunState
from ....core.model.filter_language import fields_filter
from ....core.model.session import session_title
from ....core.store.automation_records import read_automatic_runs, read_recoveries
from ....core.store.database import state_folder
from ....core.store.queries import log_queries, session_queries
from ....core.store.warning_log import last_warning_id, read_warnings
from ....core.transcript.sanitize import one_line
from ...notifications import LEVEL_SEVERITIES, EventSeverity
from ...text.compaction_text import tokens_left
from ...text.formats import NOTHING, percent, plural, tokens, utc_time
from ...ui_state import CycleEnum
from ..history.receipt_history import MODE_NAMES

if TYPE_CHECKING:
    from ....collectors.claude_code.collector_thread import ScanProgress
    from ....core.model.problem import Problem


MAX_EVENTS: Final = 1000
"""Of what happened while this ctxtop ran: a line each, some hundred kilobytes in all."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One entry of the log; its words hold nothing that a terminal could obey."""

    key: str
    at: int | None  # in ms since 1970; None where nothing says when
    weight: EventSeverity
    source: str  # who tells it, in a word
    where: str
    text: str
    detail: str = ""  # what else is known, line by line
    session_id: str | None = None


class EventLog:
    """What happened while this ctxtop ran: the newest, as many as are kept."""

    def __init__(self) -> None:
        self._events: Final[deque[LogEvent]] = deque(maxlen=MAX_EVENTS)
        self._count = 0

    @property
    def all(self) -> tuple[LogEvent, ...]:
        """Oldest first."""
        return tuple(self._events)

    @property
    def count(self) -> int:
        """How many there ever were."""
        return self._count

    def add(
        self,
        at: int,
        weight: EventSeverity,
        source: str,
        where: str,
        text: str,
        detail: str = "",
    ) -> None:
        """Keep another one; the oldest goes."""
        self._count += 1
        key = f"now {self._count}"
        self._events.append(
            LogEvent(key, at, weight, source, one_line(where), one_line(text), detail)
        )

    def add_problem(self, at: int, trouble: Problem) -> None:
        """Note that something is in the way."""
        self.add(at, EventSeverity.TROUBLE, "trouble", trouble.where, trouble.what, trouble.fix)

    def resolve_problem(self, at: int, place: str) -> None:
        """Note that a trouble is over."""
        self.add(at, EventSeverity.NOTE, "trouble", place, "is over")

    def add_notice(self, at: int, notice: Problem) -> None:
        """Note what the collector tells."""
        self.add(at, EventSeverity.NOTE, "noted", notice.where, notice.what, notice.fix)

    def add_scan(self, at: int, progress: ScanProgress, seconds: float) -> None:
        """Note that a scan has come to its end."""
        read = f"{progress.bytes_read / 1e6:,.1f} MB in {seconds:.1f} s"
        files = f"{progress.files_total:,} files"
        self.add(at, EventSeverity.NOTE, "scan", files, f"read, {read}")


def newest_events(happenings: Iterable[LogEvent], limit: int) -> list[LogEvent]:
    """Put the newest last, at most so many; what has no time comes first."""
    listed = sorted(happenings, key=lambda each: each.at or 0)
    return listed[-limit:]


WEIGHT_SIGNS: Final = {
    EventSeverity.NOTE: ("·", "$quiet"),
    EventSeverity.WARNING: ("▲", "$level-warning"),
    EventSeverity.TROUBLE: ("✗", "bold $level-emergency"),
}
"""How bad an entry is: never told by colour alone."""


class LogLevel(CycleEnum):
    """Which entries are shown."""

    ALL = EventSeverity.NOTE
    WARNINGS = EventSeverity.WARNING
    TROUBLES = EventSeverity.TROUBLE

    @property
    def label(self) -> str:
        """Name it for a person; empty for all."""
        return "" if self is LogLevel.ALL else f"{self.name.lower()} only"


def filter_events(entries: Iterable[LogEvent], filter_text: str, level: LogLevel) -> list[LogEvent]:
    """Choose the entries that are bad enough and meet the filter."""
    is_wanted = fields_filter(filter_text)
    return [
        each
        for each in entries
        if each.weight >= level.value
        and is_wanted({"": f"{each.source} {each.where} {each.text} {each.detail}".casefold()})
    ]


MAX_HISTORY: Final = 1000
"""Entries of the past that are shown, the newest; the commands list all of each kind."""

MAX_PER_KIND: Final = 400  # else a file of garbage, with a bad line each, would be all that is seen
MAX_ROW_CHARS: Final = 200  # of the API's words in a row; the entry opened shows all
_ASIDE_SUFFIX: Final = re.compile(r"\.aside-(\d{8}-\d{6})(?:-\d+)?$")
"""How the name of a store ends that was set aside: when that was, in UTC."""


def read_event_history(
    db: sqlite3.Connection, store: Path, limit: int = MAX_HISTORY
) -> tuple[LogEvent, ...]:
    """List what is known of the past, oldest first, the newest `most`."""
    found = [
        *_bad_lines(db),
        *_unknown_types(db),
        *_levels(db),
        *_compactions(db),
        *_automatic(db),
        *_receipts(store),
        *_recoveries(db),
        *_refusals(db),
        *_problems(db),
        *_hook_records(db),
        *_own_log_problems(db, store),
        *_stores_set_aside(store),
    ]
    return tuple(_with_titles(db, newest_events(found, limit)))


def _with_titles(db: sqlite3.Connection, found: list[LogEvent]) -> Iterator[LogEvent]:
    """Call sessions by their titles."""
    named = {each.session_id for each in found if each.session_id}
    titles = {row.session_id: session_title(row) for row in session_queries.sessions(db, named)}
    for each in found:
        title = titles.get(each.session_id or "")
        yield replace(each, where=one_line(title)) if title else each


def _bad_lines(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in log_queries.newest_bad_lines(db, MAX_PER_KIND):
        whose = f"{row.log} log" if row.log else "transcript"
        yield LogEvent(
            key=f"line {row.path} {row.offset}",
            at=row.file_at,
            weight=EventSeverity.WARNING,
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


def _unknown_types(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in log_queries.unknown_type_rows(db)[:MAX_PER_KIND]:
        yield LogEvent(
            key=f"type {row.type}",
            at=row.last_at,
            weight=EventSeverity.NOTE,
            source="unknown",
            where=one_line(row.type),
            text=f"{row.lines:,} of a type that is not known",
            detail="They are kept and counted; a newer ctxtop may know them.",
        )


def _levels(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for each in read_warnings(db, after=last_warning_id(db) - MAX_PER_KIND):
        warning = each.warning
        whose = f"agent {each.agent_id}" if each.agent_id else "the session"
        ended = utc_time(warning.cleared_at) if warning.cleared_by else "it stands"
        yield LogEvent(
            key=f"level {each.log_id}",
            at=warning.at,
            weight=LEVEL_SEVERITIES[warning.level.severity],
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


def _compactions(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in log_queries.newest_boundaries(db, MAX_PER_KIND):
        whose = f"agent {row.agent_id}" if row.agent_id else "the session"
        yield LogEvent(
            key=f"compaction {row.session_id} {row.uuid}",
            at=row.at,
            weight=EventSeverity.NOTE,
            source="compaction",
            where=row.session_id[:8],
            text=f"{tokens(row.pre_tokens)} → {tokens_left(row)} tokens"
            f", {row.trigger or 'of a kind that is not known'}"
            + (", an agent" if row.agent_id else ""),
            detail=(
                f"context  {whose}\n"
                f"kept     {NOTHING if row.kept_messages is None else row.kept_messages} messages\n"
                f"more     `ctxtop compactions --session {row.session_id[:8]}`"
            ),
            session_id=row.session_id,
        )


def _automatic(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for run in read_automatic_runs(db, 0)[-MAX_PER_KIND:]:
        outcome = run.outcome or "it runs, or ctxtop was ended meanwhile"
        undo = f"`ctxtop undo {run.receipt}`" if run.receipt else "nothing was written"
        yield LogEvent(
            key=f"run {run.session_id} {run.at}",
            at=run.ended_at or run.at,
            weight=EventSeverity.NOTE if run.receipt or run.left_tokens else EventSeverity.WARNING,
            source="automatic",
            where=run.session_id[:8],
            text=one_line(outcome),
            detail=(
                f"began    {utc_time(run.at)}\n"
                f"why      {one_line(run.reason)}\n"
                f"outcome  {one_line(outcome)}\n"
                f"undo     {undo}"
            ),
            session_id=run.session_id,
        )


def _receipts(store: Path) -> Iterator[LogEvent]:
    for receipt in ReceiptStore(state_folder(store)).all()[:MAX_PER_KIND]:
        freed = receipt.plan.tokens_saved
        state = "" if receipt.state is ReceiptState.DONE else f", {receipt.state.replace('_', ' ')}"
        made = f"fork     {receipt.new_session_id}\n" if receipt.new_session_id else ""
        yield LogEvent(
            key=f"receipt {receipt.receipt_id}",
            at=receipt.at,
            weight=EventSeverity.WARNING
            if receipt.state is ReceiptState.OPEN
            else EventSeverity.NOTE,
            source="receipt",
            where=receipt.session_id[:8],
            text=f"{MODE_NAMES[receipt.mode]}: ≈ {tokens(freed)} tokens freed{state}",
            detail=(
                f"receipt  {receipt.receipt_id}\n"
                f"{made}"
                f"why      {one_line(receipt.automatic or 'a person asked')}\n"
                f"checks   {len(receipt.verified)} passed\n"
                f"undo     `ctxtop undo {receipt.receipt_id}`"
            ),
            session_id=receipt.session_id,
        )


def _recoveries(db: sqlite3.Connection) -> Iterator[LogEvent]:
    newest = sorted(read_recoveries(db), key=lambda run: -run.changed_at)[:MAX_PER_KIND]
    for run in newest:
        session_id, state = run.found.session_id, run.state.replace("_", " ")
        yield LogEvent(
            key=f"recovery {session_id}",
            at=run.changed_at,
            weight=EventSeverity.NOTE if run.state is RunState.SUCCEEDED else EventSeverity.WARNING,
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


def _refusals(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in log_queries.newest_api_errors(db, MAX_PER_KIND):
        whose = f"agent {row.agent_id}" if row.agent_id else "the session"
        sizes = f"{_count(row.prompt_tokens)} tokens, the limit {_count(row.limit_tokens)}"
        yield LogEvent(
            key=f"refusal {row.path} {row.offset}",
            at=row.at,
            weight=EventSeverity.WARNING,
            source="refusal",
            where=row.session_id[:8],
            text=one_line(row.detail)[:MAX_ROW_CHARS] + (", an agent" if row.agent_id else ""),
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


def _problems(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in session_queries.problems(db)[:MAX_PER_KIND]:
        yield LogEvent(
            key=f"trouble {row.where}",
            at=row.at,
            weight=EventSeverity.TROUBLE,
            source="trouble",
            where=one_line(row.where),
            text=one_line(row.what),
            detail=one_line(row.fix),
        )


def _hook_records(db: sqlite3.Connection) -> Iterator[LogEvent]:
    last = log_queries.last_event_times(db)
    for event, count in log_queries.event_counts(db).items():
        yield LogEvent(
            key=f"hook {event}",
            at=last.get(event),
            weight=EventSeverity.NOTE,
            source="hook",
            where=one_line(event),
            text="1 record" if count == 1 else f"{count:,} records, the last",
        )


def _own_log_problems(db: sqlite3.Connection, store: Path) -> Iterator[LogEvent]:
    from ...cli.machine_checks import log_checks

    for check in log_checks(store, log_queries.log_parts(db)):
        if not check.ok:
            yield LogEvent(
                key=f"fault {check.name}",
                at=None,
                weight=EventSeverity.TROUBLE,
                source="own log",
                where=check.name,
                text=one_line(check.detail),
                detail=one_line(check.fix or ""),
            )


def _stores_set_aside(store: Path) -> Iterator[LogEvent]:
    for path in store.parent.glob(f"{store.name}.aside-*"):
        found = _ASIDE_SUFFIX.search(path.name)
        if found is None:
            continue
        moment = datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        yield LogEvent(
            key=f"store {path.name}",
            at=int(moment.timestamp() * 1000),
            weight=EventSeverity.WARNING,
            source="store",
            where=path.name,
            text="a store was set aside and made again",
            detail=f"{path}\nNothing is lost: remove it when you have no use for it.",
        )
