"""The event log: this run's events, and those of earlier ones in store, receipts and hooks."""

from __future__ import annotations

import re
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from ...core.actions.stored_recoveries import read_recoveries
from ...core.compaction.receipts import ReceiptState, ReceiptStore
from ...core.compaction.recovery.recovery_run import RecoveryState as RunState
from ...core.measure.session_building import session_title
from ...core.saves.project_saves import EMPTY_SAVES_REPORT, SavesReport
from ...core.saves.save_status import LOST_SAVE_FIXES, SaveState
from ...core.store.automation_records import read_automatic_runs
from ...core.store.bulkhead import NOT_READ, bulkhead
from ...core.store.database import state_folder
from ...core.store.queries import log_queries, session_queries
from ...core.store.warning_log import last_warning_id, read_warnings
from ...core.transcript.filter_language import fields_filter
from ...core.transcript.sanitize import one_line
from ..text.cycle_enum import CycleEnum
from ..text.formats import (
    NOTHING,
    fill_text,
    limit_name,
    percent,
    plural,
    threshold_text,
    tokens,
    tokens_before_and_after,
    utc_time,
)
from ..text.save_facts import error_text, saved_text
from ..text.severity import LEVEL_SEVERITIES, EventSeverity
from .receipt_history import MODE_NAMES

