"""What a summary stands for, out of the transcript that it was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ..core.replaced import Replaced, before_boundary, before_plan, behind_result
from ..core.store import request_queries, summary_queries
from ..core.summary_list import PLAN
from .clean import clean_text
from .transcripts.conversation import entries_from

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ..core.conversation import Entry
    from ..core.store.rows import SummaryRow
    from ..core.summary_list import PlanText

LARGEST: Final = 200_000_000
"""Bytes of a transcript: its conversation is held in memory, which takes about twice as much."""

TOLD_LINES: Final = 2_000
"""Lines after which is told how far the reading has come."""

BOUNDARY: Final = "boundary"


class NothingReplacedError(Exception):
    """Nothing can be said of what a summary stands for; the message says why."""


def read_replaced(
    db: sqlite3.Connection,
    projects: Path,
    row: SummaryRow,
    plans: Sequence[PlanText],
    report_progress: Callable[[str], None] = lambda _: None,
) -> Replaced:
    """Read the transcript of a summary and tell what it stands for; `tell` says how far it is.

    Raises NothingReplacedError where there is no transcript, or none that can be read.
    """
    if row.kind == PLAN:
        found = _of_plan(row, plans, report_progress)
    elif row.kind == BOUNDARY:
        found = _of_boundary(db, projects, row, report_progress)
    else:
        found = _of_agent(db, projects, row, report_progress)
    return _cleaned(found)


def _of_plan(
    row: SummaryRow, plans: Sequence[PlanText], report_progress: Callable[[str], None]
) -> Replaced:
    from pathlib import Path

    if row.summary_id > 0:
        raise NothingReplacedError("a plan that was made in plan mode replaces nothing: it is new")
    plan = next((each for each in plans if each.row.summary_id == row.summary_id), None)
    if plan is None:
        raise NothingReplacedError("its receipt is gone: nothing says what it was made of")
    entries = _read(Path(plan.transcript), report_progress, plan.base_bytes)
    report_progress("looking for what the text keeps …")
    return before_plan(_own(entries), plan.kept_uuids, row.text)


def _of_boundary(
    db: sqlite3.Connection, projects: Path, row: SummaryRow, report_progress: Callable[[str], None]
) -> Replaced:
    place = summary_queries.boundary_place(db, row.summary_id)
    if place is None:
        raise NothingReplacedError("the store does not have it any more")
    path, kind, offset = place
    entries = _read(projects / path, report_progress, offset)
    report_progress("looking for what the summary keeps …")
    own = _own(entries) if kind == "session" else entries
    found = before_boundary(own, offset, row.text)
    if found is None:
        raise NothingReplacedError("no boundary stands before it in its transcript")
    return found


def _of_agent(
    db: sqlite3.Connection, projects: Path, row: SummaryRow, report_progress: Callable[[str], None]
) -> Replaced:
    place = request_queries.transcript(db, row.session_id, row.agent_id)
    if row.agent_id is None or place is None:
        raise NothingReplacedError(
            "this agent has no transcript of its own: nothing says what it read"
        )
    entries = _read(projects / place[1], report_progress)
    report_progress("looking for what the result keeps …")
    return behind_result(entries, row.text)


def _own(entries: Sequence[Entry]) -> list[Entry]:
    # A session's sidechains are agents' (clients up to 2.0), not of its own context.
    return [entry for entry in entries if not entry.sidechain]


def _read(
    path: Path, report_progress: Callable[[str], None], until: int | None = None
) -> list[Entry]:
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise NothingReplacedError(
                f"{path} has {size / 1e6:,.0f} MB: more than is looked through for this"
            )
        entries = []
        for number, entry in enumerate(entries_from(path)):
            if until is not None and entry.offset >= until:
                break
            entries.append(entry)
            if number % TOLD_LINES == 0:
                report_progress(f"reading its transcript: {entry.offset / (size or 1):.0%}")
    except OSError as error:
        why = error.strerror or error
        raise NothingReplacedError(f"{path} cannot be read: {why}") from error
    return entries


def _cleaned(found: Replaced) -> Replaced:
    """Take out of what was said what a terminal could obey."""
    turns = tuple(
        turn
        if (text := clean_text(turn.text)) == turn.text
        # Its passages are places of the text as it was.
        else replace(turn, text=text, quoted=())
        for turn in found.turns
    )
    things = tuple(replace(thing, text=clean_text(thing.text)) for thing in found.things)
    changed: dict[str, Any] = {"turns": turns, "things": things}
    last = found.last_words
    return replace(found, last_words=last and clean_text(last), **changed)
