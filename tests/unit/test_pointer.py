"""A value is found and replaced in a line's bytes, and every other byte stays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.files.json_spans import (
    JsonPointerError,
    JsonSpan,
    escape_token,
    find_span,
    member_spans,
    read_value,
    replace_value,
)
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    _LEAVES | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


def pointers(value: object, at: str = "") -> Iterator[tuple[str, object]]:
    """List every value below one, with its pointer."""
    yield at, value
    if isinstance(value, dict):
        for name, each in value.items():
            yield from pointers(each, f"{at}/{escape_token(name)}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from pointers(each, f"{at}/{index}")


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_every_value_is_where_its_pointer_says(
    value: object, ascii_only: bool, indent: int | None
) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    for pointer, expected in pointers(value):
        assert json.loads(read_value(line, pointer)) == expected


@given(VALUES, VALUES, st.data())
def test_only_the_value_changes(value: object, new: object, data: st.DataObject) -> None:
    line = json.dumps(value).encode()
    pointer, _ = data.draw(st.sampled_from(list(pointers(value))))
    text = json.dumps(new).encode()
    old = find_span(line, pointer)
    changed = replace_value(line, pointer, text)
    assert changed[: old.start] == line[: old.start]
    assert changed[old.start + len(text) :] == line[old.end :]
    assert json.loads(read_value(changed, pointer)) == new
    assert replace_value(changed, pointer, line[old.start : old.end]) == line


def test_of_members_with_one_name_the_last_counts() -> None:
    assert read_value(b'{"a":1,"\\u0061":2}', "/a") == b"2"
    assert read_value(b'{"a":1,"a":{"b":2}}', "/a/b") == b"2"
    with pytest.raises(JsonPointerError):
        find_span(b'{"a":{"b":2},"a":1}', "/a/b")
    assert member_spans(b' {"a": "x" ,"b":[]}') == {"a": JsonSpan(7, 10), "b": JsonSpan(16, 18)}


def test_bytes_that_are_no_text_are_carried_through() -> None:
    assert replace_value(b'{"a":"\xff\xed","b":1}', "/b", b"2") == b'{"a":"\xff\xed","b":2}'


@pytest.mark.parametrize(
    ("line", "pointer"),
    [
        (b'{"a":1}', "/b"),
        (b'{"a":1}', "a"),
        (b"[1]", "/1"),
        (b"[1]", "/01"),
        (b"[1]", "/-"),
        (b'{"a":"x', "/a"),
        (b'{"a":[1', "/a"),
        (b'{"a" 1}', "/a"),
        (b'{"a":1 "b":2}', "/b"),
        (b"{,}", "/a"),
        (b"", ""),
    ],
)
def test_what_leads_nowhere_is_an_error(line: bytes, pointer: str) -> None:
    with pytest.raises(JsonPointerError):
        find_span(line, pointer)


def test_a_line_with_a_million_escapes() -> None:
    text = json.dumps('"\\\n' * 1_000_000)
    line = f'{{"message":{{"content":[{{"content":{text}}}]}},"uuid":"u"}}'.encode()
    assert read_value(line, "/uuid") == b'"u"'
    assert read_value(line, "/message/content/0/content") == text.encode()


def test_a_million_texts_and_a_deep_line() -> None:
    line = b'{"a":[' + b'"\\\\",' * 1_000_000 + b'"]"],"u":1}'
    assert read_value(line, "/u") == b"1"
    assert list(member_spans(line)) == ["a", "u"]
    deep = b'{"a":' + b'{"b":' * 10_000 + b"1" + b"}" * 10_000 + b',"u":2}'
    assert read_value(deep, "/u") == b"2"
