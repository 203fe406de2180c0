"""No estimate of a text is above its bound."""

from __future__ import annotations

import string

from ctxtop.core.measure.token_estimate import token_upper_bound
from ctxtop.core.measure.tokens import count_text
from hypothesis import given, settings
from hypothesis import strategies as st

TEXTS = st.one_of(
    st.text(),
    st.text(string.printable),
    st.text("qxzjvkQXZ "),
    st.text("가나다 라🙂"),
    st.text("\n .-=#*\t"),
)


@settings(deadline=None, max_examples=500)
@given(TEXTS)
def test_no_estimate_is_above_it(text: str) -> None:
    counted = count_text(text)
    assert max(counted.older, counted.newer) <= token_upper_bound(text)


def test_of_prose_it_is_not_three_times_the_estimate() -> None:
    text = (
        "[COMPRESSED] agent_type: node-backend\nChanged files: src/server/db.ts\n"
        "Result: Added GET /api/users with pagination; 12 tests pass.\n"
    )
    assert token_upper_bound(text) < 3 * count_text(text).newer
