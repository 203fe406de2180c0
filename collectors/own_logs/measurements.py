"""The plugin's log: what the module inside the client was told, event by event."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import UNSET

from ...core.models import LARGE_MARK
from ...core.store.facts import WindowSeen
from ...core.store.log_facts import LogFacts, Measurement
from ..clean import clean_title
from ..transcripts.lines import Count, Dollars, Usage
from .log_record import BadRecordError, clean_value, decode, decode_record, read_records
from .status_line import Text  # noqa: TC001 -- msgspec reads them

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..tail import RawLine

Percent = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class _Context(msgspec.Struct):
    tokens: Count | None = None
    window: Count | None = None
    percent: Percent | None = None


class _Cost(msgspec.Struct):
    usd: Dollars | None = None


class _Given(msgspec.Struct, rename={"agent_id": "agentId", "turn_id": "turnId"}):
    session_id: Text | None = None
    agent_id: Text | None = None
    turn_id: Text | None = None
    model: Text | None = None
    context: _Context | None = None
    cost: _Cost | None = None
    usage: Usage | None = None
    duration_ms: Count | None = msgspec.field(default=None, name="durationMs")
    aborted: bool | None = msgspec.field(default=None, name="isAborted")


_given: Final = msgspec.json.Decoder(_Given)
_object: Final = msgspec.json.Decoder(dict[str, Any])


def read_measurements(lines: Iterable[RawLine], at: int) -> LogFacts:
    """Read records; `at` stands in for a time that is missing."""
    found, bad = read_records(lines, lambda offset, line: _read(offset, line, at))
    windows = [window for measured in found if (window := _window(measured))]
    return LogFacts(measurements=tuple(found), windows=tuple(windows), bad=tuple(bad))


def _read(offset: int, line: bytes, at: int) -> Measurement:
    record = decode_record(line)
    if record.v is None or record.given is UNSET:
        raise BadRecordError("no record of ctxtop's")
    given: _Given = decode(record.given, _given)
    if not given.session_id:
        raise BadRecordError("names no session")
    context, usage = given.context or _Context(), given.usage or Usage()
    asked = _title(given.model)
    return Measurement(
        offset=offset,
        at=at if record.at is None else record.at,
        kind=clean_title(record.event or ""),
        session_id=clean_title(given.session_id).lower(),
        agent_id=_title(given.agent_id),
        model=asked and asked.removesuffix(LARGE_MARK),
        asked_model=asked,
        context_tokens=context.tokens,
        window_tokens=context.window or None,
        percent=context.percent,
        cost_usd=(given.cost or _Cost()).usd,
        turn_id=_title(given.turn_id),
        input_tokens=usage.input_tokens,
        cache_creation_tokens=usage.cache_creation_input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        output_tokens=usage.output_tokens,
        duration_ms=given.duration_ms,
        aborted=given.aborted,
        detail=_detail(decode(record.given, _object)),
    )


def _window(told: Measurement) -> WindowSeen | None:
    if not (told.model and told.window_tokens):
        return None
    return WindowSeen(told.session_id, told.model, told.window_tokens, told.at, measured=True)


def _title(text: str | None) -> str | None:
    return clean_title(text) if text else None


def _detail(given: dict[str, Any]) -> str:
    try:
        return json.dumps(clean_value(given), ensure_ascii=False, separators=(",", ":"))
    except RecursionError as error:
        raise BadRecordError("nested too deeply") from error
