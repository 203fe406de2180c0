"""How far back answers reach, over a conversation made by hand."""

from __future__ import annotations

from ...bench.bench_tail import reach_of
from ...entries import answered, asked, called, returned


def test_a_name_is_reached_where_only_a_result_holds_it() -> None:
    entries = [
        asked("look at the decoder"),
        called("Bash", "1", command="ls"),
        returned("Bash", "1", "src/frame_decoder.py"),
        answered("It works."),
        answered("I change src/frame_decoder.py."),
    ]
    *_, second, last = reach_of(entries)
    assert [place and place.turns for place in second.names] == [0]
    assert [place and place.turns for place in last.names] == [0]
    assert last.names[0] is not None
    assert second.names[0] is not None
    assert last.names[0].tokens > second.names[0].tokens == 0


def test_a_name_that_a_prompt_holds_is_never_lost() -> None:
    entries = [asked("look at src/frame_decoder.py"), answered("I change src/frame_decoder.py.")]
    (reach,) = reach_of(entries)
    assert reach.names == [None]


def test_an_edit_reaches_back_to_the_text_that_it_replaces() -> None:
    entries = [
        asked("change it"),
        called("Read", "1", file_path="/a.py"),
        returned("Read", "1", "     1\told line\n     2\tnext", path="/a.py"),
        answered("I see."),
        called("Edit", "2", file_path="/a.py", old_string="old line\nnext", new_string="x"),
    ]
    *_, last = reach_of(entries)
    assert [place is not None for place in last.edits] == [True]
