"""Which settings, hooks, agents and skills are in effect in a folder, each with its file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

import msgspec

from ..store.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    PluginRecord,
    SettingsFileRecord,
    SettingValue,
)

MANAGED_DROP_INS_FOLDER: Final = "managed-settings.d"
"""Folder of the administrator's further files, each over the ones before it (2.1.83)."""


class ResolvedSetting(msgspec.Struct, frozen=True):
    """A value that holds, and the file that it comes from."""

    value: SettingValue
    scope: ConfigScope
    path: str


def resolve_settings(
    files: Iterable[SettingsFileRecord], project: str | None
) -> dict[str, ResolvedSetting]:
    """Find the winning value of each key for one project's folder; None is no project.

    Managed wins over local, project and user (claude-code-formats 1.6). Objects merge, so
    each dotted key is decided by itself. What the command line, a server or MDM set is not
    seen: it stands in no file that ctxtop reads.
    """
    found: dict[str, ResolvedSetting] = {}
    for file in _strongest_first(files, project):
        for key, value in file.values.items():
            found.setdefault(key, ResolvedSetting(value, file.scope, file.path))
    return found


_SCOPES: Final = list(ConfigScope)


def _strongest_first(
    files: Iterable[SettingsFileRecord], project: str | None
) -> list[SettingsFileRecord]:
    chosen = [file for file in files if file.project in {None, project}]
    # Twice, as sorting keeps the order of equals: the last drop-in first, then the scopes.
    chosen.sort(key=_drop_in_order, reverse=True)
    chosen.sort(key=lambda file: _SCOPES.index(file.scope))
    return chosen


def _drop_in_order(file: SettingsFileRecord) -> tuple[bool, str]:
    path = PurePath(file.path)
    return path.parent.name == MANAGED_DROP_INS_FOLDER, path.name


ENABLED_PLUGINS_PREFIX: Final = "enabledPlugins."
"""What the keys of switched plugins begin with, in resolved settings."""

DefinitionKey = tuple[DefinitionKind, str]
"""A kind and a name: an agent and a skill may have the same one."""


def enabled_plugins(
    plugins: Iterable[PluginRecord], settings: dict[str, ResolvedSetting], project: str | None
) -> frozenset[str]:
    """Name the plugins that one project's folder has; None is no project.

    One that no settings file switches counts as switched on: the client can have been told
    where ctxtop does not see it.
    """
    return frozenset(
        plugin.plugin_id
        for plugin in plugins
        if plugin.project in {"", project}
        and _is_enabled(settings.get(ENABLED_PLUGINS_PREFIX + plugin.plugin_id))
    )


def resolve_definitions(
    definitions: Iterable[DefinitionRecord], project: str | None, plugins: frozenset[str]
) -> dict[DefinitionKey, DefinitionRecord]:
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
    found: dict[DefinitionKey, DefinitionRecord] = {}
    for each in chosen:
        found.setdefault((each.kind, each.name), each)
    return found


def missing_skills(
    agent: DefinitionRecord, visible: dict[DefinitionKey, DefinitionRecord]
) -> tuple[str, ...]:
    """Name the skills that an agent declares and that no SKILL.md defines (R: 000-06).

    A plugin's skill may be declared without the plugin's name.
    """
    skills = {name for kind, name in visible if kind is DefinitionKind.SKILL}
    skills |= {name.rpartition(":")[2] for name in skills}
    return tuple(name for name in agent.skills if name not in skills)


def _is_enabled(setting: ResolvedSetting | None) -> bool:
    return setting is None or setting.value is not False
