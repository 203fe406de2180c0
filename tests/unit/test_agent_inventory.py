"""Which agents are defined where, and which hooks enforce compression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ctxtop.collectors.plugin.installed_commands import hook_command
from ctxtop.core.compliance.agent_inventory import find_force_hooks, list_defined_agents
from ctxtop.core.model.config_records import (
    ConfigScope,
    DefinitionKind,
    DefinitionRecord,
    FileMark,
    HookHandler,
    PluginRecord,
    SettingsFileRecord,
)
from ctxtop.core.model.result_formats import ResultFormat

MARK = FileMark(1, 1, 1)
USER, PROJECT, PLUGIN = ConfigScope.USER, ConfigScope.PROJECT, ConfigScope.PLUGIN


def defined(name: str, scope: ConfigScope = USER, **fields: Any) -> DefinitionRecord:  # noqa: ANN401
    made: dict[str, Any] = {"kind": DefinitionKind.AGENT, "project": None, "plugin_id": None}
    made |= fields
    path = f"/{scope}/{made['project']}/{name}.md"
    return DefinitionRecord(path=path, folder="/x", scope=scope, mark=MARK, name=name, **made)


def settings(*hooks: HookHandler, **values: bool) -> SettingsFileRecord:
    return SettingsFileRecord("/s.json", "/", USER, None, MARK, dict(values), hooks)


def test_each_definition_in_effect_is_listed_once() -> None:
    skill = defined("compress-review", kind=DefinitionKind.SKILL)
    own = defined("reviewer", skills=("compress-review", "lint"))
    theirs = defined("reviewer", PROJECT, project="/shop")
    of_plugin = defined("kit:helper", PLUGIN, plugin_id="kit@market")
    plugins = [PluginRecord("kit@market", "user", "", "/kit", None)]
    found = list_defined_agents([skill, own, theirs, of_plugin], plugins, [])
    assert [(each.name, each.project) for each in found] == [
        ("kit:helper", None),
        ("reviewer", None),
        ("reviewer", "/shop"),
    ]
    assert (found[1].expected, found[1].missing_skills) == (ResultFormat.REVIEW, ("lint",))
    assert found[2].expected is ResultFormat.NONE
    off = settings(**{"enabledPlugins.kit@market": False})
    assert list_defined_agents([of_plugin], plugins, [off]) == ()


OURS = hook_command(Path("/state/ctxtop.db"), "SubagentStop", ["enforce"])
RECORDING = hook_command(Path("/state/ctxtop.db"), "SubagentStop", [])


@pytest.mark.parametrize(
    ("event", "command", "is_force_hook"),
    [
        ("SubagentStop", "/x/scripts/force-compress.sh", True),
        ("SubagentStop", OURS, True),
        ("SubagentStop", "ctxtop hook SubagentStop enforce", True),
        ("SubagentStop", RECORDING, False),
        ("SubagentStop", "notify-send enforce", False),
        ("Stop", "/x/scripts/force-compress.sh", False),
    ],
)
def test_a_force_hook_is_told_from_others(event: str, command: str, *, is_force_hook: bool) -> None:
    file = settings(HookHandler(event, "command", command))
    found = list(find_force_hooks([file]))
    assert [(each.command, each.path) for each in found] == [(command, "/s.json")] * is_force_hook
