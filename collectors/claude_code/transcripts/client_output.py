"""What hooks, local commands (/context, /model) and API errors leave in a transcript."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ....core.compaction.recovery.limit_errors import parse_limit_error
from ....core.compliance.findings import COMPRESSED_MARKER
from ....core.measure.models import LARGE_WINDOW_SUFFIX
from ....core.model.context import DEFERRED_SUFFIX, ContextReport, ReportedCategory
from ....core.saves.save_noise import STOP_FEEDBACK_PREFIX
from ....core.store.transcript_records import (
    ApiErrorRecord,
    ContextReportRecord,
    GivenSkillRecord,
    MarkerOrigin,
    MarkerRecord,
    MemoryNoteRecord,
    StopBlockRecord,
    StopFeedbackRecord,
    StopHookRecord,
)
from ....core.transcript.line_decoder import (
    Attachment,
    NotJsonError,
    TranscriptLine,
    UnexpectedShapeError,
    decode_attachment,
    decode_line,
    decode_string,
    decode_value,
    join_texts,
    message_blocks,
    repair_line,
)
from ....core.transcript.line_types import LEADING_TYPE
from ....core.transcript.raw_lines import LINE_PADDING
from ....core.transcript.sanitize import sanitize_text, sanitize_title

if TYPE_CHECKING:
    from .fact_builder import FactBuilder


MAX_STOP_BLOCK_CHARS: Final = 16 * 1024
"""Of a hook's words that are kept; triage data that stands inline has about 4 KB."""

MAX_NAMED_COMMANDS: Final = 50  # of one end of a turn that are named
NOTE_ATTACHMENTS: Final = frozenset({"hook_success", "hook_additional_context"})
"""Attachments in which the words of a hook stand that ran at a prompt."""

_MEMORY_NOTE: Final = re.compile(
    r"<memory-note>\s*"
    r"((?:Memories saved|Pending memory save|Previous session).*?)"
    r"\s*</memory-note>",
    re.DOTALL,
)


def read_stop_block(offset: int, line: TranscriptLine) -> StopBlockRecord | None:
    """Read what a Stop hook kept the session for; None for any other line."""
    blocks = message_blocks(line)
    text = (blocks[0].text or "") if blocks else ""
    if not text.startswith(STOP_FEEDBACK_PREFIX):
        return None
    return StopBlockRecord(
        offset=offset,
        uuid=line.name_at(offset),
        at=line.at,
        text=sanitize_text(text[:MAX_STOP_BLOCK_CHARS]),
        lines=len(text.splitlines()),
        chars=len(text),
    )


def read_stop_hooks(offset: int, line: TranscriptLine) -> StopHookRecord:
    """Read what the client wrote down of its Stop hooks."""
    infos = decode_value(line.hook_infos)
    errors = decode_value(line.hook_errors)
    count = decode_value(line.hook_count)
    ran = [each for each in infos if isinstance(each, dict)] if isinstance(infos, list) else []
    taken = [each["durationMs"] for each in ran if _is_count(each.get("durationMs"))]
    names = [sanitize_title(str(each.get("command") or "")) for each in ran[:MAX_NAMED_COMMANDS]]
    return StopHookRecord(
        offset=offset,
        at=line.at,
        hooks=count if isinstance(count, int) and _is_count(count) else len(ran),
        blocked=len(errors) if isinstance(errors, list) else 0,
        duration_ms=max(taken, default=None),
        commands=msgspec.json.encode(names).decode(),
    )


def read_memory_note(
    offset: int, line: TranscriptLine, attachment: Attachment
) -> MemoryNoteRecord | None:
    """Read what the plugin told at a prompt (004-58); None for other hooks' words."""
    for part in (attachment.content, attachment.stdout):
        said = decode_value(part)
        words = "\n".join(map(str, said)) if isinstance(said, list) else said
        found = _MEMORY_NOTE.search(words) if isinstance(words, str) else None
        if found:
            return MemoryNoteRecord(offset, line.at, sanitize_title(found[1]))
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 40


