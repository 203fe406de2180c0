"""`ctxtop check` and `ctxtop compliance`: what programs and people read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from ctxtop.collectors.plugin.installed_commands import hook_command

from ..transcripts import PROJECT, SESSION, assistant, launch, notification, text, user, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .ended import Ended

GOOD = "[COMPRESSED] agent_type: node-backend\nChanged files: a.ts\nResult: ok"
REVIEW = (
    "[COMPRESSED] agent_type: reviewer\nFiles reviewed: a.py\n"
    "Critical: a.py:3 — wrong rate\nVerdict: FAIL (1/0)"
)


Run = "Callable[..., Ended]"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CTXTOP_CONFIG_DIR", "CTXTOP_DB", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(home: Path, call_ctxtop: Callable[..., Ended]) -> Callable[..., Ended]:
    assert home.exists()
    return call_ctxtop


@pytest.fixture
def config(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A session with a builder that complies, one that does not, and a reviewer."""
    monkeypatch.setenv("CTXTOP_POLICY_COMPLIANCE__RULES", "node-backend=output,reviewer=review")
    folder = home / ".claude"
    session = folder / "projects" / PROJECT / f"{SESSION}.jsonl"
    lines = [user("do it")]
    for number, (kind, words) in enumerate(
        (("node-backend", GOOD), ("node-backend", "x\n" * 400), ("reviewer", REVIEW))
    ):
        lines.append(launch(f"toolu_{number}", kind, at=number))
        done = notification(f"a{number}", words, tool_use_id=f"toolu_{number}", at=60 + number)
        lines.append(done)
        own = session.with_suffix("") / "subagents" / f"agent-a{number}.jsonl"
        write(own, [user("do"), assistant(f"m{number}", content=[text(words)])])
        meta = {"agentType": kind, "toolUseId": f"toolu_{number}", "spawnDepth": 1}
        own.with_suffix(".meta.json").write_text(json.dumps(meta), encoding="utf-8")
    write(session, lines)
    return folder


def test_check_says_what_is_wrong_with_one_text(run: Callable[..., Ended]) -> None:
    ended = run(
        "check", "--agent-type", "node-backend", "--json", given=f"I completed it.\n{GOOD}\n"
    )
    assert (ended.code, ended.err) == (0, "")
    assert list(ended.json)[:4] == ["verdict", "violations", "warnings", "lines"]
    assert ended.json["verdict"] == "non_compliant"
    assert ended.json["violations"] == ["V02", "V10"]
    assert (ended.json["warnings"], ended.json["lines"]) == ([], 4)
    assert ended.json["findings"][0] == {
        "code": "V02",
        "name": "TEXT_BEFORE_MARKER",
        "line": 1,
        "text": "I completed it.",
        "why": "There is text before the line with the marker.",
    }


def test_check_reads_a_file_for_people(run: Callable[..., Ended], home: Path) -> None:
    (home / "review.txt").write_text(REVIEW, encoding="utf-8")
    ended = run("check", str(home / "review.txt"), "--format", "review")
    assert (ended.code, ended.out) == (0, "compliant  4 lines, 104 characters\n")
    ended = run("check", "-", "--format", "output", "--agent-type", "other", given=GOOD)
    assert ended.out.splitlines()[1:] == [
        "V04  The line with the marker does not name this agent's type.",
        "  line 1: [COMPRESSED] agent_type: node-backend",
    ]


def test_check_obeys_the_policy_and_no_escape_sequence(run: Callable[..., Ended]) -> None:
    hostile = f"{GOOD}\n\x1b[31mmore\x1b]0;owned\x07"
    ended = run("check", "--set", "compliance.line_limit=2", given=hostile)
    assert "V05" in ended.out
    assert "\x1b" not in ended.out


def test_check_says_what_it_cannot_read(run: Callable[..., Ended], home: Path) -> None:
    ended = run("check", str(home / "none"))
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == (
        f"ctxtop: {home}/none cannot be read (No such file or directory):"
        " name a file with the text\n"
    )
    assert run("check", "--format", "other").code == 2


