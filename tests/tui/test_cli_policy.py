"""`ctxtop settings`, the options that change it, and what they do to levels and warnings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ctxtop.core.policy.schema import KEYS

from ..transcripts import PROJECT, SESSION, assistant, user, write
from ..trusted_files import trust

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

MODEL = "claude-haiku-4-5"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


@pytest.fixture
def run(
    tmp_path: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    call_ctxtop: Callable[..., Ended],
) -> Callable[..., Ended]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ".claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
    write(path, [user(cwd=str(project)), assistant("m1", 120_000, model=MODEL, cwd=str(project))])
    return call_ctxtop


def value(found: Any, key: str) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
    return next(each for each in found["policy"] if each["key"] == key)


def test_every_value_with_its_origin(run: Callable[..., Ended], tmp_path: Path) -> None:
    config = tmp_path / "xdg" / "ctxtop" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[policy]\npreset = 'not-agent'\n")
    ended = run("settings", "--json", "--set", "compact.min_tokens=1000")
    found = ended.json

    assert (ended.code, ended.err) == (0, "")
    assert list(found) == ["preset", "policy", "notices", "trust", "ignored"]
    assert found["preset"] == "not-agent"
    assert [each["key"] for each in found["policy"]] == list(KEYS)
    assert value(found, "preset") == {
        "key": "preset",
        "value": "not-agent",
        "origin": "user_file",
        "where": str(config),
        "unit": None,
        "description": KEYS["preset"].description,
    }
    assert value(found, "compact.min_tokens") | {"description": ""} == {
        "key": "compact.min_tokens",
        "value": 1000,
        "origin": "command_line",
        "where": "--set",
        "unit": "tokens",
        "description": "",
    }
    preserved = value(found, "compact.preserve_recent")
    assert (preserved["value"], preserved["origin"], preserved["where"]) == (
        4,
        "preset",
        "not-agent",
    )
    assert value(found, "threshold")["value"][1] == {
        "at": 0.8,
        "level": "notice",
        "action": "inform",
        "op": ">",
        "of": "window",
    }
    assert value(found, "mode")["origin"] == "preset"
    assert value(found, "summary.cache")["where"] is None


def test_the_same_for_people(run: Callable[..., Ended]) -> None:
    ended = run("settings", "--preset", "omo-doc", "--set", "limit.override=m=50000")

    lines = {line.split()[0]: " ".join(line.split()) for line in ended.out.splitlines()}
    assert ended.code == 0
    assert "preset omo-doc command line --preset" in lines["preset"]
    assert "m=50000 tokens command line --set" in lines["limit.override"]
    assert lines["rearm.hysteresis"].startswith("rearm.hysteresis off ratio preset omo-doc")
    assert "none built in" in lines["disabled_modules"]
    assert "0.7:notice:reassure, 0.8:warning:suggest" in lines["threshold"]


def test_the_environment_and_the_option_before_the_command(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTXTOP_POLICY_PRESET", "native")
    monkeypatch.setenv("CTXTOP_POLICY_REARM__HYSTERESIS", "0.1")
    from_variables = run("settings", "--json").json
    from_option = run("--preset", "omo-2.6", "settings", "--json").json

    assert from_variables["preset"] == "native"
    assert value(from_variables, "rearm.hysteresis")["where"] == "CTXTOP_POLICY_REARM__HYSTERESIS"
    assert from_option["preset"] == "omo-2.6"
    assert value(from_option, "rearm.hysteresis")["value"] == 0.1


def test_a_sessions_project_and_the_folder_one_stands_in(
    run: Callable[..., Ended], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = project / ".ctxtop.toml"
    own.write_text("mode = 'observe'\n")
    trust(project)
    elsewhere = run("settings", "--json").json
    of_session = run("settings", "--session", SESSION[:8], "--json").json
    monkeypatch.chdir(project)
    within = run("settings", "--json").json

    assert value(elsewhere, "mode")["origin"] == "built_in"
    for found in (of_session, within):
        assert (value(found, "mode")["value"], value(found, "mode")["where"]) == (
            "observe",
            str(own),
        )


def test_a_bad_value_is_one_line_and_the_next_layer(
    run: Callable[..., Ended], project: Path
) -> None:
    (project / ".ctxtop.toml").write_text("mode = 'loud'\nmoed = 1\n")
    ended = run("settings", "--session", SESSION, "--json", "--set", "compact.min_tokens=few")
    found = ended.json

    assert ended.code == 0
    assert value(found, "mode")["value"] == "suggest"
    assert [(each["key"], each["origin"]) for each in found["notices"]] == [
        ("compact.min_tokens", "command_line"),
        ("mode", "project_file"),
        ("moed", "project_file"),
    ]
    said = [line for line in ended.err.splitlines() if "loud" in line]
    assert len(said) == 1
    assert run("sessions").err.count("did you mean mode?") == 1
    assert run("sessions", "--no-scan").err.count("did you mean mode?") == 1


@pytest.mark.parametrize("words", [("--set", "mode"), ("--set", "=x")])
def test_what_is_no_key_and_value_is_a_usage_error(
    run: Callable[..., Ended], words: tuple[str, ...]
) -> None:
    ended = run("settings", *words)

    assert ended.code == 2
    assert ended.err.count("\n") == 1


def test_levels_are_by_the_policy(run: Callable[..., Ended], project: Path) -> None:
    (before,) = run("sessions", "--json").json
    counted = ("--preset", "not-agent", "--set", "usage.source=api_last")
    (asked,) = run("sessions", "--json", *counted).json
    (project / ".ctxtop.toml").write_text("threshold = ['0.5:emergency']\n")
    (own,) = run("sessions", "--json").json

    # 120,000 of 200,000: not-agent means 100,000, and would count only the few texts.
    assert [each["level"] for each in (before, asked, own)] == [None, "overflow", "emergency"]
    assert {each["used_ratio"] for each in (before, asked, own)} == {0.6}
    limits = [(each["limit_tokens"], each["limit_ratio"]) for each in (before, asked, own)]
    assert limits == [(None, 0.6), (100_000, 1.2), (None, 0.6)]
    shown = run("sessions", *counted).out
    assert "120 %" in shown
    assert "120 k of 100 k limit" in shown
    (warned, *_) = run("warnings", "--json", *counted).json
    assert (warned["limit_tokens"], warned["limit_ratio"], warned["ratio"]) == (100_000, 1.2, 0.6)
    assert "100,000 limit" in run("warnings", *counted).out
    assert "120 % of 100,000 tokens" in run("export", "--format", "markdown", *counted).out


def test_a_commands_own_words_do_not_enter_the_log(
    run: Callable[..., Ended], project: Path
) -> None:
    (asked,) = run("warnings", "--json", "--set", "threshold=0.1:notice").json
    assert asked["threshold"] == 0.1
    assert run("warnings", "--json").json == []
    (project / ".ctxtop.toml").write_text("threshold = ['0.5:emergency', '0.6:light']\n")
    path = project.parent / ".claude" / "projects" / PROJECT / f"{SESSION}.jsonl"
    write(
        path,
        [
            user(cwd=str(project)),
            assistant("m1", 120_000, model=MODEL, cwd=str(project)),
            assistant("m2", 130_000, at=9, model=MODEL, cwd=str(project)),
        ],
    )
    found = run("warnings", "--json").json

    assert [(each["level"], each["threshold"], each["ratio"]) for each in found] == [
        ("light", 0.6, 0.65),
        ("emergency", 0.5, 0.65),
    ]
    assert "light" in run("warnings").out


def test_explain_shows_the_default_only_where_a_preset_differs(run: Callable[..., Ended]) -> None:
    ended = run("policy", "--explain", "claude-memory")
    assert (ended.code, ended.err) == (0, "")
    lines = {line[:10].rstrip(): n for n, line in enumerate(ended.out.splitlines())}
    assert ended.out.splitlines()[lines["window"]].endswith(" 200,000 tokens")
    after = [ended.out.splitlines()[lines[step] + 1] for step in ("window", "keeps")]
    assert [line.startswith("  default") for line in after] == [True, False]
    record = json.loads(run("policy", "--explain", "clnode", "--json").out)
    assert record["preset"] == "clnode"
    steps = {each["step"]: (each["text"], each["default"]) for each in record["steps"]}
    assert steps["compacts"][0].startswith("never by itself")
    assert steps["compacts"][1].startswith("a plan by levels")
