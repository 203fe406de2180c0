"""What the client itself sends: system prompt, tool schemas, and attachment lines (2.1.329)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from .demo_transcript import content_digest

if TYPE_CHECKING:
    from .demo_transcript import DemoJson, DemoModel, TranscriptChain


# About what the client really writes.
SYSTEM_PART_CHARS = (8_200, 2_400, 3_600, 3_000, 4_200)
TOOL_DESCRIPTION_CHARS = 2_600
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
INSTRUCTIONS = (
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
def filler_text(size: int) -> str:
    """Return about `size` characters of instructions that nobody needs to read."""
    sentence = ". ".join(words.capitalize() for words in INSTRUCTIONS) + ". "
    return (sentence * (size // len(sentence) + 1))[:size].rstrip() + "."


@cache
def system_prompt() -> tuple[str, ...]:
    """Return the parts of a main session's system prompt."""
    return tuple(filler_text(size) for size in SYSTEM_PART_CHARS)


def tool_schema(name: str) -> DemoJson:
    """Return one tool as a request carries it."""
    return {
        "name": name,
        "description": f"{name}: {filler_text(TOOL_DESCRIPTION_CHARS)}",
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


def tool_schemas() -> list[DemoJson]:
    """Return every tool as a request carries it."""
    return [tool_schema(name) for name in TOOL_NAMES]


def snapshot_tools() -> list[DemoJson]:
    """Return every tool as a prompt snapshot carries it."""
    return [
        {"name": schema["name"], "description": schema["description"], "schema": schema}
        for schema in tool_schemas()
    ]


TOKEN_BUDGET = 15_000_000  # what the client counts down from in its reminder
SKILL_LINE_CHARS = 90  # characters that a skill's line has in the listing


def rendered_fields(text: str) -> DemoJson:
    """Return the fields that say how an attachment reached the model."""
    return {"rendered": [{"content": text}], "renderedRole": "system"}


def _reminder(text: str) -> DemoJson:
    return rendered_fields(f"<system-reminder>\n{text}\n</system-reminder>")


class Attachments:
    """Writes attachment lines to one chain."""

    def __init__(self, chain: TranscriptChain, model: DemoModel, lineage: DemoJson) -> None:
        self._chain = chain
        self._model = model
        self._lineage = lineage  # later lines of a typed session name their session twice
        self._common: DemoJson = {}  # the opening lines do so only after a compaction

    def opening(self) -> None:
        """Write what a conversation starts with."""
        self.environment()
        self.model()
        self.tools({"pendingMcpServers": [], "failedMcpServers": []})
        self.agents()
        self.skills()

    def reopening(self) -> None:
        """Write what comes back right after a compaction's summary."""
        self._common = self._lineage
        self.tools({})
        self.agents()
        self.skills()
        self.environment()
        self.model()

    def session(self) -> None:
        """Write what is added once the prompt is there."""
        self._put({"type": "session_context", "context": {}}, self._lineage)
        self.date()

    def signature(self) -> None:
        """Write how commits and pull requests are signed."""
        text = filler_text(180)
        change = {
            "type": "remote_session_change",
            "url": None,
            "commit": f"Co-Authored-By: Claude {self._model.name} <noreply@anthropic.com>",
            "pr": "🤖 Generated with [Claude Code](https://claude.com/claude-code)",
            "sendUserFileHint": False,
            "managedCommit": False,
            "managedPr": False,
        }
        after = {
            "rendered": [{"content": text}],
            "renderedRole": "user",
            "renderedBesideToolResult": True,
        }
        self._put(change, after | self._lineage)

    def date(self) -> None:
        """Write today's date."""
        day = self._chain.clock.at.date().isoformat()
        self._put(
            {"type": "date", "date": day}, _reminder(f"Today's date is {day}.") | self._lineage
        )

    def environment(self) -> None:
        """Write where the session runs."""
        snapshot = {
            "workingDirectory": self._chain.origin.cwd,
            "isWorktree": False,
            "isGitRepo": True,
            "additionalWorkingDirectories": [],
            "platform": "linux",
            "shell": "bash",
            "osVersion": "Linux 6.12.0",
        }
        self._put(
            {"type": "environment", "snapshot": snapshot},
            rendered_fields(filler_text(240)) | self._common,
        )

    def model(self) -> None:
        """Write which model answers."""
        identity = {
            "modelId": self._model.id,
            "marketingName": self._model.name,
            "knowledgeCutoff": self._model.cutoff,
        }
        text = f"You are powered by {self._model.name} ({self._model.id})."
        self._put(
            {"type": "model", "identity": identity, "text": text},
            rendered_fields(text) | self._common,
        )

    def tools(self, servers: DemoJson) -> None:
        """Write the tools whose schemas are loaded when they are needed."""
        names = list(DEFERRED_TOOLS)
        delta = {
            "type": "deferred_tools_delta",
            "addedNames": names,
            "addedLines": names,
            "removedNames": [],
            "wireHiddenNames": [],
            "readdedNames": [],
        }
        text = "Deferred tools: " + ", ".join(names)
        self._put(delta | servers, rendered_fields(text) | self._common)

    def agents(self) -> None:
        """Write which agents there are."""
        lines = [f"- {kind}: {filler_text(80)}" for kind in AGENT_TYPES]
        delta = {
            "type": "agent_listing_delta",
            "addedTypes": list(AGENT_TYPES),
            "addedLines": lines,
            "builtInTypes": list(BUILT_IN_AGENTS),
            "builtInPluginTypes": [],
            "removedTypes": [],
            "isInitial": True,
            "showConcurrencyNote": True,
        }
        self._put(delta, rendered_fields("\n".join(lines)) | self._common)

    def skills(self) -> None:
        """Write which skills there are."""
        content = "\n".join(f"- {name}: {filler_text(SKILL_LINE_CHARS)}" for name in SKILLS)
        listing = {
            "type": "skill_listing",
            "content": content,
            "skillCount": len(SKILLS),
            "isInitial": True,
            "names": list(SKILLS),
            "digests": [content_digest(name)[:16] for name in SKILLS],
        }
        self._put(listing, rendered_fields(content) | self._common)

    def tokens_left(self, used: int, lineage: DemoJson) -> None:
        """Write how many tokens the session may still spend."""
        text = f"<total_tokens>{TOKEN_BUDGET - used} tokens left</total_tokens>"
        self._put({"type": "total_tokens_reminder", "text": text}, _reminder(text) | lineage)

    def auto_mode(self) -> None:
        """Write how freely the agent may act."""
        mode = {
            "type": "auto_mode",
            "autoModeConsentFlow": False,
            "finishExposedWork": False,
            "bashFirst": True,
            "bashFirstSteer": "relaxed",
            "steerOnly": True,
            "bypass": True,
        }
        self._put(mode, rendered_fields(filler_text(160)))

    def hook_context(self, agent_kind: str, text: str) -> None:
        """Write what a SubagentStart hook added."""
        output = (
            '{"hookSpecificOutput":{"hookEventName":"SubagentStart","additionalContext":"'
            f'{text}"}}}}'
        )
        success = {
            "type": "hook_success",
            "hookName": f"SubagentStart:{agent_kind}",
            "toolUseID": self._chain.ids.uuid(),
            "hookEvent": "SubagentStart",
            "content": "",
            "stdout": output,
            "stderr": "",
            "exitCode": 0,
            "command": "/home/dev/bin/ctx-hook",
            "durationMs": 12,
        }
        self._put(success, {})
        context = {
            "type": "hook_additional_context",
            "content": [text],
            "hookName": "SubagentStart",
            "toolUseID": self._chain.ids.uuid(),
            "hookEvent": "SubagentStart",
        }
        self._put(context, _reminder(f"SubagentStart hook additional context: {text}"))

    def snapshot(self, system: tuple[str, ...]) -> None:
        """Write the system prompt as it was when the conversation began."""
        snapshot = {
            "type": "prompt_snapshot",
            "systemPrompt": list(system),
            "reminderFold": False,
            "echoWireToolInputs": False,
            "contextRendering": "announced",
        }
        self._put(snapshot, self._lineage)

    def snapshot_with_tools(self, system: tuple[str, ...]) -> None:
        """Write the system prompt and the tools as they were after the first answer."""
        snapshot = {
            "type": "prompt_snapshot",
            "systemPrompt": list(system),
            "tools": snapshot_tools(),
            "cliPrefix": "You are Claude Code, Anthropic's official CLI for Claude.",
            "reminderFold": False,
            "systemTurns": True,
            "toolChangeHeader": True,
            "inlineTools": False,
            "keptReminders": False,
            "echoWireToolInputs": False,
            "contextRendering": "announced",
        }
        self._put(snapshot, self._lineage)

    def _put(self, attachment: DemoJson, after: DemoJson) -> None:
        self._chain.add({"attachment": attachment, "type": "attachment"}, after)
