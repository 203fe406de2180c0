"""What hooks, local commands (/context, /model) and API errors leave in a transcript."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ....core.model import transcript_records as records
from ....core.model.claude_models import LARGE_WINDOW_SUFFIX
from ....core.model.context import DEFERRED_SUFFIX, ContextReport, ReportedCategory
from ....core.model.result_formats import COMPRESSED_MARKER
from ....core.model.transcript_records import MarkerOrigin, MarkerRecord
from ....core.saves.save_noise import STOP_FEEDBACK_PREFIX
from ....core.transcript import lenient_json, line_decoder
from ....core.transcript.line_types import LEADING_TYPE
from ....core.transcript.raw_lines import LINE_PADDING
from ....core.transcript.sanitize import sanitize_text, sanitize_title


def read_boundary(offset: int, line: line_decoder.TranscriptLine) -> records.BoundaryRecord:
    metadata = line.compact_metadata or line_decoder.CompactMetadata()
    kept = metadata.preserved_messages.uuids if metadata.preserved_messages else None
    return records.BoundaryRecord(
        offset=offset,
        uuid=line.name_at(offset),
        at=line.at,
        trigger=metadata.trigger or None,
        pre_tokens=metadata.pre_tokens,
        post_tokens=metadata.post_tokens,
        dropped_tokens=metadata.cumulative_dropped_tokens,
        duration_ms=metadata.duration_ms,
        kept_messages=None if kept is None else len(kept),
        is_precomputed=metadata.precomputed,
    )


def read_microcompaction(
    offset: int, line: line_decoder.TranscriptLine
) -> records.MicrocompactionRecord:
    metadata = line.microcompact_metadata or line_decoder.MicrocompactMetadata()
    return records.MicrocompactionRecord(
        offset=offset,
        at=line.at,
        saved_tokens=metadata.tokens_saved,
        results=len(metadata.compacted_tool_ids),
        attachments=len(metadata.cleared_attachments),
    )


MAX_STOP_BLOCK_CHARS: Final = 16 * 1024  # of a message; inline triage data has about 4 KB
NOTE_ATTACHMENTS: Final = frozenset({"hook_success", "hook_additional_context"})
"""Attachments with the output of a hook that ran at a prompt."""

_MEMORY_NOTE: Final = re.compile(
    r"<memory-note>\s*"
    r"((?:Memories saved|Pending memory save|Previous session).*?)"
    r"\s*</memory-note>",
    re.DOTALL,
)


def read_stop_block(
    offset: int, line: line_decoder.TranscriptLine
) -> records.StopBlockRecord | None:
    blocks = line_decoder.message_blocks(line)
    text = (blocks[0].text or "") if blocks else ""
    if not text.startswith(STOP_FEEDBACK_PREFIX):
        return None
    return records.StopBlockRecord(
        offset=offset,
        uuid=line.name_at(offset),
        at=line.at,
        text=sanitize_text(text[:MAX_STOP_BLOCK_CHARS]),
        lines=len(text.splitlines()),
        chars=len(text),
    )


def read_memory_note(
    offset: int, line: line_decoder.TranscriptLine, attachment: line_decoder.Attachment
) -> records.MemoryNoteRecord | None:
    """Read claude-memory's note at a prompt (004-58); None for other hooks' output."""
    for part in (attachment.content, attachment.stdout):
        value = line_decoder.decode_value(part)
        text = "\n".join(map(str, value)) if isinstance(value, list) else value
        note = _MEMORY_NOTE.search(text) if isinstance(text, str) else None
        if note:
            return records.MemoryNoteRecord(offset, line.at, sanitize_title(note[1]))
    return None


MAX_SUMMARY_HOOKS: Final = 50  # of one summary


def read_hook_runs(offset: int, line: line_decoder.TranscriptLine) -> list[records.HookRunRecord]:
    """Read the hooks of a `stop_hook_summary` that took a known time."""
    errors = line_decoder.decode_value(line.hook_errors)
    texts = [line_decoder.decode_string(line.stop_reason)]
    texts += [text for text in errors if isinstance(text, str)] if isinstance(errors, list) else []
    reason = "; ".join(filter(str.strip, texts)) or None
    event = line_decoder.decode_string(line.hook_label) or "Stop"
    hooks = line_decoder.decode_list(line.hook_infos, line_decoder.HookInfo)[:MAX_SUMMARY_HOOKS]
    from ..config.hook_settings import describe_command  # few files name hooks

    return [
        records.HookRunRecord(
            offset=offset,
            number=number,
            at=line.at,
            event=sanitize_title(event),
            command=describe_command(hook.command or ""),
            duration_ms=hook.duration_ms,
            reason=reason,
        )
        for number, hook in enumerate(hooks)
        if hook.duration_ms is not None
    ]


MARKER_BYTES: Final = COMPRESSED_MARKER.encode()

AGENT_HOOK_FEEDBACK: Final = re.compile(r"(?:Subagent)?Stop hook feedback:")
"""The client's prefix for what a hook tells an agent that tried to stop (claude-code-live)."""

