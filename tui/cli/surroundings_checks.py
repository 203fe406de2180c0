"""What `ctxtop doctor` says of settings, definitions and claude-memory's save flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.definitions import missing_skills, resolve_definitions, visible_plugins
from ...core.saves.compat import Fit
from ...core.saves.states import NEEDS_SOMEONE
from ...core.settings import resolve_settings
from ...core.store import surroundings_queries as queries
from ...core.store.surroundings_facts import DefinitionKind, Scope
from ..formats import plural
from .checks import Check, well, wrong

if TYPE_CHECKING:
    import sqlite3

    from ...core.definitions import Key
    from ...core.saves.report import SavesReport
    from ...core.store.surroundings_facts import DefinitionFact

NAMED: Final = 5
"""Files of one check that are named each in a line of its own; the rest is counted."""

_UPDATE: Final = "update the plugin whole: its skill and its hooks belong together"


def surroundings_checks(db: sqlite3.Connection) -> list[Check]:
    """Look at what the store knows of them."""
    return [*_settings(db), *_definitions(db), *_save_flow(db)]


def _settings(db: sqlite3.Connection) -> list[Check]:
    files = queries.settings_files(db)
    bad = [f"{file.path} {file.problem}" for file in files if file.problem]
    fix = "Claude Code ignores the file whole: correct it"
    hooks = sum(len(file.hooks) for file in files)
    good = f"{plural(len(files), 'file')}, {plural(hooks, 'hook')}"
    return _each("settings", bad, fix) or [well("settings", good)]


def _definitions(db: sqlite3.Connection) -> list[Check]:
    name, found = "definitions", queries.definitions(db)
    own = [each for each in found if each.scope is not Scope.PLUGIN]
    bad = [f"{each.path} {each.problem}" for each in own if each.problem]
    checks = _each(name, bad, "correct its front matter: Claude Code may not take it")
    missing = [
        f"agent {agent.name} declares the skill {skill}, and no SKILL.md defines it ({agent.path})"
        for agent, skill in _missing(db, found)
    ]
    checks += _each(name, missing, "make <skills>/<name>/SKILL.md, or take it off the agent")
    if checks:
        return checks
    agents = sum(1 for each in found if each.kind is DefinitionKind.AGENT)
    detail = f"{plural(agents, 'agent')}, {plural(len(found) - agents, 'skill')}"
    sloppy = sum(1 for each in found if each.problem)
    if sloppy:
        hint = "a plugin's files are its author's to correct"
        return [well(name, f"{detail}; {plural(sloppy, 'problem')} in plugins", hint)]
    return [well(name, detail)]


def _missing(
    db: sqlite3.Connection, definitions: list[DefinitionFact]
) -> list[tuple[DefinitionFact, str]]:
    """List agents with the skills that they declare and nobody defines where they run."""
    settings, plugins = queries.settings_files(db), queries.plugins(db)
    visible: dict[str | None, dict[Key, DefinitionFact]] = {}
    found = []
    for agent in definitions:
        if not agent.skills or agent.kind is not DefinitionKind.AGENT:
            continue
        project = agent.project
        if project not in visible:
            switched = visible_plugins(plugins, resolve_settings(settings, project), project)
            visible[project] = resolve_definitions(definitions, project, switched)
        is_hidden = agent.plugin_id and (agent.kind, agent.name) not in visible[project]
        if not is_hidden:
            found += [(agent, skill) for skill in missing_skills(agent, visible[project])]
    return found


def _save_flow(db: sqlite3.Connection) -> list[Check]:
    name = "save flow"
    places, files = queries.save_places(db), queries.save_files(db)
    refused = [f"{place.path} {place.problem}" for place in places if place.problem]
    if refused:
        return _each(name, refused, "ctxtop does not look into it: see who made it")
    if not files:
        return [well(name, "no files of claude-memory")]
    bad = [f"{file.path} {file.problem}" for file in files if file.problem]
    detail = f"{plural(len(files), 'file')} of claude-memory"
    if bad:
        return [well(name, f"{detail}; {bad[0]}", "a save was cut off; nothing of it is changed")]
    return [well(name, detail)]


def saves_checks(report: SavesReport) -> list[Check]:
    """Say which saves may be lost, and whether the plugin's parts fit together (004-37)."""
    name = "saves"
    broken = [
        wrong(
            name, f"{each.plugin.plugin_id} in {each.plugin.install_path}: {each.reason}", _UPDATE
        )
        for each in report.plugins
        if each.fit is Fit.BROKEN
    ]
    lost = [each for each in report.projects if each.status.state in NEEDS_SOMEONE]
    told = [
        well(
            name,
            f"{each.project or each.name}: {each.status.state.value.replace('_', ' ')},"
            f" {each.status.reason}",
            "/memory:save in that project saves again; `ctxtop saves` shows more",
        )
        for each in lost[:NAMED]
    ]
    if len(lost) > NAMED:
        told.append(well(name, f"and {len(lost) - NAMED} more", "`ctxtop saves` lists them"))
    if not broken and not told:
        told.append(well(name, f"{plural(len(report.projects), 'project')}, none is lost"))
    return [*broken, *told]


def _each(name: str, problems: list[str], fix: str) -> list[Check]:
    named = [wrong(name, problem, fix) for problem in problems[:NAMED]]
    if len(problems) > NAMED:
        named.append(wrong(name, f"and {len(problems) - NAMED} more", fix))
    return named
