"""The agents that are defined, whether they ran or not, and the hooks that enforce compression."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from ..measure.effective_config import (
    DefinitionKey,
    enabled_plugins,
    installed_skills,
    missing_skills,
    resolve_definitions,
    resolve_settings,
)
from ..model.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    PluginRecord,
    SettingsFileRecord,
)
from ..model.result_formats import ResultFormat, format_of_skills


class DefinedAgent(msgspec.Struct, frozen=True):
    """A definition of an agent, as it is in effect in its project."""

    name: str
    scope: ConfigScope
    project: str | None  # None for the user's own and a plugin's
    path: str
    skills: tuple[str, ...]  # that it declares
    missing_skills: tuple[str, ...]  # of those, without a SKILL.md
    expected: ResultFormat  # by its installed skills
    model: str | None  # None for that of its session
    problem: str | None


def list_defined_agents(
    definitions: Sequence[DefinitionRecord],
    plugins: Sequence[PluginRecord],
    settings: Sequence[SettingsFileRecord],
) -> tuple[DefinedAgent, ...]:
    """List every definition of an agent that is in effect somewhere, by name."""
    visible: dict[str | None, dict[DefinitionKey, DefinitionRecord]] = {}
    for project in {each.project for each in definitions}:
        enabled = enabled_plugins(plugins, resolve_settings(settings, project), project)
        visible[project] = resolve_definitions(definitions, project, enabled)
    agents = [
        _defined_agent(each, visible[each.project])
        for each in definitions
        if each.kind is DefinitionKind.AGENT
        and visible[each.project].get((each.kind, each.name)) is each
    ]
    return tuple(sorted(agents, key=lambda each: (each.name, each.project or "", each.path)))


def _defined_agent(
    agent: DefinitionRecord, visible: dict[DefinitionKey, DefinitionRecord]
) -> DefinedAgent:
    return DefinedAgent(
        name=agent.name,
        scope=agent.scope,
        project=agent.project,
        path=agent.path,
        skills=agent.skills,
        missing_skills=missing_skills(agent, visible),
        expected=format_of_skills(installed_skills(agent, visible)) or ResultFormat.NONE,
        model=agent.model,
        problem=agent.problem,
    )


class ForceHook(msgspec.Struct, frozen=True):
    """A hook that stops an agent whose result is not compressed (000-13)."""

    command: str
    scope: ConfigScope
    project: str | None
    path: str  # of the file that installs it


FORCE_HOOK_EVENT: Final = "SubagentStop"
_FORCE_HOOK: Final = re.compile(rf"force-compress|\b{FORCE_HOOK_EVENT}\b[^;]*\benforce\b")
"""clnode's script, and ctxtop's own command with the feature `enforce`."""


def is_force_hook(event: str, command: str) -> bool:
    return event == FORCE_HOOK_EVENT and _FORCE_HOOK.search(command) is not None


def find_force_hooks(files: Iterable[SettingsFileRecord]) -> Iterator[ForceHook]:
    for file in files:
        for hook in file.hooks:
            if is_force_hook(hook.event, hook.command):
                yield ForceHook(hook.command, file.scope, file.project, file.path)


class AgentInventory(msgspec.Struct, frozen=True):
    agents: tuple[DefinedAgent, ...] = ()
    force_hooks: tuple[ForceHook, ...] = ()


NO_INVENTORY: Final = AgentInventory()
