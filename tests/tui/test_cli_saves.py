"""`ctxtop saves`: its keys, its table, its exits, and that it changes nothing."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.collectors.demo import make_demo_saves
from ctxtop.tui.cli import main

from .support import NOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEYS = ["project", "state", "categories", "titles", "errors", "age_s", "noise_lines"]
KEYS += ["noise_tokens", "origin"]


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    root = tmp_path / "claude"
    (root / "projects").mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(root))

    def call(*words: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["ctxtop", "saves", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == code
        return capsys.readouterr().out

    return call


def records(run: Callable[..., str], *words: str) -> dict[str, Any]:
    found = json.loads(run("--json", *words))
    return {each["project"].rpartition("/")[2]: each for each in found}


def test_json(run: Callable[..., str], tmp_path: Path) -> None:
    made = make_demo_saves(tmp_path / "claude", tmp_path / "work", NOW)
    found = records(run)

    # Of two states the real clock makes others by now.
    aged = {"router": "orphaned", "docs": "orphaned"}
    assert {name: each["state"] for name, each in found.items()} == {
        each.project.name: each.state.value for each in made
    } | aged
    first = next(iter(found.values()))
    assert list(first)[: len(KEYS)] == KEYS
    assert all(list(each) == list(first) for each in found.values())
    parser = found["parser"]
    assert parser["titles"] == ["Use [red]JWT[/red] [/] [31mnow"]
    assert (parser["origin"], parser["refires"], parser["staging_leak"]) == ("project", 2, True)
    assert parser["noise_lines"] == parser["saves"][-1]["lines"] > 24
    assert [each["band"] for each in parser["saves"][0]["bands"] if each["expected"]] == ["004-17"]
    assert parser["saves"][0]["saver"] == "main_agent_save"
    gateway = found["gateway"]
    assert gateway["errors"][0]["class"] == "env_bootstrap"
    assert (gateway["saved"], gateway["categories"]) == (["decision"], ["runbook"])
    assert found["search"]["blind_spots"] == ["empty_pending"]
    assert found["billing"]["blind_spots"] == ["all_is_one"]
    assert found["mailer"]["blind_spots"] == ["any_result"]
    assert found["mailer"]["plugin_says"] is None
    assert found["atlas"]["origin"] == "global"


def test_the_table(
    run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert "no saves of claude-memory yet" in run()
    make_demo_saves(tmp_path / "claude", tmp_path / "work", NOW)
    lines = run().splitlines()

    assert lines[0].split()[:3] == ["PROJECT", "STATE", "AGE"]
    assert any(line.startswith("assets") and "corrupt" in line for line in lines)
    assert any("Use [red]JWT[/red] [/] [31mnow" in line for line in lines)
    assert "parser: fired again: 2 times for the same save" in lines
    left = next(line for line in lines if line.startswith("parser: left behind: "))
    assert re.fullmatch(r".*: 2 staged files, \d+ B, oldest \d+ d", left)


def test_the_policy_decides(run: Callable[..., str], tmp_path: Path) -> None:
    make_demo_saves(tmp_path / "claude", tmp_path / "work", NOW)
    assert "atlas" in records(run)
    found = records(run, "--set", "saveflow.locations=temporary", "--no-scan")

    # Only what the transcripts tell is left.
    assert found["assets"]["state"] == "none"
    assert found["atlas"]["origin"] == "transcript"


def test_an_empty_folder_is_an_empty_list(run: Callable[..., str]) -> None:
    assert json.loads(run("--json")) == []
    assert run("--nonsense", code=2) == ""
