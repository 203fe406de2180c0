"""Checks of sessions: those that will be deleted, need recovery, or were changed."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from ...collectors.claude_code.archive_job import SKIPPED_FIX, SessionArchiver
from ...collectors.claude_code.prompt_history import list_folders_without_transcript
from ...collectors.locations.places import Places
from ...core.actions.stored_recoveries import AUTOMATIC_RUN_TIMEOUT_MS, read_recoveries
from ...core.archive.archive_index import TranscriptArchive, find_damaged_sessions
from ...core.archive.archive_mode import ArchiveMode
from ...core.archive.archive_policy import read_archive_settings
from ...core.compaction.automation_rules import check_automation_enabled
from ...core.compaction.recovery.limit_errors import parse_recoverable_error
from ...core.compaction.recovery.recovery_run import LOCKED_STATES, release_dead_holder
from ...core.measure.effective_config import find_compact_hooks
from ...core.measure.retention import DAY_MS, SOON_DAYS, cleanup_days, deletion_time
from ...core.model.config_records import SettingsFileRecord
from ...core.model.session import Session
from ...core.policy.policy import Policy
from ...core.policy.resolve import Policies
from ...core.store import database
from ...core.store.automation_records import read_automatic_runs
from ...core.store.queries import (
    archive_queries,
    config_queries,
)
from ..text.formats import NOTHING, iso_time, plural
from ..text.session_text import unsaved_texts
from . import machine_checks
from .doctor_check import DoctorCheck, and_more, failed, noted, passed


def deletions_check(
    db: sqlite3.Connection, places: Places, policy: Policy, now_ms: int
) -> DoctorCheck:
    """Count the sessions that Claude Code deletes soon, and that are not archived."""
    days, mode = cleanup_days(config_queries.settings_files(db)), read_archive_settings(policy).mode
    archive = TranscriptArchive(database.state_folder(places.store))
    archiver = SessionArchiver(archive, places.folder.projects, db, now_ms)
    soon = [
        row
        for row in archive_queries.archivable_sessions(db)
        if deletion_time(row.mtime_ns, days) - now_ms <= SOON_DAYS * DAY_MS
        and not archiver.is_up_to_date(row, mode)
    ]
    if not soon:
        return passed("deletions", f"Claude Code deletes sessions after {days} days; none is due")
    detail = f"{plural(len(soon), 'session')} will be deleted within {SOON_DAYS} days"
    if mode is ArchiveMode.OFF:
        fix = "keep them: `ctxtop settings set archive.mode all`; or raise cleanupPeriodDays"
        return noted("deletions", f"{detail}; archive.mode is off", fix)
    return noted("deletions", f"{detail}, not archived yet", "run `ctxtop archive`")


def deleted_check(places: Places, sessions: Iterable[Session]) -> DoctorCheck:
    """Count the folders of sessions whose transcript is gone."""
    name = "deleted sessions"
    kept = {each.session_id for each in sessions if each.live or each.archived}
    found = list_folders_without_transcript(places.folder)
    left = [each for each in found if each.name not in kept]
    if not left:
        return passed(name, "no folders of any are left")
    count = plural(len(left), "session")
    detail = f"{count} deleted or never saved, with a folder left: {left[0]}"
    fix = "`ctxtop search` finds what was typed in them; remove the folders if you need no more"
    return noted(name, f"{detail}{and_more(len(left) - 1)}", fix)


def archive_check(places: Places) -> DoctorCheck:
    archive = TranscriptArchive(database.state_folder(places.store))
    sessions = archive.sessions()
    damaged = [*map(str, archive.problems), *find_damaged_sessions(archive)]
    if damaged:
        detail = f"{damaged[0]}{and_more(len(damaged) - 1)}"
        return noted("archive", detail, "archive them again while Claude Code has them")
    if not sessions:
        return passed("archive", "empty")
    skipped = [each for session in sessions.values() for each in session.skipped]
    if skipped:
        first, others = skipped[0], and_more(len(skipped) - 1)
        detail = f"not archived: {first.path} ({first.why}){others}"
        return noted("archive", detail, SKIPPED_FIX)
    size = archive.total_bytes() / machine_checks.MEGABYTE
    return passed("archive", f"{plural(len(sessions), 'session')}, {size:,.1f} MB")


def unsaved_check(sessions: Iterable[Session], now_ms: int) -> DoctorCheck:
    """Name the sessions whose client is at work and writes no transcript."""
    unsaved = [each for each in sessions if each.is_unsaved(now_ms)]
    if not unsaved:
        return passed("saving", "every client at work writes its transcript")
    (text, *_), first = unsaved_texts(unsaved[0], now_ms), unsaved[0]
    detail = f"{first.session_id[:8]} ({first.title}) is busy, but {text}"
    fix = (
        "start it again without --no-session-persistence, CLAUDE_CODE_SKIP_PROMPT_HISTORY and"
        " CLAUDE_CODE_CHILD_SESSION; copy what matters out of it first"
    )
    return noted("saving", f"{detail}{and_more(len(unsaved) - 1)}", fix)


def compaction_check(
    files: Sequence[SettingsFileRecord], sessions: Iterable[Session], now_ms: int
) -> DoctorCheck:
    """Name the sessions that passed their trigger uncompacted, and the hooks that can do that."""
    name = "auto-compact"
    passed_by = [
        each
        for each in sessions
        if each.context.trigger
        and each.context.trigger.is_passed
        and now_ms - (each.last_activity_at or 0) < RECENT_RUN_MS
    ]
    if passed_by:
        first = passed_by[0]
        trigger = first.context.trigger
        detail = f"{first.session_id[:8]} ({first.title}): {trigger.why if trigger else NOTHING}"
        cause = "let the hook end with 0" if trigger and trigger.detail else "see `claude doctor`"
        fix = f"{cause}, or run /compact before a prompt is refused"
        return noted(name, f"{detail}{and_more(len(passed_by) - 1)}", fix)
    hooks = list(find_compact_hooks(files))
    if not hooks:
        return passed(name, "no hook can block it")
    detail = f"{plural(len(hooks), 'PreCompact hook')} can block it: {hooks[0].command} in"
    return passed(name, f"{detail} {hooks[0].path}; no session of this week shows that")


RECENT_RUN_MS: Final = 7 * 24 * 3_600_000  # a session that ended earlier is hardly missed
MAX_NAMED_SESSIONS: Final = 3


def recovery_checks(
    db: sqlite3.Connection,
    sessions: Iterable[Session],
    policies: Policies,
    now_ms: int,
) -> list[DoctorCheck]:
    return [
        _refused_sessions_check(sessions, now_ms),
        _locks_check(db, now_ms),
        _automatic_runs_check(db, policies.acting, now_ms),
    ]


def _refused_sessions_check(sessions: Iterable[Session], now_ms: int) -> DoctorCheck:
    name = "refused sessions"
    ended = [
        each
        for each in sessions
        if now_ms - (each.last_activity_at or 0) < RECENT_RUN_MS
        and parse_recoverable_error(each.refusal)
    ]
    if not ended:
        return passed(name, f"none in {RECENT_RUN_MS // 86_400_000} days that was not repaired")
    listed = [f"{each.session_id[:8]} ({each.title})" for each in ended[:MAX_NAMED_SESSIONS]]
    more = and_more(len(ended) - MAX_NAMED_SESSIONS)
    detail = f"{plural(len(ended), 'session')} ended in one: {', '.join(listed)}{more}"
    return noted(name, detail, f"`ctxtop recover {ended[0].session_id[:8]}` plans a repair")


def _locks_check(db: sqlite3.Connection, now_ms: int) -> DoctorCheck:
    name, runs = "recovery locks", read_recoveries(db)
    held = [run for run in runs if run.state in LOCKED_STATES]
    stale = [run for run in held if release_dead_holder(run, now_ms) != run]
    if stale:
        holder, start = stale[0].holder, stale[0].found.session_id[:8]
        who = f"process {holder.pid}" if holder else "a process"
        detail = f"{plural(len(stale), 'lock')} left by processes that ended: {who}, {start}"
        return failed(name, detail, f"`ctxtop recover {start} --apply` takes it over")
    for run in runs:
        if run not in held and run.cool_until > now_ms:
            seconds = -(-(run.cool_until - now_ms) // 1000)
            start = run.found.session_id[:8]
            return noted(name, f"none; {start} pauses for another {seconds} s more")
    if held:
        return passed(name, f"{plural(len(held), 'lock')} held: a recovery is running")
    return passed(name, "none")


def _automation_text(acting_policies: Policies) -> str:
    """Return whether automation is on anywhere, and who turned it on, or why it is off."""
    decisions = [check_automation_enabled(each) for each in acting_policies.all]
    on = next((each for each in decisions if each.allowed), None)
    if on is not None:
        return f"on while the dashboard runs, {on.why}"
    hint = "; your config.toml or a trusted project can set mode = auto"
    return f"off, {decisions[0].why}{hint if decisions[0].check == 'mode' else ''}"


def _automatic_runs_check(
    db: sqlite3.Connection, acting_policies: Policies, now_ms: int
) -> DoctorCheck:
    name, runs = "automatic runs", read_automatic_runs(db, now_ms - RECENT_RUN_MS)
    if not runs:
        return passed(
            name, f"none in {RECENT_RUN_MS // DAY_MS} days: {_automation_text(acting_policies)}"
        )
    count = plural(len(runs), "run")
    lost = [
        run for run in runs if run.outcome is None and now_ms - run.at >= AUTOMATIC_RUN_TIMEOUT_MS
    ]
    if lost:
        count = plural(len(lost), "run")
        detail = f"{count} never ended, the last at {iso_time(lost[-1].at)}"
        return noted(name, detail, "nothing to do: the next start of ctxtop resolves it")
    last = runs[-1]
    outcome = f"{last.session_id[:8]}, {last.outcome or 'under way'}"
    detail = f"{count}, the last at {iso_time(last.at)}: {outcome}"
    if last.outcome and not last.receipt and not last.left_tokens:
        return noted(name, detail, "`ctxtop log` lists what it tried")
    return passed(name, detail, f"`ctxtop undo {last.receipt}`" if last.receipt else None)