def test_compliance_by_type_and_day(run: Callable[..., Ended], config: Path) -> None:
    ended = run("compliance", "--json")
    assert (ended.code, ended.err) == (0, "")
    found = ended.json
    assert (found["judged"], found["passed_share"], found["min_samples"]) == (3, None, 10)
    assert found["verdicts"]["compliant"] == 2
    assert [(each["agent_type"], each["judged"]) for each in found["types"]] == [
        ("node-backend", 2),
        ("reviewer", 1),
    ]
    assert [each["day"] for each in found["days"]] == ["2026-11-20"]
    (failed,) = found["failed"]
    assert (failed["agent_id"], failed["verdict"], failed["violations"]) == (
        "a1",
        "non_compliant",
        ["V01"],
    )
    assert found["reviewed"] == [
        {
            "session_id": SESSION,
            "agent_id": "a2",
            "agent_type": "reviewer",
            "at": "2026-11-20T10:01:02.000Z",
            "severity": "critical",
            "path": "a.py",
            "line": 3,
            "last_line": 3,
            "text": "wrong rate",
        }
    ]
    # 400 lines that say nothing, less what the other result of the format took.
    assert found["excess_tokens"] > 300
    assert (found["grep_passed"], found["grep_wrong"], found["too_wide"]) == (2, 0, [])


def test_compliance_of_one_type_and_with_fewer_samples(
    run: Callable[..., Ended], config: Path
) -> None:
    words = ("--type", "node-backend", "--set", "compliance.min_samples=2", "--json")
    found = run("compliance", *words).json
    assert (found["judged"], found["passed_share"], found["first_pass_share"]) == (2, 0.5, 0.5)


def test_compliance_for_people(run: Callable[..., Ended], config: Path) -> None:
    ended = run("compliance")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split()[:3] == ["TYPE", "EXPECTED", "RESULTS"]
    assert any("noncompliant" in line and "V01" in line for line in lines)
    assert any(line.startswith("critical") and "wrong rate" in line for line in lines)
    assert "a grep of the whole transcript would have passed 2 of 3" in ended.out


def test_sessions_and_agents_tell_it_too(run: Callable[..., Ended], config: Path) -> None:
    (session,) = run("sessions", "--json").json
    assert (session["agents"], session["agents_noncompliant"]) == (3, 1)
    assert "3 ✗1" in run("sessions").out
    told = run("agents").out
    assert "✓ FAIL 1/0" in told
    assert "✗ V01" in told


def test_without_agents_there_is_nothing_to_tell(run: Callable[..., Ended], home: Path) -> None:
    write(home / ".claude" / "projects" / PROJECT / f"{SESSION}.jsonl", [user("hi")])
    assert run("compliance").out == "no agents yet\n"
    assert run("compliance", "--json").json["judged"] == 0


def test_findings_are_told_by_severity_and_file(run: Callable[..., Ended], config: Path) -> None:
    assert config.exists()
    ended = run("findings", "--json")
    (one,) = ended.json
    assert (one["severity"], one["path"], one["line"], one["last_line"]) == (
        "critical",
        "a.py",
        3,
        3,
    )
    assert [each["agent_id"] for each in one["said"]] == ["a2"]
    assert "wrong rate" in run("findings").out
    assert run("findings", "--markdown").out.startswith("# Findings of reviewers\n\n## Critical")
    assert run("findings", "--severity", "warning").out.strip().startswith("no matching findings")
    assert run("findings", "--file", "a.p", "--json").json == ended.json
    assert run("findings", "--session", "ffff").code == 1
    assert run("findings", "--markdown", "--json").code == 2


def test_a_type_s_history_is_json(run: Callable[..., Ended], config: Path) -> None:
    assert config.exists()
    types = {each["agent_type"]: each for each in run("compliance", "--json").json["types"]}
    backend = types["node-backend"]
    assert (backend["runs"], backend["running"]) == (2, 0)
    assert (backend["median_lines"], backend["p90_lines"]) == (3, 400)
    assert sorted(backend["last_verdicts"]) == ["compliant", "non_compliant"]
    assert sum(each["judged"] for each in backend["days"]) == 2


