"""What the input of Claude Code's status line says besides the context: limits, cache, settings.

A field of another shape than that of 2.1.329 is passed over: the context is still read.
"""

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ...core.model.log_records import LimitReadingRecord
from ...core.model.transcript_records import ClientReportRecord
from ...core.transcript.reported_usage import Count
from ...core.transcript.sanitize import sanitize_title
from ..plugin_files.plugin_log import MAX_PERCENT, MAX_TIME_S, MAX_TOKENS, MIN_TIME_S

MAX_CAUSES: Final = 20  # of one miss: the client knows about ten
MAX_LIMIT_WINDOWS: Final = 20  # of one input: the client knows six

BoundedText = Annotated[str, msgspec.Meta(max_length=4096)]
TokenCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]
Percentage = Annotated[float, msgspec.Meta(ge=0, le=MAX_PERCENT)]
UnixSeconds = Annotated[int, msgspec.Meta(ge=MIN_TIME_S, le=MAX_TIME_S)]


class UnreadableValue(msgspec.Struct, frozen=True):
    """A part of a line that cannot be right: it is listed, and the rest of the line is read."""

    why: str


class _Limit(msgspec.Struct):
    used_percentage: float
    resets_at: int | None = None

    def problem(self) -> str | None:
        """Describe a number that no limit can have; None if both can be right."""
        if not 0 <= self.used_percentage <= MAX_PERCENT:
            return f"used_percentage {self.used_percentage:.6g} is no share of a limit"
        if self.resets_at is not None and not MIN_TIME_S <= self.resets_at <= MAX_TIME_S:
            return "resets_at is no time in seconds"
        return None


class _LimitFields(msgspec.Struct):
    rate_limits: dict[str, Raw] | None = None


_limits_decoder: Final = msgspec.json.Decoder(_LimitFields)
_limit_decoder: Final = msgspec.json.Decoder(_Limit)


def read_limits(
    offset: int, given: bytes | Raw, at: int, session_id: str
) -> Iterator[LimitReadingRecord | UnreadableValue]:
    """Yield a reading of each window of the plan's limits, of windows not known here too."""
    try:
        windows = _limits_decoder.decode(given).rate_limits or {}
    except msgspec.DecodeError as error:
        yield from _unreadable("rate_limits", error)
        return
    for name, raw in list(windows.items())[:MAX_LIMIT_WINDOWS]:
        try:
            limit = _limit_decoder.decode(raw)
        except msgspec.DecodeError as error:
            yield from _unreadable(name, error)
            continue
        if problem := limit.problem():
            yield UnreadableValue(f"{name}: {problem}")
            continue
        resets_at = None if limit.resets_at is None else limit.resets_at * 1000
        yield LimitReadingRecord(
            offset, sanitize_title(name), at, session_id, limit.used_percentage, resets_at
        )


def _unreadable(name: str, error: msgspec.DecodeError) -> Iterator[UnreadableValue]:
    """Yield what is no number; what has another shape was written by another client."""
    if ", got `" not in str(error):
        yield UnreadableValue(f"{name}: {error}")


class _Effort(msgspec.Struct):
    level: BoundedText | None = None


class _Thinking(msgspec.Struct):
    enabled: bool | None = None


class _OutputStyle(msgspec.Struct):
    name: BoundedText | None = None


class _Work(msgspec.Struct):
    total_duration_ms: Count | None = None
    total_api_duration_ms: Count | None = None
    total_lines_added: Count | None = None
    total_lines_removed: Count | None = None


class _PullRequest(msgspec.Struct):
    number: Count | None = None
    url: BoundedText | None = None
    review_state: BoundedText | None = None


class _Cache(msgspec.Struct):
    requests: Count | None = None
    misses: Count | None = None
    expected_rebuilds: Count | None = None
    hit_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    cache_write_tokens: Count | None = None
    miss_recache_tokens: Count | None = None
    last_miss_at: UnixSeconds | None = None
    last_miss_cause: Raw | UnsetType = UNSET
    miss_causes: dict[str, Count] | None = None


class _MissCause(msgspec.Struct):
    """Why the client's last miss happened (2.1.330); null where there was none."""

    causes: Annotated[list[BoundedText], msgspec.Meta(max_length=MAX_CAUSES)] = []


_cause_decoder: Final = msgspec.json.Decoder(_MissCause | None)


class _ReportFields(msgspec.Struct):
    effort: _Effort | None = None
    thinking: _Thinking | None = None
    fast_mode: bool | None = None
    output_style: _OutputStyle | None = None
    cost: _Work | None = None
    pr: _PullRequest | None = None
    prompt_cache: _Cache | None = None


_report_decoder: Final = msgspec.json.Decoder(_ReportFields)


def read_client_report(given: bytes | Raw, at: int, session_id: str) -> ClientReportRecord | None:
    """Read what a client says of its session's settings, work and cache; None if it cannot be."""
    try:
        found = _report_decoder.decode(given)
    except msgspec.DecodeError:
        return None
    work, request = found.cost or _Work(), found.pr or _PullRequest()
    cache = found.prompt_cache or _Cache()
    causes = {sanitize_title(name): count for name, count in (cache.miss_causes or {}).items()}
    return ClientReportRecord(
        session_id=session_id,
        at=at,
        effort=_title((found.effort or _Effort()).level),
        thinking=(found.thinking or _Thinking()).enabled,
        fast_mode=found.fast_mode,
        output_style=_title((found.output_style or _OutputStyle()).name),
        duration_ms=work.total_duration_ms,
        api_duration_ms=work.total_api_duration_ms,
        lines_added=work.total_lines_added,
        lines_removed=work.total_lines_removed,
        pull_request=request.number,
        pull_request_url=_title(request.url),
        pull_request_state=_title(request.review_state),
        cache_requests=cache.requests,
        cache_misses=cache.misses,
        cache_rebuilds=cache.expected_rebuilds,
        cache_hit_ratio=cache.hit_ratio,
        cache_write_tokens=cache.cache_write_tokens,
        cache_rewritten_tokens=cache.miss_recache_tokens,
        cache_last_miss_at=cache.last_miss_at and cache.last_miss_at * 1000,
        cache_miss_causes=msgspec.json.encode(causes).decode(),
        cache_last_miss_causes=msgspec.json.encode(_last_causes(cache)).decode(),
    )


def _last_causes(cache: _Cache) -> list[str]:
    """Return the client's names of the causes of its last miss; none of an unknown shape."""
    try:
        found = _cause_decoder.decode(cache.last_miss_cause) if cache.last_miss_cause else None
    except msgspec.DecodeError:
        return []
    return [sanitize_title(name) for name in found.causes] if found else []


def _title(text: str | None) -> str | None:
    return sanitize_title(text) if text else None
