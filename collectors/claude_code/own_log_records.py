"""Decodes records of ctxtop's own logs: hooks, status lines, measurements, answers."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ...core.measure.activity import CACHE_LIFETIMES_MS
from ...core.model.claude_models import LARGE_WINDOW_SUFFIX
from ...core.model.log_records import (
    AnswerItemRecord,
    HookEventRecord,
    LimitReadingRecord,
    LogRecords,
    MeasurementRecord,
    StatusSnapshotRecord,
)
from ...core.model.transcript_records import BadLine, ClientReportRecord, LogKind, WindowRecord
from ...core.transcript.line_decoder import Dollars
from ...core.transcript.reported_usage import Count
from ...core.transcript.sanitize import sanitize_text, sanitize_title
from ..plugin_files.plugin_log import RECORD_VERSION, plausible_window
from .registry import UnixMs, title_or_none
from .status_line_input import (
    BoundedText,
    Percentage,
    TokenCount,
    UnixSeconds,
    UnreadableValue,
    read_client_report,
    read_limits,
)
from .tail import RawLine

DecodedT = TypeVar("DecodedT")

_Record = (
    HookEventRecord
    | StatusSnapshotRecord
    | LimitReadingRecord
    | ClientReportRecord
    | MeasurementRecord
    | AnswerItemRecord
)


class LogLine(msgspec.Struct):
    """The envelope of a line; `given` is what the client sent."""

    v: Count | None = None
    at: UnixMs | None = None
    event: str | None = None
    bytes: Count | None = None
    given: Raw | UnsetType = UNSET
    cut: dict[str, Count] | None = None
    dropped: Count | None = None
    garbage: str | None = None


class BadRecordError(ValueError): ...


_line_decoder: Final = msgspec.json.Decoder(LogLine)
_object_decoder: Final = msgspec.json.Decoder(dict[str, Any])


def _decode_line(data: bytes) -> LogLine:
    line = _decode(data, _line_decoder)
    if line.v is not None and line.v != RECORD_VERSION:
        raise BadRecordError(f"from another version of ctxtop (format {line.v})")
    if line.garbage is not None:
        raise BadRecordError(f"Claude Code's input is not JSON ({line.bytes or 0} bytes)")
    return line


def _decode_given(line: LogLine, decoder: msgspec.json.Decoder[DecodedT]) -> DecodedT:
    if line.v is None or line.given is UNSET:
        raise BadRecordError("not a ctxtop record")
    return _decode(line.given, decoder)


def _decode(data: bytes | Raw, decoder: msgspec.json.Decoder[DecodedT]) -> DecodedT:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise BadRecordError(str(error)) from error
    except RecursionError as error:
        raise BadRecordError("nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecordError("not JSON") from error


def _encode_sanitized(value: dict[str, Any]) -> str:
    try:
        return json.dumps(_sanitized(value), ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise BadRecordError("nested too deeply") from error


def _sanitized(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, list):
        return [_sanitized(item) for item in value]
    if isinstance(value, dict):
        return {sanitize_title(name): _sanitized(item) for name, item in value.items()}
    return value


def _session_id(text: str | None) -> str:
    if not text:
        raise BadRecordError("does not name a session")
    return sanitize_title(text).lower()


class _StatusModel(msgspec.Struct):
    id: BoundedText | None = None


class _StatusCost(msgspec.Struct):
    total_cost_usd: Dollars | None = None


class _StatusUsage(msgspec.Struct):
    input_tokens: TokenCount | None = None
    cache_creation_input_tokens: TokenCount | None = None
    cache_read_input_tokens: TokenCount | None = None
    output_tokens: TokenCount | None = None


def _used_tokens(usage: _StatusUsage) -> int:
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    return (usage.input_tokens or 0) + (written or 0) + (read or 0)


class _StatusWindow(msgspec.Struct):
    context_window_size: TokenCount | None = None
    used_percentage: Percentage | None = None
    current_usage: _StatusUsage | None = None


class _StatusCache(msgspec.Struct):
    warm: bool | None = None
    expires_at: UnixSeconds | None = None
    ttl: BoundedText | None = None
    recache_tokens_if_cold: TokenCount | None = None


class _StatusFields(msgspec.Struct):
    session_id: BoundedText | None = None
    model: _StatusModel | None = None
    cost: Raw | UnsetType = UNSET
    context_window: Raw | UnsetType = UNSET
    prompt_cache: Raw | UnsetType = UNSET


_status_decoder: Final = msgspec.json.Decoder(_StatusFields)
_window_decoder: Final = msgspec.json.Decoder(_StatusWindow | None)
_cost_decoder: Final = msgspec.json.Decoder(_StatusCost | None)
_cache_decoder: Final = msgspec.json.Decoder(_StatusCache | None)


def _read_status(offset: int, data: bytes, read_at: int) -> Iterator[_Record | UnreadableValue]:
    """Read a status line's input, in our envelope or as the client sent it."""
    line = _decode_line(data)
    given = data if line.given is UNSET else line.given
    at = read_at if line.at is None else line.at
    snapshot, unreadable = _to_status_snapshot(offset, given, at)
    yield snapshot
    yield from unreadable
    yield from read_limits(offset, given, at, snapshot.session_id)
    if report := read_client_report(given, at, snapshot.session_id):
        yield report


