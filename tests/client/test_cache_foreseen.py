"""What a session's state says before a prompt, beside what the prompt then writes again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .test_cache_causes import begin, go_on, lab, misses

if TYPE_CHECKING:
    from .cached import CachedLab, Json

__all__ = ["lab"]


def told(lab: CachedLab, session_id: str) -> Json:
    found: list[Json] = lab.command("sessions")
    return next(each for each in found if each["session_id"] == session_id)


@pytest.mark.parametrize(("lifetime", "seconds"), [("5m", 300), ("1h", 3_600)])
def test_what_is_said_before_a_prompt_is_what_it_writes_again(
    lab: CachedLab, lifetime: str, seconds: int
) -> None:
    lab.variables["CLAUDE_CODE_PROMPT_CACHE_TTL"] = lifetime
    session = begin(lab)
    assert told(lab, session)["cold_state"] == "warm"
    lab.pass_time(session, seconds - 60)
    assert told(lab, session)["cold_state"] == "going_cold"
    lab.pass_time(session, 120)
    before = told(lab, session)
    assert before["cold_state"] == "cold"
    asked = go_on(lab, session)
    (miss,) = misses(lab, session)
    assert before["cold_rewrite_tokens"] == asked["written_again"] == miss["rewritten_tokens"]
    assert before["cold_rewrite_usd"] == pytest.approx(miss["cost_usd"], abs=1e-6)
    assert told(lab, session)["cold_state"] == "warm"
