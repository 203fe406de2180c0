"""What spans several lines: answers, agents' steps, open tool calls, uncounted lines."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ....core.measure.tokens import client_token_estimate
from ....core.model.claude_models import parse_version
from ....core.model.context import EXACT_OUTPUT_VERSION
from ....core.model.conversation import MessagePart, PartKind
from ....core.model.transcript_records import (
    AdditionRecord,
    OpenCallRecord,
    PeakRecord,
    ProgressLineRecord,
    ResponseRecord,
    SidechainLineRecord,
    TurnState,
    join_calls,
)
from ....core.transcript import lenient_json, line_decoder, reported_usage
from ....core.transcript.entry_decoder import NamedToolCall, decode_entry, decode_parts
from ....core.transcript.line_decoder import RawBlock, RawMessage, TranscriptLine
from ....core.transcript.line_types import AnswerBlocks, BlockGlance, LineGlance, MessageGlance
from ....core.transcript.raw_lines import text_key, timestamp_to_ms
from ....core.transcript.reported_usage import PausedResponse, RawUsage
from ....core.transcript.sanitize import sanitize_title
from .agent_results import prompt_key
from .answer_charges import read_charges


class MergedAnswer(msgspec.Struct, gc=False):
    message_id: str
    offset: int
    last_offset: int
    timestamp: str | None
    model: str | None
    usage: RawUsage
    output_tokens: int
    sidechain: bool
    calls: list[str]  # as `tool_id_endings` lists them
    request_ref: str | None = None
    has_text: bool = False
    client_version: str | None = None
    cache_miss: line_decoder.CacheMissReason | None = None
    paused: list[PausedResponse] | None = None
    also_counted_tokens: int = 0

    def to_record(self) -> ResponseRecord:
        """Convert it: counts are those of its last line, the output is the highest of any line."""
        usage, missed = self.usage, self.cache_miss
        charged = read_charges(usage, self.model or "", self.paused)
        spent, context, last_output, is_lowered = charged.own, charged.prompt_tokens, None, False
        if usage.iterations:
            context = reported_usage.read_context(usage, spent)
            last_output = reported_usage.last_output_tokens(usage)
            is_lowered = reported_usage.is_estimated_usage(usage)
        return ResponseRecord(
            offset=self.offset,
            last_offset=self.last_offset,
            message_id=self.message_id,
            at=timestamp_to_ms(self.timestamp),
            model=self.model or "",
            input_tokens=spent.input_tokens,
            cache_creation_tokens=spent.cache_creation_tokens,
            cache_read_tokens=spent.cache_read_tokens,
            output_tokens=self.output_tokens,
            context_tokens=context,
            sidechain=self.sidechain,
            tools=join_calls(self.calls) if self.calls else "",
            request=text_key(self.request_ref) if self.request_ref else None,
            last_output_tokens=last_output,
            cache_1h_tokens=charged.cache_1h_tokens,
            lowered=is_lowered,
            has_text=self.has_text,
            client_version=self.client_version,
            cache_miss=missed.type if missed else None,
            cache_missed_tokens=missed.cache_missed_input_tokens if missed else None,
            rate=charged.rate,
            web_searches=charged.web_searches,
            charges=charged.charges,
            also_counted_tokens=self.also_counted_tokens,
        )


class MergedAnswers:
    def __init__(self) -> None:
        self._by_message: dict[str, MergedAnswer] = {}
        self._superseded: list[tuple[str, str | None, bool, RawUsage]] = []

    def add(
        self,
        offset: int,
        line: LineGlance,
        message: MessageGlance,
        blocks: AnswerBlocks,
        *,
        sidechain: bool,
    ) -> None:
        usage = message.usage
        if usage is None:
            return
        message_id = message.id or line.uuid or f"at {offset}"
        output = usage.output_tokens or 0
        answer = self._by_message.get(message_id)
        if answer is None:
            self._by_message[message_id] = MergedAnswer(
                message_id,
                offset,
                offset,
                line.timestamp,
                message.model,
                usage,
                output,
                sidechain,
                tool_id_endings(blocks.calls),
                line.request_ref,
                blocks.has_text,
                line.version,
                line_decoder.read_cache_miss(message.diagnostics),
                message.paused,
                reported_usage.also_counted_tokens(message.context_management),
            )
            return
        if usage != answer.usage or message.model != answer.model:
            self._superseded.append((message_id, answer.model, answer.sidechain, answer.usage))
            answer.model, answer.usage = message.model, usage
        answer.last_offset = offset
        answer.request_ref = answer.request_ref or line.request_ref
        if message.paused:
            answer.paused = message.paused
        if message.context_management is not None:
            more = reported_usage.also_counted_tokens(message.context_management)
            answer.also_counted_tokens = max(answer.also_counted_tokens, more)
        if blocks.calls:
            answer.calls += tool_id_endings(blocks.calls)
        if output > answer.output_tokens:
            answer.output_tokens = output
        if blocks.has_text:
            answer.has_text = True
        if message.diagnostics is not UNSET:
            missed = line_decoder.read_cache_miss(message.diagnostics)
            answer.cache_miss = missed or answer.cache_miss

    def to_records(self) -> tuple[ResponseRecord, ...]:
        return tuple(answer.to_record() for answer in self._by_message.values())

    def superseded_peaks(self) -> tuple[PeakRecord, ...]:
        """Return the contexts in earlier lines of an answer that its last line does not repeat."""
        return tuple(
            PeakRecord(message_id, model or "", sidechain, reported_usage.read_usage(usage)[1])
            for message_id, model, sidechain, usage in self._superseded
        )


TOOL_ID_CHARS: Final = 8  # the end of a tool call's id, which differs within one answer


def read_sidechain_line(offset: int, line: TranscriptLine) -> SidechainLineRecord | None:
    if not line.uuid:
        return None
    message = line.message or RawMessage()
    return SidechainLineRecord(
        offset=offset,
        line=text_key(line.uuid),
        parent=text_key(line.parent_uuid) if line.parent_uuid else None,
        message_id=message.id if line.type == "assistant" and message.id else None,
        prompt=_prompt_key_of(message) if line.type == "user" and not line.parent_uuid else None,
    )


def read_agent_step(offset: int, line: TranscriptLine) -> ProgressLineRecord | None:
    """Read an agent's line inside a `progress` line; None for progress of another kind."""
    data = line_decoder.decode_optional(line.data, line_decoder.ProgressData)
    if not data or data.type not in {"agent_progress", "skill_progress"} or not data.agent_id:
        return None
    step = line_decoder.decode_optional(data.message, line_decoder.ProgressStep)
    if step and step.message and not step.request_id:
        # As on the agent's own line, if that is in a file.
        reported_usage.name_answer(step.message, line)
    timestamp = (step.timestamp if step else None) or line.timestamp
    return ProgressLineRecord(
        offset=offset,
        agent_id=sanitize_title(data.agent_id),
        tool_use_id=line.parent_tool_use_id,
        at=timestamp_to_ms(timestamp),
        answer=_step_response(offset, timestamp, step) if step else None,
    )


