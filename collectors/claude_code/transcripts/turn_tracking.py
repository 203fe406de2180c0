"""What takes several lines: answers, agents' steps, open tool calls, uncounted lines."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw, UnsetType

from ....core.measure.models import parse_version
from ....core.model.context import EXACT_OUTPUT_VERSION, client_token_estimate
from ....core.store.transcript_records import (
    AdditionRecord,
    OpenCallRecord,
    PeakRecord,
    ProgressLineRecord,
    ResponseRecord,
    SidechainLineRecord,
    TurnState,
    join_tools,
)
from ....core.transcript.entry_decoder import NamedToolCall, decode_entry
from ....core.transcript.line_decoder import (
    NotJsonError,
    ProgressData,
    ProgressStep,
    RawBlock,
    RawMessage,
    RawUsage,
    TranscriptLine,
    UnexpectedShapeError,
    decode_blocks,
    decode_line,
    decode_optional,
    is_estimated_usage,
    last_output_tokens,
    message_blocks,
    one_hour_cache_tokens,
    read_usage,
)
from ....core.transcript.line_glance import BlockGlance, LineGlance, MessageGlance
from ....core.transcript.raw_lines import text_key, timestamp_to_ms
from ....core.transcript.sanitize import sanitize_title


class MergedAnswer(msgspec.Struct, gc=False):
    """What the lines of one message say, as far as they were read."""

    message_id: str
    offset: int
    last_offset: int
    timestamp: str | None
    model: str | None
    usage: RawUsage
    output_tokens: int
    sidechain: bool
    tools: str
    request_ref: str | None


class MergedAnswers:
    """The answers of one run of lines, in the order in which they begin."""

    def __init__(self) -> None:
        self._by_message: dict[str, MergedAnswer] = {}
        self._superseded: list[tuple[str, str | None, bool, RawUsage]] = []

    def add(
        self, offset: int, line: LineGlance, message: MessageGlance, *, sidechain: bool, tools: str
    ) -> None:
        """Merge a line into its answer; a line without usage is ignored."""
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
                tools,
                line.request_ref,
            )
            return
        if usage != answer.usage or message.model != answer.model:
            self._superseded.append((message_id, answer.model, answer.sidechain, answer.usage))
        answer.last_offset = offset
        answer.model = message.model
        answer.usage = usage
        answer.request_ref = answer.request_ref or line.request_ref
        # A line that is appended again calls nothing twice.
        if tools and tools not in answer.tools:
            answer.tools = join_tools(answer.tools, tools)
        if output > answer.output_tokens:
            answer.output_tokens = output

    def to_facts(self) -> tuple[ResponseRecord, ...]:
        """Hand over one fact an answer."""
        return tuple(map(to_response_fact, self._by_message.values()))

    def superseded_peaks(self) -> tuple[PeakRecord, ...]:
        """Hand over what earlier lines of an answer said and its last line does not."""
        return tuple(
            PeakRecord(message_id, sanitize_title(model or ""), sidechain, read_usage(usage)[1])
            for message_id, model, sidechain, usage in self._superseded
        )


def to_response_fact(answer: MergedAnswer) -> ResponseRecord:
    """Convert an answer: the counts are its last line's, the output is the most on any line."""
    spent, context = read_usage(answer.usage)
    return ResponseRecord(
        offset=answer.offset,
        last_offset=answer.last_offset,
        message_id=answer.message_id,
        at=timestamp_to_ms(answer.timestamp),
        model=sanitize_title(answer.model or ""),
        input_tokens=spent.input_tokens,
        cache_creation_tokens=spent.cache_creation_tokens,
        cache_read_tokens=spent.cache_read_tokens,
        output_tokens=answer.output_tokens,
        context_tokens=context,
        sidechain=answer.sidechain,
        tools=answer.tools,
        request=text_key(answer.request_ref) if answer.request_ref else None,
        last_output_tokens=last_output_tokens(answer.usage),
        cache_1h_tokens=min(one_hour_cache_tokens(answer.usage), spent.cache_creation_tokens),
        lowered=is_estimated_usage(answer.usage),
    )


AGENT_PROGRESS_TYPES: Final = frozenset({"agent_progress", "skill_progress"})
"""Kinds of `progress` that hold an agent's own lines."""

TOOL_ID_CHARS: Final = 8
"""The end of a tool call's id, which tells it from the others of one answer."""


