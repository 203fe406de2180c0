"""Long texts as lines: nothing is lost, nothing is too wide, passages stay where they are."""

from __future__ import annotations

from ctxtop.tui.text.text_lines import MIN_WRAP_CELLS, expand_tabs, wrap_spans, wrap_text
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

WORDS = st.text(alphabet="ab 漢é\n", max_size=120)


@given(WORDS, st.integers(MIN_WRAP_CELLS, 40))
def test_every_line_fits_and_only_spaces_are_left_out(text: str, width: int) -> None:
    spans = list(wrap_spans(text, width))
    lines = [text[start:end] for start, end in spans]
    assert all(cell_len(line) <= width for line in lines)
    between = zip(spans, [*spans[1:], (len(text), 0)], strict=True)
    assert all(text[end:start].strip(" \n") == "" for (_, end), (start, _) in between)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "").replace("\n", "")


def test_words_stay_whole_where_they_fit() -> None:
    lines = [line.plain for line in wrap_text("one two three\n\nfour", 9).lines]
    assert lines == ["one two", "three", "", "four"]
    assert [line.plain for line in wrap_text("x" * 20, 8).lines] == ["x" * 8, "x" * 8, "x" * 4]


def test_a_passage_is_known_by_where_it_begins_and_drawn_where_it_goes_on() -> None:
    text = "one two three four"
    found = wrap_text(text, 9, [(4, 13), (14, 18)], "bold")
    assert [line.plain for line in found.lines] == ["one two", "three", "four"]
    assert [(each.line, each.start, each.end) for each in found.passages] == [(0, 4, 7), (2, 0, 4)]
    assert [bool(line.spans) for line in found.lines] == [True, True, True]
    assert len(found.lines[1].spans) == 2


def test_a_tab_takes_the_cells_that_it_is_counted_with() -> None:
    assert cell_len(expand_tabs("a\tb")) == 6