MARKER_BYTES: Final = COMPRESSED_MARKER.encode()

AGENT_HOOK_FEEDBACK: Final = re.compile(r"(?:Subagent)?Stop hook feedback:\s*")
"""How the client begins what a hook says to an agent that wanted to stop (claude-code-live)."""

SKILL_NAME: Final = re.compile(r"<command-name>/?([^<]{1,200})</command-name>")
"""How the client names a skill whose text it gives to an agent (claude-code-live)."""

SKILL_BODY_PREFIX: Final = "Base directory for this skill:"


def index_agent_meta_line(builder: FactBuilder, offset: int, line: TranscriptLine) -> None:
    """Note in an agent's file that it was blocked, or which skill it was given."""
    blocks = message_blocks(line)
    who = line.name_at(offset)
    for block in blocks:
        text = block.text or ""
        if found := AGENT_HOOK_FEEDBACK.match(text):
            said = sanitize_text(text[found.end() :].strip())
            builder.feedback.append(StopFeedbackRecord(offset, who, line.at, said))
            return
        if skill := SKILL_NAME.search(text):
            name = sanitize_title(skill[1])
            builder.skills.append(GivenSkillRecord(offset, who, line.at, name))
            return


def find_markers(data: bytes, first: int, size: int) -> Iterator[MarkerRecord]:
    """Find the lines of an agent's file that hold the marker, as a grep would, and what they are.

    `first` is where the data stands in its file; a line that cannot be read is passed over,
    since it is set aside where it is read.
    """
    place = data.find(MARKER_BYTES, 0, size)
    while place >= 0:
        begin = data.rfind(b"\n", 0, place) + 1
        end = data.find(b"\n", place, size)
        end = size if end < 0 else end
        if found := _read_marker(first + begin, data[begin:end].strip(LINE_PADDING)):
            yield found
        place = data.find(MARKER_BYTES, end, size)


def _read_marker(offset: int, data: bytes) -> MarkerRecord | None:
    try:
        try:
            return _to_marker(offset, data)
        except NotJsonError:
            return _to_marker(offset, repair_line(data))
    except (NotJsonError, UnexpectedShapeError):
        return None


def _to_marker(offset: int, data: bytes) -> MarkerRecord:
    head = LEADING_TYPE.match(data)
    if head and head[1].startswith(b"api-request"):
        return MarkerRecord(offset, f"at {offset}", None, MarkerOrigin.REQUEST_COPY)
    line = decode_line(data)
    who, at = line.name_at(offset), line.at
    if line.type == "assistant" and line.message:
        text = join_texts(message_blocks(line)).strip()
        if COMPRESSED_MARKER in text:
            message = line.message.id or who
            return MarkerRecord(
                offset, who, at, MarkerOrigin.ASSISTANT, message, sanitize_text(text)
            )
        return MarkerRecord(offset, who, at, MarkerOrigin.OTHER)
    return MarkerRecord(offset, who, at, _marker_origin(line))


def _marker_origin(line: TranscriptLine) -> MarkerOrigin:
    if line.type == "attachment":
        attachment = decode_attachment(line)
        injected = attachment is not None and attachment.type == "hook_additional_context"
        return MarkerOrigin.INJECTED_CONTEXT if injected else MarkerOrigin.OTHER
    if line.type != "user" or line.is_compact_summary or not line.message:
        return MarkerOrigin.OTHER
    blocks = message_blocks(line)
    if any(block.type == "tool_result" for block in blocks):
        return MarkerOrigin.TOOL_RESULT
    texts = [block.text or "" for block in blocks]
    if not line.is_meta:
        return MarkerOrigin.TASK_PROMPT
    if any(AGENT_HOOK_FEEDBACK.match(text) for text in texts):
        return MarkerOrigin.HOOK_FEEDBACK
    if any(SKILL_NAME.search(text) or text.startswith(SKILL_BODY_PREFIX) for text in texts):
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

