"""The quick look for a rule finds every text in which the pattern of rules matches."""

from __future__ import annotations

import re

import pytest
from ctxtop.core.summaries.decision_patterns import RULE_PATTERN, states_rule
from hypothesis import given, settings
from hypothesis import strategies as st


def alternatives(pattern: str) -> list[str]:
    """Split a pattern at the bars that stand in no group."""
    parts, depth = [""], 0
    for token in re.findall(r"\\.|\[[^\]]*\]|.", pattern):
        depth += (token == "(") - (token == ")")
        if token == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += token
    return parts


WORDS, *OTHERS = alternatives(RULE_PATTERN.pattern)
LOOKAHEAD = re.compile(r"\(\?[=!][^)]*\)")
ALL = [*alternatives(WORDS.removeprefix(r"\b(?:").removesuffix(r")\b")), *OTHERS]


@pytest.mark.parametrize("alternative", ALL)
@settings(max_examples=5)
@given(data=st.data())
def test_whatever_the_pattern_matches_states_a_rule(alternative: str, data: st.DataObject) -> None:
    pattern = re.compile(LOOKAHEAD.sub("", alternative), re.IGNORECASE)
    found = data.draw(st.from_regex(pattern, fullmatch=True))
    text = f"a {found} b"

    assert states_rule(text) is (RULE_PATTERN.search(text) is not None)


def test_a_text_without_a_cue_states_none() -> None:
    assert not states_rule("The route answers with a cursor, and the test reads it twice.")
