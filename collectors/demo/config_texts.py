"""The settings, agents and skills of the demo's config folder, in our own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Json

STOP_HOOK = "/home/dev/bin/check-result"
TEST_HOOK = "/home/dev/bin/run-tests"
HOOK_EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "PostCompact", "SubagentStop")

SETTINGS: Json = {
    "hooks": {
        event: [{"hooks": [{"type": "command", "command": "/home/dev/bin/ctx-hook"}]}]
        for event in HOOK_EVENTS
    },
    "model": "opus",
}

SKILL_BODIES = {
    "compress-output": (
        "Give your result back as [COMPRESSED] agent_type: <your type>, followed by Changed files, "
        "Result (three lines at most), Decisions and Blockers. Ten lines in all, no more."
    ),
    "compress-review": (
        "Give your review back as [COMPRESSED] agent_type: reviewer, followed by Files reviewed, "
        "Critical, Warning, Suggestion and Verdict (PASS or FAIL). Twenty lines in all, no more."
    ),
}


def _front(name: str, about: str, body: str, *fields: str) -> str:
    head = "\n".join(["---", f"name: {name}", f"description: {about}", *fields, "---"])
    return f"{head}\n{body}\n"


SKILL_FILES = {
    f"skills/{name}/SKILL.md": _front(name, about, SKILL_BODIES[name])
    for name, about in (
        ("compress-output", "how an agent gives its result back"),
        ("compress-review", "how a reviewer gives its findings back"),
    )
}


def _agent(name: str, about: str, model: str, skill: str, body: str) -> str:
    return _front(name, about, body, f"model: {model}", "skills:", f"  - {skill}")


AGENT_FILES = {
    "agents/node-backend.md": _agent(
        "node-backend",
        "builds routes, queries and their tests",
        "haiku",
        "compress-output",
        "You build the server side. Small changes, tests first.",
    ),
    "agents/react-frontend.md": _agent(
        "react-frontend",
        "builds pages and components",
        "sonnet",
        "compress-output",
        "You build what people see. It works by keyboard, too.",
    ),
    "agents/reviewer.md": _agent(
        "reviewer",
        "reads a change and says what is wrong with it",
        "opus",
        "compress-review",
        "You review. You never edit.",
    ),
    "agents/docs-writer.md": _agent(
        "docs-writer",
        "writes documentation that can be tried out",
        "sonnet",
        "compress-output",
        "You write for someone in a hurry.",
    ),
}
