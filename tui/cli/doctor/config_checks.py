"""The doctor's checks of what is configured: settings, definitions, saves, hooks and our plugin."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from ....collectors.claude_code.config.definition_files import SKILLS_MARKETPLACE
from ....collectors.claude_code.own_files import (
    MAX_KEPT_LOG_BYTES,
    LogFile,
    find_log_files,
    own_log_folder,
)
from ....collectors.client_compact.request_receipts import (
    ClientCompactReceipt,
    read_client_receipts,
)
from ....collectors.plugin.compact_requests import ORPHAN_AFTER_S, request_folder
from ....collectors.plugin.installed_commands import InstalledCommand, parse_command
from ....collectors.plugin.plugin_log import (
    ANSWER_FAULTS,
    FAULTS_BYTES,
    fault_path,
    older_fault_path,
)
from ....core.files.safe_open import open_regular
from ....core.measure.effective_config import (
    DefinitionKey,
    enabled_plugins,
    missing_skills,
    resolve_definitions,
    resolve_settings,
)
from ....core.measure.evidence import compare_measurements
from ....core.policy.policy import ProjectTrust
from ....core.saves.save_plugin import PluginFit
from ....core.saves.save_status import NEEDS_ATTENTION
from ....core.store.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    SettingsFileRecord,
)
from ....core.store.queries import config_queries, log_queries, session_queries
from ....core.store.queries import config_queries as queries
from ....core.store.queries.log_queries import LogPartRow
from ....core.store.transcript_records import LogKind
from ....core.transcript.sanitize import sanitize_title
from ...text.formats import iso_time, plural, utc_time
from ...text.policy_text import name_keys
from .machine_checks import DoctorCheck, failed_check, passed_check

if TYPE_CHECKING:
    from ....collectors.policy_files import PolicyFiles
    from ....core.saves.project_saves import SavesReport


POLICY_CHECK = "project policies"


def policy_check(files: PolicyFiles) -> DoctorCheck:
    """Count the files, and name those of which something is ignored."""
    projects = files.policies.projects
    ignored = sorted(name for name, each in projects.items() if each.ignored)
    trusted = sum(each.trust is ProjectTrust.TRUSTED for each in projects.values())
    detail = f"{plural(len(projects), 'file')}, {trusted} trusted"
    if not ignored:
        return passed_check(POLICY_CHECK, detail)
    fix = f"`ctxtop trust {shlex.quote(ignored[0])}` shows what it would do, and asks"
    return passed_check(
        POLICY_CHECK, f"{detail}; values are ignored from {name_keys(ignored)}", fix
    )


MAX_NAMED_FILES: Final = 5
"""Files of one check that are named each in a line of its own; the rest is counted."""

_UPDATE_FIX: Final = "update the plugin whole: its skill and its hooks belong together"


def config_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
    """Look at what the store knows of them."""
    return [*_settings_checks(db), *_definition_checks(db), *_save_file_checks(db)]


def _settings_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
    files = queries.settings_files(db)
    bad = [f"{file.path} {file.problem}" for file in files if file.problem]
    fix = "Claude Code ignores the file whole: correct it"
    hooks = sum(len(file.hooks) for file in files)
    good = f"{plural(len(files), 'file')}, {plural(hooks, 'hook')}"
    return _check_each("settings", bad, fix) or [passed_check("settings", good)]


def _definition_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
    name, found = "definitions", queries.definitions(db)
    own = [each for each in found if each.scope is not ConfigScope.PLUGIN]
    bad = [f"{each.path} {each.problem}" for each in own if each.problem]
    checks = _check_each(name, bad, "correct its front matter: Claude Code may not take it")
    missing = [
        f"agent {agent.name} declares the skill {skill}, and no SKILL.md defines it ({agent.path})"
        for agent, skill in _missing_skills(db, found)
    ]
    checks += _check_each(name, missing, "make <skills>/<name>/SKILL.md, or take it off the agent")
    if checks:
        return checks
    agents = sum(1 for each in found if each.kind is DefinitionKind.AGENT)
    detail = f"{plural(agents, 'agent')}, {plural(len(found) - agents, 'skill')}"
    sloppy = sum(1 for each in found if each.problem)
    if sloppy:
        hint = "a plugin's files are its author's to correct"
        return [passed_check(name, f"{detail}; {plural(sloppy, 'problem')} in plugins", hint)]
    return [passed_check(name, detail)]


def _missing_skills(
    db: sqlite3.Connection, definitions: list[DefinitionRecord]
) -> list[tuple[DefinitionRecord, str]]:
    """List agents with the skills that they declare and nobody defines where they run."""
    settings, plugins = queries.settings_files(db), queries.plugins(db)
    visible: dict[str | None, dict[DefinitionKey, DefinitionRecord]] = {}
    found = []
    for agent in definitions:
        if not agent.skills or agent.kind is not DefinitionKind.AGENT:
            continue
        project = agent.project
        if project not in visible:
            switched = enabled_plugins(plugins, resolve_settings(settings, project), project)
            visible[project] = resolve_definitions(definitions, project, switched)
        is_hidden = agent.plugin_id and (agent.kind, agent.name) not in visible[project]
        if not is_hidden:
            found += [(agent, skill) for skill in missing_skills(agent, visible[project])]
    return found


def _save_file_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
    name = "save flow"
    places, files = queries.staging_folders(db), queries.current_save_files(db)
    refused = [f"{place.path} {place.problem}" for place in places if place.problem]
    if refused:
        return _check_each(name, refused, "ctxtop does not look into it: see who made it")
    if not files:
        return [passed_check(name, "no files of claude-memory")]
    bad = [f"{file.path} {file.problem}" for file in files if file.problem]
    detail = f"{plural(len(files), 'file')} of claude-memory"
    if bad:
        return [
            passed_check(
                name, f"{detail}; {bad[0]}", "a save was cut off; nothing of it is changed"
            )
        ]
    return [passed_check(name, detail)]


def saves_checks(report: SavesReport) -> list[DoctorCheck]:
    """Check for saves that may be lost, and that the plugin's parts fit together (004-37)."""
    name = "saves"
    broken = [
        failed_check(
            name,
            f"{each.plugin.plugin_id} in {each.plugin.install_path}: {each.reason}",
            _UPDATE_FIX,
        )
        for each in report.plugins
        if each.fit is PluginFit.BROKEN
    ]
    lost = [each for each in report.projects if each.status.state in NEEDS_ATTENTION]
    told = [
        passed_check(
            name,
            f"{each.project or each.name}: {each.status.state.value.replace('_', ' ')},"
            f" {each.status.reason}",
            "/memory:save in that project saves again; `ctxtop saves` shows more",
        )
        for each in lost[:MAX_NAMED_FILES]
    ]
    if len(lost) > MAX_NAMED_FILES:
        told.append(
            passed_check(
                name, f"and {len(lost) - MAX_NAMED_FILES} more", "`ctxtop saves` lists them"
            )
        )
    if not broken and not told:
        told.append(passed_check(name, f"{plural(len(report.projects), 'project')}, none is lost"))
    return [*broken, *told]


