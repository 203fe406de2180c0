"""What `ctxtop doctor` says of sessions that ended in a refusal, and of what ctxtop did itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.compaction.recovery.attempt import freed
from ...core.compaction.recovery.detection import mendable
from ...core.compaction.recovery.run import AT_WORK
from ...core.store.recovery_rows import LOST_MS, all_runs, automatic_runs
from ..formats import plural
from .checks import Check, noted, well, wrong
from .times import time_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ...core.compaction.receipts import Receipt
    from ...core.sessions import Session

RECENT_MS: Final = 7 * 24 * 3_600_000
"""A session that ended longer ago is hardly missed."""

NAMED: Final = 3


def recovery_checks(
    db: sqlite3.Connection, sessions: Sequence[Session], receipts: Sequence[Receipt], now_ms: int
) -> list[Check]:
    """Look at what ended in a refusal, at locks and pauses, and at automatic runs."""
    return [_ended(sessions, receipts, now_ms), _locks(db, now_ms), _automatic(db, now_ms)]


def _ended(sessions: Sequence[Session], receipts: Sequence[Receipt], now_ms: int) -> Check:
    name = "refused sessions"
    done_at = {
        session_id: each.at
        for each in reversed(receipts)
        for session_id in (each.session_id, each.new_session_id)
    }

    def is_new(session: Session) -> bool:
        last = session.last_activity_at or 0
        return done_at.get(session.session_id, -1) < last and now_ms - last < RECENT_MS

    ended = [each for each in sessions if mendable(each.refusal) and is_new(each)]
    if not ended:
        return well(name, f"none in {RECENT_MS // 86_400_000} days that was not mended")
    named = ", ".join(f"{each.session_id[:8]} ({each.title})" for each in ended[:NAMED])
    more = f" and {len(ended) - NAMED} more" if len(ended) > NAMED else ""
    detail = f"{plural(len(ended), 'session')} ended in one: {named}{more}"
    return noted(name, detail, f"`ctxtop recover {ended[0].session_id[:8]}` plans how to mend it")


def _locks(db: sqlite3.Connection, now_ms: int) -> Check:
    name = "recovery locks"
    runs = all_runs(db)
    held = [run for run in runs if run.state in AT_WORK]
    stale = [run for run in held if freed(run, now_ms) != run]
    if stale:
        holder = stale[0].holder
        who = f"process {holder.pid}" if holder else "a process"
        start = stale[0].found.session_id[:8]
        detail = f"{plural(len(stale), 'lock')} left by processes that ended: {who}, {start}"
        return wrong(name, detail, f"`ctxtop recover {start} --apply` takes it over")
    cooling = [run for run in runs if run not in held and run.cool_until > now_ms]
    if cooling:
        seconds = -(-(cooling[0].cool_until - now_ms) // 1000)
        start = cooling[0].found.session_id[:8]
        return well(name, f"none; {start} cools down for {seconds} s more")
    if held:
        return well(name, f"{plural(len(held), 'lock')} held: a recovery is under way")
    return well(name, "none")


def _automatic(db: sqlite3.Connection, now_ms: int) -> Check:
    name = "done by itself"
    runs = automatic_runs(db, now_ms - RECENT_MS)
    if not runs:
        return well(
            name,
            "nothing: off until your config.toml or a trusted project says mode = auto",
        )
    lost = [run for run in runs if run.outcome is None and now_ms - run.at >= LOST_MS]
    if lost:
        detail = f"{plural(len(lost), 'run')} never ended, the last at {time_of(lost[-1].at)}"
        return well(name, detail, "nothing to do: the next start of ctxtop settles it")
    last = runs[-1]
    start, ended = last.session_id[:8], last.outcome or "under way"
    detail = f"{plural(len(runs), 'run')}, the last at {time_of(last.at)}: {start}, {ended}"
    return well(name, detail, f"`ctxtop undo {last.receipt}`" if last.receipt else None)
