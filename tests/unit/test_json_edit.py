"""Editing JSON text: the value changes as asked, and nothing else of the text does."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from ctxtop.core.files.json_edit import (
    MAX_DEPTH,
    JsonPath,
    JsonTextError,
    append_item,
    decode_utf8,
    find_value,
    parse_json_text,
    remove_value,
    replace_value,
    set_value,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from ..json_texts import NAMES, VALUES, comments, documents, value


def paths(node: dict[str, Any] | list[Any], way: JsonPath = ()) -> list[JsonPath]:
    steps = node.items() if isinstance(node, dict) else enumerate(node)
    found: list[JsonPath] = []
    for step, one in steps:
        found.append((*way, step))
        if isinstance(one, (dict, list)):
            found += paths(one, (*way, step))
    return found


def at(node: Any, path: JsonPath) -> Any:  # noqa: ANN401 -- any JSON
    for step in path:
        node = node[step]
    return node


@settings(deadline=None)
@given(documents())
def test_any_text_is_read_and_each_value_stands_where_it_is_said(text: str) -> None:
    root = parse_json_text(text).root
    for path in paths(root.value):
        node = find_value(root, path)
        assert node is not None
        assert value(text[node.start : node.end]) == at(root.value, path)


@given(VALUES)
def test_plain_json_is_read_as_python_reads_it(given_value: object) -> None:
    for indent in (None, 1):
        text = json.dumps(given_value, indent=indent)
        document = parse_json_text(text)
        assert document.root.value == given_value
        assert document.is_strict


@settings(deadline=None)
@given(documents(), NAMES, VALUES)
def test_a_member_is_put(text: str, name: str, new: object) -> None:
    edited = set_value(text, (name,), new)
    assert value(edited) == value(text) | {name: new}
    if name not in value(text):
        assert comments(edited) == comments(text)
        assert list(value(edited)) == [*value(text), name]


@settings(deadline=None)
@given(documents(), NAMES, NAMES, VALUES)
def test_a_member_is_put_with_the_objects_on_its_way(
    text: str, outer: str, inner: str, new: object
) -> None:
    before = value(text)
    if not isinstance(before.get(outer, {}), dict):
        with pytest.raises(KeyError):
            set_value(text, (outer, inner), new)
        return
    expected = before | {outer: before.get(outer, {}) | {inner: new}}
    assert value(set_value(text, (outer, inner), new)) == expected


@settings(deadline=None)
@given(documents(), VALUES, st.data())
def test_an_item_is_added(text: str, new: object, data: st.DataObject) -> None:
    before = value(text)
    lists = [path for path in paths(before) if isinstance(at(before, path), list)]
    if not lists:
        return
    path = data.draw(st.sampled_from(lists))
    edited = append_item(text, path, new)
    expected = copy.deepcopy(before)
    at(expected, path).append(new)
    assert value(edited) == expected
    assert comments(edited) == comments(text)


@settings(deadline=None)
@given(documents(), VALUES, st.data())
def test_a_value_is_replaced_and_nothing_else(text: str, new: object, data: st.DataObject) -> None:
    before = value(text)
    if not before:
        return
    path = data.draw(st.sampled_from(paths(before)))
    node = find_value(parse_json_text(text).root, path)
    assert node is not None
    edited = replace_value(text, path, new)
    assert edited.startswith(text[: node.start])
    assert edited.endswith(text[node.end :])
    assert value(edited[node.start : len(edited) - len(text) + node.end]) == new


@settings(deadline=None)
@given(documents(), st.data())
def test_an_element_is_taken_out(text: str, data: st.DataObject) -> None:
    before = value(text)
    if not before:
        return
    path = data.draw(st.sampled_from(paths(before)))
    node = find_value(parse_json_text(text).root, path)
    assert node is not None
    edited = remove_value(text, path)
    expected = copy.deepcopy(before)
    del at(expected, path[:-1])[path[-1]]
    assert value(edited) == expected
    parent = find_value(parse_json_text(text).root, path[:-1])
    assert parent is not None
    assert parent.elements is not None
    (own,) = [one for one in parent.elements if one.node == node]
    # No comment goes but those between its own name and its comma.
    kept = comments(text[: own.start]) + comments(text[own.end :])
    assert comments(edited) == kept


@settings(deadline=None)
@given(documents(), NAMES, VALUES)
def test_taking_out_what_was_put_in_gives_the_same_text(text: str, name: str, new: object) -> None:
    before = value(text)
    if not before or name in before:
        return
    assert remove_value(set_value(text, (name,), new), (name,)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "b": {\n    "c": [\n      1\n    ]\n  }\n}'),
        ('{"a": 1}\n', '{"a": 1, "b": {"c": [1]}}\n'),
        (
            '{\r\n\t"a": 1 // one\r\n}\r\n',
            '{\r\n\t"a": 1, // one\r\n\t"b": {\r\n\t\t"c": [\r\n\t\t\t1\r\n\t\t]\r\n\t}\r\n}\r\n',
        ),
        (
            '{\n    "a": 1,\n}',
            '{\n    "a": 1,\n    "b": {\n        "c": [\n            1\n        ]\n    },\n}',
        ),
        (
            '{\n "a": 1\n /* the end */\n}\n',
            '{\n "a": 1,\n "b": {\n  "c": [\n   1\n  ]\n }\n /* the end */\n}\n',
        ),
        (
            "{\n  // nothing yet\n}",
            '{\n  // nothing yet\n  "b": {\n    "c": [\n      1\n    ]\n  }\n}',
        ),
        ("{ /* nothing */ }", '{ /* nothing */\n  "b": {\n    "c": [\n      1\n    ]\n  }\n}'),
    ],
)
def test_what_is_put_in_looks_like_what_is_there(text: str, expected: str) -> None:
    assert set_value(text, ("b",), {"c": [1]}) == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"a": 1, "b": 2}', ("a",), '{"b": 2}'),
        ('{"a": 1, "b": 2}', ("b",), '{"a": 1}'),
        ('{\n  "a": 1,\n  "b": 2\n}', ("a",), '{\n  "b": 2\n}'),
        ('{\n  "a": 1, // one\n  "b": 2 // two\n}', ("b",), '{\n  "a": 1 // one\n   // two\n}'),
        ('{\n  "a": 1,\n  "b": 2,\n}', ("b",), '{\n  "a": 1,\n}'),
        ('{"a": [\n 1,\n 2]}', ("a", 1), '{"a": [\n 1]}'),
        ('{"a": [1, // one\n 2]}', ("a", 1), '{"a": [1 // one\n ]}'),
        ('{"a": [ 1 ]}', ("a", 0), '{"a": []}'),
        ('{ // one\n  "a": 1}', ("a",), "{ // one\n  }"),
        ('{"a": 1, "a": 2}', ("a",), '{"a": 1}'),
    ],
)
def test_what_is_taken_out_leaves_no_hole(text: str, path: JsonPath, expected: str) -> None:
    assert remove_value(text, path) == expected


def test_a_comment_ends_with_its_first_end() -> None:
    text = '{"a": [\n1,/* c */]/* c */\n}'
    assert append_item(text, ("a",), 2) == '{"a": [\n1,\n2,/* c */]/* c */\n}'
    text = '{\n"a": [\n1,\n2/* c */, 3]/* c */}'
    assert value(remove_value(text, ("a", 1))) == {"a": [1, 3]}


def test_of_members_with_one_name_the_last_one_counts() -> None:
    assert value('{"a": 1, "a": 2}') == {"a": 2}
    assert replace_value('{"a": 1, "a": 2}', ("a",), 3) == '{"a": 1, "a": 3}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1, column 1: a value was expected"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: a comma or } was expected"),
        ("{'a': 1}", "line 1, column 2: a name in double quotes was expected"),
        ('{"a" 1}', "line 1, column 6: a colon was expected"),
        ('{"a": 01}', "a comma or } was expected"),
        ('{"a": NaN}', "a value was expected"),
        ('{"a": +1}', "a value was expected"),
        ('{"a": "\n"}', "an unterminated string"),
        ('{"a": "\\x"}', "an unterminated string"),
        ("{,}", "a name in double quotes was expected"),
        ("{} {}", "line 1, column 4: more text after"),
        ("{} /* never closed", "more text after"),
        ("[" * (MAX_DEPTH + 1), "nested too deeply"),
        (f'{{"a": {"9" * 5000}}}', "a number that is too long"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(JsonTextError, match=re.escape(words)):
        parse_json_text(text)


def test_comments_and_trailing_commas_are_told() -> None:
    assert parse_json_text('{"a": [1, 2]}').is_strict
    for text in ('{"a": 1,}', '{"a": [1,]}', "// c\n{}", "{} /* c */", '{"a": /**/ 1}'):
        assert not parse_json_text(text).is_strict


def test_bytes_that_are_no_utf_8_are_refused_with_their_place() -> None:
    assert decode_utf8("\ufeffü".encode()) == "\ufeffü"
    with pytest.raises(JsonTextError, match="line 2, column 4: a byte that is not UTF-8"):
        decode_utf8(b'{\n  "\xff"\n}')