def progress_type(line: TranscriptLine) -> str:
    data = line_decoder.decode_optional(line.data, line_decoder.ProgressData)
    return (data.type if data else None) or "without type"


def tool_id_endings(calls: Iterable[RawBlock | BlockGlance]) -> list[str]:
    """Return the end of each tool call's id, and a comma."""
    return [(call.id or "?")[-TOOL_ID_CHARS:].replace(",", "") + "," for call in calls]


def _step_response(
    offset: int, timestamp: str | None, step: line_decoder.ProgressStep
) -> ResponseRecord | None:
    message = step.message
    if step.type != "assistant" or message is None or message.usage is None or step.is_unmetered:
        return None
    return MergedAnswer(
        message_id=message.id or step.uuid or f"at {offset}",
        offset=offset,
        last_offset=offset,
        timestamp=timestamp,
        model=message.model,
        usage=message.usage,
        output_tokens=message.usage.output_tokens or 0,
        sidechain=True,
        calls=tool_id_endings(
            block
            for block in line_decoder.decode_blocks(message.content)
            if block.type == "tool_use"
        ),
        paused=message.paused,
    ).to_record()


def _prompt_key_of(message: RawMessage) -> int | None:
    blocks = line_decoder.decode_blocks(message.content)
    texts = [block.text or "" for block in blocks if block.type == "text"]
    return prompt_key("\n".join(texts)) if texts else None


