"""The head of a definition: what people write there, and what would harm."""

from __future__ import annotations

import pytest
from ctxtop.collectors.claude_code.config import definition_files
from ctxtop.collectors.claude_code.config.definition_files import split_front_matter


def head(text: str) -> definition_files.FrontMatter:
    return split_front_matter(f"---\n{text}\n---\nbody\n")


def test_a_head_and_a_body() -> None:
    found = head("name: a\ndescription: >-\n  two\n  lines\nmodel:")

    assert (found.body, found.problem) == ("body\n", None)
    assert (found.text("name"), found.text("description")) == ("a", "two lines")
    assert (found.text("model"), found.texts("skills")) == (None, None)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("[a, b]", ("a", "b")),
        ("a, b", ("a", "b")),
        ("\n  - a\n  - b", ("a", "b")),
        ("a", ("a",)),
        ("", ()),
        ("[]", ()),
        ("Read, Bash(git add, git commit), Grep", ("Read", "Bash(git add, git commit)", "Grep")),
        ('"a, b"', ("a", "b")),
        ("[a, [b], {c: d}]", ("a",)),
        ("*", ("*",)),
    ],
)
def test_lists_as_people_write_them(written: str, meant: tuple[str, ...]) -> None:
    assert head(f"name: x\nskills: {written}").texts("skills") == meant


@pytest.mark.parametrize("value", ["no", "1.10", "2026-13-45", "0x_", "1" * 5000, "null", "~"])
def test_every_scalar_is_its_text(value: str) -> None:
    assert head(f"name: {value}").text("name") == value


@pytest.mark.parametrize(
    "value",
    [
        "Use this agent when: the build breaks. Examples: <example>x: y</example>",
        "it's a [draft] of: something",
        "*important* note",
        "@team: look",
        "50% done: go on",
        "`code`: first",
    ],
)
def test_a_value_that_should_have_been_quoted_is_still_read(value: str) -> None:
    found = head(f"name: a\ndescription: {value}\nskills: [one]")

    assert (found.problem, found.text("description")) == (None, value)
    assert found.texts("skills") == ("one",)


def test_line_ends_and_marks_of_other_systems() -> None:
    found = split_front_matter("\ufeff---\r\nname: a\r\n---\r\nbody\r\n---\r\n")

    assert (found.text("name"), found.body) == ("a", "body\r\n---\r\n")


@pytest.mark.parametrize(
    "text", ["", "no head", "---\nname: a\n", "\n---\nname: a\n---\n", "--- \n"]
)
def test_without_a_head_all_is_body(text: str) -> None:
    found = split_front_matter(text)

    assert (found.body, found.fields, found.problem) == (text, {}, "has no front matter")


BOMB = "\n".join(
    ["a: &a [x,x,x,x,x,x,x,x,x]"]
    + [
        f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
)
MERGES = "a: &a {x: y}\n" + "\n".join(
    f"{b}: &{b} {{<<: [*{a},*{a},*{a},*{a}]}}" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "aliases"),
        (MERGES, "aliases"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: " + "[" * 12 + "]" * 12, "nested too deeply"),
        ("- a\n- b", "not a mapping"),
        ("just words", "not a mapping"),
        ("name: 'open", "not YAML on line"),
        ("name: a\x00b", "not YAML"),
        ("a: b\n\tc: d", "not YAML on line 3"),
        ("x" * (definition_files.MAX_FRONT_MATTER_CHARS + 1), "larger than 64 KiB"),
    ],
)
def test_a_head_that_is_not_read_says_why_in_one_line(text: str, reason: str) -> None:
    found = head(text)

    assert found.problem is not None
    assert reason in found.problem
    assert "\n" not in found.problem
    assert (found.fields, found.body) == ({}, "body\n")


def test_nothing_is_made_of_a_tag() -> None:
    found = head(
        "name: !!python/object/apply:os.system ['true']\nskills: !!python/name:os.system ''"
    )

    assert found.text("name") is None
    assert found.texts("skills") == ()
