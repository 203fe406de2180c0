"""What only one piece names is told, and what others hold too is not."""

from __future__ import annotations

import pytest
from ctxtop.core.compaction.strategies.stubs import MAX_NAMES_CHARS, has_stub, make_stubs
from ctxtop.core.summaries.mentions import NameIndex, decoded_text, split_words

A, B = "load_cursor and store_ledger", "store_ledger and merge_basket"


def test_only_what_no_other_piece_names_is_sole() -> None:
    held = NameIndex([A, B])
    assert held.unique_names(A) == ["load_cursor"]
    assert held.unique_names(A, kept_text="see load_cursor") == []


def test_the_last_of_several_holders_keeps_the_name() -> None:
    held = NameIndex([A, B])
    held.replace_text(A, "gone")
    assert held.unique_names(B) == ["store_ledger", "merge_basket"]


def test_what_more_pieces_held_comes_first() -> None:
    held = NameIndex(["old_ledger", "old_ledger new_ledger"])
    held.replace_text("old_ledger", "")
    assert held.unique_names("new_ledger old_ledger") == ["old_ledger", "new_ledger"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("see https://example.com/a?b=1.", "https://example.com/a?b=1"),
        ("it raised DecodeError today", "DecodeError"),
        ("set APP_MODE to fast", "APP_MODE"),
        ("the mode is 'tolerant' here", "'tolerant'"),
        ('mode == "tolerant"', "'tolerant'"),
        ("service heron refused at localhost:8123", "service heron refused at localhost:8123"),
        ("installed plover 1.22.3\nnext", "installed plover 1.22.3"),
        ("9f8e7d6 Mend the decoder", "9f8e7d6 Mend the decoder"),
    ],
)
def test_facts_are_told_with_the_words_that_they_need(text: str, said: str) -> None:
    assert NameIndex([text]).unique_names(text)[0] == said


def test_a_quoted_word_is_not_the_word_alone() -> None:
    held = NameIndex(["if state == 'failed':", "it failed again", "failed"])
    assert held.unique_names("if state == 'failed':") == ["'failed'"]


def test_a_number_alone_is_no_fact() -> None:
    assert NameIndex(["in 8123 ms"]).unique_names("in 8123 ms") == []


def test_no_key_gets_into_a_digest() -> None:
    keys = (
        'sk-ant-api03-abcdefghijklmnop "ghp_0123456789abcdefghijABCDEFGHIJ" ghp_0123456789abcdefg'
    )
    assert NameIndex([keys]).unique_names(keys) == []


def test_a_name_inside_a_longer_one_is_its_own() -> None:
    text = "Writer.SetAccent calls SetAccent"
    assert sorted(NameIndex([text]).unique_names(text)) == ["SetAccent", "Writer.SetAccent"]


def test_much_freed_allows_a_little_to_go_unnamed() -> None:
    held = NameIndex([A])
    assert not held.allows_loss(A, "", 900)
    assert held.allows_loss(A, "", 2_000)
    assert held.allows_loss(A, A, 1)


def test_parts_of_ids_are_words_too() -> None:
    assert {"a1b2c3d4", "e5f6", "pkg", "1.2.3", "a1b2c3d4-e5f6"} <= split_words(
        "a1b2c3d4-e5f6 pkg@1.2.3"
    )


def test_a_line_is_read_by_call_or_by_its_other_blocks() -> None:
    line = {
        "message": {
            "content": [
                {"type": "text", "text": "words"},
                {"type": "tool_use", "id": "1", "input": {"command": "make"}},
                {"type": "tool_result", "tool_use_id": "2", "content": [{"text": "done"}]},
            ]
        }
    }
    assert [decoded_text(line, call) for call in (None, "1", "2", "3")] == [
        "words",
        "make",
        "done",
        "",
    ]
    assert decoded_text({"message": {"content": "said"}}, None).strip() == "said"
    assert decoded_text(None, None).strip() == ""


def test_a_long_text_gets_a_digest_for_each_of_its_parts() -> None:
    names = [f"module_{number}.function_{number}" for number in range(90)]
    text = "\n".join(names)
    parts = make_stubs(text, "Read /a.py", "Read it again.", names).split("\n")
    assert all(has_stub(part) for part in parts)
    told = [part.partition("It names: ")[2].removesuffix("]") for part in parts]
    assert ", ".join(told).split(", ") == names
    assert all(len(each) <= MAX_NAMES_CHARS for each in told)
    first = told[0].count(", ") + 2
    assert f"from line {first}." in parts[1]
