"""All checks of `ctxtop doctor` in their order, and those of what the store holds."""

import os
import shlex
import sqlite3
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from ...collectors.claude_code.archive_job import SessionArchiver
from ...collectors.claude_code.config.definition_files import SKILLS_MARKETPLACE
from ...collectors.places import PlaceError, Places
from ...collectors.plugin.installed_commands import InstalledCommand, parse_command
from ...collectors.policy_files import PolicyFiles
from ...collectors.store_update import rebuild_store, update_store
from ...core.archive.archive_index import TranscriptArchive, find_damaged_sessions
from ...core.archive.archive_mode import ArchiveMode
from ...core.archive.archive_policy import read_archive_settings
from ...core.compaction.receipts import CompactionReceipt, ReceiptStore
from ...core.compaction.recovery.limit_errors import parse_recoverable_error
from ...core.compaction.recovery.recovery_run import LOCKED_STATES, release_dead_holder
from ...core.measure import effective_config
from ...core.measure.evidence import compare_measurements
from ...core.measure.retention import DAY_MS, SOON_DAYS, cleanup_days, deletion_time
from ...core.model.session import Session
from ...core.policy.policy import Policy, ProjectTrust
from ...core.saves.project_saves import PluginFit, SavesReport
from ...core.saves.save_status import NEEDS_ATTENTION
from ...core.store import database
from ...core.store.automation_records import (
    AUTOMATIC_RUN_TIMEOUT_MS,
    read_automatic_runs,
    read_recoveries,
)
from ...core.store.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    SettingsFileRecord,
)
from ...core.store.database import StoreError
from ...core.store.queries import (
    archive_queries,
    config_queries,
    log_queries,
    search_queries,
    session_queries,
)
from ...core.store.queries.log_queries import LogPartRow
from ...core.store.readers import fleet_reader
from ...core.store.readers.saves_reader import read_saves
from ...core.transcript.line_types import why_ignored
from ..text.formats import iso_time, plural
from ..text.settings_text import name_keys
from . import machine_checks
from .command_errors import error_text, print_error, print_errors
from .machine_checks import DoctorCheck, failed, noted, passed


def check_all(places: Places) -> list[DoctorCheck]:
    return list(each_check(places))


def scan_and_check_all(places: Places) -> list[DoctorCheck]:
    """Bring the store up to date as far as that is possible, then check everything."""
    failure = None
    try:
        if places.exists:
            print_errors(update_store(places).notices)
    except (PlaceError, StoreError, OSError, UnicodeEncodeError) as error:
        failure = error_text(error)
    return list(each_check(places, failure))


def rebuild_damaged_store(places: Places) -> None:
    """Rebuild a damaged store; prints an error if that fails, and the checks report the rest."""
    if not places.store.is_file():
        return
    try:
        damage = database.find_damage(places.store)
        if damage and damage != database.NEWER_VERSION:
            print_error(rebuild_store(places, damage))
    except (PlaceError, StoreError, OSError, UnicodeEncodeError) as error:
        print_error(error_text(error))


def each_check(places: Places, failure: str | None = None) -> Iterator[DoctorCheck]:
    """Yield one check after the other; `failure` is the error of the scan before them."""
    yield from machine_checks.folder_checks(places)
    checks, parts = _check_store(places, failure)
    yield from checks
    yield machine_checks.disk_check(places.store)
    yield from machine_checks.log_checks(places.store, parts)
    yield machine_checks.requests_check(places.store)
    yield from machine_checks.machine_checks()


def _check_store(places: Places, failure: str | None) -> tuple[list[DoctorCheck], list[LogPartRow]]:
    path = places.store
    if failure:
        return [_store_failed_check(failure, path)], []
    if not path.exists():
        return [passed("store", f"none at {path} yet: the first scan creates it")], []
    try:
        with closing(database.open_reader(path)) as db:
            if obstacle := _find_obstacle(db, places):
                return [obstacle], []
            return list(_content_checks(db, places)), log_queries.log_parts(db)
    except StoreError as error:
        return [_store_failed_check(str(error), path)], []
    except sqlite3.Error as error:
        what, remedy = database.explain_error(error)
        return [failed("store", f"{path}: {what}", remedy)], []


