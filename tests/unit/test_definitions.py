"""Which definition a name means, and which declared skills nobody defines."""

from __future__ import annotations

import itertools

from ctxtop.core.measure.effective_config import (
    ResolvedSetting,
    enabled_plugins,
    missing_skills,
    resolve_definitions,
)
from ctxtop.core.model.config_records import ConfigScope, DefinitionKind, PluginRecord

from ..surroundings import definition

HERE = "/home/dev/a"
AGENT, SKILL = DefinitionKind.AGENT, DefinitionKind.SKILL
PLUGIN = "kit@market"


def test_project_wins_over_user_whatever_the_order() -> None:
    project = definition("reviewer", ConfigScope.PROJECT, project=HERE)
    user = definition("reviewer", ConfigScope.USER)
    other = definition("reviewer", ConfigScope.PROJECT, project="/elsewhere")
    skill = definition("reviewer", ConfigScope.USER, SKILL)
    for each in itertools.permutations([project, user, other, skill]):
        assert resolve_definitions(each, HERE, frozenset()) == {
            (AGENT, "reviewer"): project,
            (SKILL, "reviewer"): skill,
        }
        assert resolve_definitions(each, None, frozenset())[AGENT, "reviewer"] == user


def test_of_two_in_one_scope_the_first_path_is_meant() -> None:
    first, second = definition("a", path="/1"), definition("a", path="/2")

    assert resolve_definitions([second, first], None, frozenset()) == {(AGENT, "a"): first}


def test_a_plugins_definitions_are_there_where_the_plugin_is() -> None:
    found = definition("kit:reviewer", ConfigScope.PLUGIN, plugin_id=PLUGIN)

    assert resolve_definitions([found], HERE, frozenset()) == {}
    assert resolve_definitions([found], HERE, frozenset({PLUGIN})) == {(AGENT, found.name): found}


def test_a_plugin_is_visible_unless_it_is_switched_off_or_another_projects() -> None:
    def visible(project: str, switch: bool | None) -> bool:
        setting = (
            {}
            if switch is None
            else {f"enabledPlugins.{PLUGIN}": ResolvedSetting(switch, ConfigScope.USER, "/u")}
        )
        plugin = PluginRecord(PLUGIN, "user", project, "/p", "1.0.0")
        return PLUGIN in enabled_plugins([plugin], setting, HERE)

    assert visible("", None)
    assert visible("", True)
    assert visible(HERE, True)
    assert not visible("", False)
    assert not visible("/elsewhere", True)


def test_a_declared_skill_needs_a_definition_of_a_skill() -> None:
    agent = definition("reviewer", skills=("compress-review", "lint", "ghost"))
    visible = resolve_definitions(
        [
            agent,
            definition("ghost"),
            definition("compress-review", ConfigScope.PROJECT, SKILL, project=HERE),
            definition("kit:lint", ConfigScope.PLUGIN, SKILL, plugin_id=PLUGIN),
        ],
        HERE,
        frozenset({PLUGIN}),
    )

    assert missing_skills(agent, visible) == ("ghost",)
    assert missing_skills(definition("plain"), visible) == ()
