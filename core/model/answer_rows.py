"""Rows of answers, requests and readings of limits, as queries return them.

Times are milliseconds since 1970 (UTC), sizes are tokens. None means that nothing is known.
"""

from __future__ import annotations

import struct

import msgspec

from .stored_rows import UsageRow


class ActivityRow(msgspec.Struct, frozen=True):
    """The newest event of each kind in one session; times are ms since 1970, None if unknown."""

    file_id: int
    turn: str | None  # one of `TurnState`
    turn_at: int | None
    call_name: str | None  # the newest tool call of the last answer that has no result
    call_detail: str | None
    call_at: int | None
    live_status: str | None
    waiting_for: str | None
    live_updated_at: int | None
    hook_event: str | None  # the newest event of the session itself
    hook_at: int | None
    hook_tool: str | None
    hook_kind: str | None  # a notification's type
    resume_tokens: int | None  # in context, where that event is a resume
    resume_expired: int | None  # the client holds its cache for expired
    answer_at: int | None  # of the last answer after the last boundary
    cached_tokens: int  # that this answer wrote to the cache or read from it
    cache_1h_tokens: int | None  # by the newest answer that wrote to the cache, for an hour
    status_at: int | None  # last time of this snapshot
    status_cache_warm: int | None
    status_cache_expires_at: int | None
    status_cache_ttl_ms: int | None
    status_cache_cold_tokens: int | None
    status_cost_usd: float | None
    measured_at: int | None
    measured_cost_usd: float | None
    transcript_cost_usd: float | None  # by the transcript's newest `cost-state`
    is_transcript_cost_newer: int | None  # it comes after the last answer
    has_shell: int | None = None  # its client says that a shell runs in the background
    stopped_tasks: int | None = None
    """Tasks in the background when its last turn ended, by the Stop hook; None if it recorded none
    of that turn, or the client does not say."""
    stopped_task: str | None = None  # the first one's type; None where there are many
    agents_at: int | None = None  # the last that was heard of agents that run in the background


class ModelUsageRow(UsageRow, frozen=True):
    """The usage of one model at one rate in a session, with its agents'."""

    model: str
    rate: int  # a `PriceRate`
    cache_1h_tokens: int  # of those that were written to the cache
    web_searches: int
    is_progress: int = 0
    """1 for agents' answers that are only in `progress` lines and returns (up to 2.1.9x)."""


class LimitRow(msgspec.Struct, frozen=True):
    """A reading of a window by one session's client, which said it from `at` until `last_at`."""

    window: str
    session_id: str
    at: int
    last_at: int
    used_percentage: float
    resets_at: int | None
    before_at: int | None  # when the session's client last said another value
    answered_at: int | None  # the session's last answer until `last_at`; of its newest row only


class AnswerRow(msgspec.Struct, frozen=True):
    """An answer of the API, counted once, of a session or of one of its agents.

    What other models were asked for it is an answer besides.
    """

    at: int
    session_id: str
    agent_id: str | None
    model: str
    input_tokens: int
    cache_creation_tokens: int
    cache_1h_tokens: int
    cache_read_tokens: int
    output_tokens: int
    rate: int  # a `PriceRate`
    web_searches: int = 0
    responses: int = 1  # 0 for a part of an answer that another part counts
    charges: str | None = None  # what is priced in its place, until `_divide`


class CacheAnswerRow(msgspec.Struct, frozen=True, gc=False):
    """An answer of a session or an agent; a copy in a fork's file is a row of its own."""

    file_id: int
    path: str  # below projects/
    session_id: str
    agent_id: str | None
    agent_type: str | None
    offset: int
    last_offset: int
    message_id: str
    at: int | None
    model: str
    input_tokens: int
    cache_creation_tokens: int
    cache_1h_tokens: int  # of those that were written
    cache_read_tokens: int
    context_tokens: int
    is_lowered: int  # 1 if `context_tokens` is an edit's estimate
    request: int | None
    client_version: str | None
    reason: str | None  # why the cache was missed, in the API's own word
    missed_tokens: int | None  # of how many tokens the API says so
    is_counted: int  # 0 for a copy of an answer that counts for another file
    is_shared: int  # 1 if another file holds it too: one is a fork of the other
    counts_for: str = ""  # the session that it counts for
    rate: int = 0  # a `PriceRate`
    charges: str | None = None  # what is priced in its place, if it has several prices


class SentRequestRow(msgspec.Struct, frozen=True):
    file_id: int
    path: str  # below projects/
    offset: int
    length: int
    request: int
    shape: int | None
    base: int | None
    keep: int
    tail: bytes

    @property
    def messages(self) -> int:
        return self.keep + len(unpack_keys(self.tail))


class FirstReadRow(msgspec.Struct, frozen=True, gc=False):
    """What the first request of a transcript read from the cache."""

    path: str  # below projects/
    model: str
    client_version: str | None
    is_agent: int
    cache_read_tokens: int


class SessionStart(msgspec.Struct, frozen=True):
    """What a hook was told when a client opened a session."""

    session_id: str
    at: int
    source: str


class TimelineAnswerRow(msgspec.Struct, frozen=True, gc=False):
    offset: int
    last_offset: int  # of the last line that belongs to it
    message_id: str  # it stays the same when the file is rewritten
    at: int | None
    model: str
    tokens: int  # what the model saw
    output_tokens: int
    tool_calls: int
    is_estimate: int = 0  # 1 if an edit of ctxtop lowered `tokens`, or they are of the text


class TimelineReturnRow(msgspec.Struct, frozen=True):
    offset: int
    at: int | None
    agent_id: str
    status: str
    agent_type: str | None  # None if neither the call that started it nor its meta.json is known
    description: str | None


def unpack_keys(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(packed) // 8}q", packed)


class EarlierResultRow(msgspec.Struct, frozen=True):
    project: str
    session_id: str
    agent_id: str
    agent_type: str
    parent_agent_id: str | None
    at: int | None
    text: str
    status: str | None  # the client's word; None for clients that have none
    last_message_at: int | None  # of the agent's last message in a file of its own
    marked_messages: str | None = None  # JSON: its messages with the marker, if the result has none