def _to_status_snapshot(
    offset: int, given: bytes | Raw, at: int
) -> tuple[StatusSnapshotRecord, list[UnreadableValue]]:
    """Read a snapshot, and what of it cannot be right, which is left out."""
    status = _decode(given, _status_decoder)
    unreadable: list[UnreadableValue] = []

    def read(
        name: str, raw: Raw | UnsetType, decoder: msgspec.json.Decoder[DecodedT]
    ) -> DecodedT | None:
        try:
            return None if raw is UNSET else decoder.decode(raw)
        except msgspec.DecodeError as error:
            unreadable.append(UnreadableValue(f"{name}: {error}"))
            return None

    window = read("context_window", status.context_window, _window_decoder) or _StatusWindow()
    cost = read("cost", status.cost, _cost_decoder) or _StatusCost()
    cache = read("prompt_cache", status.prompt_cache, _cache_decoder) or _StatusCache()
    usage = window.current_usage or _StatusUsage()
    snapshot = StatusSnapshotRecord(
        offset=offset,
        at=at,
        session_id=_session_id(status.session_id),
        model=sanitize_title((status.model or _StatusModel()).id or ""),
        window_tokens=plausible_window(window.context_window_size, _used_tokens(usage)),
        used_percentage=window.used_percentage,
        input_tokens=usage.input_tokens,
        cache_creation_tokens=usage.cache_creation_input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=cost.total_cost_usd,
        cache_warm=cache.warm,
        cache_expires_at=cache.expires_at and cache.expires_at * 1000,
        cache_ttl_ms=CACHE_LIFETIMES_MS.get(cache.ttl or ""),
        cache_cold_tokens=cache.recache_tokens_if_cold,
    )
    return snapshot, unreadable


class _MeasuredContext(msgspec.Struct):
    tokens: TokenCount | None = None
    window: TokenCount | None = None


class _MeasuredCost(msgspec.Struct):
    usd: Dollars | None = None


class _MeasurementFields(msgspec.Struct, rename={"agent_id": "agentId"}):
    session_id: BoundedText | None = None
    agent_id: BoundedText | None = None
    model: BoundedText | None = None
    context: _MeasuredContext | None = None
    cost: _MeasuredCost | None = None


_measurement_decoder: Final = msgspec.json.Decoder(_MeasurementFields)


def _to_measurement(offset: int, data: bytes, read_at: int) -> MeasurementRecord:
    line = _decode_line(data)
    fields = _decode_given(line, _measurement_decoder)
    context = fields.context or _MeasuredContext()
    model = title_or_none(fields.model)
    return MeasurementRecord(
        offset=offset,
        at=read_at if line.at is None else line.at,
        kind=sanitize_title(line.event or ""),
        session_id=_session_id(fields.session_id),
        agent_id=title_or_none(fields.agent_id),
        model=model and model.removesuffix(LARGE_WINDOW_SUFFIX),
        context_tokens=context.tokens,
        window_tokens=plausible_window(context.window, context.tokens),
        cost_usd=(fields.cost or _MeasuredCost()).usd,
    )


_EVENT_NAMES: Final = (
    "ConfigChange CwdChanged DirectoryAdded Elicitation ElicitationResult FileChanged "
    "InstructionsLoaded MessageDisplay Notification PermissionDenied PermissionRequest "
    "PostCompact PostModelSwitch PostToolBatch PostToolUse PostToolUseFailure PreCompact "
    "PreModelSwitch PreSkillShellCommand PreToolUse SessionEnd SessionStart Setup Stop "
    "StopFailure SubagentStart SubagentStop TaskCompleted TaskCreated TeammateIdle "
    "UserPromptExpansion UserPromptSubmit WorktreeCreate WorktreeRemove"
)
HOOK_EVENTS: Final = frozenset(_EVENT_NAMES.split())
"""The 34 events of 2.1.332 (reference: claude-code-formats 4.4)."""


