"""Decodes JSON as leniently as the client: what one field cannot be costs no other.

Beside the decoder of transcript lines, whose many types take longer to load than a small file of
the client's takes to read.
"""

import json
from collections.abc import Callable
from typing import Any, Final, TypeVar, get_args

import msgspec
from msgspec import Raw

from .raw_lines import replace_lone_surrogates

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)


class NotJsonError(ValueError):
    """A line that is not a JSON object."""


class UnexpectedShapeError(ValueError):
    """A line that is JSON, with a field of a type that no client version wrote."""


_BRACE: Final = ord("{")
_fields_decoder: Final = msgspec.json.Decoder(dict[str, Raw])


def decode_checked(data: bytes | memoryview | Raw, decode: Callable[[Any], T]) -> T:
    """Decode with msgspec, but raise NotJsonError or UnexpectedShapeError."""
    try:
        return decode(data)
    except msgspec.ValidationError as error:
        raise UnexpectedShapeError(str(error)) from error
    except RecursionError as error:
        raise NotJsonError("nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotJsonError(str(error)) from error


def decode_readable(data: bytes, kind: type[StructT]) -> StructT:
    """Decode a small file of the client's without the fields of an unexpected type.

    Raises NotJsonError, and UnexpectedShapeError for a required field or for what is no object.
    """
    try:
        return decode_checked(data, lambda raw: msgspec.json.decode(raw, type=kind))
    except UnexpectedShapeError:
        readable, _ = decode_checked(data, lambda raw: drop_unreadable_fields(raw, kind))
        return decode_checked(readable, lambda raw: msgspec.json.decode(raw, type=kind))


_NESTED_FIELDS: Final = frozenset({"message", "usage", "compactMetadata", "attachment"})
"""Fields whose own readable fields are used."""

_COUNTS: Final = frozenset(
    {
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens",
    }
)
"""Fields of `usage` without which the sum of the others would be wrong."""


def drop_unreadable_fields(
    data: bytes | Raw, *kinds: type[msgspec.Struct]
) -> tuple[bytes, tuple[str, ...]]:
    """Return a JSON object without the fields that one of `kinds` cannot read, and their names.

    Each name has those of the objects around it. `data` must be an object.
    """
    raw_fields = _fields_decoder.decode(data)
    unread: dict[str, None] = {}
    for kind in kinds:
        for known in msgspec.structs.fields(kind):
            key = known.encode_name
            raw = raw_fields.get(key)
            if raw is None:
                continue
            try:
                msgspec.json.decode(raw, type=known.type)
            except msgspec.ValidationError:
                readable, names = _drop_nested(key, raw, known.type)
                unread |= dict.fromkeys(f"{key}.{name}" if name else key for name in names)
                if readable is None:
                    del raw_fields[key]
                else:
                    raw_fields[key] = Raw(readable)
    return msgspec.json.encode(raw_fields), tuple(unread)


def _drop_nested(key: str, raw: Raw, kind: object) -> tuple[bytes | None, tuple[str, ...]]:
    """Drop the unreadable fields of a field; None, and an empty name, if nothing is left of it."""
    structs = (each for each in get_args(kind) if issubclass(each, msgspec.Struct))
    if key not in _NESTED_FIELDS or memoryview(raw)[0] != _BRACE:
        return None, ("",)
    readable, names = drop_unreadable_fields(raw, *structs)
    if key == "usage" and _COUNTS.intersection(names):
        return None, ("",)
    return readable, names


def repair_line(line: bytes) -> bytes:
    """Rewrite a line that only the client's lenient parser accepts as strict JSON.

    Raises NotJsonError with the reason if it cannot be parsed at all.
    """
    text = line.decode("utf-8", "replace")
    try:
        value = json.loads(text, parse_constant=_reject_constant)
    except NotJsonError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotJsonError(str(error)) from error
    if not isinstance(value, dict):
        raise NotJsonError("not an object")
    return replace_lone_surrogates(text).encode()


def _reject_constant(constant: str) -> object:
    raise NotJsonError(f"{constant} is Python's, not JSON's")
