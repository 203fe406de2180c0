"""Sentences that decide or forbid, and names that are names."""

from __future__ import annotations

import pytest
from ctxtop.core.summaries.decision_patterns import (
    DECISION_PATTERN,
    MAX_SENTENCE_CHARS,
    RULE_PATTERN,
    find_sentences,
    quote_line,
)
from ctxtop.core.summaries.mentions import (
    MentionIndex,
    contains_secret,
    find_declarations,
    find_names,
    find_names_and_facts,
    split_words,
)


def test_a_sentence_is_taken_without_its_neighbours_and_its_marks() -> None:
    text = "I looked.\n- **We decided** to keep `a.py` as it is. Then I went on."

    assert list(find_sentences(DECISION_PATTERN, text)) == ["We decided to keep `a.py` as it is."]


@pytest.mark.parametrize(
    "sentence",
    [
        "You must not touch the legacy folder.",
        "Never push to main without asking.",
        "Don’t change the public names.",
        "Only use the standard library here.",
        "테스트 없이 커밋하지 마세요.",
        "반드시 한국어로 답변해 주세요.",
        "절대 main 브랜치에 푸시하면 안 됩니다.",
    ],
)
def test_a_persons_rule_is_known_by_its_words(sentence: str) -> None:
    assert list(find_sentences(RULE_PATTERN, f"Hello there. {sentence} Thanks!")) == [sentence]


@pytest.mark.parametrize("sentence", ["Please fix the parser.", "두 번째 마을을 고쳐 주세요."])
def test_a_wish_is_no_rule(sentence: str) -> None:
    assert list(find_sentences(RULE_PATTERN, sentence)) == []


def test_code_and_lines_without_an_end_are_no_sentences() -> None:
    fenced = "Look:\n```python\n# never do this at home, always ask\n```\n"
    long = "never " + "word " * MAX_SENTENCE_CHARS

    assert list(find_sentences(RULE_PATTERN, fenced + long)) == []


def test_two_cues_in_one_sentence_give_it_once() -> None:
    assert len(list(find_sentences(RULE_PATTERN, "Always ask and never guess, please."))) == 1


def test_a_quote_is_one_short_line() -> None:
    assert quote_line("a\n b") == "a b"
    assert quote_line("x" * 500, 10) == "x" * 9 + "…"


def test_names_have_the_look_of_one() -> None:
    text = (
        "The readTokens of src/core/parser.py calls self.parse_all_lines, see"
        " @scope/package and C:\\work\\parser.py; well-known words, input/output and"
        " github.com/owner/repo."
    )

    assert find_names(text) == {
        "readTokens",
        "src/core/parser.py",
        "parse_all_lines",
        "@scope/package",
        "\\work\\parser.py",
        "github.com/owner/repo",
    }


@pytest.mark.parametrize(
    "noise",
    [
        "0a1b2c3d4e5f60718293",
        "61bd8c9d-3728-4c70-bb77-27db5ccfdf7e",
        "2026-11-20T10:00:00.000Z",
        "2.1.329.4.5",
        "toolu_01DDZr1oPNF6pvfF9GVerNUi",
        "sk-ant-api03-abcdefghij",
        "ghp_abcdefghijklmnop",
        "A1b2C3d4E5f6G7h8I9j0K1l2M3n4",
        "/dev/null",
        "console.log",
        "someone@example.com",
        "/tmp/0a1b2c3d4e/x.output",
        "________",
        "a.textContent",
    ],
)
def test_hashes_ids_keys_and_what_every_program_has_are_no_names(noise: str) -> None:
    assert noise not in find_names(f"see {noise} there")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fixed tool_0() and `tool_11`", {"tool_0", "tool_11"}),
        ("runAll, is_ok and MAX_N", {"runAll", "is_ok", "MAX_N"}),
        ("tool_0()을 고쳤고 tool_11에서 고침", {"tool_0", "tool_11"}),
        ("parse_block_3을 src/app.py에서", {"parse_block_3", "src/app.py"}),
        ("ParseBlock3은 getX가", {"ParseBlock3", "getX"}),
        ("文書で parse_block_3を直す", {"parse_block_3"}),
        ("문서/설계.md와 설계_초안", {"문서/설계.md", "설계_초안"}),
        ("a GitHub page, x_1, e.g. _a_ and don't", set()),
    ],
)
def test_short_names_count_if_no_word_looks_like_them(text: str, names: set[str]) -> None:
    assert find_names(text) == names
    found = find_names_and_facts(text, split_words(text))
    assert {name.strip("'") for name in found} >= names


@pytest.mark.parametrize(
    "text", ["parse_block_3을 고침", "在parse_block_3函数", "a.parse_block_3."]
)
def test_a_name_is_found_with_what_is_joined_to_it(text: str) -> None:
    assert MentionIndex([text]).has_name("parse_block_3")
    assert not MentionIndex([text]).has_name("parse_block")


def test_what_code_declares() -> None:
    code = (
        "class TokenReader:\n    def read_all(self): ...\nexport const maxDepth = 3\n"
        "  const innerValue = 1\nfunction short() {}\n"
    )

    assert find_declarations(code) == {"TokenReader", "read_all", "maxDepth"}


def test_a_sentence_with_a_key_is_known() -> None:
    assert contains_secret("Always use API_KEY=sk-ant-api03-abcdefghijkl for it.")
    assert contains_secret("never print A1b2C3d4E5f6G7h8I9j0K1l2M3n4")
    assert not contains_secret("Never rename `compaction_threshold` in core/policy/settings.py.")
