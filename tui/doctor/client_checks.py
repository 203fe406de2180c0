"""Checks of settings, definitions, hooks and the files of saves."""

import os
import shlex
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ...collectors.claude_code.config.definition_files import SKILLS_MARKETPLACE
from ...collectors.locations.policy_files import PolicyFiles
from ...collectors.plugin.installed_commands import InstalledCommand, parse_command
from ...core.compliance.agent_inventory import find_force_hooks
from ...core.measure import effective_config
from ...core.model.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    SettingsFileRecord,
)
from ...core.policy.policy import ProjectTrust
from ...core.saves.memory_plugin import PluginFit
from ...core.saves.project_saves import SavesReport
from ...core.saves.save_status import NEEDS_ATTENTION
from ...core.store.queries import (
    config_queries,
    log_queries,
    session_queries,
)
from ..text.compliance_text import force_hook_text
from ..text.formats import iso_time, plural
from ..text.settings_text import name_keys
from .doctor_check import DoctorCheck, failed, noted, passed


def policy_check(files: PolicyFiles) -> DoctorCheck:
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


def settings_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
    files = config_queries.settings_files(db)
    bad = [f"{file.path} {file.problem}" for file in files if file.problem]
    hooks = sum(len(file.hooks) for file in files)
    good = f"{plural(len(files), 'file')}, {plural(hooks, 'hook')}"
    fix = "correct it: Claude Code ignores the whole file until then"
    return _fail_each("settings", bad, fix) or [passed("settings", good)]


def definition_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
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


def save_file_checks(db: sqlite3.Connection) -> list[DoctorCheck]:
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


def saves_checks(report: SavesReport) -> list[DoctorCheck]:
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
        detail = f"{each.project or each.name}: {each.status.state_text}, {each.status.reason}"
        hint = "run /memory:save in that project to save again; `ctxtop saves` shows more"
        checks.append(noted(name, detail, hint))
    if (more := len(lost) - MAX_NAMED_FILES) > 0:
        checks.append(noted(name, f"and {more} more", "`ctxtop saves` lists them"))
    count = plural(len(report.projects), "project")
    return checks or [passed(name, f"{count}, none lost")]


GRACE_MS: Final = 60_000
"""A session that begins this soon after a hook's last event may have begun before it."""

_PLUGIN_ID: Final = f"ctxtop@{SKILLS_MARKETPLACE}"


def force_hooks_check(db: sqlite3.Connection) -> list[DoctorCheck]:
    """Note that an agent is blocked by several hooks; nothing if at most one does it."""
    found = list(find_force_hooks(config_queries.settings_files(db)))
    if len({each.command for each in found}) < 2:
        return []
    return [noted("force hooks", force_hook_text(found), "remove all but one")]


def hooks_check(db: sqlite3.Connection, store: Path) -> DoctorCheck:
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
