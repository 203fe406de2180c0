"""Write a 2.1.329 session's main conversation: prompts, turns, agents, compactions, errors."""

from __future__ import annotations

from dataclasses import dataclass

from . import client_attachments
from .conversation_writer import ACCEPTED_PERMISSION, ConversationWriter, CostTotals, RequestLog
from .demo_data import DemoModel, client_text, shape
from .demo_transcript import DemoJson, ExpectedState, TranscriptChain, format_time


@dataclass(frozen=True)
class DemoCompaction:
    """How a conversation is compacted: who asked, what is left of it."""

    trigger: str
    summary: str
    post_tokens: int
    instructions: str = ""


LAST_PROMPT_CHARS = 200  # the client cuts the prompt that it remembers after so many characters
KEPT_LINES = 3  # the lines of the last exchange that a compaction keeps word for word


class MainConversation(ConversationWriter):
    def __init__(
        self, chain: TranscriptChain, model: DemoModel, totals: CostTotals, title: str | None
    ) -> None:
        source = "repl_main_thread" if chain.origin.entrypoint == "cli" else "sdk"
        requests = RequestLog(chain, model, source, client_attachments.system_prompt())
        super().__init__(chain, model, requests, totals, {})
        self.title = title
        self.state: ExpectedState = "unknown"
        self.compactions = 0
        self.agents = 0
        self.turns = 0
        self.dropped_tokens = 0
        self.last_prompt = ""
        self.is_opened = False

    def prompt(self, text: str) -> None:
        """Write a person's prompt and everything that the client adds to it."""
        if self.chain.origin.entrypoint == "cli":
            self._typed(text)
        else:
            self._queued(text)
        self.last_prompt = text.replace("\n", " ")
        self.requests.add_message({"role": "user", "content": [{"type": "text", "text": text}]})
        if not self.is_opened:
            self._open()

    def _typed(self, text: str) -> None:
        line_id = self.chain.ids.uuid()
        if self.turns == 0:
            self._latches()
        moment = format_time(self.chain.clock.tick())
        self.chain.add_unchained(shape("file history", id=line_id, moment=moment))
        fields = {"origin": {"kind": "human"}, "promptSource": "typed", "turnOrigin": "human"}
        self._prompt_line(text, line_id, {"permissionMode": "auto"} | fields)

    def _queued(self, text: str) -> None:
        self.chain.enqueue(text)
        self.chain.dequeue()
        fields = {"promptSource": "sdk", "turnOrigin": "sdk"}
        self._prompt_line(
            text, self.chain.ids.uuid(), {"permissionMode": "bypassPermissions"} | fields
        )

    def _prompt_line(self, text: str, line_id: str, fields: DemoJson) -> None:
        self.turns += 1
        self.prompt_id = self.chain.ids.uuid()
        self.chain.lines_since_prompt.clear()
        head = shape("turn prompt", prompt_id=self.prompt_id, content=text)
        self.chain.add(head, fields | {"turnPosition": self._position()}, line_id)

    def _position(self) -> DemoJson:
        return {"promptIndex": self.turns, "turnIndex": self.turns}

    def _open(self) -> None:
        # After a compaction its own lines have opened the conversation already.
        if self.compactions == 0:
            self.attachments.opening()
        self.attachments.tokens_left(self.spent_tokens, {})
        self.attachments.session()
        self._settle()

    def _settle(self) -> None:
        self.attachments.signature()
        self.attachments.snapshot(self.requests.system)
        setup: DemoJson = {
            "role": "system",
            "content": [{"type": "text", "text": client_attachments.filler_text(900)}],
        }
        if self.model.effort is not None:
            setup["output_config"] = {"effort": self.model.effort}
        self.requests.add_message(setup)
        self.is_opened = True

    def answer(self, blocks: list[DemoJson], tokens: int, output: int) -> list[str]:
        """Write one answer; from now on the context is measured."""
        ids = super().answer(blocks, tokens, output)
        self.state = "measured"
        return ids

    def write_titles(self) -> None:
        """Write the lines that let a session be found again; the last ones win."""
        prompt = self.last_prompt
        cut = prompt if len(prompt) <= LAST_PROMPT_CHARS else prompt[:LAST_PROMPT_CHARS] + "…"
        if self.title is not None:
            self.chain.add_note("ai-title", aiTitle=self.title)
        self.chain.add_note("last-prompt", lastPrompt=cut, leafUuid=self.chain.parent)
        self._latches()

    def _latches(self) -> None:
        self.chain.add_note("mode", mode="normal")
        if self.chain.origin.entrypoint == "cli":
            self.chain.add_note("permission-mode", permissionMode="auto")
        self.chain.add_note("atis-latch", atis="")

    def finish_turn(self, seconds: float) -> None:
        self.chain.add(shape("stop hook"), {"toolUseID": self.chain.ids.uuid()} | self.lineage)
        if self.chain.origin.entrypoint == "cli":
            duration: DemoJson = {
                "type": "system",
                "subtype": "turn_duration",
                "durationMs": int(seconds * 1000),
                "messageCount": len(self.chain.lines_since_prompt),
            }
            self.chain.add(duration, {"isMeta": False})
        self.write_titles()

    def write_cost(self) -> None:
        self.chain.add_unchained(self.totals.line(self.chain.origin.session_id, self.chain.clock))

    def write_launch_result(self, content: list[DemoJson], result: DemoJson, asked_by: str) -> None:
        fields: DemoJson = {
            "toolUseResult": result,
            "sourceToolAssistantUUID": asked_by,
            "permissionDecision": ACCEPTED_PERMISSION,
        }
        self._user(content, fields | self.lineage)
        self.requests.add_message({"role": "user", "content": content})
        self.snapshot_once()

    def write_notification(self, text: str, tools: str) -> None:
        """Write that an agent has come back: once in the queue, once as a user line."""
        self.chain.enqueue(text)
        self.chain.dequeue()
        self.prompt_id = self.chain.ids.uuid()
        reminder = client_text("tools_reminder", tools=tools)
        self._local(reminder, {"isMeta": True, "turnCompanion": True})
        self.turns += 1
        run, position = self.chain.ids.run(), self._position()
        fields = shape("notification", run=run, position=position)
        self._user(text, fields | self.lineage)
        self.requests.add_message({"role": "user", "content": [{"type": "text", "text": text}]})

    def compact(self, how: DemoCompaction, transcript: str) -> None:
        """Write a boundary and its summary: what came before is out of the context."""
        self.chain.clock.advance()
        before, kept = self.chain.parent, self.chain.lines_since_prompt[-KEPT_LINES:]
        summary_id = self.chain.ids.uuid()
        self.dropped_tokens += max(0, self.tokens - how.post_tokens)
        self.chain.has_nickname = True
        self.chain.parent = None
        self.chain.add(self._boundary(how, before, kept, summary_id))
        if how.trigger == "auto":
            self._auto_summary(how, transcript, summary_id)
        else:
            self._manual_summary(how, transcript, summary_id)
        self._after_compaction(how)

    def _boundary(
        self, how: DemoCompaction, last_line: str | None, kept: list[str], summary_id: str
    ) -> DemoJson:
        line = shape(
            "boundary",
            last_line=last_line,
            trigger=how.trigger,
            pre_tokens=self.tokens,
            post_tokens=how.post_tokens,
            dropped=self.dropped_tokens,
            head=kept[0] if kept else last_line,
            summary_id=summary_id,
            kept=kept,
        )
        if how.trigger == "auto":
            line["compactMetadata"]["runningTurnPrompt"] = {}
        return line

    def _summary_line(
        self, how: DemoCompaction, transcript: str, summary_id: str, extra: DemoJson
    ) -> None:
        tools = ", ".join(self.tools_used)
        content = client_text("summary", tools=tools, summary=how.summary, transcript=transcript)
        line = shape("compact summary", prompt_id=self.prompt_id, content=content)
        position: DemoJson = {"turnPosition": self._position()}
        self.chain.add(line, position | extra | self.lineage, summary_id)
        self.requests.reset()
        self.requests.add_message({"role": "user", "content": content})

    def _auto_summary(self, how: DemoCompaction, transcript: str, summary_id: str) -> None:
        self.attachments.session()
        typed = self.chain.origin.entrypoint == "cli"
        extra: DemoJson = {
            "turnOrigin": "human" if typed else "sdk",
            "summarizedTurnPromptUuids": [],
        }
        self._summary_line(how, transcript, summary_id, extra)
        self.attachments.reopening()
        self._settle()

    def _manual_summary(self, how: DemoCompaction, transcript: str, summary_id: str) -> None:
        self.prompt_id = self.chain.ids.uuid()
        self._summary_line(how, transcript, summary_id, {})
        self._local(client_text("command_caveat"), {"isMeta": True})
        self._local(client_text("compact_command", instructions=how.instructions), {})
        self._local(client_text("compacted"), {"repeatsCompactSummary": True})
        self.attachments.reopening()
        self.is_opened = False  # the next prompt brings its own context

    def _local(self, text: str, fields: DemoJson) -> None:
        head = shape("turn prompt", prompt_id=self.prompt_id, content=text)
        self.chain.add(head | fields, self.lineage)

    def _after_compaction(self, how: DemoCompaction) -> None:
        self.compactions += 1
        self.tokens = how.post_tokens
        self.state = "estimated"
        self.has_tool_snapshot = False
        self.write_titles()
        self.write_cost()

    def write_prompt_too_long(self, tokens: int) -> None:
        """Write the answer that the client makes up when a request does not fit."""
        self.requests.send()
        # The API's own arithmetic.
        text = f"prompt is too long: {tokens} tokens > {self.model.window} maximum"
        error = f'{{"type":"error","error":{{"type":"invalid_request_error","message":"{text}"}}}}'
        fields = shape(
            "too long",
            id=self.chain.ids.uuid(),
            usage=shape("no usage"),
            details=f"400 {error}",
        )
        self.chain.add({"type": "assistant"}, fields)
        self.write_titles()
        self.write_cost()
