"""One line of ctxtop's own logs: what the client gave, and what the writer noted of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ...core.store.facts import BadLine
from ..clean import clean_text, clean_title
from ..plugin.log import VERSION
from ..registry import Moment  # noqa: TC001 -- msgspec reads it
from ..transcripts.lines import Count  # noqa: TC001 -- msgspec reads it

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..tail import RawLine

Value = TypeVar("Value")

Pid = Annotated[int, msgspec.Meta(gt=0, lt=1 << 31)]


class Record(msgspec.Struct):
    """The writer's envelope."""

    v: Count | None = None
    at: Moment | None = None
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


_record: Final = msgspec.json.Decoder(Record)


def decode_record(line: bytes) -> Record:
    """Decode a line's envelope; raises BadRecordError."""
    record = decode(line, _record)
    if record.v is not None and record.v != VERSION:
        raise BadRecordError(f"of another ctxtop (form {record.v})")
    if record.garbage is not None:
        raise BadRecordError(f"what the client gave is no JSON ({record.bytes or 0} bytes)")
    return record


def decode(data: bytes | Raw, decoder: msgspec.json.Decoder[Value]) -> Value:
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
    lines: Iterable[RawLine], read: Callable[[int, bytes], Value]
) -> tuple[list[Value], list[BadLine]]:
    """Read every line by a function of its offset and text; those that are no record go aside."""
    found: list[Value] = []
    bad: list[BadLine] = []
    for offset, line in lines:
        try:
            found.append(read(offset, line))
        except BadRecordError as error:
            bad.append(_bad_line(offset, line, error))
    return found, bad


def _bad_line(offset: int, line: bytes, error: BadRecordError) -> BadLine:
    """Set a line aside."""
    return BadLine(offset, len(line), clean_title(str(error)))


def clean_value(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Clean every text of a value; raises RecursionError where it is nested too deeply."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean_value(each) for each in value]
    if isinstance(value, dict):
        return {clean_title(name): clean_value(each) for name, each in value.items()}
    return value