MAX_EVENTS: Final = 1000  # of this run: a line each, some hundred kilobytes in all


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One entry of the log; its texts are sanitized."""

    key: str
    at: int | None  # in ms since 1970; None if unknown
    severity: EventSeverity
    source: str  # who reports it, in a word
    where: str
    text: str
    detail: str = ""  # what else is known, line by line
    session_id: str | None = None


class EventLog:
    def __init__(self) -> None:
        self._events: Final[deque[LogEvent]] = deque(maxlen=MAX_EVENTS)
        self.count = 0  # of all events, those that were dropped included

    @property
    def all(self) -> tuple[LogEvent, ...]:
        """Oldest first."""
        return tuple(self._events)

    def add(
        self, at: int, severity: EventSeverity, source: str, where: str, text: str, detail: str = ""
    ) -> None:
        self.count += 1
        texts = (one_line(where), one_line(text), detail)
        self._events.append(LogEvent(f"now {self.count}", at, severity, source, *texts))


def newest_events(events: Iterable[LogEvent], limit: int) -> list[LogEvent]:
    """Sort events by time, those without one first, and keep the last `limit`."""
    return sorted(events, key=lambda event: event.at or 0)[-limit:]


SEVERITY_SIGNS: Final = {
    EventSeverity.NOTE: ("·", "$quiet"),
    EventSeverity.WARNING: ("▲", "$level-warning"),
    EventSeverity.PROBLEM: ("✗", "bold $level-emergency"),
}
"""A sign and a style: a severity is never shown by color alone."""


class LogLevel(CycleEnum):
    ALL = EventSeverity.NOTE
    WARNINGS = EventSeverity.WARNING
    PROBLEMS = EventSeverity.PROBLEM

    @property
    def label(self) -> str:
        return "" if self is LogLevel.ALL else f"{self.name.lower()} only"


def filter_events(events: Iterable[LogEvent], filter_text: str, level: LogLevel) -> list[LogEvent]:
    """Choose the events of a level that match the filter."""
    matches = fields_filter(filter_text)
    return [
        event
        for event in events
        if event.severity >= level.value
        and matches({"": f"{event.source} {event.where} {event.text} {event.detail}".casefold()})
    ]


MAX_HISTORY: Final = 1000  # past events that are shown; the commands list all of each kind
MAX_PER_KIND: Final = 400  # else one file of garbage, with many bad lines, would fill the log
MAX_ROW_CHARS: Final = 200  # of the API's message in a row; the opened event shows all
_ASIDE_SUFFIX: Final = re.compile(r"\.aside-(\d{8}-\d{6})(?:-\d+)?$")  # time in UTC


def read_event_history(
    db: sqlite3.Connection,
    store: Path,
    saves: SavesReport = EMPTY_SAVES_REPORT,
    limit: int = MAX_HISTORY,
) -> tuple[LogEvent, ...]:
    """Read the newest past events, oldest first; `saves` are as of now."""
    past: list[LogEvent] = []
    for kind in (
        _bad_lines,
        _unknown_types,
        _levels,
        _compactions,
        _automatic_runs,
        partial(_receipts, store=store),
        _recoveries,
        _refusals,
        _problems,
        lambda _: _saves(saves),
        _hook_records,
        partial(_own_log_problems, store=store),
        partial(_stores_set_aside, store=store),
    ):
        with bulkhead("a kind of events in the log", NOT_READ, store):
            past += kind(db)
    newest = newest_events(past, limit)
    with bulkhead("the titles in the log", NOT_READ, store):
        newest = list(_with_titles(db, newest))
    return tuple(newest)


def _with_titles(db: sqlite3.Connection, events: list[LogEvent]) -> Iterator[LogEvent]:
    """Replace the ids of sessions by their titles."""
    ids = {event.session_id for event in events if event.session_id}
    titles = {row.session_id: session_title(row) for row in session_queries.sessions(db, ids)}
    for event in events:
        title = titles.get(event.session_id or "")
        yield replace(event, where=one_line(title)) if title else event


def _session_event(
    key: str,
    at: int | None,
    severity: EventSeverity,
    source: str,
    session_id: str,
    text: str,
    **facts: str,
) -> LogEvent:
    return LogEvent(key, at, severity, source, session_id[:8], text, _facts(**facts), session_id)


def _facts(**facts: str) -> str:
    """Write a line for each fact, with its label."""
    width = max(map(len, facts)) + 2
    return "\n".join(f"{label:<{width}}{text}" for label, text in facts.items())


def _context_name(agent_id: str | None) -> str:
    return f"agent {agent_id}" if agent_id else "the session"


def _bad_lines(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in log_queries.newest_bad_lines(db, MAX_PER_KIND):
        path, reason = one_line(row.path), one_line(row.reason)
        facts = _facts(
            file=f"{path} ({f'{row.log} log' if row.log else 'transcript'})",
            offset=f"{row.offset:,} bytes",
            length=f"{row.length:,} bytes",
            time="at the latest: the time of its file",
            reason=reason,
        )
        yield LogEvent(
            key=f"line {row.path} {row.offset}",
            at=row.file_at,
            severity=EventSeverity.WARNING,
            source="bad line",
            where=path,
            text=f"could not be read: {reason}",
            detail=f"{facts}\n\nNothing is lost: the file still has the line."
            " `ctxtop scan --bad` lists all such lines.",
            session_id=row.session_id,
        )


def _unknown_types(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in log_queries.unknown_type_rows(db)[:MAX_PER_KIND]:
        yield LogEvent(
            key=f"type {row.type}",
            at=row.last_at,
            severity=EventSeverity.NOTE,
            source="unknown",
            where=one_line(row.type),
            text=f"{row.lines:,} of an unknown type",
            detail="They are kept and counted; a newer ctxtop may read them.",
        )


def _levels(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in read_warnings(db, after=last_warning_id(db) - MAX_PER_KIND):
        warning = row.warning
        of_limit = f" of {limit_name(warning.limit_tokens)}" if warning.limit_tokens else ""
        reached = f"{warning.level.value} reached at {percent(warning.limit_ratio)}{of_limit}"
        yield _session_event(
            f"level {row.log_id}",
            warning.at,
            LEVEL_SEVERITIES[warning.level.severity],
            "level",
            row.session_id,
            reached + (", an agent" if row.agent_id else ""),
            context=_context_name(row.agent_id),
            tokens=f"{warning.point.tokens:,}, {fill_text(warning)}",
            line=threshold_text(warning),
            ended=utc_time(warning.cleared_at) if warning.cleared_by else "still active",
        )


def _compactions(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in log_queries.newest_boundaries(db, MAX_PER_KIND):
        trigger = row.trigger or "of an unknown kind"
        sizes = f"{tokens_before_and_after(row)} tokens, {trigger}"
        kept = NOTHING if row.kept_messages is None else row.kept_messages
        yield _session_event(
            f"compaction {row.session_id} {row.uuid}",
            row.at,
            EventSeverity.NOTE,
            "compaction",
            row.session_id,
            sizes + (", an agent" if row.agent_id else ""),
            context=_context_name(row.agent_id),
            kept=f"{kept} messages",
            more=f"`ctxtop compactions --session {row.session_id[:8]}`",
        )


def _automatic_runs(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for run in read_automatic_runs(db, 0)[-MAX_PER_KIND:]:
        outcome = one_line(run.outcome or "still running, or ctxtop ended meanwhile")
        yield _session_event(
            f"run {run.session_id} {run.at}",
            run.ended_at or run.at,
            EventSeverity.NOTE if run.receipt or run.left_tokens else EventSeverity.WARNING,
            "automatic",
            run.session_id,
            outcome,
            began=utc_time(run.at),
            why=one_line(run.reason),
            outcome=outcome,
            undo=f"`ctxtop undo {run.receipt}`" if run.receipt else "nothing was written",
        )


def _receipts(_db: sqlite3.Connection, store: Path) -> Iterator[LogEvent]:
    for receipt in ReceiptStore(state_folder(store)).all()[:MAX_PER_KIND]:
        freed = f"{MODE_NAMES[receipt.mode]}: ≈ {tokens(receipt.plan.tokens_saved)} tokens freed"
        is_done = receipt.state is ReceiptState.DONE
        is_open = receipt.state is ReceiptState.OPEN
        fork = {"fork": receipt.new_session_id} if receipt.new_session_id else {}
        yield _session_event(
            f"receipt {receipt.receipt_id}",
            receipt.at,
            EventSeverity.WARNING if is_open else EventSeverity.NOTE,
            "receipt",
            receipt.session_id,
            freed if is_done else f"{freed}, {receipt.state.replace('_', ' ')}",
            receipt=receipt.receipt_id,
            **fork,
            why=one_line(receipt.automatic or "requested by you"),
            checks=f"{len(receipt.verified)} passed",
            undo=f"`ctxtop undo {receipt.receipt_id}`",
        )


def _recoveries(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for run in sorted(read_recoveries(db), key=lambda run: -run.changed_at)[:MAX_PER_KIND]:
        session_id, state = run.found.session_id, run.state.replace("_", " ")
        yield _session_event(
            f"recovery {session_id}",
            run.changed_at,
            EventSeverity.NOTE if run.state is RunState.SUCCEEDED else EventSeverity.WARNING,
            "recovery",
            session_id,
            f"recovery {state}: {plural(run.counters.attempts, 'attempt')}",
            refusal=one_line(run.found.error_type),
            steps=", ".join(run.steps),
            receipt=run.receipt or NOTHING,
            more=f"`ctxtop recover {session_id[:8]}`",
        )


def _refusals(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in log_queries.newest_api_errors(db, MAX_PER_KIND):
        message = one_line(row.detail)
        sizes = (row.prompt_tokens, row.limit_tokens)
        prompt, limit = (NOTHING if size is None else f"{size:,}" for size in sizes)
        event = _session_event(
            f"refusal {row.path} {row.offset}",
            row.at,
            EventSeverity.WARNING,
            "refusal",
            row.session_id,
            message[:MAX_ROW_CHARS] + (", an agent" if row.agent_id else ""),
            context=_context_name(row.agent_id),
            kind=one_line(row.kind),
            prompt=f"{prompt} tokens, the limit {limit}",
        )
        yield replace(event, detail=f"{event.detail}\n\n{message}")


def _problems(db: sqlite3.Connection) -> Iterator[LogEvent]:
    for row in session_queries.problems(db)[:MAX_PER_KIND]:
        yield LogEvent(
            key=f"problem {row.where}",
            at=row.at,
            severity=EventSeverity.PROBLEM,
            source="problem",
            where=one_line(row.where),
            text=one_line(row.what),
            detail=row.detail,
        )


_UNTOLD_STATES: Final = frozenset({SaveState.NONE, SaveState.TRIAGED, SaveState.SAVING})


def save_place(name: str) -> str:
    """Return the place of a project's save in the log, also of a problem with it."""
    return one_line(f"save of {name}")