def _check_each(name: str, problems: list[str], fix: str) -> list[DoctorCheck]:
    named = [failed_check(name, problem, fix) for problem in problems[:MAX_NAMED_FILES]]
    if len(problems) > MAX_NAMED_FILES:
        named.append(failed_check(name, f"and {len(problems) - MAX_NAMED_FILES} more", fix))
    return named


LOW_DISK_BYTES: Final = 256 * 1024 * 1024
"""The store of a heavy user is 100 MB, and its journal may be as much while it is made."""

MAX_FAULT_BYTES: Final = 4 * FAULTS_BYTES
"""Of a file of faults is read at the most; one that a writer of ours made is far smaller."""

MAX_TIME_DIGITS: Final = 14  # milliseconds until the year 5138
MEGABYTE: Final = 1_000_000

_LOG_NAMES: Final = {
    LogKind.HOOKS: "hook log",
    LogKind.STATUS_LINE: "status line",
    LogKind.ANSWERS: "answers",
    LogKind.PLUGIN: "plugin log",
}


class _Faults(msgspec.Struct, frozen=True):
    path: Path
    count: int
    at: int  # of the last one
    words: str


def disk_check(store: Path) -> DoctorCheck:
    """Look at the room on the store's disk."""
    place = store.parent
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    detail = f"{free // MEGABYTE:,} MB free at {place}"
    if free < LOW_DISK_BYTES:
        return failed_check(
            "disk", f"nearly full: {detail}", "free some space, or choose another --db"
        )
    return passed_check("disk", detail)


def log_checks(store: Path, known: Iterable[LogPartRow]) -> list[DoctorCheck]:
    """Look at what the hooks and the status line wrote; `known` is what was read of it."""
    read = list(known)
    folder = own_log_folder(store)
    return [*(_log_check(folder, log, read) for log in LogKind), _answers_check(folder)]