def read_sidechain_line(offset: int, line: TranscriptLine) -> SidechainLineRecord | None:
    """Read a line of a session's file that belongs to an agent; None where it has no uuid."""
    if not line.uuid:
        return None
    message = line.message or RawMessage()
    answered = line.type == "assistant" and message.id
    return SidechainLineRecord(
        offset=offset,
        line=text_key(line.uuid),
        parent=text_key(line.parent_uuid) if line.parent_uuid else None,
        message_id=message.id if answered else None,
        prompt=_prompt_key_of(message) if line.type == "user" and not line.parent_uuid else None,
    )


def prompt_key(prompt: str) -> int:
    """Make the key by which a tool call and the agent that it started find each other."""
    return text_key(prompt.strip())


def read_agent_step(offset: int, line: TranscriptLine) -> ProgressLineRecord | None:
    """Read an agent's line inside a `progress` line; None for progress of another kind."""
    data = decode_optional(line.data, ProgressData)
    if not data or data.type not in AGENT_PROGRESS_TYPES or not data.agent_id:
        return None
    step = decode_optional(data.message, ProgressStep) or ProgressStep()
    timestamp = step.timestamp or line.timestamp
    return ProgressLineRecord(
        offset=offset,
        agent_id=sanitize_title(data.agent_id),
        tool_use_id=line.parent_tool_use_id,
        at=timestamp_to_ms(timestamp),
        answer=_step_response(offset, timestamp, step) if step.type == "assistant" else None,
    )


def progress_type(line: TranscriptLine) -> str:
    """Name the kind of a `progress` line."""
    data = decode_optional(line.data, ProgressData)
    return (data.type if data else None) or "without type"


def tool_id_endings(blocks: Iterable[RawBlock | BlockGlance]) -> str:
    """Name the tool calls of a line, each by the end of its id and a comma."""
    named = ""
    for block in blocks:
        if block.type == "tool_use":
            named += (block.id or "?")[-TOOL_ID_CHARS:].replace(",", "") + ","
    return named


def _step_response(offset: int, timestamp: str | None, step: ProgressStep) -> ResponseRecord | None:
    message = step.message
    if message is None or message.usage is None:
        return None
    return to_response_fact(
        MergedAnswer(
            message_id=message.id or step.uuid or f"at {offset}",
            offset=offset,
            last_offset=offset,
            timestamp=timestamp,
            model=message.model,
            usage=message.usage,
            output_tokens=message.usage.output_tokens or 0,
            sidechain=True,
            tools=tool_id_endings(decode_blocks(message.content)),
            request_ref=None,
        )
    )


def _prompt_key_of(message: RawMessage) -> int | None:
    texts = [block.text or "" for block in decode_blocks(message.content) if block.type == "text"]
    return prompt_key("\n".join(texts)) if texts else None


DESCRIPTIVE_FIELDS: Final = (
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "url",
    "query",
    "description",
    "skill",
    "subject",
    "path",
    "prompt",
)
"""Fields of a tool's input that tell its call from others, the most telling first
(inputs of 2.1.329's own tools)."""

INTERRUPTION_PREFIX: Final = "[Request interrupted"
"""How the line begins that the client writes when a person stops it."""

_tool_input_decoder: Final = msgspec.json.Decoder(dict[str, Any])


class TurnTracker:
    """The open calls of one run of lines, those of earlier runs that it ends, and the turn.

    A call that is written again stands where it was first, unless it had ended.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, memoryview]] = {}
        self._ended: dict[str, None] = {}
        self._turn: tuple[TurnState, int, str | None] | None = None
        self._is_first = False

    def mark_file_start(self) -> None:
        """Note that the run starts the file, so that no call is open from before it."""
        self._is_first = True

    def set_turn(self, turn: TurnState, offset: int, timestamp: str | None) -> None:
        """Set whose turn it is from a line on; the first call for a line wins."""
        if self._turn is None or self._turn[1] != offset:
            self._turn = turn, offset, timestamp

    def add_calls(self, offset: int, line: memoryview, calls: list[BlockGlance]) -> None:
        for block in calls:
            if block.id:
                self._open.setdefault(block.id, (offset, line))

    def add_results(self, message: MessageGlance) -> None:
        """Close the calls that a user message has results for."""
        for block in message.content if type(message.content) is list else ():
            name = block.tool_use_id if type(block) is BlockGlance else None
            if name:
                self._open.pop(name, None)
                if not self._is_first:
                    self._ended[name] = None

    def open_calls(self) -> tuple[OpenCallRecord, ...]:
        """Hand over the calls that have no result among these lines."""
        facts = (_call_fact(name, *place) for name, place in self._open.items())
        return tuple(fact for fact in facts if fact is not None)

    def ended_calls(self) -> tuple[str, ...]:
        """Name the calls whose results are among these lines, and that may stand before them."""
        return tuple(self._ended)

    def session_fields(self) -> dict[str, Any]:
        """Return the turn's fields of the session record; empty if no line set a turn."""
        if self._turn is None:
            return {}
        turn, offset, stamp = self._turn
        return {"turn": turn, "turn_at": timestamp_to_ms(stamp), "turn_offset": offset}


