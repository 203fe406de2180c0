"""Decodes records of ctxtop's own logs: hooks, status lines, measurements, answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ...core.measure.models import LARGE_WINDOW_SUFFIX
from ...core.store.log_records import (
    AnswerItemRecord,
    HookEventRecord,
    LogRecords,
    MeasurementRecord,
    StatusSnapshotRecord,
)
from ...core.store.transcript_records import BadLine, WindowRecord
from ...core.transcript.line_decoder import (
    Count,
    Dollars,
    RawUsage,
)
from ...core.transcript.sanitize import sanitize_text, sanitize_title
from ..plugin.plugin_log import RECORD_VERSION
from .registry import UnixMs

if TYPE_CHECKING:
    from .tail import RawLine


RecordT = TypeVar("RecordT")

Pid = Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]


class LogRecord(msgspec.Struct):
    """The writer's envelope."""

    v: Count | None = None
    at: UnixMs | None = None
    pid: Pid | None = None
    client_pid: Pid | None = None
    event: str | None = None
    bytes: Count | None = None
    given: Raw | UnsetType = UNSET
    cut: dict[str, Count] | None = None
    dropped: Count | None = None
    garbage: str | None = None


class BadRecordError(ValueError):
    """A line that is no record; the message says why."""


_record_decoder: Final = msgspec.json.Decoder(LogRecord)


def decode_record(line: bytes) -> LogRecord:
    """Decode a line's envelope; raises BadRecordError."""
    record = decode_fields(line, _record_decoder)
    if record.v is not None and record.v != RECORD_VERSION:
        raise BadRecordError(f"of another ctxtop (form {record.v})")
    if record.garbage is not None:
        raise BadRecordError(f"what the client gave is no JSON ({record.bytes or 0} bytes)")
    return record


