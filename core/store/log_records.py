"""What was read of ctxtop's own logs: hooks, the status line, the client's module and our answers.

Times are milliseconds since 1970 (UTC), offsets and sizes are bytes, sizes of context are tokens.
None means that the client did not say. The fields of a record are the columns of its table, by
name.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .transcript_records import BadLine, WindowRecord


class LogKind(StrEnum):
    """Which of the logs; the value is the name of the file that is written now."""

    HOOKS = "hooks.jsonl"
    STATUS_LINE = "statusline.jsonl"
    PLUGIN = "plugin.jsonl"
    ANSWERS = "answers.jsonl"


class LogPart(msgspec.Struct, frozen=True):
    """One file of a log, which is renamed while it is read: known by its first line."""

    log: LogKind
    mark: str  # hash of the first line
    name: str  # the file's name when it was last read


class HookEventRecord(msgspec.Struct, frozen=True):
    """What the client told a hook."""

    offset: int
    at: int
    pid: int | None
    client_pid: int | None  # the client's own process
    event: str
    known: bool  # this version knows the event
    session_id: str | None
    agent_id: str | None
    agent_type: str | None  # empty for an agent of the client's own, which never has a transcript
    source: str | None
    trigger: str | None
    tool_name: str | None
    tool_use_id: str | None
    context_tokens: int | None
    detail: str  # all else as JSON: `given`, and in `cut` the sizes of what the log left out


class StatusSnapshotRecord(msgspec.Struct, frozen=True):
    """What the client told its status line of one session."""

    offset: int
    at: int
    session_id: str
    model: str  # as the client names it, with its mark for a large window
    window_tokens: int | None
    used_percentage: float | None
    input_tokens: int | None  # the four counts are None together: before the first answer
    cache_creation_tokens: int | None
    cache_read_tokens: int | None
    output_tokens: int | None
    total_input_tokens: int | None
    """Of the session in clients before 2.1.132, of the last answer since."""
    total_output_tokens: int | None
    exceeds_200k: bool | None
    cost_usd: float | None
    client_version: str | None
    output_style: str | None
    cache_warm: bool | None
    cache_ttl: str | None
    cache_expires_at: int | None
    cache_hit_ratio: float | None  # 0 to 1
    cache_misses: int | None


class MeasurementRecord(msgspec.Struct, frozen=True):
    """What the module inside the client pushed: what the client measured, or a turn's usage."""

    offset: int
    at: int
    kind: str  # the client's event: `session.measure`, `turn.complete`, or one that is not known
    session_id: str
    agent_id: str | None
    model: str | None  # as the API calls it, without the mark for a large window
    asked_model: str | None  # as the client names it
    context_tokens: int | None
    """Of the main conversation; None before its first answer and after a compaction."""
    window_tokens: int | None
    percent: int | None
    cost_usd: float | None
    turn_id: str | None
    input_tokens: int | None
    """The four counts are a turn's sums over its requests: no size of a context."""
    cache_creation_tokens: int | None
    cache_read_tokens: int | None
    output_tokens: int | None
    duration_ms: int | None
    aborted: bool | None
    detail: str  # what was given, as JSON


class AnswerItemRecord(msgspec.Struct, frozen=True):
    """A thing that ctxtop gave the client, or found that a compaction forgot."""

    offset: int
    at: int
    feature: str  # the answer that gave it: inject, steer, remember
    session_id: str
    agent_id: str | None  # to whom; None for the session itself
    kind: str  # the stage, or what it is: a file, a decision, a constraint, a todo, an agent
    text: str  # why it was given, or what it says
    tokens: int | None  # that no estimate of it is above
    from_session_id: str | None
    from_agent_id: str | None  # whose result it is


class LogRecords(msgspec.Struct, frozen=True):
    """All that one run of lines of one part says."""

    events: tuple[HookEventRecord, ...] = ()
    snapshots: tuple[StatusSnapshotRecord, ...] = ()
    measurements: tuple[MeasurementRecord, ...] = ()
    answer_items: tuple[AnswerItemRecord, ...] = ()
    windows: tuple[WindowRecord, ...] = ()
    bad: tuple[BadLine, ...] = ()
