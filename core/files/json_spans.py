"""Finds a JSON value in the bytes of a line, and replaces it without changing any other byte."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

_SPACE: Final = re.compile(rb"[ \t\r\n]*+")
# Possessive, so that a long text with many escapes takes no memory.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_PLAIN: Final = re.compile(rb"[^\s,\]}:]++")  # a number, true, false or null
# Everything up to the next bracket that is not in a text, and the bracket.
_TO_BRACKET: Final = re.compile(
    rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+[\[\]{}]', re.DOTALL
)
# A member whose value is not a container, as most are, and the character after it.
_SCALAR_MEMBER: Final = re.compile(
    rb'[ \t\r\n]*+"([^"\\]*+)"[ \t\r\n]*+:[ \t\r\n]*+'
    rb'("[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s,\[\]{}:"]++)[ \t\r\n]*+([,}])',
    re.DOTALL,
)
_OPENING: Final = b"[{"
_ARRAY_INDEX: Final = re.compile(r"0|[1-9][0-9]*")


class JsonPointerError(ValueError):
    """The pointer leads to no value of this line, or the line is not JSON up to there."""


class JsonSpan(msgspec.Struct, frozen=True):
    """The place of a value in a line, in bytes: from `start` up to `end`."""

    start: int
    end: int


def find_span(line: bytes, pointer: str) -> JsonSpan:
    """Find the value of a JSON pointer (RFC 6901); "" is the whole line.

    Of members with one name the last counts, as for the client. Raises JsonPointerError.
    """
    found, _ = _walk(line, _skip_space(line, 0), _tokens(pointer))
    if found is None:
        raise JsonPointerError(f"{pointer!r} does not exist in this line")
    return found


def replace_value(line: bytes, pointer: str, value: bytes) -> bytes:
    """Replace a value by JSON text; every byte around it stays. Raises JsonPointerError."""
    return replace_spans(line, [(find_span(line, pointer), value)])


def replace_spans(line: bytes, values: Iterable[tuple[JsonSpan, bytes]]) -> bytes:
    """Replace values that do not overlap by JSON text; all bytes around them stay."""
    parts, done = [], 0
    for span, value in sorted(values, key=lambda each: each[0].start):
        parts += [line[done : span.start], value]
        done = span.end
    return b"".join([*parts, line[done:]])


def read_value(line: bytes, pointer: str) -> bytes:
    """Return the JSON text of a value exactly as it is in the line. Raises JsonPointerError."""
    span = find_span(line, pointer)
    return line[span.start : span.end]


def member_spans(line: bytes) -> dict[str, JsonSpan]:
    """Return the value spans of an object's members by name. Raises JsonPointerError."""
    start = _skip_space(line, 0)
    if line[start : start + 1] != b"{":
        raise JsonPointerError("the line is not a JSON object")
    return {name: JsonSpan(value, end) for name, value, end in _members(line, start)}


def escape_token(token: str) -> str:
    """Write a name as a part of a pointer (RFC 6901, section 3)."""
    return token.replace("~", "~0").replace("/", "~1")


def _tokens(pointer: str) -> list[str]:
    if not pointer:
        return []
    if not pointer.startswith("/"):
        raise JsonPointerError(f"{pointer!r} is not a JSON pointer: it must begin with a slash")
    return [each.replace("~1", "/").replace("~0", "~") for each in pointer[1:].split("/")]


def _walk(line: bytes, start: int, tokens: Sequence[str]) -> tuple[JsonSpan | None, int]:
    """Return the span that the tokens lead to inside a value, and the offset after the value.

    The span is None if there is none. No byte is read twice.
    """
    if not tokens:
        end = _end(line, start)
        return JsonSpan(start, end), end
    opening = line[start : start + 1]
    if opening == b"{":
        return _walk_object(line, start, tokens)
    if opening == b"[" and _ARRAY_INDEX.fullmatch(tokens[0]):
        return _walk_list(line, start, tokens)
    return None, _end(line, start)


