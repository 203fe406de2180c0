"""The log of claude-memory: one record a line, one file a day and category (R004-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.store.facts import TailState
from ...core.store.surroundings_facts import SaveEventFact, SaveLog
from ...core.store.surroundings_writer import append_save_log, restart_save_log
from ..tail import Change, lines_of, read_tail
from .contained import MOST_ENTRIES, children
from .loose import BadJsonError, decode_json, kept_json, moment, number, title

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ...core.store.facts import BadLine
    from ...core.store.writer import Writer
    from ..tail import RawLine
    from .contained import Found

MOST: Final = 500
"""Files of one project; claude-memory keeps 14 days of about five categories."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""Of one project's logs; a busy day writes some hundred kilobytes, and each line is a row."""

_LOG: Final = ".jsonl"
_BAD: Final = "bad line"
"""Event of a line that is none."""


def find_logs(top: Found, root: Path) -> Iterator[tuple[str, Found]]:
    """List a project's logs with their category; raises OSError where that is not possible."""
    left = MOST_ENTRIES
    for category in children(top, root, left):
        if category.is_folder:
            inside = children(category, root, left)
            left -= len(inside)
            for found in inside:
                if found.path.suffix == _LOG:
                    yield category.path.name, found


def follow_log(writer: Writer, log: SaveLog, found: Found, before: TailState) -> TailState:
    """Store the events that were added to a log, each once; say how far it is read now.

    Raises StaleTailError where another ctxtop read it first, OSError where it cannot be read.
    """
    while True:
        read = read_tail(found.real, before)
        if read.change is Change.REWRITTEN:
            restart_save_log(writer, log, before)
            before = TailState()
            continue
        events = [_event(line) for line in lines_of(read.block)] + [
            _bad_line(bad) for bad in read.bad_lines
        ]
        append_save_log(writer, log, before, read.after, events)
        before = read.after
        if not read.has_more:
            return before


def _event(line: RawLine) -> SaveEventFact:
    offset, data = line
    try:
        said = decode_json(data)
    except BadJsonError as error:
        return SaveEventFact(offset, _BAD, problem=str(error))
    if not isinstance(said, dict):
        return SaveEventFact(offset, _BAD, problem="is not a JSON object")
    kept = {name: kept_json(said[name]) for name in ("data", "error") if said.get(name)}
    too_long = None in kept.values()
    return SaveEventFact(
        offset=offset,
        event=title(said.get("event_type")) or "unknown",
        at=moment(said.get("timestamp")),
        level=title(said.get("level")),
        hook=title(said.get("hook")),
        script=title(said.get("script")),
        session_id=title(said.get("session_id")),
        duration_ms=number(said.get("duration_ms")),
        data=kept.get("data"),
        error=kept.get("error"),
        problem="holds more than is kept of its data" if too_long else None,
    )


def _bad_line(bad: BadLine) -> SaveEventFact:
    return SaveEventFact(bad.offset, _BAD, problem=bad.reason)
