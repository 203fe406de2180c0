"""The fleet's screen over the demo: what is shown, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxtop.tui.screens.fleet.session_list import ENDED_KEY
from ctxtop.tui.text.formats import percent, tokens

from .support import opened

if TYPE_CHECKING:
    from ctxtop.collectors.demo import DemoSession

    from .support import Stage

ORDER = [
    "Rotate the database password",
    "Fix the flaky checkout tests",
    "Move checkout to the new tax API",
    "Search offline notes by tag",
    "Search p95 below 120 ms",
    "Ship the wishlist: API, page, review",
    "Conflict-free note sync",
    "Split the ingest worker from the API",
    "Split the ingest worker, with a queue",
    "Staging cluster to Terraform",
    "修复支付网关 🚑 超时",
    "Rewrite the OpenAPI generator",
    "Explain the invoice run",
    "إصلاح البحث في الملاحظات",
    "Show [/foo] and [bold red] as they are",
    "Ledger rounding, cent by cent",
    "Map the ingest worker",
    "Which routes of the shop are never called?",
    "Why does March close a day late?",
]
VERY_WIDE = (240, 40)


def told(session: DemoSession) -> list[str]:
    """What a session's row must say."""
    if session.title == "Explain the invoice run":
        return ["✗", "too long: 210,000 of 200,000", " 2 "]
    if session.context_state == "estimated":  # with a system prompt, which the demo has not
        assert session.title == "Conflict-free note sync"
        return [" ≈3 % ", " ≈33 k of 1 M ", " 1 "]
    used = session.context_tokens
    ratio = None if used is None else used / session.window_tokens
    return [
        f" {percent(ratio)} ",
        f" {tokens(used)} of {tokens(session.window_tokens)} ",
        f" {session.agents} " if session.agents else "",
        f" {session.compactions} " if session.compactions else "",
    ]


async def test_every_session_is_shown_with_the_truth(demo: Stage) -> None:
    async with opened(demo, VERY_WIDE) as it:
        rows = it.rows()
        assert set(rows) == {session.session_id for session in demo.sessions} | {ENDED_KEY}
        for session in demo.sessions:
            row = rows[session.session_id]
            assert session.title in row
            for words in told(session):
                assert words in row, row
        assert "19 sessions · 8 live · 3 working" in it.status
        assert it.status.endswith("▲ 1 waits for you   1 warning ")


async def test_who_waits_stands_first_then_what_compacts_soon_then_the_working(demo: Stage) -> None:
    async with opened(demo) as it:
        assert it.titles() == ORDER
        assert it.pane("sessions").key == demo.titled("Rotate").session_id


async def test_what_the_rows_say_stands_on_the_screen(demo: Stage) -> None:
    async with opened(demo, (120, 48)) as it:
        for row in it.rows().values():
            assert row in it.words
        assert "session" in it.lines[2]
        assert "no agents in this session" in it.words


async def test_the_marked_session_s_agents_are_a_tree(demo: Stage) -> None:
    async with opened(demo) as it:
        await it.mark("Ship the wishlist")
        rows = list(it.rows("agents").values())
        assert len(rows) == 1 + demo.titled("Ship the wishlist").agents
        assert rows[0].startswith("▾ Ship the ")
        assert all(row.startswith("├ ✓ ") for row in rows[1:-1])
        assert rows[-1].startswith("└ ✓ ")
        assert all(" lines ≈" in row for row in rows[1:])
        assert 'Agents of "Ship the wishlist' in it.words


async def test_summaries_are_newest_first(demo: Stage) -> None:
    async with opened(demo, VERY_WIDE) as it:
        rows = list(it.rows("summaries").values())
        assert len(rows) == 28
        assert rows[0].startswith("◆ general-purpose")
        assert "Ship the wishlist" in rows[0]
        assert "41 lines" in rows[0]
        assert any(row.startswith("↻ compaction") for row in rows)
        assert any(row.startswith("≡ plan") for row in rows)
