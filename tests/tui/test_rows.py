"""Rows as pure functions: what fits, what stays, and in which order."""

from __future__ import annotations

import pytest
from ctxtop.core.agents import AgentStatus, Result
from ctxtop.core.sessions import Status, TooLong
from ctxtop.tui.agent_rows import agent_line, columns_of, leader_line, returned
from ctxtop.tui.agent_tree import grow_tree
from ctxtop.tui.formats import percent
from ctxtop.tui.gauge import PERCENT_CELLS, SHORTEST, gauge
from ctxtop.tui.selection import Order, select
from ctxtop.tui.session_rows import LONGEST_BAR, SHORTEST_TITLE, lay_out, session_line
from ctxtop.tui.summary_rows import beginning, summary_lines

from .makers import agent, context, session, summary
from .support import NOW_MS

WIDTHS = range(20, 241)
FEWEST = 3
NARROWEST = 40
"""Cells; a pane this wide holds the mark, a title, the bar and its number."""


@pytest.mark.parametrize("tokens", [0, 1, 100_000, 199_999, 200_000, 260_000, 1_900_000])
@pytest.mark.parametrize("cells", [10, 16, 30])
def test_a_gauge_always_has_its_number(tokens: int, cells: int) -> None:
    drawn = gauge(context(tokens), cells)
    assert drawn.cell_length == cells + PERCENT_CELLS
    assert drawn.plain.endswith(f" {percent(tokens / 200_000)}")


def test_a_gauge_marks_estimates_and_what_is_not_known() -> None:
    assert gauge(context(30_000, "estimated"), 10).plain.endswith("≈15 %")
    assert "≈" not in gauge(context(30_000), 10).plain
    unknown = gauge(context(None), 10)
    assert unknown.plain.endswith(" –")
    assert "▄" not in unknown.plain


def test_a_gauge_shows_where_70_and_80_percent_are() -> None:
    assert gauge(context(0), 20).plain[:20] == "▁" * 14 + "▃▁▃" + "▁" * 3


def test_columns_never_take_more_than_the_width() -> None:
    for width in WIDTHS:
        columns = {column.name: column.cells for column in lay_out(width).columns}
        total = sum(columns.values()) + len(columns) - 1
        if width >= NARROWEST:
            assert total == width
        assert SHORTEST <= columns["gauge"] - PERCENT_CELLS <= LONGEST_BAR
        if len(columns) > FEWEST:
            assert columns["title"] >= SHORTEST_TITLE
        assert columns["title"] >= 0


def test_columns_only_come_when_there_is_more_room() -> None:
    counts = [len(lay_out(width).columns) for width in WIDTHS]
    assert counts == sorted(counts)
    assert counts[-1] == 11


def test_a_row_has_the_layout_s_width_and_its_numbers_whole() -> None:
    for width in WIDTHS:
        layout = lay_out(width)
        row = session(
            title="汉" * 50, model="claude-haiku-4-5", agents=123, compactions=12, project="p" * 90
        )
        line = session_line(row, layout, NOW_MS)
        assert line.cell_length == layout.head.cell_length
        names = {column.name for column in layout.columns}
        for name, words in (
            ("gauge", " 86 %"),
            ("fill", "172 k of 200 k"),
            ("agents", " 123 "),
            ("compactions", "↻12"),
            ("age", " 2 min"),
            ("level", "high"),
        ):
            assert (words in line.plain) == (name in names)


def test_a_refused_prompt_says_so_across_the_bar() -> None:
    for width in WIDTHS:
        layout = lay_out(width)
        refused = session(status=Status.TOO_LONG, too_long=TooLong(210_000, 200_000))
        line = session_line(refused, layout, NOW_MS)
        assert line.cell_length == layout.head.cell_length
        assert "too long: 210,000 of 200,000" in line.plain or "too long, 105 %" in line.plain


def test_a_refused_prompt_without_numbers() -> None:
    refused = session(status=Status.TOO_LONG, too_long=TooLong(None, None))
    assert "too long" in session_line(refused, lay_out(120), NOW_MS).plain


def test_every_status_has_a_sign_of_its_own_beside_its_colour() -> None:
    signs = {
        status: session_line(session(status=status), lay_out(80), NOW_MS).plain[0]
        for status in Status
    }
    assert signs[Status.WAITING] == "▲"
    assert signs[Status.BUSY] == signs[Status.ACTIVE] == "●"
    assert len(set(signs.values())) == len(Status) - 1


def test_agents_stand_under_those_that_started_them() -> None:
    branches = grow_tree(
        [agent("a"), agent("b", "a"), agent("c"), agent("d", "b"), agent("e", "a")]
    )
    assert [(branch.agent.agent_id, branch.stem) for branch in branches] == [
        ("a", "├ "),
        ("b", "│ ├ "),
        ("d", "│ │ └ "),
        ("e", "│ └ "),
        ("c", "└ "),
    ]


