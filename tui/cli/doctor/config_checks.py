"""What `ctxtop doctor` checks of settings, definitions, policies and claude-memory's saves."""

from __future__ import annotations

import shlex
import sqlite3
from typing import TYPE_CHECKING, Final

from ....core.measure.effective_config import (
    DefinitionKey,
    enabled_plugins,
    missing_skills,
    resolve_definitions,
    resolve_settings,
)
from ....core.policy.policy import ProjectTrust
from ....core.saves.save_plugin import PluginFit
from ....core.saves.save_status import NEEDS_ATTENTION
from ....core.store.config_records import ConfigScope, DefinitionKind, DefinitionRecord
from ....core.store.queries import config_queries as queries
from ...text.formats import plural
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