def _content_checks(db: sqlite3.Connection, places: Places) -> Iterator[DoctorCheck]:
    now_ms = time.time_ns() // 1_000_000
    policies = PolicyFiles(places.policy)
    policies.refresh(config_queries.project_roots(db))
    yield _store_check(places.store, db)
    yield _search_index_check(db)
    yield _bad_lines_check(db)
    yield _orphans_check(db)
    yield _unknown_types_check(db)
    yield _ignored_types_check(db)
    yield from _settings_checks(db)
    yield from _definition_checks(db)
    yield from _save_file_checks(db)
    yield _measurement_check(db)
    yield _hooks_check(db, places.store)
    receipts = ReceiptStore(database.state_folder(places.store)).all()
    yield from recovery_checks(db, fleet_reader.read_sessions(db, now_ms), receipts, now_ms)
    yield _deletions_check(db, places, policies.policies.common, now_ms)
    yield _archive_check(places)
    yield from _saves_checks(read_saves(db, (), now_ms, policies.policies))
    yield _policy_check(policies)
    yield _problems_check(db)


def _find_obstacle(db: sqlite3.Connection, places: Places) -> DoctorCheck | None:
    """Find what makes a store unusable although it opens."""
    path, version = places.store, database.schema_version(db)
    if version > database.SCHEMA_VERSION:
        detail = f"{path} was written by a newer ctxtop (schema {version})"
        fix = "use that version, or another file with --db: a scan would move this one aside"
        return failed("store", detail, fix)
    root = session_queries.claimed_folder(db)
    if root is not None and root != str(places.folder.root):
        return failed("store", f"{path} belongs to {root}", "choose another file with --db")
    if damage := session_queries.find_damaged_page(db):
        fix = f"move {path} away: ctxtop rebuilds it"
        return failed("store", f"{path} is damaged: {damage}", fix)
    return None


def _store_failed_check(message: str, path: Path) -> DoctorCheck:
    # The store's errors end with what to do.
    detail, _, remedy = message.rpartition("; ")
    if not detail:
        return failed("store", message, "choose another file with --db")
    if "doctor" in remedy:
        remedy = f"move {path} away: ctxtop rebuilds it"
    return failed("store", detail, remedy)


def _store_check(path: Path, db: sqlite3.Connection) -> DoctorCheck:
    mode, around = (stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent))
    counts = session_queries.store_counts(db)
    detail = (
        f"{path}, {path.stat().st_size:,} bytes, schema {database.schema_version(db)},"
        f" {mode:04o} in {around:04o},"
        f" {plural(counts['files'], 'file')}, {plural(counts['sessions'], 'session')}"
    )
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)):
        return failed("store", f"{detail}; it cannot be written", "choose another file with --db")
    if mode & 0o077:
        return failed("store", detail, f"other users can read it: run chmod 600 {path}")
    if around & 0o022 and not around & stat.S_ISVTX:
        return failed("store", detail, f"other users can replace it: run chmod 700 {path.parent}")
    return passed("store", detail)


def _search_index_check(db: sqlite3.Connection) -> DoctorCheck:
    progress, index = search_queries.search_progress(db), search_queries.search_index_size(db)
    share = f" ({100 * index.size / index.chars:.1f} %)" if index.chars else ""
    detail = (
        f"{progress.indexed:,} of {plural(progress.total, 'transcript')},"
        f" {index.size:,} bytes for {plural(index.chars, 'character')}{share},"
        f" built in {index.seconds:.1f} s"
    )
    more = "" if progress.is_complete else "; `ctxtop search` and the dashboard index the others"
    return passed("search index", detail + more)


def _bad_lines_check(db: sqlite3.Connection) -> DoctorCheck:
    count = session_queries.store_counts(db)["bad_lines"]
    if not count:
        return passed("bad lines", "none")
    fix = "`ctxtop scan --bad` lists them"
    return noted("bad lines", f"{plural(count, 'line')} could not be read", fix)


