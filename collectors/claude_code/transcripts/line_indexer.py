"""Turns a transcript's lines into records; only lines that need it are decoded whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ....core.store.transcript_records import FileKind, SourceFile, TranscriptRecords, TurnState
from ....core.summaries.mentions import strip_pasted_text
from ....core.transcript.line_decoder import (
    COMPACT_BOUNDARY,
    SYNTHETIC_MODEL,
    NotJsonError,
    RawBlock,
    TranscriptLine,
    UnexpectedShapeError,
    decode_attachment,
    decode_line,
    join_texts,
    message_blocks,
    repair_line,
)
from ....core.transcript.line_glance import (
    LineGlance,
    MessageGlance,
    glance,
    glance_unchecked,
    has_agent_result,
    has_failed_result,
    list_tool_calls,
    starts_with_tool_result,
)
from ....core.transcript.line_types import (
    CLIENT_TEXT,
    FULLY_DECODED_TOOLS,
    IGNORED_ATTACHMENTS,
    IGNORED_PROGRESS,
    IGNORED_SYSTEM,
    IGNORED_TYPES,
    LEADING_TYPE,
    SKIPPED_TYPES,
)
from ....core.transcript.raw_lines import LINE_PADDING
from ....core.transcript.sanitize import sanitize_title
from . import agent_results, client_output
from .api_requests import REQUEST_TYPE, read_request_line, read_request_part
from .client_output import (
    NOTE_ATTACHMENTS,
    find_markers,
    read_context_report,
    read_memory_note,
    read_model_choice,
    read_refusal,
    read_repeated_context_report,
    read_stop_block,
    read_stop_hooks,
)
from .fact_builder import FactBuilder
from .turn_tracking import (
    INTERRUPTION_PREFIX,
    has_exact_output,
    progress_type,
    prompt_key,
    read_agent_step,
    read_sidechain_line,
    tool_id_endings,
)

if TYPE_CHECKING:
    from ..tail import LineBlock


def index_answer(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note the agents that an answer starts, its plan, and an agent's reply."""
    blocks = message_blocks(line)
    for block in blocks:
        if block.type == "tool_use":
            builder.add_launch(offset, line, block)
            if not builder.is_sidechain(line) and (
                plan := agent_results.read_plan(offset, line, block)
            ):
                builder.texts.append(plan)
    if builder.is_agent:
        builder.add_reply(offset, line, blocks)


