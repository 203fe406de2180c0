"""Which agents and skills a project has, and whether the skills exist that agents declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .store.surroundings_facts import DefinitionKind, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .settings import Setting
    from .store.surroundings_facts import DefinitionFact, PluginFact

ENABLED: Final = "enabledPlugins."
"""What the keys of switched plugins begin with, in resolved settings."""

Key = tuple[DefinitionKind, str]
"""A kind and a name: an agent and a skill may have the same one."""

_SCOPES: Final = list(Scope)


def visible_plugins(
    plugins: Iterable[PluginFact], settings: dict[str, Setting], project: str | None
) -> frozenset[str]:
    """Name the plugins that one project's folder has; None is no project.

    One that no settings file switches counts as switched on: the client can have been told
    where ctxtop does not see it.
    """
    return frozenset(
        plugin.plugin_id
        for plugin in plugins
        if plugin.project in {"", project} and _is_on(settings.get(ENABLED + plugin.plugin_id))
    )


def resolve_definitions(
    definitions: Iterable[DefinitionFact], project: str | None, plugins: frozenset[str]
) -> dict[Key, DefinitionFact]:
    """Find the definition that each name means in one project's folder.

    Project wins over user, user over plugin (claude-code-formats 6.2); of two in one scope
    the first path, so that the answer is always the same.
    """
    chosen = [
        each
        for each in definitions
        if each.project in {None, project} and (each.plugin_id is None or each.plugin_id in plugins)
    ]
    chosen.sort(key=lambda each: (_SCOPES.index(each.scope), each.path))
    found: dict[Key, DefinitionFact] = {}
    for each in chosen:
        found.setdefault((each.kind, each.name), each)
    return found


def missing_skills(agent: DefinitionFact, visible: dict[Key, DefinitionFact]) -> tuple[str, ...]:
    """Name the skills that an agent declares and that no SKILL.md defines (R: 000-06).

    A plugin's skill may be declared without the plugin's name.
    """
    skills = {name for kind, name in visible if kind is DefinitionKind.SKILL}
    skills |= {name.rpartition(":")[2] for name in skills}
    return tuple(name for name in agent.skills if name not in skills)


def _is_on(setting: Setting | None) -> bool:
    return setting is None or setting.value is not False
