"""Write a 2.1.329 session's main conversation: prompts, turns, agents, compactions, errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import client_attachments, demo_texts
from .conversation_writer import ACCEPTED_PERMISSION, ConversationWriter, RequestLog
from .demo_transcript import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .conversation_writer import CostTotals
    from .demo_transcript import DemoJson, DemoModel, ExpectedState, TranscriptChain


DURATION_MS = 21_400  # what a summary takes; nobody compares it


@dataclass(frozen=True)
class DemoCompaction:
    """How a conversation is compacted: who asked, what is left of it."""

    trigger: str
    summary: str
    post_tokens: int
    instructions: str = ""


@dataclass(frozen=True)
class CompactionCut:
    """Where a conversation was cut: its last line, the kept ones, the summary, the counts."""

    last_line: str | None
    kept: tuple[str, ...]
    summary_id: str
    tokens: int
    dropped: int


def boundary_fields(how: DemoCompaction, cut: CompactionCut) -> DemoJson:
    """Return what a boundary says."""
    kept = list(cut.kept)
    metadata: DemoJson = {
        "trigger": how.trigger,
        "preTokens": cut.tokens,
        "postTokens": how.post_tokens,
        "cumulativeDroppedTokens": cut.dropped,
        "durationMs": DURATION_MS,
        "preservedSegment": {
            "headUuid": kept[0] if kept else cut.last_line,
            "anchorUuid": cut.summary_id,
            "tailUuid": cut.last_line,
        },
        "preservedMessages": {"anchorUuid": cut.summary_id, "uuids": kept, "allUuids": kept},
        "preCompactOrganizationsCoverStart": False,
    }
    if how.trigger == "auto":
        metadata["runningTurnPrompt"] = {}
    return {
        "logicalParentUuid": cut.last_line,
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "level": "info",
        "compactMetadata": metadata,
    }


def summary_text(how: DemoCompaction, tools: Iterable[str], transcript: str) -> str:
    """Return the summary as the model reads it."""
    head = demo_texts.SUMMARY_HEAD.format(tools=", ".join(tools))
    return head + how.summary + demo_texts.SUMMARY_TAIL.format(transcript=transcript)


NO_USAGE: DemoJson = {
    "output_tokens_details": None,
    "input_tokens": 0,
    "output_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    "service_tier": None,
    "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
    "inference_geo": None,
    "iterations": None,
    "speed": None,
    "fallback_credit": None,
}


def too_long_fields(message_id: str, limits: str) -> DemoJson:
    """Return what follows the time on the line; `limits` is the API's own arithmetic."""
    text = f"prompt is too long: {limits}"
    error = f'{{"type":"error","error":{{"type":"invalid_request_error","message":"{text}"}}}}'
    message: DemoJson = {
        "diagnostics": None,
        "id": message_id,
        "container": None,
        "model": "<synthetic>",
        "role": "assistant",
        "stop_details": None,
        "stop_reason": "stop_sequence",
        "stop_sequence": "",
        "type": "message",
        "usage": NO_USAGE,
        "content": [{"type": "text", "text": "Prompt is too long"}],
        "context_management": None,
    }
    return {
        "message": message,
        "error": "invalid_request",
        "errorDetails": f"400 {error}",
        "isApiErrorMessage": True,
        "apiErrorStatus": 400,
        "apiErrorType": "invalid_request_error",
        "perTurnEffort": None,
        "failedResponseHadNoToolCall": True,
        "resendCannotCure": True,
        "madeBy": "model",
    }


LAST_PROMPT_CHARS = 200  # the client cuts the prompt that it remembers after so many characters
KEPT_LINES = 3  # the lines of the last exchange that a compaction keeps word for word
STOP_HOOK = "/home/dev/bin/ctx-hook"


