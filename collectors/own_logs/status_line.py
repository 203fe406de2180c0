"""The log of ctxtop's own status line: what the client itself says of a window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import UNSET

from ...core.models import LARGE_MARK
from ...core.store.facts import WindowSeen
from ...core.store.log_facts import LogFacts, StatusSnapshot
from ..clean import clean_title
from ..transcripts.lines import Count, Dollars, Usage
from .log_record import BadRecordError, decode, decode_record, read_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..tail import RawLine

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Percentage = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
Text = Annotated[str, msgspec.Meta(max_length=4096)]


class _Model(msgspec.Struct):
    id: Text | None = None


class _Style(msgspec.Struct):
    name: Text | None = None


class _Cost(msgspec.Struct):
    total_cost_usd: Dollars | None = None


class _Window(msgspec.Struct):
    context_window_size: Count | None = None
    used_percentage: Percentage | None = None
    current_usage: Usage | None = None
    total_input_tokens: Count | None = None
    total_output_tokens: Count | None = None


class _Cache(msgspec.Struct):
    warm: bool | None = None
    ttl: Text | None = None
    expires_at: Count | None = None
    hit_ratio: Share | None = None
    misses: Count | None = None


class _Status(msgspec.Struct):
    session_id: Text | None = None
    version: Text | None = None
    exceeds_200k_tokens: bool | None = None
    model: _Model | None = None
    output_style: _Style | None = None
    cost: _Cost | None = None
    context_window: _Window | None = None
    prompt_cache: _Cache | None = None


_status: Final = msgspec.json.Decoder(_Status)


def read_snapshots(lines: Iterable[RawLine], at: int) -> LogFacts:
    """Read snapshots, in our envelope or as the client gave them.

    `at` stands in for the time of those that came without.
    """
    snapshots, bad = read_records(lines, lambda offset, line: _read(offset, line, at))
    windows = [window for snapshot in snapshots if (window := _window(snapshot))]
    return LogFacts(snapshots=tuple(snapshots), windows=tuple(windows), bad=tuple(bad))


def _read(offset: int, line: bytes, at: int) -> StatusSnapshot:
    record = decode_record(line)
    status: _Status = decode(line if record.given is UNSET else record.given, _status)
    if not status.session_id:
        raise BadRecordError("names no session")
    window, cache = status.context_window or _Window(), status.prompt_cache or _Cache()
    usage = window.current_usage or Usage()
    return StatusSnapshot(
        offset=offset,
        at=at if record.at is None else record.at,
        session_id=clean_title(status.session_id).lower(),
        model=clean_title((status.model or _Model()).id or ""),
        window_tokens=window.context_window_size or None,
        used_percentage=window.used_percentage,
        input_tokens=usage.input_tokens,
        cache_creation_tokens=usage.cache_creation_input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        output_tokens=usage.output_tokens,
        total_input_tokens=window.total_input_tokens,
        total_output_tokens=window.total_output_tokens,
        exceeds_200k=status.exceeds_200k_tokens,
        cost_usd=(status.cost or _Cost()).total_cost_usd,
        client_version=_title(status.version),
        output_style=_title((status.output_style or _Style()).name),
        cache_warm=cache.warm,
        cache_ttl=_title(cache.ttl),
        cache_expires_at=cache.expires_at and cache.expires_at * 1000,
        cache_hit_ratio=cache.hit_ratio,
        cache_misses=cache.misses,
    )


def _title(text: str | None) -> str | None:
    return None if text is None else clean_title(text)


def _window(snapshot: StatusSnapshot) -> WindowSeen | None:
    if not (snapshot.model and snapshot.window_tokens):
        return None
    # A transcript names the same model without the mark of its large window.
    model = snapshot.model.removesuffix(LARGE_MARK)
    return WindowSeen(snapshot.session_id, model, snapshot.window_tokens, snapshot.at)