SKILL_NAME: Final = re.compile(r"<command-name>/?([^<]{1,200})</command-name>")
"""The client's tag for the name of a skill that it gives to an agent (claude-code-live)."""


def read_agent_meta_line(
    offset: int, line: line_decoder.TranscriptLine
) -> records.StopFeedbackRecord | records.GivenSkillRecord | None:
    for block in line_decoder.message_blocks(line):
        text = block.text or ""
        if AGENT_HOOK_FEEDBACK.match(text):
            return records.StopFeedbackRecord(offset, line.name_at(offset))
        if skill := SKILL_NAME.search(text):
            return records.GivenSkillRecord(offset, line.name_at(offset), skill[1])
    return None


def find_markers(data: bytes, first: int, size: int) -> Iterator[MarkerRecord]:
    """Find the lines of an agent's file that hold the marker, as a grep would, and their origins.

    `first` is the offset of the data in its file. A line that cannot be read is ignored: indexing
    records it as a bad line.
    """
    place = data.find(MARKER_BYTES, 0, size)
    while place >= 0:
        begin = data.rfind(b"\n", 0, place) + 1
        end = data.find(b"\n", place, size)
        end = size if end < 0 else end
        if marker := _read_marker(first + begin, data[begin:end].strip(LINE_PADDING)):
            yield marker
        place = data.find(MARKER_BYTES, end, size)


def _read_marker(offset: int, data: bytes) -> MarkerRecord | None:
    try:
        try:
            return _to_marker(offset, data)
        except lenient_json.NotJsonError:
            return _to_marker(offset, lenient_json.repair_line(data))
    except (lenient_json.NotJsonError, lenient_json.UnexpectedShapeError):
        return None


def _to_marker(offset: int, data: bytes) -> MarkerRecord:
    head = LEADING_TYPE.match(data)
    if head and head[1].startswith(b"api-request"):
        return MarkerRecord(offset, f"at {offset}", MarkerOrigin.REQUEST_COPY)
    line, _ = line_decoder.decode_readable_fields(data)
    name = line.name_at(offset)
    if line.type != "assistant" or not line.message:
        return MarkerRecord(offset, name, _marker_origin(line))
    text = line_decoder.join_texts(line_decoder.message_blocks(line)).strip()
    if COMPRESSED_MARKER not in text:
        return MarkerRecord(offset, name, MarkerOrigin.OTHER)
    message_id = line.message.id or name
    return MarkerRecord(offset, name, MarkerOrigin.ASSISTANT, message_id, text)


def _marker_origin(line: line_decoder.TranscriptLine) -> MarkerOrigin:
    if line.type == "attachment":
        attachment = line_decoder.decode_attachment(line)
        injected = attachment is not None and attachment.type == "hook_additional_context"
        return MarkerOrigin.INJECTED_CONTEXT if injected else MarkerOrigin.OTHER
    if line.type != "user" or line.is_compact_summary or not line.message:
        return MarkerOrigin.OTHER
    blocks = line_decoder.message_blocks(line)
    if any(block.type == "tool_result" for block in blocks):
        return MarkerOrigin.TOOL_RESULT
    texts = [block.text or "" for block in blocks]
    if not line.is_meta:
        return MarkerOrigin.TASK_PROMPT
    if any(AGENT_HOOK_FEEDBACK.match(text) for text in texts):
        return MarkerOrigin.HOOK_FEEDBACK
    if any(
        SKILL_NAME.search(text) or text.startswith("Base directory for this skill:")
        for text in texts
    ):
        return MarkerOrigin.SKILL_TEXT
    return MarkerOrigin.OTHER


_NUMBER: Final = r"[\d.]{1,20}[km]?"

_REPORT_HEAD: Final = re.compile(
    r"\*\*Model:\*\* (?P<model>\S{1,200})\s+"
    rf"\*\*Tokens:\*\* (?P<used>{_NUMBER}) / (?P<window>{_NUMBER}) \((?P<percent>\d{{1,9}})%\)"
)
_REPORT_ROW: Final = re.compile(
    rf"^\| (?P<name>[^|\n]{{1,80}}?) \| (?P<tokens>{_NUMBER}) \| [\d.]+% \|$", re.MULTILINE
)
_UNITS: Final = {"k": 1_000, "m": 1_000_000}

_MAX_TOKENS: Final = 10**9  # tokens; a report of more is invalid


class _CategoryTokens(msgspec.Struct):
    name: str
    tokens: int


class _ContextUsage(msgspec.Struct):
    model: str
    total_tokens: int
    raw_max_tokens: int
    percentage: int
    categories: list[_CategoryTokens]


_context_usage_decoder: Final = msgspec.json.Decoder(_ContextUsage, strict=False)


def read_context_report(
    offset: int, line: line_decoder.TranscriptLine
) -> records.ContextReportRecord | None:
    """Read the output of `/context`, None of another command; raises NotJsonError."""
    report = parse_context_usage(line.context_usage)
    return _to_record(
        offset, line, report or parse_context_text(line_decoder.decode_string(line.content))
    )


