"""Which setting wins."""

from __future__ import annotations

import itertools

import pytest
from ctxtop.core.measure.effective_config import resolve_settings
from ctxtop.core.model.config_records import ConfigScope, SettingsFileRecord

from ..surroundings import MARK, settings_fact

HERE, ELSEWHERE = "/home/dev/a", "/home/dev/b"

FILES = {
    ConfigScope.MANAGED: settings_fact(
        "/etc/cc/managed-settings.json", ConfigScope.MANAGED, model="managed"
    ),
    ConfigScope.LOCAL: settings_fact(
        "/a/settings.local.json", ConfigScope.LOCAL, HERE, model="local"
    ),
    ConfigScope.PROJECT: settings_fact(
        "/a/settings.json", ConfigScope.PROJECT, HERE, model="project"
    ),
    ConfigScope.USER: settings_fact("/u/settings.json", ConfigScope.USER, model="user"),
}


@pytest.mark.parametrize("size", range(1, 5))
def test_the_first_scope_that_says_something_wins_whatever_the_order(size: int) -> None:
    for scopes in itertools.permutations(FILES, size):
        winner = min(scopes, key=list(ConfigScope).index)
        found = resolve_settings([FILES[scope] for scope in scopes], HERE)["model"]

        assert (found.value, found.scope, found.path) == (winner.value, winner, FILES[winner].path)


def test_another_projects_files_say_nothing_here() -> None:
    files = list(FILES.values())[1:]

    assert resolve_settings(files, ELSEWHERE)["model"].scope is ConfigScope.USER
    assert resolve_settings(files, None)["model"].scope is ConfigScope.USER
    assert resolve_settings(files[:2], ELSEWHERE) == {}


def test_each_key_is_decided_by_itself() -> None:
    files = [
        settings_fact("/u", ConfigScope.USER, DISABLE_COMPACT="1", autoCompactWindow=200),
        settings_fact(
            "/a", ConfigScope.LOCAL, HERE, autoCompactWindow=100, autoCompactEnabled=False
        ),
    ]
    found = resolve_settings(files, HERE)

    assert {key: (each.value, each.path) for key, each in found.items()} == {
        "DISABLE_COMPACT": ("1", "/u"),
        "autoCompactWindow": (100, "/a"),
        "autoCompactEnabled": (False, "/a"),
    }


def test_a_later_drop_in_of_the_administrators_wins_over_what_is_before_it() -> None:
    names = (
        "managed-settings.json",
        "managed-settings.d/10-a.json",
        "managed-settings.d/20-b.json",
    )
    files = [settings_fact(f"/etc/cc/{name}", ConfigScope.MANAGED, model=name) for name in names]
    for some in itertools.permutations(files):
        assert resolve_settings(some, HERE)["model"].value == names[2]
    assert resolve_settings(files[:2], HERE)["model"].value == names[1]


def test_a_file_with_a_problem_leaves_the_word_to_the_next() -> None:
    broken = SettingsFileRecord("/a", "/", ConfigScope.LOCAL, HERE, MARK, problem="is not JSON")

    assert resolve_settings([broken, FILES[ConfigScope.USER]], HERE)["model"].value == "user"
