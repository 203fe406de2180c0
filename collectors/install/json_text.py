"""JSON as it stands in a file: every value with its place, comments and trailing commas allowed.

Of the packages that edit such text one starts a JavaScript program, one is under a licence
that ours cannot take, and the others write all of the file anew. The client's own parser
takes neither comments nor trailing commas (seen in 2.1.329): `is_plain` says so.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

BOM: Final = "\ufeff"

DEEPEST: Final = 100
"""Levels; settings have about six, and a text that is deeper is none that a person wrote."""

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD: Final = re.compile(r"[A-Za-z]+")
_WORDS: Final = {"true": True, "false": False, "null": None}
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class JsonTextError(ValueError):
    """A text that is no JSON; the message says what and where."""

    def __init__(self, what: str, text: str, place: int) -> None:
        ends = list(_LINE_END.finditer(text, 0, place))
        self.line: Final = len(ends) + 1
        self.column: Final = place - (ends[-1].end() if ends else 0) + 1
        super().__init__(f"line {self.line}, column {self.column}: {what}")


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands, from `start` up to `end`."""

    start: int
    end: int
    value: Any
    """As Python has it; of members with one name the last one counts, as for the client."""
    elements: tuple[Element, ...] | None = None
    """What is in an object or a list; None for any other value."""


@dataclass(frozen=True, slots=True)
class Element:
    """A member of an object or an item of a list."""

    start: int
    """Where its name begins, or else its value."""
    node: Node
    name: str | None = None
    comma: int | None = None
    """Where the comma behind it stands."""

    @property
    def end(self) -> int:
        """The place behind it and its comma."""
        return self.node.end if self.comma is None else self.comma + 1


@dataclass(frozen=True, slots=True)
class Document:
    """A text and the value that it holds."""

    text: str
    root: Node
    is_strict: bool
    """It has neither comments nor trailing commas."""


@lru_cache(maxsize=2)
def read_text(text: str) -> Document:
    """Find every value of a text; raises JsonTextError where it is no JSON.

    An edit asks several times of one text: it is read once. The values are not to be changed.
    """
    return _Scanner(text).document()


def decode_text(data: bytes) -> str:
    """Decode a file's bytes; a byte order mark stays. Raises JsonTextError where it is no UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise JsonTextError("a byte that is no UTF-8", before, len(before)) from error


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 1 if text.startswith(BOM) else 0
        self._level = 0
        self._is_plain = True

    def document(self) -> Document:
        self._skip()
        root = self._node()
        self._skip()
        if self._place < len(self._text):
            raise self._error("more behind the end of the value")
        return Document(self._text, root, self._is_plain)

    def _node(self) -> Node:
        start, first = self._place, self._peek()
        if first in "{[" and first:
            return self._container(self._member if first == "{" else self._item)
        if first == '"':
            return Node(start, *self._string())
        number = _NUMBER.match(self._text, start)
        if number:
            self._place = number.end()
            return Node(start, self._place, self._number(number[0]))
        word = _WORD.match(self._text, start)
        if word and word[0] in _WORDS:
            self._place = word.end()
            return Node(start, self._place, _WORDS[word[0]])
        raise self._error("a value was expected")

    def _container(self, element: Callable[[], Element]) -> Node:
        start = self._place
        close = "}" if self._text[start] == "{" else "]"
        self._level += 1
        if self._level > DEEPEST:
            raise self._error("nested too deeply")
        self._place += 1
        found = self._elements(element, close)
        self._level -= 1
        values = [each.node.value for each in found]
        is_object = close == "}"
        value = dict(zip((each.name for each in found), values, strict=True))
        return Node(start, self._place, value if is_object else values, tuple(found))

    def _elements(self, element: Callable[[], Element], close: str) -> list[Element]:
        found: list[Element] = []
        while True:
            self._skip()
            if self._peek() == close:
                self._is_plain &= not (found and found[-1].comma is not None)
                self._place += 1
                return found
            if found and found[-1].comma is None:
                raise self._error(f"a comma or {close} was expected")
            one = element()
            self._skip()
            comma = self._place if self._peek() == "," else None
            self._place += comma is not None
            found.append(Element(one.start, one.node, one.name, comma))

    def _member(self) -> Element:
        start = self._place
        if self._peek() != '"':
            raise self._error("a name in double quotes was expected")
        _, name = self._string()
        self._skip()
        if self._peek() != ":":
            raise self._error("a colon was expected")
        self._place += 1
        self._skip()
        return Element(start, self._node(), name)

    def _item(self) -> Element:
        return Element(self._place, self._node())

    def _string(self) -> tuple[int, str]:
        found = _STRING.match(self._text, self._place)
        if not found:
            raise self._error("a text that does not end, or has a sign that JSON has not")
        self._place = found.end()
        value: str = json.loads(found[0])
        return self._place, value

    def _number(self, digits: str) -> int | float:
        try:
            value: int | float = json.loads(digits)
        except ValueError as error:  # more digits than Python converts
            raise self._error("a number that is too long") from error
        return value

    def _skip(self) -> None:
        while True:
            self._place = _match_end(_SPACE, self._text, self._place)
            behind = _match_end(_COMMENT, self._text, self._place)
            if behind == self._place:
                return
            self._place, self._is_plain = behind, False

    def _peek(self) -> str:
        return self._text[self._place : self._place + 1]

    def _error(self, what: str) -> JsonTextError:
        return JsonTextError(what, self._text, self._place)


def _match_end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place