def _orphans_check(db: sqlite3.Connection) -> DoctorCheck:
    orphans = session_queries.orphaned_agent_files(db)
    if not orphans:
        return passed("orphans", "every agent's file has its session's transcript")
    detail = f"{plural(len(orphans), 'agent')} whose session has no transcript: {orphans[0]}"
    return noted("orphans", detail, "remove the files if you have no use for them")


def _deletions_check(
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


def _archive_check(places: Places) -> DoctorCheck:
    archive = TranscriptArchive(database.state_folder(places.store))
    sessions = archive.sessions()
    damaged = [*map(str, archive.problems), *find_damaged_sessions(archive)]
    if damaged:
        detail = f"{damaged[0]}{_and_more(len(damaged) - 1)}"
        return noted("archive", detail, "archive them again while Claude Code has them")
    if not sessions:
        return passed("archive", "empty")
    size = archive.total_bytes() / machine_checks.MEGABYTE
    return passed("archive", f"{plural(len(sessions), 'session')}, {size:,.1f} MB")


MAX_NAMED_TYPES: Final = 5  # the rest is counted


def _unknown_types_check(db: sqlite3.Connection) -> DoctorCheck:
    types = session_queries.unknown_types(db)
    if not types:
        return passed("unknown types", "none")
    listed = [f"{name} {lines:,}" for name, lines in list(types.items())[:MAX_NAMED_TYPES]]
    more = _and_more(len(types) - MAX_NAMED_TYPES)
    fix = "nothing is lost; a newer ctxtop may know them"
    return noted("unknown types", ", ".join(listed) + more, fix)


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _ignored_types_check(db: sqlite3.Connection) -> DoctorCheck:
    types = session_queries.ignored_types(db)
    if not types:
        return passed("ignored types", "none")
    first = list(types.items())[:MAX_NAMED_TYPES]
    listed = "; ".join(f"{name} {lines:,}: {why_ignored(name)}" for name, lines in first)
    total = plural(sum(types.values()), "line")
    return passed("ignored types", f"{total} of {plural(len(types), 'known type')}: {listed}")


def _problems_check(db: sqlite3.Connection) -> DoctorCheck:
    problems = [each for each in session_queries.problems(db) if not machine_checks.is_link(each)]
    if not problems:
        return passed("problems", "none")
    newest = problems[0]
    detail = f"{plural(len(problems), 'problem')}, the newest: {newest.where}: {newest.what}"
    return failed("problems", detail, newest.fix)


def _policy_check(files: PolicyFiles) -> DoctorCheck:
    name, projects = "project policies", files.policies.projects
    ignored = sorted(folder for folder, each in projects.items() if each.ignored)
    trusted = sum(each.trust is ProjectTrust.TRUSTED for each in projects.values())
    detail = f"{plural(len(projects), 'file')}, {trusted} trusted"
    if not ignored:
        return passed(name, detail)
    fix = f"`ctxtop trust {shlex.quote(ignored[0])}` shows what it would do, and asks"
    return noted(name, f"{detail}; values are ignored from {name_keys(ignored)}", fix)


MAX_NAMED_FILES: Final = 5  # of one check, each on a line of its own; the rest is counted


def _fail_each(name: str, problems: Sequence[str], fix: str) -> list[DoctorCheck]:
    checks = [failed(name, problem, fix) for problem in problems[:MAX_NAMED_FILES]]
    if len(problems) > MAX_NAMED_FILES:
        checks.append(failed(name, f"and {len(problems) - MAX_NAMED_FILES} more", fix))
    return checks


def _settings_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
    files = config_queries.settings_files(db)
    bad = [f"{file.path} {file.problem}" for file in files if file.problem]
    hooks = sum(len(file.hooks) for file in files)
    good = f"{plural(len(files), 'file')}, {plural(hooks, 'hook')}"
    fix = "correct it: Claude Code ignores the whole file until then"
    return _fail_each("settings", bad, fix) or [passed("settings", good)]


def _definition_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
    name, definitions = "definitions", config_queries.definitions(db)
    bad = [each for each in definitions if each.problem]
    own = [f"{each.path} {each.problem}" for each in bad if each.scope is not ConfigScope.PLUGIN]
    missing = [
        f"agent {agent.name} declares the skill {skill}, but no SKILL.md defines it ({agent.path})"
        for agent, skill in _missing_skills(db, definitions)
    ]
    checks = [
        *_fail_each(name, own, "correct its front matter: Claude Code may not load it"),
        *_fail_each(
            name, missing, "create <skills>/<name>/SKILL.md, or remove the skill from the agent"
        ),
    ]
    if checks:
        return checks
    agents = sum(each.kind is DefinitionKind.AGENT for each in definitions)
    detail = f"{plural(agents, 'agent')}, {plural(len(definitions) - agents, 'skill')}"
    if not bad:
        return [passed(name, detail)]
    hint = "only a plugin's author can correct its files"
    return [noted(name, f"{detail}; {plural(len(bad), 'problem')} in plugins", hint)]


def _missing_skills(
    db: sqlite3.Connection, definitions: list[DefinitionRecord]
) -> Iterator[tuple[DefinitionRecord, str]]:
    """Yield agents with each skill that they declare and that is not defined where they run."""
    settings, plugins = config_queries.settings_files(db), config_queries.plugins(db)
    visible: dict[str | None, dict[effective_config.DefinitionKey, DefinitionRecord]] = {}
    for agent in definitions:
        if not agent.skills or agent.kind is not DefinitionKind.AGENT:
            continue
        project = agent.project
        if project not in visible:
            enabled = effective_config.enabled_plugins(
                plugins, effective_config.resolve_settings(settings, project), project
            )
            visible[project] = effective_config.resolve_definitions(definitions, project, enabled)
        is_hidden = agent.plugin_id and (agent.kind, agent.name) not in visible[project]
        if not is_hidden:
            for skill in effective_config.missing_skills(agent, visible[project]):
                yield agent, skill


def _save_file_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
    name = "save flow"
    folders, files = config_queries.staging_folders(db), config_queries.current_save_files(db)
    refused = [f"{each.path} {each.problem}" for each in folders if each.problem]
    if refused:
        return _fail_each(name, refused, "ctxtop does not read it: check who created it")
    if not files:
        return [passed(name, "no files of claude-memory")]
    detail = f"{plural(len(files), 'file')} of claude-memory"
    for file in files:
        if file.problem:
            hint = "a save was interrupted; ctxtop changes none of its files"
            return [noted(name, f"{detail}; {file.path} {file.problem}", hint)]
    return [passed(name, detail)]


def _saves_checks(report: SavesReport) -> list[DoctorCheck]:
    """Check for saves that may be lost, and that the plugin's parts fit together (004-37)."""
    name = "saves"
    fix = "update the whole plugin: its skill and hooks belong together"
    checks = [
        failed(name, f"{each.plugin.plugin_id} in {each.plugin.install_path}: {each.reason}", fix)
        for each in report.plugins
        if each.fit is PluginFit.BROKEN
    ]
    lost = [each for each in report.projects if each.status.state in NEEDS_ATTENTION]
    for each in lost[:MAX_NAMED_FILES]:
        state = each.status.state.value.replace("_", " ")
        detail = f"{each.project or each.name}: {state}, {each.status.reason}"
        hint = "run /memory:save in that project to save again; `ctxtop saves` shows more"
        checks.append(noted(name, detail, hint))
    if (more := len(lost) - MAX_NAMED_FILES) > 0:
        checks.append(noted(name, f"and {more} more", "`ctxtop saves` lists them"))
    count = plural(len(report.projects), "project")
    return checks or [passed(name, f"{count}, none lost")]


def _measurement_check(db: sqlite3.Connection) -> DoctorCheck:
    name = "measurements"
    found = compare_measurements(log_queries.measurement_comparisons(db))
    if found.different:
        row = found.different[0]
        detail = (
            f"{plural(len(found.different), 'session')} measured differently than in the transcript"
            f" says: {row.session_id} {row.measured_tokens:,} tokens at {iso_time(row.at)},"
            f" the transcript {row.answer_tokens:,}"
        )
        return noted(name, detail, "please report it, with the version of Claude Code")
    if not found.equal and not found.not_comparable:
        return passed(name, "none: no open session runs ctxtop's plugin")
    return passed(name, f"{plural(found.equal, 'session')} checked, equal to the transcript")


GRACE_MS: Final = 60_000
"""A session that begins this soon after a hook's last event may have begun before it."""

_PLUGIN_ID: Final = f"ctxtop@{SKILLS_MARKETPLACE}"


def _hooks_check(db: sqlite3.Connection, store: Path) -> DoctorCheck:
    name = "hooks"
    files = [
        file
        for file in config_queries.settings_files(db)
        if file.project is None and file.scope is not ConfigScope.PLUGIN
    ]
    ours = [(file, own) for file in files for own in _own_hooks(file, store)]
    if not ours:
        for plugin in config_queries.plugins(db):
            if plugin.plugin_id == _PLUGIN_ID and plugin.install_path:
                detail = f"in the plugin {plugin.install_path}"
                return passed(name, detail, "`ctxtop hooks status` checks each")
        return passed(name, "none for this store in the user's settings")
    detail = f"{plural(len(ours), 'hook')} in {ours[0][0].path}"
    for _, own in ours:
        if not (os.access(own.interpreter, os.X_OK) and Path(own.script).is_file()):
            detail += f" refer to a ctxtop that no longer exists: {own.interpreter} {own.script}"
            return failed(name, detail, "install them again: `ctxtop hooks install`")
    off = effective_config.resolve_settings(files, None).get("disableAllHooks")
    if off is not None and off.value is True:
        detail += f"; disableAllHooks in {off.path}"
        return failed(name, detail, "remove that setting")
    installed_ms = max(file.mark.mtime_ns for file, _ in ours) // 1_000_000
    last_ms = max([installed_ms, *log_queries.last_event_times(db).values()])
    unrecorded = sum(
        bool(row.answer_tokens) and (row.started_at or 0) > last_ms + GRACE_MS
        for row in session_queries.sessions(db)
    )
    if unrecorded:
        began = f"though {plural(unrecorded, 'session')} started"
        detail += f"; none has run since {iso_time(last_ms)}, {began}"
        return failed(name, detail, "see `/hooks` and `claude doctor`")
    return passed(name, detail)


def _own_hooks(file: SettingsFileRecord, store: Path) -> list[InstalledCommand]:
    commands = (parse_command(each.command) for each in file.hooks)
    return [own for own in commands if own and own.store == str(store)]


RECENT_RUN_MS: Final = 7 * 24 * 3_600_000  # a session that ended earlier is hardly missed
MAX_NAMED_SESSIONS: Final = 3


def recovery_checks(
    db: sqlite3.Connection,
    sessions: Iterable[Session],
    receipts: Sequence[CompactionReceipt],
    now_ms: int,
) -> list[DoctorCheck]:
    return [
        _refused_sessions_check(sessions, receipts, now_ms),
        _locks_check(db, now_ms),
        _automatic_runs_check(db, now_ms),
    ]


def _refused_sessions_check(
    sessions: Iterable[Session], receipts: Sequence[CompactionReceipt], now_ms: int
) -> DoctorCheck:
    name = "refused sessions"
    repaired_at = {
        session_id: each.at
        for each in reversed(receipts)
        for session_id in (each.session_id, each.new_session_id)
    }

    def is_open(session: Session) -> bool:
        last = session.last_activity_at or 0
        is_recent = now_ms - last < RECENT_RUN_MS
        return is_recent and repaired_at.get(session.session_id, -1) < last

    ended = [each for each in sessions if parse_recoverable_error(each.refusal) and is_open(each)]
    if not ended:
        return passed(name, f"none in {RECENT_RUN_MS // 86_400_000} days that was not repaired")
    listed = [f"{each.session_id[:8]} ({each.title})" for each in ended[:MAX_NAMED_SESSIONS]]
    more = _and_more(len(ended) - MAX_NAMED_SESSIONS)
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


def _automatic_runs_check(db: sqlite3.Connection, now_ms: int) -> DoctorCheck:
    name, runs = "automatic runs", read_automatic_runs(db, now_ms - RECENT_RUN_MS)
    if not runs:
        hint = "off until your config.toml or a trusted project sets mode = auto"
        return passed(name, f"nothing: {hint}")
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