def index_user_line(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note a summary, what an agent returned, or a person's prompt."""
    builder.add_fork(line)
    if line.is_compact_summary:
        builder.texts.append(agent_results.read_compaction_summary(offset, line))
        return
    returned = agent_results.read_agent_result(offset, line)
    # What stands in an agent's own file was said to it, not to who started it.
    said = [] if builder.is_agent else agent_results.read_teammate_results(offset, line)
    for each in (*([returned] if returned else []), *said):
        builder.add_return(each)
    if returned or said:
        builder.turns.set_turn(TurnState.ASKED, offset, line.timestamp)
        return
    if line.is_meta or builder.is_sidechain(line):
        if builder.is_agent:
            client_output.index_agent_meta_line(builder, offset, line)
        elif not builder.is_sidechain(line) and (block := read_stop_block(offset, line)):
            builder.stop_blocks.append(block)
        elif not builder.is_sidechain(line) and (
            report := read_repeated_context_report(offset, line)
        ):
            builder.reports.append(report)
        return
    blocks = message_blocks(line)
    _index_turn(builder, offset, line, blocks)
    chosen = read_model_choice(blocks[0].text or "") if blocks else None
    if chosen:
        builder.session["model"] = chosen
        builder.model_offset = offset
    if builder.is_agent and blocks:
        builder.session.setdefault("prompt", prompt_key(join_texts(blocks)))
    if "first_prompt" in builder.session or (
        line.origin and line.origin.kind not in {None, "human"}
    ):
        return
    prompt = _first_typed_text(blocks)
    if prompt:
        builder.session["first_prompt"] = prompt


def index_failed_calls(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note tool calls that failed; the calls that were to start agents are among them."""
    if not builder.is_sidechain(line):
        builder.failures.extend(agent_results.read_failed_calls(offset, line))


def index_system_line(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note a compaction, what was cleared without one, or what `/context` said."""
    subtype = line.subtype or "without subtype"
    if subtype == COMPACT_BOUNDARY:
        builder.add_boundary(offset, line)
    elif subtype == "microcompact_boundary":
        builder.add_microcompaction(offset, line)
    elif subtype == "local_command" and (report := read_context_report(offset, line)):
        builder.reports.append(report)
    elif subtype == "stop_hook_summary":
        builder.stop_hooks.append(read_stop_hooks(offset, line))
    elif subtype in IGNORED_SYSTEM:
        builder.ignored[f"system/{subtype}"] += 1
    else:
        builder.unknown[sanitize_title(f"system/{subtype}")] += 1


def index_attachment(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note the model's name, and an agent's return that came in the middle of a turn."""
    attachment = decode_attachment(line)
    kind = (attachment.type if attachment else None) or "without type"
    if attachment and kind in {"queued_command", "teammate_mailbox"}:
        returned = agent_results.read_queued_result(offset, line, attachment)
        said = (
            []
            if builder.is_agent
            else agent_results.read_queued_teammate_results(offset, line, attachment)
        )
        for each in (*([returned] if returned else []), *said):
            builder.add_return(each)
    elif attachment and kind == "model":
        if attachment.identity and attachment.identity.model_id:
            builder.session["model"] = sanitize_title(attachment.identity.model_id)
            builder.model_offset = offset
    elif (
        attachment
        and kind in NOTE_ATTACHMENTS
        and (note := read_memory_note(offset, line, attachment))
    ):
        builder.notes.append(note)
    elif kind in IGNORED_ATTACHMENTS:
        builder.ignored[f"attachment/{kind}"] += 1
    else:
        builder.unknown[sanitize_title(f"attachment/{kind}")] += 1


def index_title(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note what the session is called, or another one that a summary names by its last line."""
    for name, value in (
        ("custom_title", line.custom_title),
        ("ai_title", line.ai_title),
        ("last_prompt", strip_pasted_text(line.last_prompt or "")),
    ):
        if value and sanitize_title(value):
            builder.session[name] = sanitize_title(value)
    title = sanitize_title(line.summary or "")
    if title and line.leaf_uuid:
        builder.leaf_titles[sanitize_title(line.leaf_uuid)] = title
    elif title:
        builder.session["summary_title"] = title


def index_progress(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note what an agent did in its parent's file."""
    step = read_agent_step(offset, line)
    if step:
        builder.steps.append(step)
        return
    kind = progress_type(line)
    if kind in IGNORED_PROGRESS:
        builder.ignored[f"progress/{kind}"] += 1
    else:
        builder.unknown[sanitize_title(f"progress/{kind}")] += 1


def index_queue_operation(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note an agent's return that waits its turn."""
    returned = agent_results.read_queued_notification(offset, line)
    if returned:
        builder.add_return(returned)
    else:
        builder.ignored["queue-operation"] += 1


def index_workflow_line(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note what an agent of a workflow returned."""
    is_journal = builder.source.kind is FileKind.JOURNAL
    returned = agent_results.read_workflow_result(offset, line) if is_journal else None
    if returned:
        builder.add_return(returned)
    else:
        builder.unknown[sanitize_title(line.type or "")] += 1


def index_cost(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note the client's running total of what the session cost; an agent's file has none."""
    if line.total_cost is not None:
        builder.cost = offset, line.total_cost


def index_sources(builder: FactBuilder, _offset: int, line: TranscriptLine) -> None:
    """Note which session this one was copied from."""
    builder.add_fork(line)


def index_synthetic_answer(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note an answer that the client made up: a refusal, or nothing that counts."""
    refusal = read_refusal(offset, line)
    if refusal:
        builder.errors.append(refusal)
        if not builder.is_sidechain(line):
            builder.turns.set_turn(TurnState.OVER, offset, line.timestamp)
    else:
        builder.ignored["assistant/synthetic"] += 1


def index_sidechain_line(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note a line of an agent in its session's own file."""
    aside = read_sidechain_line(offset, line)
    if aside:
        builder.asides.append(aside)


def _index_turn(
    builder: FactBuilder, offset: int, line: TranscriptLine, blocks: list[RawBlock]
) -> None:
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    if any(text.startswith(INTERRUPTION_PREFIX) for text in texts):
        builder.turns.set_turn(TurnState.OVER, offset, line.timestamp)
    elif any(not CLIENT_TEXT.match(text) for text in texts):
        builder.turns.set_turn(TurnState.ASKED, offset, line.timestamp)


def _first_typed_text(blocks: list[RawBlock]) -> str | None:
    for block in blocks:
        if block.type == "text" and block.text and not CLIENT_TEXT.match(block.text):
            return sanitize_title(strip_pasted_text(block.text)) or None
    return None


LINE_INDEXERS: Final[dict[str, Callable[[FactBuilder, int, TranscriptLine], None]]] = {
    "system": index_system_line,
    "attachment": index_attachment,
    "custom-title": index_title,
    "ai-title": index_title,
    "last-prompt": index_title,
    "summary": index_title,
    "progress": index_progress,
    "queue-operation": index_queue_operation,
    "result": index_workflow_line,
    "failed": index_workflow_line,
    "cost-state": index_cost,
    "derived-from": index_sources,
}
"""Who reads a line of a type that is no message."""


_OPEN, _CLOSE, _TYPE = b"{}t"


def index_block(source: SourceFile, block: LineBlock) -> TranscriptRecords:
    """Read whole lines; the same lines give the same facts, however they are cut."""
    reading = _LineIndexer(source)
    reading.read(block)
    return reading.builder.build()


_REQUEST_LINE_TYPES: Final = frozenset({"attachment", "system"})
"""Types of lines, besides messages, of which a request holds some."""


class _LineIndexer:
    """One run of lines: each is looked at, and only those that need it are decoded whole."""

    def __init__(self, source: SourceFile) -> None:
        self.builder: Final = FactBuilder(source)

    def read(self, block: LineBlock) -> None:
        """Index a block's lines by their offsets in the file."""
        data, first = block.data, block.offset
        if first == 0:
            self.builder.uncounted.mark_file_start()
            self.builder.turns.mark_file_start()
        view, find = memoryview(data), data.find
        position, end = 0, block.size
        while position < end:
            stop = find(b"\n", position, end)
            if stop < 0:
                # The last line of a file may have no line end.
                stop = end
            if data[position] == _OPEN and data[stop - 1] == _CLOSE:
                self.builder.lines += 1
                line = view[position:stop]
                # Only what is no message names its type first.
                head = LEADING_TYPE.match(line) if data[position + 2] == _TYPE else None
                if not head or not self._index_by_type(first + position, line, head[1]):
                    try:
                        self._index_line(first + position, line, glance_unchecked(line))
                    except (ValueError, RecursionError):
                        self._index_repaired(first + position, bytes(line))
            else:
                # A crash can leave NUL bytes where a line was to be (claude-code-formats 1.7).
                text = data[position:stop].strip(LINE_PADDING)
                if text:
                    self.builder.lines += 1
                    self._index_repaired(first + position, text)
            position = stop + 1
        if self.builder.is_agent:
            self.builder.markers.extend(find_markers(data, first, end))

    def _index_by_type(self, offset: int, line: memoryview, kind: bytes) -> bool:
        """Index a line by its leading type alone; False if the whole line must be parsed."""
        if kind in SKIPPED_TYPES:
            self.builder.ignored[kind.decode()] += 1
            return True
        if not kind.startswith(REQUEST_TYPE):
            return False
        request = read_request_line(offset, line) if kind == REQUEST_TYPE else None
        part = None if request else read_request_part(offset, line)
        if request:
            self.builder.requests.append(request)
        elif part:
            self.builder.parts.append(part)
        return bool(request or part)

    def _index_repaired(self, offset: int, line: bytes) -> None:
        """Index a line that may be invalid JSON: repair it, or record it as a bad line."""
        try:
            try:
                self._index_line(offset, memoryview(line), glance(line))
            except NotJsonError:
                mended = repair_line(line)
                self._index_line(offset, memoryview(mended), glance(mended))
        except NotJsonError as error:
            self.builder.add_bad_line(offset, line, f"not JSON: {error}")
        except UnexpectedShapeError as error:
            self.builder.add_bad_line(offset, line, f"unexpected shape: {error}")

    def _index_line(self, offset: int, line: memoryview, seen: LineGlance) -> None:
        found = self.builder
        stamp, cwd, version = seen.timestamp, seen.cwd, seen.version
        if stamp:
            found.times.append(stamp)
        if cwd:
            if not (found.is_agent or seen.is_sidechain):
                found.add_root(cwd, line)
            found.cwd = cwd
        if version:
            found.version = version
        if seen.uuid and not seen.is_sidechain:
            found.leaf_uuid = seen.uuid
        if seen.forked_from and "forked_from" not in found.session:
            found.add_fork(decode_line(line))
        if seen.is_sidechain and not found.is_agent:
            index_sidechain_line(self.builder, offset, decode_line(line))
        kind, message = seen.type, seen.message
        if kind == "assistant" and message:
            self._index_assistant(offset, line, seen, message)
        elif kind == "user" and message:
            is_result = starts_with_tool_result(message)
            if found.is_agent or not seen.is_sidechain:
                found.uncounted.add(offset, line)
                if is_result:
                    found.turns.add_results(message)
                    found.turns.set_turn(TurnState.RESULT, offset, stamp)
            if not is_result or has_agent_result(seen) or seen.is_compact_summary:
                index_user_line(self.builder, offset, decode_line(line))
            elif has_failed_result(message):
                index_failed_calls(self.builder, offset, decode_line(line))
        else:
            self._index_other(offset, line, seen)

    def _index_assistant(
        self, offset: int, line: memoryview, seen: LineGlance, message: MessageGlance
    ) -> None:
        found = self.builder
        if seen.is_api_error_message or message.model == SYNTHETIC_MODEL:
            index_synthetic_answer(found, offset, decode_line(line))
            return
        calls = list_tool_calls(message)
        aside = not found.is_agent and seen.is_sidechain is True
        if not aside:
            exact = not found.is_agent and has_exact_output(seen.version)
            found.uncounted.add_answer(offset, None if exact else line, message.id)
            found.turns.set_turn(TurnState.ANSWERED, offset, seen.timestamp)
            if calls:
                found.turns.add_calls(offset, line, calls)
        tools = tool_id_endings(calls) if calls else ""
        found.answers.add(offset, seen, message, sidechain=aside, tools=tools)
        if found.is_agent or (calls and any(call.name in FULLY_DECODED_TOOLS for call in calls)):
            index_answer(found, offset, decode_line(line))

    def _index_other(self, offset: int, line: memoryview, seen: LineGlance) -> None:
        kind = seen.type or "no type"
        if kind in _REQUEST_LINE_TYPES and (self.builder.is_agent or not seen.is_sidechain):
            self.builder.uncounted.add(offset, line)
        reader = LINE_INDEXERS.get(kind)
        if reader:
            reader(self.builder, offset, decode_line(line))
        elif kind in IGNORED_TYPES:
            self.builder.ignored[kind] += 1
        elif kind in {"assistant", "user"}:
            self.builder.unknown[f"{kind} without a message"] += 1
        else:
            self.builder.unknown[sanitize_title(kind)] += 1
