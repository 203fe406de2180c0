"""JSON texts laid out as nobody would, with comments and trailing commas."""

from __future__ import annotations

import json
import re
from typing import Any

from ctxtop.core.files.json_edit import BOM, parse_json_text
from hypothesis import strategies as st

NAMES = st.sampled_from(["hooks", "Stop", "a", "ü", 'q"\\', "//", "/*", ""])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-1000, 1000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["// no comment", "/* nor this */", ",}", "\\"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
FLAGS = st.sampled_from([True, False])
COMMENTS = ("", "", "", "/* c, } */", "// it's \"{\n")


def value(text: str) -> Any:  # noqa: ANN401 -- any JSON
    return parse_json_text(text).root.value


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Any object, laid out as nobody would, with comments and trailing commas."""
    spaces = st.sampled_from(["", " ", "\n", "\n  ", "\t", "\r\n    "])

    def gap() -> str:
        return str(draw(spaces)) + str(draw(st.sampled_from(COMMENTS))) + str(draw(spaces))

    def write(node: object) -> str:
        if isinstance(node, dict):
            parts = [f"{json.dumps(name)}{gap()}:{gap()}{write(one)}" for name, one in node.items()]
            return join("{", parts, "}")
        if isinstance(node, list):
            return join("[", [write(one) for one in node], "]")
        return json.dumps(node, ensure_ascii=draw(FLAGS))

    def join(opening: str, parts: list[str], close: str) -> str:
        has_trailing: bool = draw(FLAGS)
        trailing = "," + gap() if parts and has_trailing else ""
        inside = ",".join(f"{gap()}{part}{gap()}" for part in parts)
        return f"{opening}{gap()}{inside}{trailing}{close}"

    return draw(st.sampled_from(["", BOM])) + gap() + write(draw(OBJECTS)) + gap()


def comments(text: str) -> list[str]:
    strings_and_comments = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\r\n]*|/\*.*?\*/', re.DOTALL)
    return [one for one in strings_and_comments.findall(text) if one.startswith("/")]
