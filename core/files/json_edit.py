"""Changes one value of a JSON text and leaves every other byte of it alone.

Comments and trailing commas are accepted; `JsonDocument.is_strict` is False if there are any:
Claude Code's own parser accepts neither (seen in 2.1.329). No package does this: of those that
edit such text one starts a JavaScript program, one has a license that is incompatible with ours,
and the others rewrite the whole file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

BOM: Final = "\ufeff"

MAX_DEPTH: Final = 100  # levels; settings have about six, and no person writes more than these

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SPACE_AND_COMMENTS: Final = re.compile(r"(?:[ \t\r\n]|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER_OR_WORD: Final = re.compile(
    r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|(?:true|false|null)(?![A-Za-z])"
)
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class JsonTextError(ValueError):
    """The text is not JSON; the message says what is wrong and where."""

    def __init__(self, what: str, text: str, place: int) -> None:
        ends = list(_LINE_END.finditer(text, 0, place))
        self.line: Final = len(ends) + 1
        self.column: Final = place - (ends[-1].end() if ends else 0) + 1
        super().__init__(f"line {self.line}, column {self.column}: {what}")


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value and where it is in the text, from `start` up to `end`."""

    start: int
    end: int
    value: Any  # as in Python; of members with one name the last one counts, as for the client
    elements: tuple[JsonElement, ...] | None = None  # of an object or a list


@dataclass(frozen=True, slots=True)
class JsonElement:
    start: int  # of its name, or of an item's value
    node: JsonNode
    name: str | None = None
    comma: int | None = None  # the place of the comma after it

    @property
    def end(self) -> int:
        """The place after it and its comma."""
        return self.node.end if self.comma is None else self.comma + 1


@dataclass(frozen=True, slots=True)
class JsonDocument:
    text: str
    root: JsonNode
    is_strict: bool  # it has neither comments nor trailing commas


@lru_cache(maxsize=2)
def parse_json_text(text: str) -> JsonDocument:
    """Find every value of a text; raises JsonTextError if it is not JSON.

    Cached, because an edit asks for one text several times. The values must not be changed.
    """
    return _Scanner(text).document()