class MainConversation(ConversationWriter):
    """Writes the main transcript of one session."""

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

    # -- prompts -----------------------------------------------------------------------------

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
        self.chain.add_unchained(
            {
                "type": "file-history-snapshot",
                "messageId": line_id,
                "snapshot": {"messageId": line_id, "trackedFileBackups": {}, "timestamp": moment},
                "isSnapshotUpdate": False,
            }
        )
        fields = {"origin": {"kind": "human"}, "promptSource": "typed", "turnOrigin": "human"}
        self._prompt_line(text, line_id, {"permissionMode": "auto"} | fields)

    def _queued(self, text: str) -> None:
        self.enqueue(text)
        self.dequeue()
        fields = {"promptSource": "sdk", "turnOrigin": "sdk"}
        self._prompt_line(
            text, self.chain.ids.uuid(), {"permissionMode": "bypassPermissions"} | fields
        )

    def _prompt_line(self, text: str, line_id: str, fields: DemoJson) -> None:
        self.turns += 1
        self.prompt_id = self.chain.ids.uuid()
        self.chain.lines_since_prompt.clear()
        head: DemoJson = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": text},
        }
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

    def enqueue(self, content: str) -> None:
        """Write that something waits for the model."""
        self._queue({"operation": "enqueue"}, {"content": content})

    def dequeue(self) -> None:
        """Write that what waited is taken."""
        self._queue({"operation": "dequeue"}, {})

    def _queue(self, operation: DemoJson, content: DemoJson) -> None:
        line: DemoJson = {"type": "queue-operation"} | operation
        line |= {
            "timestamp": format_time(self.chain.clock.tick()),
            "sessionId": self.chain.origin.session_id,
        }
        self.chain.add_unchained(line | content)

    # -- turns -------------------------------------------------------------------------------

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
        """Write what follows the last answer of a turn."""
        summary: DemoJson = {
            "type": "system",
            "subtype": "stop_hook_summary",
            "hookCount": 1,
            "hookInfos": [{"command": STOP_HOOK, "durationMs": 11}],
            "hookErrors": [],
            "failedHookErrorIndexes": [],
            "hookAdditionalContext": [],
            "preventedContinuation": False,
            "stopReason": "",
            "hasOutput": False,
            "level": "suggestion",
        }
        self.chain.add(summary, {"toolUseID": self.chain.ids.uuid()} | self.lineage)
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
        """Write the running totals."""
        self.chain.add_unchained(self.totals.line(self.chain.origin.session_id, self.chain.clock))

    # -- agents ------------------------------------------------------------------------------

    def write_launch_result(self, content: list[DemoJson], result: DemoJson, asked_by: str) -> None:
        """Write the tool result that says an agent was launched."""
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
        self.enqueue(text)
        self.dequeue()
        self.prompt_id = self.chain.ids.uuid()
        reminder = (
            f"<system-reminder>\n<tools-used-before-summary>{tools}</tools-used-before-summary>\n"
            "</system-reminder>"
        )
        self._local(reminder, {"isMeta": True, "turnCompanion": True})
        self.turns += 1
        origin = {
            "kind": "task-notification",
            "producer": "session-task",
            "runId": self.chain.ids.run(),
        }
        fields: DemoJson = {
            "permissionMode": "auto",
            "origin": origin,
            "promptSource": "system",
            "turnOrigin": "task_notification",
            "turnPosition": self._position(),
            "queueSkipAttachments": True,
        }
        self._user(text, fields | self.lineage)
        self.requests.add_message({"role": "user", "content": [{"type": "text", "text": text}]})

    # -- compaction --------------------------------------------------------------------------

    def compact(self, how: DemoCompaction, transcript: str) -> None:
        """Write a boundary and its summary: what came before is out of the context."""
        self.chain.clock.advance()
        before, kept = self.chain.parent, self.chain.lines_since_prompt[-KEPT_LINES:]
        summary_id = self.chain.ids.uuid()
        self.dropped_tokens += max(0, self.tokens - how.post_tokens)
        self.chain.has_nickname = True
        self.chain.parent = None
        self.chain.add(
            boundary_fields(
                how,
                CompactionCut(before, tuple(kept), summary_id, self.tokens, self.dropped_tokens),
            )
        )
        if how.trigger == "auto":
            self._auto_summary(how, transcript, summary_id)
        else:
            self._manual_summary(how, transcript, summary_id)
        self._after_compaction(how)

    def _summary_line(
        self, how: DemoCompaction, transcript: str, summary_id: str, extra: DemoJson
    ) -> None:
        content = summary_text(how, self.tools_used, transcript)
        line: DemoJson = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": content},
            "isVisibleInTranscriptOnly": True,
            "isCompactSummary": True,
        }
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
        self._local(
            "<local-command-caveat>This command was run in Claude Code itself and was not "
            "sent to you.</local-command-caveat>",
            {"isMeta": True},
        )
        self._local(
            "<command-name>/compact</command-name>\n            "
            "<command-message>compact</command-message>\n            "
            f"<command-args>{how.instructions}</command-args>",
            {},
        )
        self._local(
            "<local-command-stdout>\x1b[2mCompacted (ctrl+o to see full summary)\x1b[22m"
            "</local-command-stdout>",
            {"repeatsCompactSummary": True},
        )
        self.attachments.reopening()
        self.is_opened = False  # the next prompt brings its own context

    def _local(self, text: str, fields: DemoJson) -> None:
        head: DemoJson = {
            "promptId": self.prompt_id,
            "type": "user",
            "message": {"role": "user", "content": text},
        }
        self.chain.add(head | fields, self.lineage)

    def _after_compaction(self, how: DemoCompaction) -> None:
        self.compactions += 1
        self.tokens = how.post_tokens
        self.state = "estimated"
        self.has_tool_snapshot = False
        self.write_titles()
        self.write_cost()

    # -- the end -----------------------------------------------------------------------------

    def write_prompt_too_long(self, tokens: int) -> None:
        """Write the answer that the client makes up when a request does not fit."""
        limits = f"{tokens} tokens > {self.model.window} maximum"
        self.requests.send()
        self.chain.add({"type": "assistant"}, too_long_fields(self.chain.ids.uuid(), limits))
        self.write_titles()
        self.write_cost()