def _call_fact(call: str, offset: int, data: memoryview) -> OpenCallRecord | None:
    try:
        line = decode_line(data)
        blocks = message_blocks(line)
    except (NotJsonError, UnexpectedShapeError):
        return None
    for block in blocks:
        if block.id == call:
            return OpenCallRecord(
                offset=offset,
                tool_use_id=call,
                at=line.at,
                name=sanitize_title(block.name or ""),
                detail=_call_detail(block.input),
            )
    return None


def _call_detail(raw: Raw | UnsetType) -> str:
    """Return one line that distinguishes a call from others of its tool; empty if unreadable."""
    if raw is msgspec.UNSET:
        return ""
    try:
        said = _tool_input_decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    named = (said.get(name) for name in DESCRIPTIVE_FIELDS)
    # A tool that we do not know: its first words are the best guess.
    words = (value for value in (*named, *said.values()) if isinstance(value, str) and value)
    return sanitize_title(next(words, ""))


class UncountedLines:
    """Lines of one run since its last answer began, and those before each boundary."""

    def __init__(self) -> None:
        self._lines: list[tuple[int, memoryview | None, str | None]] = []
        self._message_id: str | None = None
        self._from_file_start = False
        self._answer_offset = 0
        self._ended_earlier: AdditionRecord | None = None
        self._facts: list[AdditionRecord] = []

    def mark_file_start(self) -> None:
        """Note that the run starts the file, so that no line comes before it."""
        self._from_file_start = True

    def add(self, offset: int, line: memoryview) -> None:
        """Add a line that the next request may include."""
        self._lines.append((offset, line, None))

    def add_answer(self, offset: int, line: memoryview | None, message_id: str | None) -> None:
        """Add an answer's line; a new answer drops the lines before it, as it counts them itself.

        `line` is None where the API's output count is exact. Only the store knows whether the first
        answer of a run continues one from an earlier run.
        """
        who = message_id or f"at {offset}"
        if self._message_id != who and (self._message_id or self._from_file_start):
            if self._message_id and not self._from_file_start:
                # What the store has of an earlier run is over as well.
                self._ended_earlier = AdditionRecord(
                    self._answer_offset, text_key(self._message_id), 0
                )
            self._lines.clear()
        self._answer_offset = offset
        self._message_id = who
        self._lines.append((offset, line, who))

    def measure_at_boundary(self) -> None:
        """Measure what stands before a boundary; the next answer begins anew."""
        self._measure()
        # A boundary that is appended again is none to the store.
        self._message_id, self._from_file_start = None, False

    def to_facts(self) -> tuple[AdditionRecord, ...]:
        """Measure what is left, and hand over what was found."""
        self._measure()
        return tuple(self._facts)

    def _measure(self) -> None:
        if self._ended_earlier:
            self._facts.append(self._ended_earlier)
            self._ended_earlier = None
        calls: dict[str, NamedToolCall] = {}
        for offset, line, who in self._lines:
            tokens = 0 if line is None else _estimate_line(offset, line, calls)
            if tokens or who is not None:
                message = None if who is None else text_key(who)
                self._facts.append(AdditionRecord(offset, message, tokens))
        self._lines.clear()


@lru_cache(maxsize=64)
def has_exact_output(version: str | None) -> bool:
    """Whether clients of this version write an answer's whole output count to each line."""
    parsed = parse_version(version)
    return parsed is not None and parsed >= EXACT_OUTPUT_VERSION


def _estimate_line(offset: int, line: memoryview, calls: dict[str, NamedToolCall]) -> int:
    entry = decode_entry(offset, bytes(line), calls)
    return 0 if entry is None or entry.hidden else sum(map(client_token_estimate, entry.parts))
