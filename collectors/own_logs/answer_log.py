"""The log of answers: what ctxtop gave the client, a record a thing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET

from ...core.store.log_facts import AnswerItem, LogFacts
from ..clean import clean_text, clean_title
from ..transcripts.lines import Count  # noqa: TC001 -- msgspec reads it
from .log_record import BadRecordError, decode, decode_record, read_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..tail import RawLine


class _Given(msgspec.Struct):
    session_id: str
    kind: str
    text: str
    agent_id: str | None = None
    tokens: Count | None = None
    from_session_id: str | None = None
    from_agent_id: str | None = None


_given: Final = msgspec.json.Decoder(_Given)


def read_answers(lines: Iterable[RawLine], at: int) -> LogFacts:
    """Read records; `at` stands in for a time that is missing."""
    items, bad = read_records(lines, lambda offset, line: _read(offset, line, at))
    return LogFacts(answer_items=tuple(items), bad=tuple(bad))


def _read(offset: int, line: bytes, at: int) -> AnswerItem:
    record = decode_record(line)
    if record.v is None or record.given is UNSET:
        raise BadRecordError("no record of ctxtop's")
    given = decode(record.given, _given)
    return AnswerItem(
        offset=offset,
        at=at if record.at is None else record.at,
        feature=clean_title(record.event or ""),
        session_id=clean_title(given.session_id).lower(),
        agent_id=_title(given.agent_id),
        kind=clean_title(given.kind),
        text=clean_text(given.text),
        tokens=given.tokens,
        from_session_id=_title(given.from_session_id),
        from_agent_id=_title(given.from_agent_id),
    )


def _title(text: str | None) -> str | None:
    return clean_title(text) if text else None