def decode_fields(data: bytes | Raw, decoder: msgspec.json.Decoder[RecordT]) -> RecordT:
    """Decode JSON; raises BadRecordError."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise BadRecordError(str(error)) from error
    except RecursionError as error:
        raise BadRecordError("nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecordError("not JSON") from error


def read_records(
    lines: Iterable[RawLine], read: Callable[[int, bytes], RecordT]
) -> tuple[list[RecordT], list[BadLine]]:
    """Read every line by a function of its offset and text; those that are no record go aside."""
    found: list[RecordT] = []
    bad: list[BadLine] = []
    for offset, line in lines:
        try:
            found.append(read(offset, line))
        except BadRecordError as error:
            bad.append(_to_bad_line(offset, line, error))
    return found, bad


def _to_bad_line(offset: int, line: bytes, error: BadRecordError) -> BadLine:
    """Set a line aside."""
    return BadLine(offset, len(line), sanitize_title(str(error)))


def sanitize_json(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Clean every text of a value; raises RecursionError where it is nested too deeply."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, list):
        return [sanitize_json(each) for each in value]
    if isinstance(value, dict):
        return {sanitize_title(name): sanitize_json(each) for name, each in value.items()}
    return value


BoundedRatio = Annotated[float, msgspec.Meta(ge=0, le=1)]
BoundedPercentage = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
BoundedText = Annotated[str, msgspec.Meta(max_length=4096)]


class _StatusModel(msgspec.Struct):
    id: BoundedText | None = None


class _StatusStyle(msgspec.Struct):
    name: BoundedText | None = None


class _StatusCost(msgspec.Struct):
    total_cost_usd: Dollars | None = None


class _StatusWindow(msgspec.Struct):
    context_window_size: Count | None = None
    used_percentage: BoundedPercentage | None = None
    current_usage: RawUsage | None = None
    total_input_tokens: Count | None = None
    total_output_tokens: Count | None = None


class _StatusCache(msgspec.Struct):
    warm: bool | None = None
    ttl: BoundedText | None = None
    expires_at: Count | None = None
    hit_ratio: BoundedRatio | None = None
    misses: Count | None = None


class _StatusFields(msgspec.Struct):
    session_id: BoundedText | None = None
    version: BoundedText | None = None
    exceeds_200k_tokens: bool | None = None
    model: _StatusModel | None = None
    output_style: _StatusStyle | None = None
    cost: _StatusCost | None = None
    context_window: _StatusWindow | None = None
    prompt_cache: _StatusCache | None = None


_status_decoder: Final = msgspec.json.Decoder(_StatusFields)


def read_status_snapshots(lines: Iterable[RawLine], at: int) -> LogRecords:
    """Read snapshots, in our envelope or as the client gave them.

    `at` stands in for the time of those that came without.
    """
    snapshots, bad = read_records(lines, lambda offset, line: _to_status_snapshot(offset, line, at))
    windows = [window for snapshot in snapshots if (window := _snapshot_window(snapshot))]
    return LogRecords(snapshots=tuple(snapshots), windows=tuple(windows), bad=tuple(bad))


def _to_status_snapshot(offset: int, line: bytes, at: int) -> StatusSnapshotRecord:
    record = decode_record(line)
    status: _StatusFields = decode_fields(
        line if record.given is UNSET else record.given, _status_decoder
    )
    if not status.session_id:
        raise BadRecordError("names no session")
    window, cache = status.context_window or _StatusWindow(), status.prompt_cache or _StatusCache()
    usage = window.current_usage or RawUsage()
    return StatusSnapshotRecord(
        offset=offset,
        at=at if record.at is None else record.at,
        session_id=sanitize_title(status.session_id).lower(),
        model=sanitize_title((status.model or _StatusModel()).id or ""),
        window_tokens=window.context_window_size or None,
        used_percentage=window.used_percentage,
        input_tokens=usage.input_tokens,
        cache_creation_tokens=usage.cache_creation_input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        output_tokens=usage.output_tokens,
        total_input_tokens=window.total_input_tokens,
        total_output_tokens=window.total_output_tokens,
        exceeds_200k=status.exceeds_200k_tokens,
        cost_usd=(status.cost or _StatusCost()).total_cost_usd,
        client_version=_status_title(status.version),
        output_style=_status_title((status.output_style or _StatusStyle()).name),
        cache_warm=cache.warm,
        cache_ttl=_status_title(cache.ttl),
        cache_expires_at=cache.expires_at and cache.expires_at * 1000,
        cache_hit_ratio=cache.hit_ratio,
        cache_misses=cache.misses,
    )


def _status_title(text: str | None) -> str | None:
    return None if text is None else sanitize_title(text)


def _snapshot_window(snapshot: StatusSnapshotRecord) -> WindowRecord | None:
    if not (snapshot.model and snapshot.window_tokens):
        return None
    # A transcript names the same model without the mark of its large window.
    model = snapshot.model.removesuffix(LARGE_WINDOW_SUFFIX)
    return WindowRecord(snapshot.session_id, model, snapshot.window_tokens, snapshot.at)


BoundedPercent = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class _MeasuredContext(msgspec.Struct):
    tokens: Count | None = None
    window: Count | None = None
    percent: BoundedPercent | None = None


class _MeasuredCost(msgspec.Struct):
    usd: Dollars | None = None


class _MeasurementFields(msgspec.Struct, rename={"agent_id": "agentId", "turn_id": "turnId"}):
    session_id: BoundedText | None = None
    agent_id: BoundedText | None = None
    turn_id: BoundedText | None = None
    model: BoundedText | None = None
    context: _MeasuredContext | None = None
    cost: _MeasuredCost | None = None
    usage: RawUsage | None = None
    duration_ms: Count | None = msgspec.field(default=None, name="durationMs")
    aborted: bool | None = msgspec.field(default=None, name="isAborted")


_measurement_decoder: Final = msgspec.json.Decoder(_MeasurementFields)
_object: Final = msgspec.json.Decoder(dict[str, Any])


def read_measurements(lines: Iterable[RawLine], at: int) -> LogRecords:
    """Read records; `at` stands in for a time that is missing."""
    found, bad = read_records(lines, lambda offset, line: _to_measurement(offset, line, at))
    windows = [window for measured in found if (window := _measured_window(measured))]
    return LogRecords(measurements=tuple(found), windows=tuple(windows), bad=tuple(bad))


def _to_measurement(offset: int, line: bytes, at: int) -> MeasurementRecord:
    record = decode_record(line)
    if record.v is None or record.given is UNSET:
        raise BadRecordError("no record of ctxtop's")
    given: _MeasurementFields = decode_fields(record.given, _measurement_decoder)
    if not given.session_id:
        raise BadRecordError("names no session")
    context, usage = given.context or _MeasuredContext(), given.usage or RawUsage()
    asked = _title(given.model)
    return MeasurementRecord(
        offset=offset,
        at=at if record.at is None else record.at,
        kind=sanitize_title(record.event or ""),
        session_id=sanitize_title(given.session_id).lower(),
        agent_id=_title(given.agent_id),
        model=asked and asked.removesuffix(LARGE_WINDOW_SUFFIX),
        asked_model=asked,
        context_tokens=context.tokens,
        window_tokens=context.window or None,
        percent=context.percent,
        cost_usd=(given.cost or _MeasuredCost()).usd,
        turn_id=_title(given.turn_id),
        input_tokens=usage.input_tokens,
        cache_creation_tokens=usage.cache_creation_input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        output_tokens=usage.output_tokens,
        duration_ms=given.duration_ms,
        aborted=given.aborted,
        detail=_measurement_detail(decode_fields(record.given, _object)),
    )


def _measured_window(told: MeasurementRecord) -> WindowRecord | None:
    if not (told.model and told.window_tokens):
        return None
    return WindowRecord(told.session_id, told.model, told.window_tokens, told.at, measured=True)


def _title(text: str | None) -> str | None:
    return sanitize_title(text) if text else None


def _measurement_detail(given: dict[str, Any]) -> str:
    try:
        return json.dumps(sanitize_json(given), ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise BadRecordError("nested too deeply") from error


HOOK_EVENTS: Final = frozenset(
    {
        "ConfigChange",
        "CwdChanged",
        "DirectoryAdded",
        "Elicitation",
        "ElicitationResult",
        "FileChanged",
        "InstructionsLoaded",
        "MessageDisplay",
        "Notification",
        "PermissionDenied",
        "PermissionRequest",
        "PostCompact",
        "PostModelSwitch",
        "PostToolBatch",
        "PostToolUse",
        "PostToolUseFailure",
        "PreCompact",
        "PreModelSwitch",
        "PreToolUse",
        "SessionEnd",
        "SessionStart",
        "Setup",
        "Stop",
        "StopFailure",
        "SubagentStart",
        "SubagentStop",
        "TaskCompleted",
        "TaskCreated",
        "TeammateIdle",
        "UserPromptExpansion",
        "UserPromptSubmit",
        "WorktreeCreate",
        "WorktreeRemove",
    }
)
"""The 33 events of 2.1.329 (reference: claude-code-formats 4.4)."""

MAX_HOOK_COUNT: Final = 1 << 40  # a number that a column takes


def read_hook_events(lines: Iterable[RawLine], at: int) -> LogRecords:
    """Read records; `at` stands in for a time that is missing."""
    events, bad = read_records(lines, lambda offset, line: _to_hook_event(offset, line, at))
    return LogRecords(events=tuple(events), bad=tuple(bad))


def _to_hook_event(offset: int, line: bytes, at: int) -> HookEventRecord:
    record = decode_record(line)
    if record.v is None or record.given is UNSET:
        raise BadRecordError("no record of ctxtop's")
    given: dict[str, Any] = decode_fields(record.given, _object)
    event = _take_title(given, "hook_event_name") or sanitize_title(record.event or "")
    session_id = _take_title(given, "session_id")
    # Says again what the session's id says.
    given.pop("transcript_path", None)
    return HookEventRecord(
        offset=offset,
        at=at if record.at is None else record.at,
        pid=record.pid,
        client_pid=record.client_pid,
        event=event,
        known=event in HOOK_EVENTS,
        session_id=session_id.lower() if session_id else None,
        agent_id=_take_title(given, "agent_id"),
        agent_type=_take_title(given, "agent_type"),
        source=_take_title(given, "source"),
        trigger=_take_title(given, "trigger"),
        tool_name=_take_title(given, "tool_name"),
        tool_use_id=_take_title(given, "tool_use_id"),
        context_tokens=_take_count(given, "context_tokens"),
        detail=_hook_detail(record, given),
    )


def _take_title(given: dict[str, Any], name: str) -> str | None:
    # A value of another kind stays for the detail.
    return sanitize_title(given.pop(name)) if isinstance(given.get(name), str) else None


def _take_count(given: dict[str, Any], name: str) -> int | None:
    value = given.get(name)
    if type(value) is not int or not 0 <= value <= MAX_HOOK_COUNT:
        return None
    given.pop(name)
    return value


def _hook_detail(record: LogRecord, given: dict[str, Any]) -> str:
    try:
        detail = {"bytes": record.bytes, "given": sanitize_json(given)}
        if record.cut:
            detail["cut"] = sanitize_json(record.cut)
        if record.dropped:
            detail["dropped"] = record.dropped
        return json.dumps(detail, ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise BadRecordError("nested too deeply") from error


class _AnswerFields(msgspec.Struct):
    session_id: str
    kind: str
    text: str
    agent_id: str | None = None
    tokens: Count | None = None
    from_session_id: str | None = None
    from_agent_id: str | None = None


_answer_fields_decoder: Final = msgspec.json.Decoder(_AnswerFields)


def read_answer_items(lines: Iterable[RawLine], at: int) -> LogRecords:
    """Read records; `at` stands in for a time that is missing."""
    items, bad = read_records(lines, lambda offset, line: _to_answer_item(offset, line, at))
    return LogRecords(answer_items=tuple(items), bad=tuple(bad))


def _to_answer_item(offset: int, line: bytes, at: int) -> AnswerItemRecord:
    record = decode_record(line)
    if record.v is None or record.given is UNSET:
        raise BadRecordError("no record of ctxtop's")
    given = decode_fields(record.given, _answer_fields_decoder)
    return AnswerItemRecord(
        offset=offset,
        at=at if record.at is None else record.at,
        feature=sanitize_title(record.event or ""),
        session_id=sanitize_title(given.session_id).lower(),
        agent_id=_title(given.agent_id),
        kind=sanitize_title(given.kind),
        text=sanitize_text(given.text),
        tokens=given.tokens,
        from_session_id=_title(given.from_session_id),
        from_agent_id=_title(given.from_agent_id),
    )
