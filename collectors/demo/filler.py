"""Text that only has to have a size: system prompts, tool schemas, listings, signatures."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Json

# About what the client really writes.
SYSTEM_PARTS = (8_200, 2_400, 3_600, 3_000, 4_200)
TOOL_DESCRIPTION = 2_600
TOOL_NAMES = (
    "Agent",
    "AskUserQuestion",
    "Bash",
    "Edit",
    "ListAgents",
    "Read",
    "ScheduleWakeup",
    "Skill",
    "ToolSearch",
    "Workflow",
    "Write",
)
DEFERRED_TOOLS = (
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterWorktree",
    "ExitWorktree",
    "Monitor",
    "NotebookEdit",
    "SendMessage",
    "TaskStop",
    "WebFetch",
    "WebSearch",
)
AGENT_TYPES = (
    "claude",
    "docs-writer",
    "Explore",
    "general-purpose",
    "node-backend",
    "Plan",
    "react-frontend",
    "reviewer",
)
BUILT_IN_AGENTS = ("claude", "Explore", "general-purpose", "Plan")
SKILLS = ("compress-output", "compress-review", "code-review", "simplify", "init", "run")
WORDS = (
    "work in small steps and say what you did",
    "read a file before you change it",
    "prefer the tools of the project over your own",
    "keep to the style of the code around you",
    "never guess a path or a name",
    "ask when two readings are possible",
    "run the tests that cover what you touched",
    "leave what you were not asked about as it is",
    "report failures as they are",
)


@cache
def prose(size: int) -> str:
    """Return about `size` characters of instructions that nobody needs to read."""
    sentence = ". ".join(words.capitalize() for words in WORDS) + ". "
    return (sentence * (size // len(sentence) + 1))[:size].rstrip() + "."


@cache
def system_prompt() -> tuple[str, ...]:
    """Return the parts of a main session's system prompt."""
    return tuple(prose(size) for size in SYSTEM_PARTS)


def schema_of(name: str) -> Json:
    """Return one tool as a request carries it."""
    return {
        "name": name,
        "description": f"{name}: {prose(TOOL_DESCRIPTION)}",
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "description": {"description": "What this call is for", "type": "string"},
                "input": {"description": "What the tool works on", "type": "string"},
            },
            "required": ["description"],
            "additionalProperties": False,
        },
    }


def tool_schemas() -> list[Json]:
    """Return every tool as a request carries it."""
    return [schema_of(name) for name in TOOL_NAMES]


def snapshot_tools() -> list[Json]:
    """Return every tool as a prompt snapshot carries it."""
    return [
        {"name": schema["name"], "description": schema["description"], "schema": schema}
        for schema in tool_schemas()
    ]
