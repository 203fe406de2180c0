"""What the client itself puts before the model, one attachment line each (2.1.329)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import filler
from .plumbing import digest_of

if TYPE_CHECKING:
    from .chain import Chain
    from .model import Json, Model

TOKEN_BUDGET = 15_000_000  # what the client counts down from in its reminder
SKILL_NOTE = 90  # characters that a skill's line has in the listing


def rendered(text: str) -> Json:
    """Return the fields that say how an attachment reached the model."""
    return {"rendered": [{"content": text}], "renderedRole": "system"}


def _reminder(text: str) -> Json:
    return rendered(f"<system-reminder>\n{text}\n</system-reminder>")


class Attachments:
    """Writes attachment lines to one chain."""

    def __init__(self, chain: Chain, model: Model, lineage: Json) -> None:
        self._chain = chain
        self._model = model
        self._lineage = lineage  # later lines of a typed session name their session twice
        self._common: Json = {}  # the opening lines do so only after a compaction

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
        text = filler.prose(180)
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
            rendered(filler.prose(240)) | self._common,
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
            {"type": "model", "identity": identity, "text": text}, rendered(text) | self._common
        )

    def tools(self, servers: Json) -> None:
        """Write the tools whose schemas are loaded when they are needed."""
        names = list(filler.DEFERRED_TOOLS)
        delta = {
            "type": "deferred_tools_delta",
            "addedNames": names,
            "addedLines": names,
            "removedNames": [],
            "wireHiddenNames": [],
            "readdedNames": [],
        }
        text = "Deferred tools: " + ", ".join(names)
        self._put(delta | servers, rendered(text) | self._common)

    def agents(self) -> None:
        """Write which agents there are."""
        lines = [f"- {kind}: {filler.prose(80)}" for kind in filler.AGENT_TYPES]
        delta = {
            "type": "agent_listing_delta",
            "addedTypes": list(filler.AGENT_TYPES),
            "addedLines": lines,
            "builtInTypes": list(filler.BUILT_IN_AGENTS),
            "builtInPluginTypes": [],
            "removedTypes": [],
            "isInitial": True,
            "showConcurrencyNote": True,
        }
        self._put(delta, rendered("\n".join(lines)) | self._common)

    def skills(self) -> None:
        """Write which skills there are."""
        content = "\n".join(f"- {name}: {filler.prose(SKILL_NOTE)}" for name in filler.SKILLS)
        listing = {
            "type": "skill_listing",
            "content": content,
            "skillCount": len(filler.SKILLS),
            "isInitial": True,
            "names": list(filler.SKILLS),
            "digests": [digest_of(name)[:16] for name in filler.SKILLS],
        }
        self._put(listing, rendered(content) | self._common)

    def tokens_left(self, used: int, lineage: Json) -> None:
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
        self._put(mode, rendered(filler.prose(160)))

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
            "tools": filler.snapshot_tools(),
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

    def _put(self, attachment: Json, after: Json) -> None:
        self._chain.add({"attachment": attachment, "type": "attachment"}, after)
