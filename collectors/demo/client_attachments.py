"""What the client itself sends: system prompt, tool schemas, and attachment lines (2.1.329)."""

from __future__ import annotations

from functools import cache

from .demo_data import CLIENT, DemoModel, shape
from .demo_transcript import DemoJson, TranscriptChain, content_digest

# About what the client really writes.
SYSTEM_PART_CHARS = (8_200, 2_400, 3_600, 3_000, 4_200)
TOOL_DESCRIPTION_CHARS = 2_600
AGENT_LINE_CHARS = 80
SKILL_LINE_CHARS = 90
TOKEN_BUDGET = 15_000_000  # what the client counts down from in its reminder


@cache
def filler_text(size: int) -> str:
    """Return about `size` characters of instructions that nobody needs to read."""
    sentence = ". ".join(words.capitalize() for words in CLIENT.instructions) + ". "
    return (sentence * (size // len(sentence) + 1))[:size].rstrip() + "."


@cache
def system_prompt() -> tuple[str, ...]:
    """Return the parts of a main session's system prompt."""
    return tuple(filler_text(size) for size in SYSTEM_PART_CHARS)


def tool_schemas() -> list[DemoJson]:
    """Return every tool as a request carries it."""
    text = filler_text(TOOL_DESCRIPTION_CHARS)
    return [shape("tool", name=name, description=f"{name}: {text}") for name in CLIENT.tools]


def snapshot_tools() -> list[DemoJson]:
    """Return every tool as a prompt snapshot carries it."""
    return [
        {"name": tool["name"], "description": tool["description"], "schema": tool}
        for tool in tool_schemas()
    ]


def agent_lines() -> list[str]:
    return [f"- {kind}: {filler_text(AGENT_LINE_CHARS)}" for kind in CLIENT.agent_types]


def rendered_fields(text: str) -> DemoJson:
    """Return the fields that say how an attachment reached the model."""
    return {"rendered": [{"content": text}], "renderedRole": "system"}


def _reminder(text: str) -> DemoJson:
    return rendered_fields(f"<system-reminder>\n{text}\n</system-reminder>")


class Attachments:
    def __init__(self, chain: TranscriptChain, model: DemoModel, lineage: DemoJson) -> None:
        self._chain = chain
        self._model = model
        self._lineage = lineage  # later lines of a typed session name their session twice
        self._common: DemoJson = {}  # the opening lines do so only after a compaction

    def opening(self) -> None:
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
        commit = f"Co-Authored-By: Claude {self._model.name} <noreply@anthropic.com>"
        after: DemoJson = {
            "rendered": [{"content": filler_text(180)}],
            "renderedRole": "user",
            "renderedBesideToolResult": True,
        }
        self._put(shape("attachment signature", commit=commit), after | self._lineage)

    def date(self) -> None:
        day = self._chain.clock.at.date().isoformat()
        after = _reminder(f"Today's date is {day}.") | self._lineage
        self._put({"type": "date", "date": day}, after)

    def environment(self) -> None:
        attachment = shape("attachment environment", cwd=self._chain.origin.cwd)
        self._put(attachment, rendered_fields(filler_text(240)) | self._common)

    def model(self) -> None:
        model = self._model
        text = f"You are powered by {model.name} ({model.id})."
        attachment = shape(
            "attachment model", id=model.id, name=model.name, cutoff=model.cutoff, text=text
        )
        self._put(attachment, rendered_fields(text) | self._common)

    def tools(self, servers: DemoJson) -> None:
        """Write the tools whose schemas are loaded when they are needed."""
        names = CLIENT.deferred_tools
        text = "Deferred tools: " + ", ".join(names)
        attachment = shape("attachment tools", names=names) | servers
        self._put(attachment, rendered_fields(text) | self._common)

    def agents(self) -> None:
        lines = agent_lines()
        attachment = shape(
            "attachment agents",
            names=CLIENT.agent_types,
            lines=lines,
            built_in=CLIENT.built_in_agents,
        )
        self._put(attachment, rendered_fields("\n".join(lines)) | self._common)

    def skills(self) -> None:
        names = CLIENT.skills
        content = "\n".join(f"- {name}: {filler_text(SKILL_LINE_CHARS)}" for name in names)
        digests = [content_digest(name)[:16] for name in names]
        attachment = shape(
            "attachment skills", content=content, count=len(names), names=names, digests=digests
        )
        self._put(attachment, rendered_fields(content) | self._common)

    def tokens_left(self, used: int, lineage: DemoJson) -> None:
        text = f"<total_tokens>{TOKEN_BUDGET - used} tokens left</total_tokens>"
        self._put({"type": "total_tokens_reminder", "text": text}, _reminder(text) | lineage)

    def hook_context(self, agent_kind: str, text: str) -> None:
        output = (
            '{"hookSpecificOutput":{"hookEventName":"SubagentStart","additionalContext":"'
            f'{text}"}}}}'
        )
        name, ids = f"SubagentStart:{agent_kind}", self._chain.ids
        self._put(shape("attachment hook success", name=name, id=ids.uuid(), output=output), {})
        context = shape("attachment hook context", text=text, id=ids.uuid())
        self._put(context, _reminder(f"SubagentStart hook additional context: {text}"))

    def snapshot(self, system: tuple[str, ...]) -> None:
        """Write the system prompt as it was when the conversation began."""
        self._put(shape("attachment snapshot", system=system), self._lineage)

    def snapshot_with_tools(self, system: tuple[str, ...]) -> None:
        """Write the system prompt and the tools as they were after the first answer."""
        attachment = shape("attachment snapshot with tools", system=system, tools=snapshot_tools())
        self._put(attachment, self._lineage)

    def _put(self, attachment: DemoJson, after: DemoJson) -> None:
        self._chain.add({"attachment": attachment, "type": "attachment"}, after)