def _answers_check(folder: Path) -> DoctorCheck:
    name = "hook answers"
    try:
        faults = _read_faults(folder / ANSWER_FAULTS)
    except OSError as error:
        return failed_check(
            name, f"{folder} cannot be read ({error.strerror})", f"chmod u+rwx {folder}"
        )
    if faults is None:
        return passed_check(name, "no faults")
    last = f"the last at {utc_time(faults.at)}: {faults.words}"
    detail = f"{plural(faults.count, 'fault')}, {last}"
    fix = f"Claude Code was not told: report it, and remove {faults.path} when you have seen it"
    return failed_check(name, detail, fix)


def _log_check(folder: Path, log: LogKind, known: Iterable[LogPartRow]) -> DoctorCheck:
    name = _LOG_NAMES[log]
    try:
        found = find_log_files(folder, log)
        fault = _read_faults(folder / log)
    except OSError as error:
        return failed_check(
            name, f"{folder} cannot be read ({error.strerror})", f"chmod u+rwx {folder}"
        )
    newest_ns = max((part.mtime_ns for part in found), default=0)
    if fault and fault.at * 1_000_000 > newest_ns:
        detail = f"not written since {utc_time(fault.at)}: {fault.words}"
        return failed_check(name, detail, f"check {folder} and its disk")
    if fault:
        lost = f"{plural(fault.count, 'record')} lost, the last at {utc_time(fault.at)}"
        detail = f"written again; {lost}: {fault.words}"
        return passed_check(name, detail, f"remove {fault.path} when you have seen it")
    if not found:
        return passed_check(name, f"none in {folder}: nothing of ctxtop's runs in Claude Code")
    return _parts_check(name, log, found, known)


