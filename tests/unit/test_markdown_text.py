"""Markdown as lines: everything that was written is shown, and nothing of it acts."""

from __future__ import annotations

import pytest
from ctxtop.tui.text.markdown_text import column_widths, markdown_lines


def plain(text: str, width: int = 60) -> list[str]:
    return [line.plain.rstrip() for line in markdown_lines(text, width)]


def styles(text: str, word: str) -> set[str]:
    """The styles of a word."""
    return {
        str(span.style)
        for line in markdown_lines(text, 60)
        for span in line.spans
        if word in line.plain[span.start : span.end]
    }


def test_blocks_are_told_apart_by_a_free_line() -> None:
    shown = plain("# Title\n\nSome text\nin two lines\n\n- one\n- two\n  - three\n\n1. a\n2. b")
    assert shown == [
        "Title",
        "",
        "Some text",
        "in two lines",
        "",
        "• one",
        "• two",
        "  • three",
        "",
        "1. a",
        "2. b",
    ]


def test_code_and_quotes_keep_their_lines() -> None:
    assert plain("> said\n\n```py\ndef f():\n\treturn 1\n```") == [
        "▎ said",
        "",
        " def f():",
        "     return 1",
    ]


def test_words_have_their_styles() -> None:
    text = "**strong** *light* `code` ~~gone~~"
    assert any("bold" in style for style in styles(text, "strong"))
    assert any("italic" in style for style in styles(text, "light"))
    assert any("accent" in style for style in styles(text, "code"))
    assert any("strike" in style for style in styles(text, "gone"))


def test_links_are_text_with_their_address_and_no_action() -> None:
    text = "[click](https://evil.example/a) <https://b.example> ![x](http://c.example/p.png)"
    assert plain(text, 200) == [
        "click (https://evil.example/a) https://b.example [image: x] (http://c.example/p.png)"
    ]
    spans = [str(span.style) for line in markdown_lines(text, 200) for span in line.spans]
    assert not any("link" in style or "@click" in style for style in spans)


@pytest.mark.parametrize(
    "text", ["<script>x</script>", "a <b>c</b> d", "[bold]x[/] [@click=q]y[/]"]
)
def test_html_and_markup_are_shown_as_they_are_written(text: str) -> None:
    assert plain(text) == [text]
    assert not any("bold" in style for style in styles(text, "x"))


def test_a_table_is_aligned_and_wrapped_within_its_cells() -> None:
    table = "| a | what |\n|---|---|\n| 1 | some words that do not fit |"
    assert plain(table) == ["a │ what", "1 │ some words that do not fit"]
    assert plain(table, 20) == ["a │ what", "1 │ some words that", "  │ do not fit"]


def test_a_table_with_too_many_columns_is_its_source() -> None:
    table = "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |"
    assert plain(table, 14)[0].strip().startswith("| a | b")


def test_narrow_columns_keep_their_width() -> None:
    assert column_widths([2, 50, 50], 42) == [2, 20, 20]
    assert column_widths([2, 5, 8], 42) == [2, 5, 8]


def test_no_line_is_wider_than_the_width() -> None:
    text = "- " + "wörter " * 40 + "\n\n> 1. " + "x" * 300 + "\n\n```\n" + "漢字" * 80 + "\n```"
    for width in (8, 20, 61):
        assert max(line.cell_length for line in markdown_lines(text, width)) <= max(width, 16)


@pytest.mark.parametrize("text", ["", "\n\n", "|", "```", "- ", "> > > >", "[" * 500, "*" * 500])
def test_half_of_markdown_is_no_error(text: str) -> None:
    markdown_lines(text, 40)