def _saves(report: SavesReport) -> Iterator[LogEvent]:
    """Yield how each project's last save ended, as far as it has."""
    for found in report.projects[:MAX_PER_KIND]:
        status = found.status
        if status.state in _UNTOLD_STATES:
            continue
        is_lost = status.state in LOST_SAVE_FIXES
        is_saved = status.state is SaveState.SAVED
        waits = EventSeverity.NOTE if is_saved else EventSeverity.WARNING
        told = (saved_text(status) if is_saved else "") or status.reason
        yield LogEvent(
            # A lost save that this run reported as a problem is listed once.
            key=f"problem {save_place(found.name)}" if is_lost else f"save {found.project}",
            at=status.since_ms,
            severity=EventSeverity.PROBLEM if is_lost else waits,
            source="save",
            where=save_place(found.name),
            text=one_line(f"{status.state_text}: {told}"),
            detail=_facts(
                project=one_line(found.project or found.name),
                why=one_line(status.reason),
                errors=one_line("; ".join(map(error_text, status.errors))) or NOTHING,
                waiting=", ".join(map(one_line, status.categories)) or NOTHING,
                more="`ctxtop saves`, or M",
            ),
        )


def _hook_records(db: sqlite3.Connection) -> Iterator[LogEvent]:
    last = log_queries.last_event_times(db)
    for event, count in log_queries.event_counts(db).items():
        yield LogEvent(
            key=f"hook {event}",
            at=last.get(event),
            severity=EventSeverity.NOTE,
            source="hook",
            where=one_line(event),
            text="1 record" if count == 1 else f"{count:,} records, the last",
        )


def _own_log_problems(db: sqlite3.Connection, store: Path) -> Iterator[LogEvent]:
    from ..doctor.machine_checks import log_checks

    for check in log_checks(store, log_queries.log_parts(db)):
        if not check.ok:
            yield LogEvent(
                key=f"fault {check.name}",
                at=None,
                severity=EventSeverity.PROBLEM,
                source="own log",
                where=check.name,
                text=one_line(check.detail),
                detail=one_line(check.fix or ""),
            )


def _stores_set_aside(_db: sqlite3.Connection, store: Path) -> Iterator[LogEvent]:
    for path in store.parent.glob(f"{store.name}.aside-*"):
        found = _ASIDE_SUFFIX.search(path.name)
        if found is None:
            continue
        moment = datetime.strptime(found[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
        yield LogEvent(
            key=f"store {path.name}",
            at=int(moment.timestamp() * 1000),
            severity=EventSeverity.WARNING,
            source="store",
            where=path.name,
            text="a store was moved aside and rebuilt",
            detail=f"{path}\nNothing is lost. You can delete it.",
        )