REPORT_HEADING: Final = "## Context Usage"
"""How the report begins that an interactive client gives the model (client 2.1.329)."""

_MAX_TOKENS: Final = 10**9  # tokens; what claims more is no report


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


def read_context_report(offset: int, line: TranscriptLine) -> ContextReportRecord | None:
    """Read a local command's line; None where the command was another one.

    Raises NotJsonError as `decode_string` does.
    """
    said = parse_context_usage(line.context_usage) or parse_context_text(
        decode_string(line.content)
    )
    return None if said is None else _report_fact(offset, line, said)


def read_repeated_context_report(offset: int, line: TranscriptLine) -> ContextReportRecord | None:
    """Read the line in which the model is told what `/context` printed on a person's screen.

    None for any other line; raises NotJsonError as `decode_blocks` does.
    """
    blocks = message_blocks(line)
    text = next((block.text for block in blocks if block.type == "text" and block.text), "")
    said = parse_context_text(text) if text.startswith(REPORT_HEADING) else None
    return None if said is None else _report_fact(offset, line, said)


def _report_fact(offset: int, line: TranscriptLine, said: ContextReport) -> ContextReportRecord:
    return ContextReportRecord(
        offset=offset,
        at=line.at,
        model=said.model,
        total_tokens=said.total_tokens,
        window_tokens=said.window_tokens,
        buffer_tokens=said.autocompact_buffer,
    )


def parse_context_text(text: str) -> ContextReport | None:
    """Read the Markdown that `/context` printed; None where a text is no such report."""
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
        said = _context_usage_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    counted = {each.name: each.tokens for each in said.categories}
    return _to_context_report(
        said.model, said.total_tokens, said.raw_max_tokens, said.percentage, counted
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
"""How the command's answer begins; where nothing was changed it says `Kept model as`."""

_MODEL_ID: Final = re.compile(r"claude-[a-z0-9-]+(?:\[1m\])?")
_MODEL_NAME: Final = re.compile(r"\b(Opus|Sonnet|Haiku|Fable|Mythos) (\d+)(?:\.(\d+))?")
_LARGE_WINDOW: Final = re.compile(r"\b1M context\b|\[1m\]")


def read_model_choice(text: str) -> str | None:
    """Name the model that was chosen, with its mark; None for another text or an unknown name.

    The answer has the model's id or its name: `Opus 5.5`, `Sonnet 4.6 (1M context)`
    (client 2.1.329), `opus (claude-opus-4-5-20251101)` (2.0).
    """
    if not text.startswith(MODEL_SET_PREFIX):
        return None
    said = sanitize_title(text.removeprefix(MODEL_SET_PREFIX))
    if found := _MODEL_ID.search(said):
        return found[0]
    name = _MODEL_NAME.search(said)
    if name is None:
        return None
    family, *numbers = (part for part in name.groups() if part)
    mark = LARGE_WINDOW_SUFFIX if _LARGE_WINDOW.search(said) else ""
    return "-".join(["claude", family.lower(), *numbers]) + mark


PROMPT_TOO_LONG: Final = "too_long"
"""Kind of a refusal because the prompt is larger than the window."""


def read_refusal(offset: int, line: TranscriptLine) -> ApiErrorRecord | None:
    """Read an API error's line; None for another text that the client made up."""
    if not line.is_api_error_message:
        return None
    shown = " ".join(block.text or "" for block in message_blocks(line) if block.type == "text")
    details = decode_value(line.error_details)
    detail = sanitize_title(details if isinstance(details, str) else shown)
    refused = parse_limit_error({"details": details, "message": shown})
    if refused and refused.exceeds_window:
        sizes = refused.current_tokens, refused.max_tokens
        return ApiErrorRecord(offset, line.at, PROMPT_TOO_LONG, detail, line.uuid, *sizes)
    kind = sanitize_title(str(decode_value(line.error) or "unknown"))
    return ApiErrorRecord(offset, line.at, kind, detail, line.uuid)
