"""What a person types to search prompts and answers, and which texts it finds."""

from __future__ import annotations

from typing import Final

import pytest
from ctxtop.core.transcript.entry_decoder import decode_entry
from ctxtop.core.transcript.filter_language import DAY_MS
from ctxtop.core.transcript.turn_search import (
    EXCERPT_CHARS,
    MAX_TERM_CHARS,
    TurnRole,
    index_terms,
    make_excerpt,
    parse_turn_query,
    searched_text,
    turn_role,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from ..made_up_secrets import ALL_OF_THEM, told_in
from ..transcripts import JsonLine, assistant, encode, text, tool, tool_result, user

NOW: Final = 1_795_176_000_000


def found_text(line: JsonLine) -> str:
    entry = decode_entry(0, encode([line]), {})
    return "" if entry is None else searched_text(entry)


@pytest.mark.parametrize(
    ("typed", "matches"),
    [
        ("pool", True),
        ("connect", True),
        ("connect pool", False),
        ("connect ", False),
        ("POOL Connections", True),
        ('"pool of"', True),
        ('"of pool"', False),
        ('"pool o"', False),
        ('"po ol"', False),
        ('"session id"', True),
        ("src/db", True),
        ("db/src", False),
        ("session_i", True),
        ("resume", True),
        ("pool -redis", True),
        ("pool !connections", False),
        ('-"pool of"', False),
        ("", True),
    ],
)
def test_all_words_are_there_and_the_last_may_be_a_beginning(typed: str, matches: bool) -> None:
    words = "The pool of connections in src/db/pool.ts: session_id, résumé"
    assert parse_turn_query(typed, NOW).matches(words) is matches


def test_a_language_without_blanks_is_found_by_a_part_of_it() -> None:
    query = parse_turn_query("接続", NOW)
    assert query.fts_match == '"接" AND "続"*'
    assert query.hits("これは接続プール") == [(3, 5)]
    assert not query.matches("続接")
    assert {"接", "続"} <= index_terms("これは接続プール")


def test_filters() -> None:
    query = parse_turn_query("project:shop pool since:7d ROLE:p session:AB role:agent", NOW)
    assert query.projects == ("shop",)
    assert query.sessions == ("ab",)
    assert query.roles == (TurnRole.PROMPT, TurnRole.AGENT)
    assert query.since == NOW - 7 * DAY_MS
    assert [term.words for term in query.terms] == [("pool",)]
    assert not query.terms[0].is_prefix
    assert not query.problems


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ("lvel:high", 'unknown filter "lvel:". Use project:, since:, role: or session:'),
        ("rol:", 'unknown filter "rol:". Use project:, since:, role: or session:'),
        ("-lvel:high", 'unknown filter "lvel:". Use project:, since:, role: or session:'),
        ("-since:7d", "-since:7d is not valid. Use since:7d"),
        ("role:boss", "role:boss is not valid. Use prompt, answer or agent"),
        ("since:x", "since:x is not valid. Use today, 24h, 7d, 2w or a date such as 2026-11-30"),
    ],
)
def test_what_is_no_filter_is_told_in_one_line(typed: str, problem: str) -> None:
    assert parse_turn_query(typed, NOW).problems == (problem,)


def test_negated_filters() -> None:
    query = parse_turn_query("-role:agent !project:shop -session:AB pool", NOW)
    assert query.roles == (TurnRole.PROMPT, TurnRole.ANSWER)
    assert not query.excluded
    assert query.allows_session("12", "store")
    assert not query.allows_session("12", "The-Shop")
    assert not query.allows_session("ab1", "store")
    assert parse_turn_query("role:agent -role:agent", NOW).roles == ()


@pytest.mark.parametrize("typed", ["http://x.org", "std::map", "port:80", "Error:", "a:b", "12:30"])
def test_a_colon_alone_makes_no_filter(typed: str) -> None:
    query = parse_turn_query(typed, NOW)
    assert not query.problems
    assert query.matches(f"see {typed} here")


def test_prompts_and_answers_are_searched_and_nothing_else() -> None:
    assert found_text(user("Fix the pool.")) == "Fix the pool."
    assert found_text(assistant(content=[text("Done."), text("Really.")])) == "Done.\nReally."
    assert not found_text(assistant(content=[tool("Bash", "t", command="make")]))
    assert not found_text(assistant(content=[{"type": "thinking", "thinking": "Hm"}]))
    assert not found_text(tool_result("t", "3 failed", {}))
    assert not found_text(user("A skill's body", isMeta=True))
    assert not found_text(user("The summary", isCompactSummary=True))
    assert not found_text(assistant(content=[text("API Error")], isApiErrorMessage=True))


def test_an_agent_is_told_from_its_session() -> None:
    entry = decode_entry(0, encode([user("go", isSidechain=True)]), {})
    assert entry is not None
    assert turn_role(entry, is_agent_file=False) is TurnRole.AGENT
    entry = decode_entry(0, encode([assistant()]), {})
    assert entry is not None
    assert turn_role(entry, is_agent_file=False) is TurnRole.ANSWER
    assert turn_role(entry, is_agent_file=True) is TurnRole.AGENT


def test_no_secret_is_indexed() -> None:
    shown = found_text(user(ALL_OF_THEM))
    assert not told_in(shown)
    assert not told_in(" ".join(index_terms(shown)))
    for secret in ("iosfodnn7", "s3cr3tpw", "dozjgnryp4j3", "wjalrxutnfemi"):
        assert secret not in index_terms(shown)


def test_a_long_word_is_found_by_all_of_it() -> None:
    word = "x" * (MAX_TERM_CHARS + 5)
    query = parse_turn_query(f"{word} ", NOW)
    assert query.fts_match == f'"{"x" * MAX_TERM_CHARS}"'
    assert query.matches(word)
    assert not query.matches(word + "x")


def test_an_excerpt_is_a_line_around_the_first_match() -> None:
    words = f"{'before ' * 40}\n the  POOL\n{'after ' * 80}pool"
    excerpt = make_excerpt(words, parse_turn_query("pool", NOW))
    assert excerpt.text.startswith("… before ")
    assert "\n" not in excerpt.text
    assert len(excerpt.text) <= EXCERPT_CHARS + 2
    assert [excerpt.text[begin:end] for begin, end in excerpt.matches] == ["POOL"]


@settings(deadline=None)
@given(st.text(alphabet="aéB_ -1接", max_size=30), st.text(alphabet="aéB_1接", min_size=1))
def test_a_line_that_matches_is_never_passed_over(words: str, typed: str) -> None:
    """The quick check on bytes and the index agree with the text itself."""
    query = parse_turn_query(typed, NOW)
    assert not query.problems
    if query.matches(words):
        assert query.may_match(encode([user(words)]))
        terms = index_terms(words)
        for term in query.terms:
            *whole, last = (word[:MAX_TERM_CHARS] for word in term.words)
            assert terms.issuperset(whole)
            assert any(each.startswith(last) for each in terms)