def _parts_check(
    name: str, log: LogKind, found: list[LogFile], known: Iterable[LogPartRow]
) -> DoctorCheck:
    size = sum(part.size for part in found)
    last = utc_time(max(part.mtime_ns for part in found) // 1_000_000)
    detail = f"{plural(len(found), 'file')}, {size / MEGABYTE:,.1f} MB, last written {last}"
    folder = found[0].path.parent
    if folder.stat().st_mode & 0o077:
        return failed_check(name, f"{detail}; others can look into {folder}", f"chmod 700 {folder}")
    exposed = [part.path for part in found if part.path.stat().st_mode & 0o077]
    if exposed:
        return failed_check(
            name, f"{detail}; others can read {exposed[0]}", f"chmod 600 {exposed[0]}"
        )
    done = {(row.name, row.size) for row in known if row.log == log}
    waiting = [
        part for part in found if part.is_rotated and (part.path.name, part.size) not in done
    ]
    if waiting:
        detail += f"; {plural(len(waiting), 'renamed file')} not read yet"
        return passed_check(name, detail, "`ctxtop scan` reads them")
    if size > 2 * MAX_KEPT_LOG_BYTES:
        return passed_check(
            name, f"{detail}; more than is kept", "`ctxtop scan` removes what was read"
        )
    return passed_check(name, detail)


def _read_faults(log: Path) -> _Faults | None:
    """Read the faults of a log's writers."""
    path = Path(fault_path(str(log)))
    texts = [_read_text(place) for place in (Path(older_fault_path(str(log))), path)]
    if texts == [None, None]:
        return None
    lines = [line for text in texts for line in (text or "").splitlines() if line.strip()]
    moment, _, words = (lines or [""])[-1].partition(" ")
    is_moment = moment.isdecimal() and len(moment) <= MAX_TIME_DIGITS
    at = int(moment) if is_moment else 0
    return _Faults(path, max(1, len(lines)), at, sanitize_title(words))


def _read_text(path: Path) -> str | None:
    try:
        with open_regular(path) as file:
            return file.read(MAX_FAULT_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return None


GRACE_MS: Final = 60_000
"""A session that begins this soon after the last word of a hook may have begun before it."""

_HOOKS_CHECK: Final = "hooks"
_PLUGIN_ID: Final = f"ctxtop@{SKILLS_MARKETPLACE}"


def hook_check(db: sqlite3.Connection, store: Path) -> DoctorCheck:
    """Look at the hooks that write this store's log, for all projects."""
    files = [file for file in config_queries.settings_files(db) if file.project is None]
    ours = [(file, own) for file in files for own in _own_hooks(file, store)]
    if not ours and (placed := _plugin_folder(db)):
        return passed_check(
            _HOOKS_CHECK, f"in the plugin {placed}", "`ctxtop hooks status` looks at each"
        )
    if not ours:
        return passed_check(_HOOKS_CHECK, "none of this store's in the user's settings")
    detail = f"{plural(len(ours), 'hook')} in {ours[0][0].path}"
    for _, own in ours:
        if not (os.access(own.interpreter, os.X_OK) and Path(own.script).is_file()):
            gone = f"{detail} name a ctxtop that is gone: {own.interpreter} {own.script}"
            return failed_check(_HOOKS_CHECK, gone, "install them again: `ctxtop hooks install`")
    off = resolve_settings(files, None).get("disableAllHooks")
    if off is not None and off.value is True:
        return failed_check(
            _HOOKS_CHECK, f"{detail}; disableAllHooks in {off.path}", "take that setting out"
        )
    installed_ms = max(file.mark.mtime_ns for file, _ in ours) // 1_000_000
    last_ms = max([installed_ms, *log_queries.last_event_times(db).values()])
    deaf = [
        row
        for row in session_queries.sessions(db)
        if row.answer_tokens and (row.started_at or 0) > last_ms + GRACE_MS
    ]
    if deaf:
        since = f"none ran since {iso_time(last_ms)}, though {plural(len(deaf), 'session')} began"
        return failed_check(_HOOKS_CHECK, f"{detail}; {since}", "see `/hooks` and `claude doctor`")
    return passed_check(_HOOKS_CHECK, detail)


def _plugin_folder(db: sqlite3.Connection) -> str | None:
    """Name the folder of our plugin, where it is installed."""
    found = [one for one in config_queries.plugins(db) if one.plugin_id == _PLUGIN_ID]
    return found[0].install_path if found else None


def _own_hooks(file: SettingsFileRecord, store: Path) -> list[InstalledCommand]:
    commands = (parse_command(hook.command) for hook in file.hooks)
    return [own for own in commands if own and own.store == str(store)]


RECENT_FAILURE_MS: Final = 24 * 3600 * 1000  # what failed longer ago is no news


def measurement_check(db: sqlite3.Connection) -> DoctorCheck:
    """Compare what the client measured with what its transcripts say."""
    found = compare_measurements(log_queries.measurement_comparisons(db))
    if found.different:
        row = found.different[0]
        detail = (
            f"{plural(len(found.different), 'session')} measured otherwise than the transcript"
            f" says: {row.session_id} {row.measured_tokens:,} tokens at {iso_time(row.at)},"
            f" the transcript {row.answer_tokens:,}"
        )
        return passed_check("measurements", detail, "please report it with the client's version")
    if not found.equal and not found.not_comparable:
        return passed_check("measurements", "none: no module of ctxtop's runs in a client")
    return passed_check("measurements", f"{plural(found.equal, 'session')} as the transcript says")


def requests_check(store: Path) -> DoctorCheck:
    """Look at the compactions that ctxtop asked for and that did not end."""
    name = "asked compactions"
    now_ms = time.time_ns() // 1_000_000
    try:
        found = read_client_receipts(store, now_ms)
    except OSError as error:
        folder = error.filename or request_folder(str(store))
        return failed_check(
            name, f"{folder} {error.strerror}", f"look into {folder}, then remove it"
        )
    orphans = [each for each in found if each.state == "orphan"]
    if orphans:
        newest = orphans[0]
        detail = (
            f"{plural(len(orphans), 'request')} without a result for {ORPHAN_AFTER_S:.0f} s:"
            f" {_request_text(newest)}"
        )
        return failed_check(
            name, detail, f"look at the session, then remove {_request_path(store, newest)}"
        )
    failed = [
        each
        for each in found
        if each.state == "failed" and now_ms - each.requested_at < RECENT_FAILURE_MS
    ]
    if failed:
        return passed_check(
            name, f"the last that failed: {_request_text(failed[0])}, {failed[0].why}"
        )
    pending = [each for each in found if each.state == "pending"]
    if pending:
        return passed_check(name, f"{len(pending)} pending: {_request_text(pending[0])}")
    return passed_check(name, f"{plural(len(found), 'request')}, none open" if found else "none")


def _request_text(receipt: ClientCompactReceipt) -> str:
    return f"session {receipt.session_id} via {receipt.via} at {iso_time(receipt.requested_at)}"


def _request_path(store: Path, receipt: ClientCompactReceipt) -> str:
    return f"{request_folder(str(store))}/kept/{receipt.session_id}.{receipt.request}.asked"
