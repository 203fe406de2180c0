"""What doctor says of settings, definitions and the save flow, and that it says it as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.tui.cli.commands import run as run_command

from ..surroundings import agent, project, put, put_save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ctxtop.collectors.claude_code.config.save_files import SystemFolders
    from ctxtop.collectors.locations.discover import ClaudeFolder

Checks = list[dict[str, Any]]


@pytest.fixture
def doctor(
    claude: ClaudeFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], Checks]:
    """Run `ctxtop doctor --json` and give the checks of one name."""

    def run(name: str) -> Checks:
        store = tmp_path / "state" / "s.db"
        run_command(["doctor", "--json", "--config-dir", str(claude.root), "--db", str(store)])
        checks: Checks = json.loads(capsys.readouterr().out)["checks"]
        assert all(list(each) == ["name", "ok", "detail", "fix", "state"] for each in checks)
        return [each for each in checks if each["name"] == name]

    return run


def test_without_any_all_is_well(doctor: Callable[[str], Checks]) -> None:
    details = {
        "settings": "0 files, 0 hooks",
        "definitions": "0 agents, 0 skills",
        "save flow": "no files of claude-memory",
    }
    for name, detail in details.items():
        found = {"name": name, "ok": True, "detail": detail, "fix": None, "state": "ok"}
        assert doctor(name) == [found]


def test_each_settings_file_that_is_not_valid_is_a_line(
    claude: ClaudeFolder, doctor: Callable[[str], Checks], tmp_path: Path
) -> None:
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}
    put(claude.root / "settings.json", {"hooks": hooks})
    assert doctor("settings")[0]["detail"] == "1 file, 1 hook"

    bad = [
        put(project(claude, tmp_path / name, name) / ".claude/settings.json", "{")
        for name in "abcdefg"
    ]
    found = doctor("settings")

    assert not any(check["ok"] for check in found)
    assert [check["detail"].partition(" ")[0] for check in found[:5]] == [str(p) for p in bad[:5]]
    assert found[5]["detail"] == "and 2 more"
    assert {check["fix"] for check in found} == {
        "correct it: Claude Code ignores the whole file until then"
    }


def test_a_declared_skill_that_nobody_defines(
    claude: ClaudeFolder, doctor: Callable[[str], Checks], tmp_path: Path
) -> None:
    here = project(claude, tmp_path / "a")
    there = project(claude, tmp_path / "b", "t")
    for folder in (here, there):
        put(folder / ".claude/agents/one.md", agent("one", skills="[compress-output]"))
    put(here / ".claude/skills/compress-output/SKILL.md", "Shorten.\n")
    (check,) = doctor("definitions")
    assert not check["ok"]
    assert "agent one declares the skill compress-output" in check["detail"]
    assert str(there / ".claude/agents/one.md") in check["detail"]

    put(claude.root / "skills/compress-output/SKILL.md", "Shorten.\n")
    (check,) = doctor("definitions")
    assert (check["ok"], check["detail"]) == (True, "2 agents, 2 skills")


def test_what_is_wrong_in_a_plugin_is_not_the_users(
    claude: ClaudeFolder, doctor: Callable[[str], Checks]
) -> None:
    kit = claude.root / "plugins/cache/kit"
    entry = {"kit@m": [{"scope": "user", "installPath": str(kit)}]}
    put(claude.root / "plugins/installed_plugins.json", {"version": 2, "plugins": entry})
    put(kit / "agents/a.md", "no head")
    put(kit / "agents/b.md", agent("b", skills="[ghost]"))
    put(claude.root / "settings.json", {"enabledPlugins": {"kit@m": False}})
    (check,) = doctor("definitions")
    assert (check["ok"], check["detail"]) == (True, "2 agents, 0 skills; 1 problem in plugins")

    put(claude.root / "settings.json", {"enabledPlugins": {"kit@m": True}})
    (check,) = doctor("definitions")
    assert "agent kit:b declares the skill ghost" in check["detail"]

    put(claude.root / "agents/own.md", "no head")
    assert [check["ok"] for check in doctor("definitions")] == [False, False]


def test_the_save_flow(
    claude: ClaudeFolder, doctor: Callable[[str], Checks], machine: SystemFolders, tmp_path: Path
) -> None:
    here = project(claude, tmp_path / "a")
    place = here / ".claude/memory/.staging"
    put_save(place / "triage-data.json", {"categories": []})
    assert doctor("save flow")[0]["detail"] == "1 file of claude-memory"

    put_save(place / ".triage-pending.json", '{"categories": [')
    (check,) = doctor("save flow")
    assert check["ok"]
    assert (
        f"2 files of claude-memory; {place / '.triage-pending.json'} is not JSON" in check["detail"]
    )

    (place / "triage-data.json").unlink()
    (place / ".triage-pending.json").unlink()
    place.rmdir()
    place.symlink_to(machine.managed_folder.parent.parent)
    (check,) = doctor("save flow")
    assert (check["ok"], check["detail"]) == (
        False,
        f"{place} is a link that leads out of its folder",
    )
