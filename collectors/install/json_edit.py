"""Changing one value of a JSON text, and nothing else of it: not a space, not a comment."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .json_text import read_text

if TYPE_CHECKING:
    from .json_text import Document, Element, Node

Path = tuple[str | int, ...]
"""Names of members and numbers of items, from the outside in."""

_TAB: Final = "  "
"""Of a text that shows no indentation of its own."""

_BLANK: Final = re.compile(r"[ \t]*")
# What a comment is must not be thought over: it ends with its first end.
_GAP: Final = r"(?:[ \t]|(?>/\*[^\r\n]*?\*/))*"
_TO_CLOSE: Final = re.compile(_GAP + r"[}\]]")
_TO_LINE_END: Final = re.compile(_GAP + r"(?://[^\r\n]*)?(?=[\r\n])")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class _Splice:
    start: int
    end: int
    text: str


def find(node: Node, path: Path) -> Node | None:
    """Find the value at a path; the last of members with one name."""
    for step in path:
        element = _element(node, step)
        if element is None:
            return None
        node = element.node
    return node


def put(text: str, path: Path, value: object) -> str:
    """Set a member of an object; it, and objects on the way that are missing, come last.

    Raises JsonTextError where the text is no JSON, KeyError where the path leads through
    what is no object.
    """
    document = read_text(text)
    node, rest = document.root, list(path)
    while rest:
        element = _element(node, rest[0])
        if element is None:
            break
        node = element.node
        rest.pop(0)
    if not rest:
        return replace(text, path, value)
    if not isinstance(node.value, dict):
        raise KeyError(path)
    for name in reversed(rest[1:]):
        value = {name: value}
    return _apply(text, _insertion(document, node, value, str(rest[0])))


def append(text: str, path: Path, value: object) -> str:
    """Add an item at the end of a list; raises KeyError where there is none."""
    document = read_text(text)
    node = find(document.root, path)
    if node is None or not isinstance(node.value, list):
        raise KeyError(path)
    return _apply(text, _insertion(document, node, value, None))


def replace(text: str, path: Path, value: object) -> str:
    """Change a value where it stands; raises KeyError where there is none."""
    document = read_text(text)
    node = find(document.root, path)
    if node is None:
        raise KeyError(path)
    style = _Style(document)
    indent = style.line_indent(node.start)
    shown = style.render(value, indent if style.is_spread else None)
    return _apply(text, [_Splice(node.start, node.end, shown)])


def remove(text: str, path: Path) -> str:
    """Take a member or an item out, its comma and its line; raises KeyError where it is not."""
    document = read_text(text)
    parent = find(document.root, path[:-1])
    element = _element(parent, path[-1]) if parent else None
    if parent is None or element is None or parent.elements is None:
        raise KeyError(path)
    place = parent.elements.index(element)
    before = parent.elements[place - 1] if place else None
    is_last = element is parent.elements[-1]
    cut = _cut_last if is_last else _cut
    splices = [cut(text, element, before.end if before else parent.start)]
    if is_last and element.comma is None and before and before.comma is not None:
        # A comma stays behind the last one only where one was.
        splices.append(_Splice(before.comma, before.comma + 1, ""))
    if len(parent.elements) == 1:
        inside = text[parent.start + 1 : element.start] + text[element.end : parent.end - 1]
        if not inside.strip():
            splices = [_Splice(parent.start + 1, parent.end - 1, "")]
    return _apply(text, splices)


def _element(node: Node, step: str | int) -> Element | None:
    if node.elements is None:
        return None
    if isinstance(step, int):
        is_there = isinstance(node.value, list) and 0 <= step < len(node.elements)
        return node.elements[step] if is_there else None
    named = [each for each in node.elements if each.name == step]
    return named[-1] if named else None


def _insertion(document: Document, node: Node, value: object, name: str | None) -> list[_Splice]:
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


def _into_empty(style: _Style, node: Node, head: str, value: object) -> _Splice:
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


def _cut(text: str, element: Element, since: int) -> _Splice:
    lead = _blank_before(text, element.start)
    behind = _match_end(_BLANK, text, element.end)
    if _starts_line(text, lead):
        return _cut_line(text, element, since)
    if text[behind] in "\r\n":
        return _Splice(lead, element.end, "")
    return _Splice(element.start, behind, "")


def _cut_last(text: str, element: Element, since: int) -> _Splice:
    lead = _blank_before(text, element.start)
    if _starts_line(text, lead):
        return _cut_line(text, element, since)
    return _Splice(lead, element.end, "")


def _cut_line(text: str, element: Element, since: int) -> _Splice:
    """Take its line too, where nothing else stands there that needs one."""
    lead = _blank_before(text, element.start)
    behind = _match_end(_BLANK, text, element.end)
    if text[behind] in "\r\n":
        return _Splice(_line_break_before(text, lead), behind, "")
    # Behind a comment that ends with its line the line has to end.
    if _TO_CLOSE.match(text, behind) and "//" not in text[since:lead]:
        return _Splice(_line_break_before(text, lead), element.end, "")
    return _Splice(element.start, element.end, "")


def _apply(text: str, splices: list[_Splice]) -> str:
    parts, done = [], 0
    for splice in sorted(splices, key=lambda each: each.start):
        parts += [text[done : splice.start], splice.text]
        done = splice.end
    return "".join([*parts, text[done:]])


def _blank_before(text: str, place: int) -> int:
    while place and text[place - 1] in " \t":
        place -= 1
    return place


def _starts_line(text: str, place: int) -> bool:
    return place > 0 and text[place - 1] in "\r\n"


def _line_break_before(text: str, place: int) -> int:
    return place - (2 if text[place - 2 : place] == "\r\n" else 1)


def _match_end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place


class _Style:
    """How a text is laid out: its line ends, its indentation, whether it has lines at all."""

    def __init__(self, document: Document) -> None:
        self.document = document
        found = _LINE_END.search(document.text)
        self.newline = found[0] if found else "\n"
        root = document.root
        self.is_spread = not root.elements or self.has_lines(root)
        first = root.elements[0].start if root.elements and self.has_lines(root) else None
        self.tab = _TAB if first is None else self.line_indent(first)

    def has_lines(self, node: Node) -> bool:
        """Say whether what is in it begins on a line of its own."""
        if not node.elements:
            return self.is_spread
        between = self.document.text[node.start : node.elements[0].start]
        return _LINE_END.search(between) is not None

    def line_indent(self, place: int) -> str:
        """Give the blanks with which the line of a place begins."""
        text = self.document.text
        start = max(text.rfind("\n", 0, place), text.rfind("\r", 0, place)) + 1
        return text[start : _match_end(_BLANK, text, start)]

    def render(self, value: Any, indent: str | None) -> str:  # noqa: ANN401 -- any JSON
        """Write a value in one line, or in lines of this indentation."""
        if indent is None:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.tab).split("\n")
        return f"{self.newline}{indent}".join(lines)