def decode_utf8(data: bytes) -> str:
    """Decode a file's bytes; a byte order mark is kept. Raises JsonTextError if not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        raise JsonTextError("a byte that is not UTF-8", before, len(before)) from error


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 1 if text.startswith(BOM) else 0
        self._level = 0
        self._is_plain = True

    def document(self) -> JsonDocument:
        self._skip()
        root = self._node()
        self._skip()
        if self._place < len(self._text):
            raise self._error("more text after the value")
        return JsonDocument(self._text, root, self._is_plain)

    def _node(self) -> JsonNode:
        start, first = self._place, self._peek()
        if first in "{[" and first:
            return self._container(self._member if first == "{" else self._item)
        if first == '"':
            return JsonNode(start, *self._string())
        found = _NUMBER_OR_WORD.match(self._text, start)
        if not found:
            raise self._error("a value was expected")
        self._place = found.end()
        try:
            return JsonNode(start, self._place, json.loads(found[0]))
        except ValueError as error:  # more digits than Python converts
            raise self._error("a number that is too long") from error

    def _container(self, element: Callable[[], JsonElement]) -> JsonNode:
        start = self._place
        close = "}" if self._text[start] == "{" else "]"
        self._level += 1
        if self._level > MAX_DEPTH:
            raise self._error("nested too deeply")
        self._place += 1
        found = self._elements(element, close)
        self._level -= 1
        values = [each.node.value for each in found]
        is_object = close == "}"
        value = dict(zip((each.name for each in found), values, strict=True))
        return JsonNode(start, self._place, value if is_object else values, tuple(found))

    def _elements(self, element: Callable[[], JsonElement], close: str) -> list[JsonElement]:
        found: list[JsonElement] = []
        while True:
            self._skip()
            if self._peek() == close:
                self._is_plain &= not (found and found[-1].comma is not None)
                self._place += 1
                return found
            if found and found[-1].comma is None:
                raise self._error(f"a comma or {close} was expected")
            without_comma = element()
            self._skip()
            comma = self._place if self._peek() == "," else None
            self._place += comma is not None
            found.append(replace(without_comma, comma=comma))

    def _member(self) -> JsonElement:
        start = self._place
        if self._peek() != '"':
            raise self._error("a name in double quotes was expected")
        _, name = self._string()
        self._skip()
        if self._peek() != ":":
            raise self._error("a colon was expected")
        self._place += 1
        self._skip()
        return JsonElement(start, self._node(), name)

    def _item(self) -> JsonElement:
        return JsonElement(self._place, self._node())

    def _string(self) -> tuple[int, str]:
        found = _STRING.match(self._text, self._place)
        if not found:
            raise self._error("an unterminated string, or a character that JSON does not allow")
        self._place = found.end()
        return self._place, json.loads(found[0])

    def _skip(self) -> None:
        without_comments = _match_end(_SPACE, self._text, self._place)
        self._place = _match_end(_SPACE_AND_COMMENTS, self._text, self._place)
        self._is_plain &= self._place == without_comments

    def _peek(self) -> str:
        return self._text[self._place : self._place + 1]

    def _error(self, what: str) -> JsonTextError:
        return JsonTextError(what, self._text, self._place)


def _match_end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place


JsonPath = tuple[str | int, ...]  # names of members and numbers of items, from the outside in
_DEFAULT_INDENT: Final = "  "  # of a text that is not indented
_BLANK: Final = re.compile(r"[ \t]*")
# Atomic, because a comment ends with its first end: no backtracking into it.
_GAP: Final = r"(?:[ \t]|(?>/\*[^\r\n]*?\*/))*"
_TO_CLOSE: Final = re.compile(_GAP + r"[}\]]")
_TO_LINE_END: Final = re.compile(_GAP + r"(?://[^\r\n]*)?(?=[\r\n])")


@dataclass(frozen=True, slots=True)
class _Splice:
    start: int
    end: int
    text: str


def find_value(node: JsonNode, path: JsonPath) -> JsonNode | None:
    """Find the value at a path; the last of members with one name."""
    for step in path:
        element = _element(node, step)
        if element is None:
            return None
        node = element.node
    return node


def set_value(text: str, path: JsonPath, value: object) -> str:
    """Set a member of an object; new members, and missing objects on the path, are added last.

    Raises JsonTextError if the text is not JSON, KeyError if the path leads through
    something that is not an object.
    """
    document = parse_json_text(text)
    node = document.root
    for place, name in enumerate(path):
        element = _element(node, name)
        if element is None:
            if not isinstance(node.value, dict):
                raise KeyError(path)
            for inner in reversed(path[place + 1 :]):
                value = {inner: value}
            return _apply(text, _insertion(document, node, value, str(name)))
        node = element.node
    return replace_value(text, path, value)


def append_item(text: str, path: JsonPath, value: object) -> str:
    """Add an item at the end of a list; raises KeyError if there is no list."""
    document = parse_json_text(text)
    node = find_value(document.root, path)
    if node is None or not isinstance(node.value, list):
        raise KeyError(path)
    return _apply(text, _insertion(document, node, value, None))


def replace_value(text: str, path: JsonPath, value: object) -> str:
    """Change a value in place; raises KeyError if there is none."""
    document = parse_json_text(text)
    node = find_value(document.root, path)
    if node is None:
        raise KeyError(path)
    style = _Style(document)
    indent = style.line_indent(node.start)
    shown = style.render(value, indent if style.is_spread else None)
    return _apply(text, [_Splice(node.start, node.end, shown)])


def remove_value(text: str, path: JsonPath) -> str:
    """Remove a member or an item with its comma and line; raises KeyError if it is missing."""
    document = parse_json_text(text)
    parent = find_value(document.root, path[:-1])
    element = _element(parent, path[-1]) if parent else None
    if parent is None or element is None or parent.elements is None:
        raise KeyError(path)
    place = parent.elements.index(element)
    before = parent.elements[place - 1] if place else None
    is_last = element is parent.elements[-1]
    since = before.end if before else parent.start
    splices = [_cut(text, element, since, is_last=is_last)]
    if is_last and element.comma is None and before and before.comma is not None:
        # The new last one keeps its comma only if the old last one had one.
        splices.append(_Splice(before.comma, before.comma + 1, ""))
    if len(parent.elements) == 1:
        inside = text[parent.start + 1 : element.start] + text[element.end : parent.end - 1]
        if not inside.strip():
            splices = [_Splice(parent.start + 1, parent.end - 1, "")]
    return _apply(text, splices)


def _element(node: JsonNode, step: str | int) -> JsonElement | None:
    if node.elements is None:
        return None
    if isinstance(step, int):
        is_there = isinstance(node.value, list) and 0 <= step < len(node.elements)
        return node.elements[step] if is_there else None
    named = [each for each in node.elements if each.name == step]
    return named[-1] if named else None


def _insertion(
    document: JsonDocument, node: JsonNode, value: object, name: str | None
) -> list[_Splice]:
    style = _Style(document)
    head = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
    last = node.elements[-1] if node.elements else None
    if last is None:
        return [_into_empty(style, node, head, value)]
    comma = [] if last.comma is not None else [_Splice(last.node.end, last.node.end, ",")]
    trailing = "," if last.comma is not None else ""
    if not style.has_lines(node):
        return [
            *comma,
            _Splice(last.end, last.end, f" {head}{style.render(value, None)}{trailing}"),
        ]
    indent = style.line_indent(last.start)
    line_end = _TO_LINE_END.match(document.text, last.end)
    spot = line_end.end() if line_end else last.end
    piece = f"{style.newline}{indent}{head}{style.render(value, indent)}{trailing}"
    return [*comma, _Splice(spot, spot, piece)]


def _into_empty(style: _Style, node: JsonNode, head: str, value: object) -> _Splice:
    text = style.document.text
    start, end = node.start + 1, node.end - 1
    inside = text[start:end]
    if not style.is_spread and not inside.strip():
        return _Splice(start, end, f"{head}{style.render(value, None)}")
    outer = style.line_indent(node.start)
    indent = outer + style.tab
    kept = inside.rstrip()
    piece = f"{style.newline}{indent}{head}{style.render(value, indent)}"
    return _Splice(start + len(kept), end, f"{piece}{style.newline}{outer}")


def _cut(text: str, element: JsonElement, since: int, *, is_last: bool) -> _Splice:
    """Remove an element, and its line too unless something else is on it.

    `since` is the end of what precedes it.
    """
    lead = len(text[: element.start].rstrip(" \t"))
    after = _match_end(_BLANK, text, element.end)
    ends_line = text[after] in "\r\n"
    if not (lead > 0 and text[lead - 1] in "\r\n"):
        if is_last or ends_line:
            return _Splice(lead, element.end, "")
        return _Splice(element.start, after, "")
    line_break = lead - (2 if text[lead - 2 : lead] == "\r\n" else 1)
    if ends_line:
        return _Splice(line_break, after, "")
    # After a line comment the line has to end.
    if _TO_CLOSE.match(text, after) and "//" not in text[since:lead]:
        return _Splice(line_break, element.end, "")
    return _Splice(element.start, element.end, "")


def _apply(text: str, splices: list[_Splice]) -> str:
    parts, done = [], 0
    for splice in sorted(splices, key=lambda each: each.start):
        parts += [text[done : splice.start], splice.text]
        done = splice.end
    return "".join([*parts, text[done:]])


class _Style:
    """How a text is formatted: its line ends, its indentation, whether it has lines at all."""

    def __init__(self, document: JsonDocument) -> None:
        self.document = document
        found = _LINE_END.search(document.text)
        self.newline = found[0] if found else "\n"
        root = document.root
        self.is_spread = not root.elements or self.has_lines(root)
        first = root.elements[0].start if root.elements and self.has_lines(root) else None
        self.tab = _DEFAULT_INDENT if first is None else self.line_indent(first)

    def has_lines(self, node: JsonNode) -> bool:
        if not node.elements:
            return self.is_spread
        between = self.document.text[node.start : node.elements[0].start]
        return _LINE_END.search(between) is not None

    def line_indent(self, place: int) -> str:
        """Return the white space that begins the line at `place`."""
        text = self.document.text
        start = max(text.rfind("\n", 0, place), text.rfind("\r", 0, place)) + 1
        return text[start : _match_end(_BLANK, text, start)]

    def render(self, value: Any, indent: str | None) -> str:  # noqa: ANN401 -- any JSON
        """Write a value in one line, or in lines with this indentation."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.tab).split("\n")
        return f"{self.newline}{indent}".join(lines)