def test_an_agent_whose_parent_is_not_known_stands_at_the_root() -> None:
    assert [branch.stem for branch in grow_tree([agent("a", "gone"), agent("b", "b")])] == [
        "├ ",
        "└ ",
    ]


def test_a_circle_of_parents_ends_and_loses_nobody() -> None:
    circle = [agent("a", "c"), agent("b", "a"), agent("c", "b"), agent("d")]
    assert [branch.agent.agent_id for branch in grow_tree(circle)] == ["d", "a", "b", "c"]
    two = [agent("a", "b"), agent("b", "a"), agent("c", "a"), agent("x", "y"), agent("y", "x")]
    assert [branch.agent.agent_id for branch in grow_tree(two)] == ["a", "b", "c", "x", "y"]


def test_a_deep_tree_is_drawn() -> None:
    chain = [agent("0")] + [agent(str(n), str(n - 1)) for n in range(1, 2_000)]
    branches = grow_tree(chain)
    assert len(branches) == 2_000
    assert agent_line(branches[-1], 80, NOW_MS, columns_of(branches)).plain


def test_an_agent_s_line_has_its_number_and_its_width() -> None:
    for width in WIDTHS:
        branches = grow_tree([agent("a"), agent("b", "a", description="汉" * 90)])
        for branch in branches:
            line = agent_line(branch, width, NOW_MS, columns_of(branches))
            assert " 10 %" in line.plain
            if width >= NARROWEST:
                assert line.cell_length == width
        leader = leader_line(session(), width)
        assert " 86 %" in leader.plain
        if width >= NARROWEST:
            assert leader.cell_length == width


def test_what_an_agent_gave_back() -> None:
    result = Result("one\ntwo", 2, 7, 1_234, 1)
    assert returned(agent("a", result=result), NOW_MS) == "2 lines ≈1.2 k"
    one = Result("one", 1, 3, 9, 1)
    assert returned(agent("a", result=one), NOW_MS) == "1 line ≈9"
    running = agent("a", status=AgentStatus.RUNNING)
    assert returned(running, NOW_MS) == "running 1 min"
    assert returned(agent("a", status=AgentStatus.FAILED), NOW_MS) == "failed"


def test_a_summary_begins_where_it_tells_something() -> None:
    text = (
        "[COMPRESSED]\n\n<analysis>\nThis session is being continued from a previous conversation"
        " that ran out of context.\nSummary:\n# Title\n- first\n"
    )
    assert beginning(text) == "Title · first"
    assert beginning("[COMPRESSED]") == "[COMPRESSED]"
    assert beginning("") == ""


def test_a_summary_has_two_lines_of_the_width() -> None:
    for width in range(NARROWEST, 160):
        row = summary("汉" * 300, agent_type="x" * 90, lines=12_345, estimated_tokens=999_999)
        first, second = summary_lines(row, {}, width, NOW_MS).plain.split("\n")
        assert "12345 lines ≈1 M · 1 min" in first
        for line in summary_lines(row, {}, width, NOW_MS).split("\n"):
            assert line.cell_length == width
        assert second.startswith("  汉")


SESSIONS = [
    session(session_id="1", title="Fix Checkout", last_activity_at=3, context=context(20_000)),
    session(
        session_id="2", title="Ändere das", project="atlas", context=context(150_000), live=True
    ),
    session(session_id="3", title="checkout again", model="claude-opus-5-5", last_activity_at=9),
    session(
        session_id="4", title="waits", status=Status.WAITING, live=True, context=context(1_000)
    ),
]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", "1234"),
        ("checkout", "13"),
        ("CHECKOUT fix", "1"),
        ("!checkout", "24"),
        ("shop !checkout", "4"),
        ("opus", "3"),
        ("live", "24"),
        ("!live checkout", "13"),
        ("ändere", "2"),
        ("high", "3"),
        ("!", ""),
        ("nothing", ""),
        ("[/foo]", ""),
    ],
)
def test_words_choose_sessions(words: str, found: str) -> None:
    chosen = select(SESSIONS, words, Order.NAME)
    assert sorted(one.session_id for one in chosen) == list(found)


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        (Order.NEED, "4231"),
        (Order.FULLEST, "3214"),
        (Order.NEWEST, "2431"),
        (Order.NAME, "2314"),
    ],
)
def test_orders(order: Order, ids: str) -> None:
    assert "".join(one.session_id for one in select(SESSIONS, "", order)) == ids


def test_the_orders_come_around() -> None:
    order, seen = Order.NEED, []
    for _ in Order:
        seen.append(order)
        order = order.next
    assert seen == list(Order)
    assert order is Order.NEED