def test_every_defined_agent_is_listed_whether_it_ran_or_not(
    run: Callable[..., Ended], config: Path, home: Path
) -> None:
    agents, cwd = config / "agents", config.parent / "shop"
    for folder, name in ((agents, "idle"), (agents, "reviewer"), (cwd / ".claude/agents", "ours")):
        folder.mkdir(parents=True, exist_ok=True)
        head = f"---\nname: {name}\ndescription: d\nskills: [compress-output]\n---\n"
        (folder / f"{name}.md").write_text(head, encoding="utf-8")
    write(config / "projects" / PROJECT / "other.jsonl", [user("hi", cwd=str(cwd))])
    found = run("compliance", "--json").json
    types = {each["agent_type"]: each for each in found["types"]}
    assert {"idle", "ours", "reviewer", "node-backend"} <= set(types)
    assert (types["idle"]["runs"], types["idle"]["expected_formats"]) == (0, ["none"])
    (idle,) = types["idle"]["definitions"]
    assert (idle["scope"], idle["missing_skills"]) == ("user", ["compress-output"])
    assert types["ours"]["definitions"][0]["project"] == str(cwd)
    assert types["node-backend"]["definitions"] == []
    assert found["force_hooks"] == []
    shown = run("compliance").out
    assert "no force hook is installed" in shown
    assert "declares compress-output, which no SKILL.md defines" in shown

    skill = config / "skills" / "compress-output" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Begin with [COMPRESSED].\n", encoding="utf-8")
    command = {"type": "command", "command": "/x/force-compress.sh"}
    hooks = {"SubagentStop": [{"hooks": [command]}], "Stop": [{"hooks": [command]}]}
    (config / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    found = run("compliance", "--type", "idle", "--json").json
    (kind,) = found["types"]
    assert (kind["expected_formats"], kind["definitions"][0]["missing_skills"]) == (["output"], [])
    (hook,) = found["force_hooks"]
    assert (hook["command"], hook["scope"]) == ("/x/force-compress.sh", "user")
    assert f"force hook in {config / 'settings.json'}" in run("compliance").out

    enforce = hook_command(home / "x.db", "SubagentStop", ["enforce"])
    hooks["SubagentStop"][0]["hooks"].append({"type": "command", "command": enforce})
    (config / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    told = f"2 force hooks, each of which blocks an agent: keep one: {config / 'settings.json'}"
    assert told in run("compliance").out
    (check,) = (one for one in run("doctor", "--json").json["checks"] if told in one["detail"])
    assert check["name"] == "force hooks"


def test_the_inventory_has_line_limits_models_and_drift_before_an_agent_ran(
    run: Callable[..., Ended], home: Path
) -> None:
    """000-40 to 000-44: what the rules say, beside what the definitions declare."""
    config = home / ".claude"
    (config / "projects").mkdir(parents=True)
    for name, more in (
        ("node-backend", "model: sonnet\nskills: [compress-review]\n"),
        ("reviewer", "model: opus\nskills: [compress-review]\n"),
    ):
        path = config / "agents" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"---\nname: {name}\ndescription: d\n{more}---\n", encoding="utf-8")
    skill = config / "skills" / "compress-review" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Begin with [COMPRESSED].\n", encoding="utf-8")
    found = run("compliance", "--preset", "clnode", "--json").json["types"]
    types = {each["agent_type"]: each for each in found}
    names = "expected_formats line_limit drift_from_rule"
    rows = {name: [kind[key] for key in names.split()] for name, kind in types.items()}
    assert rows == {
        "node-backend": [["review"], 20, "output"],
        "reviewer": [["review"], 20, None],
        "react-frontend": [["output"], 10, None],
        "cli-hooks": [["output"], 10, None],
        "clnode-curator": [["output"], 10, None],
    }
    models = {name: [one["model"] for one in kind["definitions"]] for name, kind in types.items()}
    assert (models["node-backend"], models["reviewer"], models["cli-hooks"]) == (
        ["sonnet"],
        ["opus"],
        [],
    )
    shown = run("compliance", "--preset", "clnode").out
    assert "node-backend: compliance.rules says output, its definition review" in shown
    assert re.search(r"^reviewer +review .* 20 lines +opus *$", shown, re.MULTILINE)
    (only,) = run("compliance", "--preset", "clnode", "--type", "reviewer", "--json").json["types"]
    assert only["agent_type"] == "reviewer"
