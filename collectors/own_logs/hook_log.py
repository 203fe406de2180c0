"""The log of ctxtop's own hooks: what the client told them, event by event."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from ...core.store.log_facts import HookEvent, LogFacts
from ..clean import clean_title
from .log_record import BadRecordError, clean_value, decode, decode_record, read_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..tail import RawLine
    from .log_record import Record

EVENTS: Final = frozenset(
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

LARGEST: Final = 1 << 40
"""A number that a column takes."""

_object: Final = msgspec.json.Decoder(dict[str, Any])


def read_events(lines: Iterable[RawLine], at: int) -> LogFacts:
    """Read records; `at` stands in for a time that is missing."""
    events, bad = read_records(lines, lambda offset, line: _read(offset, line, at))
    return LogFacts(events=tuple(events), bad=tuple(bad))


def _read(offset: int, line: bytes, at: int) -> HookEvent:
    record = decode_record(line)
    if record.v is None or record.given is UNSET:
        raise BadRecordError("no record of ctxtop's")
    given: dict[str, Any] = decode(record.given, _object)
    event = _take(given, "hook_event_name") or clean_title(record.event or "")
    session_id = _take(given, "session_id")
    # Says again what the session's id says.
    given.pop("transcript_path", None)
    return HookEvent(
        offset=offset,
        at=at if record.at is None else record.at,
        pid=record.pid,
        client_pid=record.client_pid,
        event=event,
        known=event in EVENTS,
        session_id=session_id.lower() if session_id else None,
        agent_id=_take(given, "agent_id"),
        agent_type=_take(given, "agent_type"),
        source=_take(given, "source"),
        trigger=_take(given, "trigger"),
        tool_name=_take(given, "tool_name"),
        tool_use_id=_take(given, "tool_use_id"),
        context_tokens=_take_count(given, "context_tokens"),
        detail=_detail(record, given),
    )


def _take(given: dict[str, Any], name: str) -> str | None:
    # A value of another kind stays for the detail.
    return clean_title(given.pop(name)) if isinstance(given.get(name), str) else None


def _take_count(given: dict[str, Any], name: str) -> int | None:
    value = given.get(name)
    if type(value) is not int or not 0 <= value <= LARGEST:
        return None
    given.pop(name)
    return value


def _detail(record: Record, given: dict[str, Any]) -> str:
    try:
        detail = {"bytes": record.bytes, "given": clean_value(given)}
        if record.cut:
            detail["cut"] = clean_value(record.cut)
        if record.dropped:
            detail["dropped"] = record.dropped
        return json.dumps(detail, ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise BadRecordError("nested too deeply") from error
