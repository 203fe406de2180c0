"""Which settings, hooks, agents and skills are in effect in a folder, each with its file."""

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Final

import msgspec

from ..lazy_pattern import lazy_pattern
from ..model.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    PluginRecord,
    SettingsFileRecord,
    SettingValue,
)

MANAGED_DROP_INS_FOLDER: Final = "managed-settings.d"
"""Folder of the administrator's further files, each above the ones before it (2.1.83)."""

ENABLED_PLUGINS_PREFIX: Final = "enabledPlugins."  # of the keys that switch plugins

DefinitionKey = tuple[DefinitionKind, str]  # an agent and a skill may share a name

_SCOPES: Final = list(ConfigScope)


class ResolvedSetting(msgspec.Struct, frozen=True):
    value: SettingValue
    scope: ConfigScope
    path: str


def resolve_settings(
    files: Iterable[SettingsFileRecord], project: str | None
) -> dict[str, ResolvedSetting]:
    """Return the winning value of each key in a project's folder; None is no project.

    Managed wins over local, project and user (claude-code-formats 1.6). Objects merge, so
    each dotted key is resolved by itself. Values of the command line, a server or MDM are not
    seen: they are in no file that ctxtop reads.
    """
    chosen = [file for file in files if file.project in {None, project}]
    # Twice, as sorting is stable: the last drop-in first, then by scope.
    chosen.sort(key=_drop_in_order, reverse=True)
    chosen.sort(key=lambda file: _SCOPES.index(file.scope))
    resolved: dict[str, ResolvedSetting] = {}
    for file in chosen:
        for key, value in file.values.items():
            resolved.setdefault(key, ResolvedSetting(value, file.scope, file.path))
    return resolved


class CompactHook(msgspec.Struct, frozen=True):
    """A hook that can keep Claude Code from compacting: one that ends with 2 (client 2.1.332)."""

    command: str
    path: str  # of the file that installs it


def find_compact_hooks(files: Iterable[SettingsFileRecord]) -> Iterator[CompactHook]:
    """Find the hooks before an automatic compaction, except for ctxtop's own."""
    for file in files:
        for hook in file.hooks:
            is_automatic = hook.matcher in {None, "", "*"} or "auto" in (hook.matcher or "")
            if hook.event == "PreCompact" and is_automatic and not _OWN_HOOK.search(hook.command):
                yield CompactHook(hook.command, file.path)


_OWN_HOOK: Final = lazy_pattern(r"/collectors/plugin/run\.py\b.*\bhook\b")  # it always ends with 0


def _drop_in_order(file: SettingsFileRecord) -> tuple[bool, str]:
    path = PurePath(file.path)
    return path.parent.name == MANAGED_DROP_INS_FOLDER, path.name


def enabled_plugins(
    plugins: Iterable[PluginRecord], settings: dict[str, ResolvedSetting], project: str | None
) -> frozenset[str]:
    """Return the plugins of a project's folder; None is no project.

    A plugin without a setting counts as enabled: it may be enabled where ctxtop does not look.
    """
    disabled = {key for key, setting in settings.items() if setting.value is False}
    return frozenset(
        plugin.plugin_id
        for plugin in plugins
        if plugin.project in {"", project}
        and ENABLED_PLUGINS_PREFIX + plugin.plugin_id not in disabled
    )


def resolve_definitions(
    definitions: Iterable[DefinitionRecord], project: str | None, plugins: frozenset[str]
) -> dict[DefinitionKey, DefinitionRecord]:
    """Return the definition of each name in a project's folder.

    Project wins over user, user over plugin (claude-code-formats 6.2); within a scope the first
    path wins, so that the result is always the same.
    """
    visible = [
        definition
        for definition in definitions
        if definition.project in {None, project}
        and (definition.plugin_id is None or definition.plugin_id in plugins)
    ]
    visible.sort(key=lambda each: (_SCOPES.index(each.scope), each.path))
    resolved: dict[DefinitionKey, DefinitionRecord] = {}
    for definition in visible:
        resolved.setdefault((definition.kind, definition.name), definition)
    return resolved


def missing_skills(
    agent: DefinitionRecord, visible: dict[DefinitionKey, DefinitionRecord]
) -> tuple[str, ...]:
    """Return the skills that an agent declares without a SKILL.md (R: 000-06).

    A plugin's skill may be declared without the plugin's name.
    """
    if not agent.skills:
        return ()
    skills = {name for kind, name in visible if kind is DefinitionKind.SKILL}
    skills |= {name.rpartition(":")[2] for name in skills}
    return tuple(name for name in agent.skills if name not in skills)


def installed_skills(
    agent: DefinitionRecord, visible: dict[DefinitionKey, DefinitionRecord]
) -> tuple[str, ...]:
    """Return the skills that an agent declares and is given: the client passes over the others."""
    missing = missing_skills(agent, visible)
    return tuple(name for name in agent.skills if name not in missing)