def _walk_object(line: bytes, start: int, tokens: Sequence[str]) -> tuple[JsonSpan | None, int]:
    found = None
    place, more = _first_item(line, start, b"}")
    while more:
        simple = _SCALAR_MEMBER.match(line, place)
        if simple and _decoded(simple[1]) != tokens[0]:
            place, more = simple.end(), simple[3] == b","
            continue
        name, value = _member_name(line, _skip_space(line, place))
        if name == tokens[0]:
            found, end = _walk(line, value, tokens[1:])
        else:
            end = _end(line, value)
        place, more = _next_item(line, end, b"}")
    return found, place


def _walk_list(line: bytes, start: int, tokens: Sequence[str]) -> tuple[JsonSpan | None, int]:
    found, wanted, index = None, int(tokens[0]), 0
    place, more = _first_item(line, start, b"]")
    while more:
        if index == wanted:
            found, end = _walk(line, place, tokens[1:])
        else:
            end = _end(line, place)
        place, more = _next_item(line, end, b"]")
        index += 1
    return found, place


def _members(line: bytes, start: int) -> Iterator[tuple[str, int, int]]:
    place, more = _first_item(line, start, b"}")
    while more:
        simple = _SCALAR_MEMBER.match(line, place)
        if simple:
            yield _decoded(simple[1]), *simple.span(2)
            place, more = simple.end(), simple[3] == b","
            continue
        name, value = _member_name(line, _skip_space(line, place))
        end = _end(line, value)
        yield name, value, end
        place, more = _next_item(line, end, b"}")


def _first_item(line: bytes, start: int, closing: bytes) -> tuple[int, bool]:
    """Return the offset of the first member or item, and True.

    For an empty container return the offset after it, and False.
    """
    place = _skip_space(line, start + 1)
    if line[place : place + 1] == closing:
        return place + 1, False
    return place, True


def _member_name(line: bytes, place: int) -> tuple[str, int]:
    after = _end_of_string(line, place)
    return _name(line[place:after]), _skip_space(line, _expect(line, after, b":"))


def _next_item(line: bytes, end: int, closing: bytes) -> tuple[int, bool]:
    """Return the offset of the next member or item, and True.

    After the last one return the offset after the container, and False.
    """
    place = _skip_space(line, end)
    if line[place : place + 1] == closing:
        return place + 1, False
    return _skip_space(line, _expect(line, place, b",")), True


def _end(line: bytes, start: int) -> int:
    first = line[start : start + 1]
    if first == b'"':
        return _end_of_string(line, start)
    if first and first in _OPENING:
        return _end_of_container(line, start)
    plain = _PLAIN.match(line, start)
    if plain is None:
        raise JsonPointerError(f"byte {start}: a value is missing")
    return plain.end()


def _end_of_container(line: bytes, start: int) -> int:
    depth, place = 0, start
    while found := _TO_BRACKET.match(line, place):
        place = found.end()
        depth += 1 if line[place - 1 : place] in _OPENING else -1
        if depth == 0:
            return place
    raise JsonPointerError(f"byte {start}: an object or a list has no end")


def _end_of_string(line: bytes, start: int) -> int:
    found = _STRING.match(line, start)
    if found is None:
        raise JsonPointerError(f"byte {start}: a text is missing or has no end")
    return found.end()


def _name(text: bytes) -> str:
    if b"\\" not in text:
        return _decoded(text[1:-1])
    try:
        name: str = json.loads(text)
    except ValueError as error:
        raise JsonPointerError(f"{text[:40]!r} is not a name") from error
    return name


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _expect(line: bytes, place: int, character: bytes) -> int:
    place = _skip_space(line, place)
    if line[place : place + 1] != character:
        raise JsonPointerError(f"byte {place}: {character.decode()!r} is missing")
    return place + 1


def _skip_space(line: bytes, place: int) -> int:
    # Most places have none, and asking for that is the quickest.
    if line[place : place + 1] > b" ":
        return place
    found = _SPACE.match(line, place)
    return found.end() if found else place
