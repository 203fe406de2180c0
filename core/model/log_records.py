"""Records of ctxtop's own logs: hooks, status line, client module, answers.

Times are milliseconds since 1970 (UTC), offsets and sizes are bytes, context sizes are tokens.
None means that the client did not report it. A record's fields are the columns of its table.
"""

import msgspec

from .transcript_records import BadLine, ClientReportRecord, LogKind, WindowRecord


class LogPart(msgspec.Struct, frozen=True):
    """One file of a log, identified by its first line: it is renamed while it is read."""

    log: LogKind
    mark: str  # hash of the first line
    name: str  # the file's name when it was last read


class HookEventRecord(msgspec.Struct, frozen=True):
    offset: int
    at: int
    event: str
    known: bool  # this version knows the event
    session_id: str | None
    agent_id: str | None
    agent_type: str | None  # empty for an agent of the client's own, which never has a transcript
    tool_name: str | None
    detail: str  # the rest as JSON: `given`, and in `cut` the sizes of what the log left out


class StatusSnapshotRecord(msgspec.Struct, frozen=True):
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
    cost_usd: float | None
    cache_warm: bool | None
    cache_expires_at: int | None
    cache_ttl_ms: int | None  # how long it lasts after its last use
    cache_cold_tokens: int | None  # that the next prompt writes again once it has expired


class LimitReadingRecord(msgspec.Struct, frozen=True):
    """How much of a window of the plan's limits was used, as the client's status line said."""

    offset: int
    window: str  # as the client names it
    at: int
    session_id: str
    used_percentage: float
    resets_at: int | None


class MeasurementRecord(msgspec.Struct, frozen=True):
    """What the module inside the client sent."""

    offset: int
    at: int
    kind: str  # the client's event: `session.measure`, `turn.complete`, or one that is not known
    session_id: str
    agent_id: str | None
    model: str | None  # as the API calls it, without the mark for a large window
    context_tokens: int | None  # of the main conversation; None before its first answer
    window_tokens: int | None
    cost_usd: float | None


class AnswerItemRecord(msgspec.Struct, frozen=True):
    """A thing that ctxtop gave the client."""

    offset: int
    at: int
    feature: str  # inject, steer, remember, prompts or cold
    session_id: str
    agent_id: str | None  # to whom; None for the session itself
    kind: str  # the stage, or what it is: a file, a decision, a constraint, a todo, an agent
    text: str  # why it was given, or its text
    tokens: int | None  # that no estimate of it is above
    from_session_id: str | None
    from_agent_id: str | None  # whose result it is


class LogRecords(msgspec.Struct, frozen=True):
    """The records of one run of lines of one part."""

    events: tuple[HookEventRecord, ...] = ()
    snapshots: tuple[StatusSnapshotRecord, ...] = ()
    limit_readings: tuple[LimitReadingRecord, ...] = ()
    client_reports: tuple[ClientReportRecord, ...] = ()
    measurements: tuple[MeasurementRecord, ...] = ()
    answer_items: tuple[AnswerItemRecord, ...] = ()
    windows: tuple[WindowRecord, ...] = ()
    bad: tuple[BadLine, ...] = ()
