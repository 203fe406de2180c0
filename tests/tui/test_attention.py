"""Which sessions need a person, and what the line under the list says of one."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.model.attention import RECENT_MS, Attention, attention, attention_order
from ctxtop.core.model.context import TokenCounts
from ctxtop.core.model.context_window import ClaimSource, Trigger
from ctxtop.core.model.outlook import Forecast, Interval, Outlook
from ctxtop.core.model.session import PromptTooLong, SessionStatus
from ctxtop.core.model.session_activity import PromptCache, WaitingFor, WaitingKind
from ctxtop.tui.screens.fleet.fleet_panes import session_detail
from ctxtop.tui.text.text_lines import match_pattern, matched_text
from msgspec.structs import replace

from .makers import context, session
from .support import NOW_MS

TRIGGER = Trigger(167_000, ClaimSource.TABLE)
ARMED = replace(context(100_000), trigger=TRIGGER)
NEARLY = replace(context(166_000), trigger=TRIGGER, token_counts=TokenCounts(None, 166_000, None))
FEW, MANY = (Outlook(Forecast(Interval(n, n, n, n), None), None) for n in (2, 40))
TOO_LONG = PromptTooLong(210_000, 200_000)
LIVE: dict[str, Any] = {"live": True, "status": SessionStatus.IDLE}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"live": True, "status": SessionStatus.WAITING, "too_long": TOO_LONG}, Attention.WAITING),
        (LIVE | {"too_long": TOO_LONG}, Attention.TOO_LONG),
        ({"too_long": TOO_LONG, "status": SessionStatus.TOO_LONG}, Attention.TOO_LONG),
        ({"too_long": TOO_LONG, "last_activity_at": NOW_MS - RECENT_MS}, Attention.ENDED),
        (LIVE | {"context": ARMED, "outlook": FEW}, Attention.COMPACTS_SOON),
        (LIVE | {"context": NEARLY}, Attention.COMPACTS_SOON),
        (LIVE | {"context": NEARLY, "outlook": MANY}, Attention.IDLE),
        (LIVE | {"context": context(190_000), "outlook": FEW}, Attention.IDLE),
        ({"live": True, "status": SessionStatus.BUSY}, Attention.WORKING),
        (LIVE | {"cache": PromptCache(NOW_MS + 1)}, Attention.WARM),
        (LIVE | {"cache": PromptCache(NOW_MS)}, Attention.IDLE),
        ({"context": NEARLY, "outlook": FEW}, Attention.ENDED),
    ],
)
def test_why_a_session_needs_a_person(fields: dict[str, Any], why: Attention) -> None:
    assert attention(session(**fields), NOW_MS) is why


def test_of_equally_urgent_sessions_the_newest_comes_first_whatever_its_fill() -> None:
    full = session(session_id="full", last_activity_at=1, context=context(199_000))
    new = session(session_id="new", last_activity_at=2, context=context(1_000))
    assert attention_order(new, NOW_MS) < attention_order(full, NOW_MS)


WAITS = session(
    title="Move checkout to the new tax API",
    git_branch="tax-v2",
    last_prompt="run them again",
    live=True,
    status=SessionStatus.WAITING,
    waiting_for=WaitingFor(WaitingKind.PERMISSION, "Bash", "psql", NOW_MS),
)


def test_the_line_under_the_list_has_the_whole_title_and_more_if_there_is_room() -> None:
    assert session_detail(WAITS, 120, NOW_MS).plain == (
        "Move checkout to the new tax API · waits: Bash: psql · shop · tax-v2 · “run them again”"
    )
    assert session_detail(WAITS, 70, NOW_MS).plain.endswith(" · shop · tax-v2")
    assert session_detail(WAITS, 20, NOW_MS).plain == "Move checkout to th…"
    for width in range(1, 130):
        assert session_detail(WAITS, width, NOW_MS).cell_length <= width


def test_the_line_under_the_list_says_what_the_next_prompt_rewrites() -> None:
    idle = replace(WAITS, status=SessionStatus.IDLE, waiting_for=None)
    cold = replace(idle, cache=PromptCache(NOW_MS, tokens=225_000))
    title = "Move checkout to the new tax API"
    long = f"{title} · ≈cold: your next prompt rewrites ≈225 k"
    assert session_detail(cold, 120, NOW_MS).plain.startswith(f"{long} · shop")
    assert session_detail(cold, 60, NOW_MS).plain == f"{title} · ≈cold 225 k · shop"
    assert "cold" not in session_detail(cold, 120, NOW_MS - 121_000).plain


@pytest.mark.parametrize(
    ("words", "cells", "shown", "matched"),
    [
        (("tax",), 40, "Move checkout to the new tax API", ["tax"]),
        (("TAX", "new"), 40, "Move checkout to the new tax API", ["new", "tax"]),
        # The cut moves so that the match is visible.
        (("tax",), 16, "…the new tax API", ["tax"]),
        (("move",), 16, "Move checkout t…", ["Move"]),
        ((), 16, "Move checkout t…", []),
        (("nowhere",), 16, "Move checkout t…", []),
        (("a.i",), 16, "Move checkout t…", []),
    ],
)
def test_what_matched_is_visible(
    words: tuple[str, ...], cells: int, shown: str, matched: list[str]
) -> None:
    drawn = matched_text(WAITS.title, cells, match_pattern(words), "$foreground")
    assert drawn.plain.rstrip() == shown
    assert drawn.cell_length == cells
    found = [drawn.plain[s.start : s.end] for s in drawn.spans if "underline" in str(s.style)]
    assert found == matched
