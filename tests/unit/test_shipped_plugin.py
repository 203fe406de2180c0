"""The plugin that ctxtop ships: its parts fit together, and its skills teach the grammar."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ctxtop.collectors import plugin
from ctxtop.collectors.claude_code.config.definition_files import split_front_matter
from ctxtop.collectors.install.settings_file import EVENTS_WITHOUT_TIMEOUT, RECORDED_EVENTS
from ctxtop.core.compliance.expectations import DEFAULT_RESULT_LIMITS
from ctxtop.core.compliance.judge import judge_result
from ctxtop.core.model.findings import ComplianceVerdict
from ctxtop.core.model.result_formats import ResultFormat

SHIPPED = Path(plugin.__path__[0]) / "shipped"

LONGEST_SKILL = 2_000
"""Characters: an agent that declares it has all of it in its context from the first request."""

SKILLS = [
    ("compress-output", ResultFormat.OUTPUT, "node-backend", DEFAULT_RESULT_LIMITS.output_lines),
    ("compress-review", ResultFormat.REVIEW, "reviewer", DEFAULT_RESULT_LIMITS.review_lines),
]


def skill(name: str) -> str:
    return (SHIPPED / "skills" / name / "SKILL.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "expected", "agent_type", "lines"), SKILLS)
def test_the_example_of_a_skill_is_compliant(
    name: str, expected: ResultFormat, agent_type: str, lines: int
) -> None:
    (example,) = re.findall(r"```text\n(.*?)```", skill(name), re.DOTALL)
    judgment = judge_result(example, expected, agent_type)
    assert judgment.verdict is ComplianceVerdict.COMPLIANT, judgment
    assert judgment.warnings == ()
    assert len(example.splitlines()) <= lines


@pytest.mark.parametrize(("name", "expected", "agent_type", "lines"), SKILLS)
def test_a_skill_says_its_format_and_its_limit(
    name: str, expected: ResultFormat, agent_type: str, lines: int
) -> None:
    text = skill(name)
    head = split_front_matter(text)
    assert head.text("name") == name
    assert f"in {lines} lines or fewer" in (head.text("description") or "")
    assert f"at most {lines} lines, empty lines included" in " ".join(text.split())
    assert "[COMPRESSED] agent_type: " in text
    keys = {
        ResultFormat.OUTPUT: ("Changed files:", "Result:", "Decisions:", "Blockers:"),
        ResultFormat.REVIEW: (
            "Files reviewed:",
            "Critical:",
            "Warning:",
            "Suggestion:",
            "Verdict:",
        ),
    }
    assert all(key in text for key in keys[expected])
    assert len(text) < LONGEST_SKILL


def test_the_hooks_of_the_plugin_record_and_name_no_feature() -> None:
    hooks = json.loads((SHIPPED / "hooks" / "hooks.json").read_text(encoding="utf-8"))
    assert list(hooks["hooks"]) == list(RECORDED_EVENTS)
    for event, groups in hooks["hooks"].items():
        ((handler,),) = [group["hooks"] for group in groups]
        assert handler["command"] == f"ctxtop hook {event}"
        assert ("timeout" in handler) == (event not in EVENTS_WITHOUT_TIMEOUT)
    (module,) = hooks["modules"]
    # Seen in 2.1.329: the client looks for it beside hooks.json.
    assert (SHIPPED / "hooks" / module).is_file()


def test_the_manifest_has_no_version_of_its_own() -> None:
    """The installer writes it: two would part."""
    manifest = json.loads((SHIPPED / ".claude-plugin" / "plugin.json").read_text(encoding="utf-8"))
    assert manifest["name"] == "ctxtop"
    assert "version" not in manifest