def read_repeated_context_report(
    offset: int, line: line_decoder.TranscriptLine
) -> records.ContextReportRecord | None:
    """Read the line that repeats `/context` to the model, if it is one; raises NotJsonError."""
    blocks = line_decoder.message_blocks(line)
    text = next((block.text for block in blocks if block.type == "text" and block.text), "")
    report = parse_context_text(text) if text.startswith("## Context Usage") else None
    return _to_record(offset, line, report)


def _to_record(
    offset: int, line: line_decoder.TranscriptLine, report: ContextReport | None
) -> records.ContextReportRecord | None:
    if report is None:
        return None
    return records.ContextReportRecord(
        offset=offset,
        model=report.model,
        total_tokens=report.total_tokens,
        window_tokens=report.window_tokens,
        buffer_tokens=report.autocompact_buffer,
    )


def parse_context_text(text: str) -> ContextReport | None:
    head = _REPORT_HEAD.search(text)
    if not head:
        return None
    used, window = _parse_tokens(head["used"]), _parse_tokens(head["window"])
    rows = {row["name"]: _parse_tokens(row["tokens"]) for row in _REPORT_ROW.finditer(text)}
    if used is None or window is None or not rows:
        return None
    counted = {name: tokens for name, tokens in rows.items() if tokens is not None}
    return _to_context_report(head["model"], used, window, int(head["percent"]), counted)


def parse_context_usage(data: Raw | UnsetType) -> ContextReport | None:
    """Read a line's `contextUsage` (client 2.1.329), exact to the token; None for anything else."""
    if data is UNSET:
        return None
    try:
        usage = _context_usage_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    counted = {category.name: category.tokens for category in usage.categories}
    return _to_context_report(
        usage.model, usage.total_tokens, usage.raw_max_tokens, usage.percentage, counted
    )


def _to_context_report(
    model: str, used: int, window: int, percent: int, counted: dict[str, int]
) -> ContextReport | None:
    if not 0 < window <= _MAX_TOKENS or not 0 <= used <= _MAX_TOKENS:
        return None
    outside = {ReportedCategory.FREE_SPACE, ReportedCategory.AUTOCOMPACT_BUFFER}
    return ContextReport(
        model=sanitize_title(model),
        total_tokens=used,
        window_tokens=window,
        percent=percent,
        categories={
            sanitize_title(name): tokens
            for name, tokens in counted.items()
            if name not in outside and not name.endswith(DEFERRED_SUFFIX)
        },
        autocompact_buffer=counted.get(ReportedCategory.AUTOCOMPACT_BUFFER),
    )


def _parse_tokens(text: str) -> int | None:
    number, unit = text.rstrip("km"), text[-1]
    try:
        return round(float(number) * _UNITS.get(unit, 1))
    except (ValueError, OverflowError):
        return None


MODEL_SET_PREFIX: Final = "<local-command-stdout>Set model to "
"""How the answer of /model begins; without a change it is `Kept model as`."""

_MODEL_ID: Final = re.compile(r"claude-[a-z0-9-]+(?:\[1m\])?")
_MODEL_NAME: Final = re.compile(r"\b(Opus|Sonnet|Haiku|Fable|Mythos) (\d+)(?:\.(\d+))?")
_LARGE_WINDOW: Final = re.compile(r"\b1M context\b|\[1m\]")


def read_model_choice(text: str) -> str | None:
    """Return the chosen model's id with its suffix; None for another text or an unknown name.

    The answer has the model's id or its name: `Opus 5.5`, `Sonnet 4.6 (1M context)`
    (client 2.1.329), `opus (claude-opus-4-5-20251101)` (2.0).
    """
    if not text.startswith(MODEL_SET_PREFIX):
        return None
    answer = sanitize_title(text.removeprefix(MODEL_SET_PREFIX))
    if model_id := _MODEL_ID.search(answer):
        return model_id[0]
    name = _MODEL_NAME.search(answer)
    if name is None:
        return None
    family, *numbers = (part for part in name.groups() if part)
    suffix = LARGE_WINDOW_SUFFIX if _LARGE_WINDOW.search(answer) else ""
    return "-".join(["claude", family.lower(), *numbers]) + suffix


def read_refusal(offset: int, line: line_decoder.TranscriptLine) -> records.ApiErrorRecord | None:
    if not line.is_api_error_message:
        return None
    message = " ".join(
        block.text or "" for block in line_decoder.message_blocks(line) if block.type == "text"
    )
    details = line_decoder.decode_value(line.error_details)
    detail = details if isinstance(details, str) else message
    stated = line_decoder.decode_value(line.error)
    from ....core.compaction.recovery.limit_errors import parse_limit_error  # refusals are rare

    error = parse_limit_error({"details": details, "message": message, "error": stated})
    if error and error.exceeds_window:
        sizes = error.current_tokens, error.max_tokens
        return records.ApiErrorRecord(offset, line.at, "too_long", detail, line.uuid, *sizes)
    kind = str(stated or "unknown")
    return records.ApiErrorRecord(offset, line.at, kind, detail, line.uuid)