DESCRIPTIVE_FIELDS: Final = (
    "command file_path notebook_path pattern url query description skill subject path prompt"
)
"""Fields of a tool's input that distinguish its calls, the most specific first
(inputs of 2.1.329's own tools)."""

_tool_input_decoder: Final = msgspec.json.Decoder(dict[str, Any])


class TurnTracker:
    """The open tool calls of one run of lines, the calls that it ends, and the turn.

    A call that is written again keeps its first offset, unless it had ended.
    """

    def __init__(self, *, at_file_start: bool) -> None:
        self._open: dict[str, tuple[int, memoryview]] = {}
        self._ended: dict[str, None] = {}
        self._turn: tuple[TurnState, int, str | None] | None = None
        self._at_file_start: Final = at_file_start  # then no call is open from before the run

    def begin_line(self, turn: TurnState, offset: int, timestamp: str | None) -> None:
        """Set what a line shows by itself, before `set_turn` may be called for it."""
        self._turn = turn, offset, timestamp

    def set_turn(self, turn: TurnState, offset: int, timestamp: str | None) -> None:
        if self._turn is None or self._turn[1] != offset:
            self._turn = turn, offset, timestamp

    def end_turn(self, offset: int, timestamp: str | None) -> None:
        """Set that the answer of this line ends the turn, whatever was set of it before."""
        self._turn = TurnState.ENDED, offset, timestamp

    def add_calls(self, offset: int, line: memoryview, calls: list[BlockGlance]) -> None:
        for block in calls:
            if block.id:
                self._open.setdefault(block.id, (offset, line))

    def add_results(self, message: MessageGlance) -> None:
        for block in message.content if type(message.content) is list else ():
            call_id = block.tool_use_id if type(block) is BlockGlance else None
            if call_id:
                self._open.pop(call_id, None)
                if not self._at_file_start:
                    self._ended[call_id] = None

    def open_calls(self) -> tuple[OpenCallRecord, ...]:
        calls = (_read_call(call_id, *place) for call_id, place in self._open.items())
        return tuple(call for call in calls if call is not None)

    def ended_calls(self) -> tuple[str, ...]:
        """Return the ids of results among these lines whose calls may come before them."""
        return tuple(self._ended)

    def session_fields(self) -> dict[str, Any]:
        if self._turn is None:
            return {}
        turn, offset, timestamp = self._turn
        return {"turn": turn, "turn_at": timestamp_to_ms(timestamp), "turn_offset": offset}


def _read_call(call_id: str, offset: int, data: memoryview) -> OpenCallRecord | None:
    try:
        line = line_decoder.decode_line(data)
        blocks = line_decoder.message_blocks(line)
    except (lenient_json.NotJsonError, lenient_json.UnexpectedShapeError):
        return None
    block = next((block for block in blocks if block.id == call_id), None)
    if block is None:
        return None
    return OpenCallRecord(offset, call_id, line.at, block.name or "", _call_detail(block.input))


def _call_detail(raw: Raw | UnsetType) -> str:
    """Return one line that distinguishes a call from others of its tool; empty if unreadable."""
    if raw is msgspec.UNSET:
        return ""
    try:
        fields = _tool_input_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if questions := _questions(fields.get("questions")):
        more = f" (and {len(questions) - 1} more)" if len(questions) > 1 else ""
        return questions[0] + more
    # For an unknown tool its first text is the best guess.
    values = (*(fields.get(name) for name in DESCRIPTIVE_FIELDS.split()), *fields.values())
    return next((value for value in values if isinstance(value, str) and value), "")