def _to_hook_event(offset: int, data: bytes, read_at: int) -> HookEventRecord:
    line = _decode_line(data)
    fields = _decode_given(line, _object_decoder)
    event = _pop_title(fields, "hook_event_name") or sanitize_title(line.event or "")
    session_id = _pop_title(fields, "session_id")
    # It only repeats the session's id.
    fields.pop("transcript_path", None)
    names = ("agent_id", "agent_type", "tool_name")
    titles: dict[str, Any] = {name: _pop_title(fields, name) for name in names}
    detail: dict[str, Any] = {"bytes": line.bytes, "given": fields}
    if line.cut:
        detail["cut"] = line.cut
    if line.dropped:
        detail["dropped"] = line.dropped
    return HookEventRecord(
        offset=offset,
        at=read_at if line.at is None else line.at,
        event=event,
        known=event in HOOK_EVENTS,
        session_id=session_id.lower() if session_id else None,
        detail=_encode_sanitized(detail),
        **titles,
    )


def _pop_title(fields: dict[str, Any], name: str) -> str | None:
    # A value of another type stays in the detail.
    return sanitize_title(fields.pop(name)) if isinstance(fields.get(name), str) else None


class _AnswerFields(msgspec.Struct):
    session_id: str
    kind: str
    text: str
    agent_id: str | None = None
    tokens: TokenCount | None = None
    from_session_id: str | None = None
    from_agent_id: str | None = None


_answer_decoder: Final = msgspec.json.Decoder(_AnswerFields)


def _to_answer_item(offset: int, data: bytes, read_at: int) -> AnswerItemRecord:
    line = _decode_line(data)
    fields = _decode_given(line, _answer_decoder)
    return AnswerItemRecord(
        offset=offset,
        at=read_at if line.at is None else line.at,
        feature=sanitize_title(line.event or ""),
        session_id=sanitize_title(fields.session_id).lower(),
        agent_id=title_or_none(fields.agent_id),
        kind=sanitize_title(fields.kind),
        text=sanitize_text(fields.text),
        tokens=fields.tokens,
        from_session_id=title_or_none(fields.from_session_id),
        from_agent_id=title_or_none(fields.from_agent_id),
    )


_READERS: Final[dict[LogKind, Callable[[int, bytes, int], Iterable[_Record | UnreadableValue]]]] = {
    LogKind.HOOKS: lambda *line: (_to_hook_event(*line),),
    LogKind.STATUS_LINE: _read_status,
    LogKind.PLUGIN: lambda *line: (_to_measurement(*line),),
    LogKind.ANSWERS: lambda *line: (_to_answer_item(*line),),
}

_FIELDS: Final[dict[type[_Record], str]] = {
    HookEventRecord: "events",
    StatusSnapshotRecord: "snapshots",
    LimitReadingRecord: "limit_readings",
    ClientReportRecord: "client_reports",
    MeasurementRecord: "measurements",
    AnswerItemRecord: "answer_items",
}
"""The field of `LogRecords` for each kind of record."""


def read_log(kind: LogKind, lines: Iterable[RawLine], read_at: int) -> LogRecords:
    """Read a log's lines; `read_at` is the time of records without one, in ms since 1970."""
    read = _READERS[kind]
    found: list[_Record] = []
    bad: list[BadLine] = []
    for offset, line in lines:
        problems: list[str] = []
        try:
            for record in read(offset, line, read_at):
                if isinstance(record, UnreadableValue):
                    problems.append(record.why)
                else:
                    found.append(record)
        except BadRecordError as error:
            problems.append(str(error))
        if problems:
            bad.append(BadLine(offset, len(line), sanitize_title("; ".join(problems))))
    windows = tuple(window for record in found if (window := _window_of(record)))
    columns: dict[str, list[_Record]] = {}
    for record in found:
        columns.setdefault(_FIELDS[type(record)], []).append(record)
    fields: dict[str, Any] = {name: tuple(records) for name, records in columns.items()}
    return LogRecords(windows=windows, bad=tuple(bad), **fields)


def _window_of(record: _Record) -> WindowRecord | None:
    if not isinstance(record, (StatusSnapshotRecord, MeasurementRecord)):
        return None
    if not record.model or not record.window_tokens:
        return None
    # A transcript names the same model without the suffix for its large window.
    model = record.model.removesuffix(LARGE_WINDOW_SUFFIX)
    is_measured = isinstance(record, MeasurementRecord)
    return WindowRecord(
        record.session_id, model, record.window_tokens, record.at, measured=is_measured
    )