def _questions(value: object) -> list[str]:
    """Return the texts of AskUserQuestion's questions."""
    listed = value if isinstance(value, list) else []
    texts = (each.get("question") for each in listed if isinstance(each, dict))
    return [text for text in texts if isinstance(text, str) and text.strip()]


_UncountedLine = tuple[int, memoryview | None, str | None, MessageGlance | None]
"""Its offset and text, the id of the answer that it belongs to, and the message of a user's."""


def _result_parts(message: MessageGlance) -> tuple[MessagePart, ...] | None:
    """Return what a message of one tool's result holds; None for any other.

    It takes a third of the time of decoding the line, which holds the result twice.
    """
    content = message.content
    block = content[0] if type(content) is list and len(content) == 1 else None
    if type(block) is not BlockGlance or block.type != "tool_result" or not block.tool_use_id:
        return None
    result = RawBlock(type=block.type, tool_use_id=block.tool_use_id, content=block.content)
    try:
        return tuple(decode_parts([result], PartKind.META, {}))
    except lenient_json.NotJsonError:
        return None  # as the line is to be repaired first
    except lenient_json.UnexpectedShapeError:
        return ()


class UncountedLines:
    """Lines of one run since its last answer began, and those before each boundary."""

    def __init__(self, *, at_file_start: bool) -> None:
        self._lines: list[_UncountedLine] = []
        self._message_id: str | None = None
        self._from_file_start = at_file_start
        self._answer_offset = 0
        self._ended_earlier: AdditionRecord | None = None
        self._records: list[AdditionRecord] = []

    def add(self, offset: int, line: memoryview, message: MessageGlance | None = None) -> None:
        """Add a line; `message` is that of a user's line."""
        self._lines.append((offset, line, None, message))

    def forget(self, offset: int) -> None:
        """Drop the newest line if it is at `offset`: it is read again without its odd fields."""
        if self._lines and self._lines[-1][0] == offset:
            self._lines.pop()

    def add_answer(self, offset: int, line: memoryview | None, message_id: str | None) -> None:
        """Add an answer's line; a new answer drops the lines before it, as it counts them itself.

        `line` is None where the API's output count is exact. Only the store knows whether the first
        answer of a run continues one from an earlier run.
        """
        message_id = message_id or f"at {offset}"
        if self._message_id != message_id:
            if self._message_id and not self._from_file_start:
                # What the store has of an earlier run is superseded as well.
                key = text_key(self._message_id)
                self._ended_earlier = AdditionRecord(self._answer_offset, key, 0)
            if self._message_id or self._from_file_start:
                self._lines.clear()
            self._message_id = message_id
        self._answer_offset = offset
        self._lines.append((offset, line, message_id, None))

    def measure_at_boundary(self) -> None:
        self._measure()
        # The store ignores a boundary that is appended again.
        self._message_id, self._from_file_start = None, False

    def to_records(self) -> tuple[AdditionRecord, ...]:
        self._measure()
        return tuple(self._records)

    def _measure(self) -> None:
        if self._ended_earlier:
            self._records.append(self._ended_earlier)
            self._ended_earlier = None
        calls: dict[str, NamedToolCall] = {}
        for offset, line, message_id, message in self._lines:
            parts = _result_parts(message) if message else None
            if parts is None:
                entry = None if line is None else decode_entry(offset, bytes(line), calls)
                parts = entry.parts if entry and not entry.hidden else ()
            tokens = sum(map(client_token_estimate, parts))
            if tokens or message_id is not None:
                key = None if message_id is None else text_key(message_id)
                self._records.append(AdditionRecord(offset, key, tokens))
        self._lines.clear()


@lru_cache(maxsize=64)
def has_exact_output(version: str | None) -> bool:
    """Whether clients of this version write an answer's final output count to each line."""
    parsed = parse_version(version)
    return parsed is not None and parsed >= EXACT_OUTPUT_VERSION
