"""Rows as pure functions: what fits, what stays, and in which order."""

from __future__ import annotations

import pytest
from ctxtop.core.model.agent import AgentStatus, ReturnedResult
from ctxtop.core.model.cold_prompt import RewriteCost
from ctxtop.core.model.context_window import ClaimSource, Trigger
from ctxtop.core.model.levels import DEFAULT_PLACED_THRESHOLDS
from ctxtop.core.model.outlook import Forecast, Interval, Outlook
from ctxtop.core.model.session import PromptTooLong, SessionStatus
from ctxtop.core.model.session_activity import PromptCache, SessionCost
from ctxtop.tui.entities.agent_tree import (
    agent_line,
    build_agent_tree,
    measure_tree,
    returned_text,
    session_root_line,
)
from ctxtop.tui.screens.fleet.session_list import ProjectHeading, SessionOrder
from ctxtop.tui.screens.fleet.session_table import (
    COLUMN_ORDERS,
    SessionLine,
    lay_out_columns,
    measure_needs,
    project_line,
    session_line,
)
from ctxtop.tui.screens.fleet.table_layout import COLUMN_GAP, MAX_BAR_CELLS, MIN_TITLE_CELLS
from ctxtop.tui.text.column_headers import column_at
from ctxtop.tui.text.formats import percent
from ctxtop.tui.text.gauge import MIN_GAUGE_CELLS, PERCENT_CELLS, gauge
from ctxtop.tui.text.session_text import CACHE_CELLS, PINNED_SIGN, SELECTED_SIGN
from ctxtop.tui.text.summary_text import summary_beginning, summary_lines
from msgspec.structs import replace

from .makers import agent, context, session, summary
from .support import NOW_MS

WIDTHS = range(20, 241)
NARROWEST = 40
"""Cells; a pane this wide holds the sign, a title, the state, the bar and its number."""
FIT_FOR_ALL_THAT_STAYS = 57

FULL = session(
    title="汉" * 50,
    model="claude-haiku-4-5",
    agents=123,
    agents_noncompliant=4,
    compactions=12,
    project="p" * 90,
    live=True,
    status=SessionStatus.BUSY,
    cost=SessionCost(1.2),
    cache=PromptCache(NOW_MS + 60_000),
    outlook=Outlook(Forecast(Interval(3, 4, 2, 4), None), None),
    recent_contexts=(1_000, 90_000, 172_000),
    git_branch="tax-v2",
    last_prompt="run them again",
)


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
    assert "█" not in unknown.plain


def test_a_gauge_shows_where_70_and_80_percent_are() -> None:
    assert gauge(context(0), 20).plain[:20] == " " * 14 + "┊ ┊" + " " * 3


@pytest.mark.parametrize(
    ("tokens", "bar"),
    [
        (1, "▏             ┊ ┊   "),
        (100_000, "██████████    ┊ ┊   "),
        (139_999, "██████████████┊ ┊   "),
        (172_000, "██████████████┊█┊▎  "),
        (200_000, "██████████████┊█┊███"),
        (900_000, "██████████████┊█┊███"),
    ],
)
def test_the_marks_stay_in_sight_where_the_bar_has_passed_them(tokens: int, bar: str) -> None:
    assert gauge(context(tokens), 20).plain[:20] == bar


def test_a_mark_on_the_filled_part_is_cut_out_of_its_color() -> None:
    drawn = gauge(context(172_000), 20)
    styles = {drawn.plain[span.start]: str(span.style) for span in drawn.spans}
    assert styles["┊"] == "$background on $level-high"
    empty = gauge(context(100), 20)
    assert {str(s.style) for s in empty.spans if empty.plain[s.start] == "┊"} == {"$bar-mark"}


def test_the_trigger_stands_on_the_bar_also_where_it_is_passed() -> None:
    trigger = Trigger(167_000, ClaimSource.TABLE)
    for tokens in (0, 100_000, 190_000):
        drawn = gauge(replace(context(tokens), trigger=trigger), 20)
        assert drawn.plain[16] == "▏"
    beyond = gauge(replace(context(0), trigger=Trigger(250_000, ClaimSource.TABLE)), 20)
    assert beyond.plain[19] == "▏"


def test_columns_never_take_more_than_the_width() -> None:
    for width in WIDTHS:
        layout = lay_out_columns(width)
        columns = {column.name: column.cells for column in layout.columns}
        if width >= NARROWEST:
            assert layout.width == width
        assert MIN_GAUGE_CELLS <= columns["gauge"] - PERCENT_CELLS <= MAX_BAR_CELLS
        if width >= FIT_FOR_ALL_THAT_STAYS:
            assert columns["title"] >= MIN_TITLE_CELLS
        assert columns["title"] >= 0


def test_columns_only_come_when_there_is_more_room() -> None:
    names = [[column.name for column in lay_out_columns(width).columns] for width in WIDTHS]
    counts = [len(each) for each in names]
    assert counts == sorted(counts)
    assert counts[-1] == 14
    # Those that are there stay in their order.
    assert all([one for one in names[-1] if one in some] == some for some in names)


@pytest.mark.parametrize(("columns", "title"), [(80, 24), (120, 40), (200, 80)])
@pytest.mark.parametrize("state", [0, 15, 28])
def test_the_title_gets_the_room(columns: int, title: int, state: int) -> None:
    frame = 5
    layout = lay_out_columns(columns - frame, {"doing": state})
    cells = {column.name: column.cells for column in layout.columns}
    assert cells["title"] >= title
    assert cells["doing"] >= min(state, 19)


def test_what_no_session_has_gets_no_column() -> None:
    nothing = measure_needs([session()], 0)
    names = {column.name for column in lay_out_columns(235, nothing).columns}
    assert not names & {"project", "branch", "agents", "compactions", "prompt"}
    some = measure_needs([FULL, session(project="other")], 0)
    names = {column.name for column in lay_out_columns(235, some).columns}
    assert names >= {"project", "branch", "agents", "compactions", "prompt"}


def test_a_session_that_has_ended_is_dim_whatever_its_fill() -> None:
    full = session(context=context(199_000), agents=1)
    for width in (75, 115, 235):
        line = session_line(SessionLine(full, NOW_MS), lay_out_columns(width))
        colors = {
            str(span.style) for span in line.spans if line.plain[span.start : span.end].strip()
        }
        assert colors <= {"$quiet", "$background on $bar-mark", "$bar-mark"}


def test_every_column_has_a_tooltip() -> None:
    layout = lay_out_columns(300)
    assert all(column.tooltip for column in layout.columns)


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (55, {"sign", "title", "doing", "gauge"}),
        (75, {"sign", "title", "doing", "gauge", "until"}),
        (95, {"branch"}),
        (115, {"branch", "cost", "agents", "until"}),
        (155, {"model", "cache"}),
        (195, {"model", "cache", "branch", "prompt"}),
        (235, {"project", "compactions"}),
    ],
)
def test_what_matters_most_is_there_at_each_width(width: int, names: set[str]) -> None:
    assert names <= {column.name for column in lay_out_columns(width).columns}


def test_a_wide_table_has_room_for_what_a_cold_cache_costs_and_a_short_title_leaves_it() -> None:
    cold = session(cache=PromptCache(NOW_MS, tokens=225_000), rewrite_cost=RewriteCost(2.3, 0.1))
    needs = measure_needs([cold], NOW_MS)
    wide = lay_out_columns(195, needs)
    assert {each.name: each.cells for each in wide.columns}["cache"] >= CACHE_CELLS
    assert "≈cold 225 k $2.30" in session_line(SessionLine(cold, NOW_MS), wide).plain
    unneeded = {
        each.name for each in lay_out_columns(195, measure_needs([session()], NOW_MS)).columns
    }
    assert "cache" not in unneeded


def test_the_head_names_the_marks_of_the_bars_above_them() -> None:
    head = lay_out_columns(240).session_header(DEFAULT_PLACED_THRESHOLDS).plain
    line = session_line(SessionLine(session(), NOW_MS), lay_out_columns(240)).plain
    assert line[head.index("70") + 1] == line[head.index("80")] == "┊"
    assert "▏auto" in head
    narrow = lay_out_columns(115).session_header(DEFAULT_PLACED_THRESHOLDS).plain
    assert "context 80" in narrow
    wide = lay_out_columns(400)
    head = wide.session_header(DEFAULT_PLACED_THRESHOLDS).plain
    line = session_line(SessionLine(session(), NOW_MS), wide).plain
    assert line[head.index("70")] == line[head.index("80")] == "┊"
    assert "70" not in lay_out_columns(115).session_header(()).plain


def test_the_head_shows_what_it_sorts_by_and_a_click_finds_it() -> None:
    layout = lay_out_columns(195)
    head = layout.session_header(DEFAULT_PLACED_THRESHOLDS, SessionOrder.COSTLIEST)
    sorted_by = [span for span in head.spans if str(span.style) == "bold $foreground"]
    assert [head.plain[span.start : span.end].strip() for span in sorted_by] == ["cost ▾"]

    def clicked(x: int) -> SessionOrder | None:
        column = column_at(layout.columns, len(COLUMN_GAP), x)
        return COLUMN_ORDERS.get(column.name) if column else None

    assert clicked(head.plain.index("cost")) is SessionOrder.COSTLIEST
    assert clicked(head.plain.index("context")) is SessionOrder.FULLEST
    assert clicked(head.plain.index("left")) is SessionOrder.SOONEST
    assert clicked(0) is SessionOrder.ATTENTION
    assert clicked(5_000) is None


def test_a_row_has_the_layout_s_width_and_its_numbers_whole() -> None:
    for width in WIDTHS:
        layout = lay_out_columns(width)
        line = session_line(SessionLine(FULL, NOW_MS), layout)
        assert (
            line.cell_length
            == layout.width
            == layout.session_header(DEFAULT_PLACED_THRESHOLDS).cell_length
        )
        names = {column.name for column in layout.columns}
        for name, words in (
            ("gauge", " 86 %"),
            ("fill", "172 k of 200 k"),
            ("agents", "123 ✗4"),
            ("compactions", " 12 "),
            ("doing", " 2 min"),
            ("branch", "tax-v2"),
            ("prompt", "run them again"),
            ("level", "high"),
            ("cost", "≈$1.20"),
            ("cache", "≈warm"),
            ("until", "≈ 3 turns"),
        ):
            assert (words in line.plain) == (name in names), (width, name)


def test_a_refused_prompt_says_so_across_the_bar_and_how_it_is_helped() -> None:
    refused = session(status=SessionStatus.TOO_LONG, too_long=PromptTooLong(210_000, 200_000))
    for width in WIDTHS:
        layout = lay_out_columns(width)
        line = session_line(SessionLine(refused, NOW_MS), layout)
        assert line.cell_length == layout.width
        assert "too long: 210,000 of 200,000" in line.plain or "too long, 105 %" in line.plain
    assert (
        "too long, 105 % " in session_line(SessionLine(refused, NOW_MS), lay_out_columns(115)).plain
    )


def test_a_refused_prompt_without_numbers() -> None:
    refused = session(status=SessionStatus.TOO_LONG, too_long=PromptTooLong(None, None))
    assert "too long" in session_line(SessionLine(refused, NOW_MS), lay_out_columns(120)).plain


def test_what_is_marked_and_what_is_pinned_has_a_sign_beside_its_state() -> None:
    waits = session(status=SessionStatus.WAITING, live=True)
    layout = lay_out_columns(80)
    assert session_line(SessionLine(waits, NOW_MS), layout).plain[:2] == "▲ "
    assert (
        session_line(SessionLine(waits, NOW_MS, pinned=True), layout).plain[:2] == f"▲{PINNED_SIGN}"
    )
    both = session_line(SessionLine(waits, NOW_MS, selected=True, pinned=True), layout)
    assert both.plain[:2] == f"▲{SELECTED_SIGN}"
    assert both.cell_length == layout.width


@pytest.mark.parametrize("width", [30, 55, 115, 235])
@pytest.mark.parametrize("name", ["shop", "汉" * 90, "إصلاح", "a" * 300])
def test_a_heading_has_the_row_s_width_and_tells_of_its_sessions(width: int, name: str) -> None:
    waits = session(status=SessionStatus.WAITING, live=True, cost=SessionCost(1.0))
    heading = ProjectHeading(name, (FULL, waits, session()), folded=False)
    line = project_line(heading, width)
    assert line.cell_length == width
    assert line.plain.startswith("▾ ")
    assert project_line(ProjectHeading(name, (FULL,), folded=True), width).plain.startswith("▸ ")
    if width > 100:
        for words in ("3 sessions", "▲ 1 waiting", "2 live", "fullest 86 %", "≈ $2.20+"):
            assert words in line.plain


def test_every_status_has_a_sign_of_its_own_beside_its_color() -> None:
    layout = lay_out_columns(80)
    signs = {
        status: session_line(SessionLine(session(status=status), NOW_MS), layout).plain[0]
        for status in SessionStatus
    }
    assert signs[SessionStatus.WAITING] == "▲"
    assert signs[SessionStatus.BUSY] == signs[SessionStatus.ACTIVE] == "●"
    assert len(set(signs.values())) == len(SessionStatus) - 1


def test_agents_stand_under_those_that_started_them() -> None:
    branches = build_agent_tree(
        [agent("a"), agent("b", "a"), agent("c"), agent("d", "b"), agent("e", "a")]
    )
    assert [(branch.agent.agent_id, branch.prefix) for branch in branches] == [
        ("a", "├ "),
        ("b", "│ ├ "),
        ("d", "│ │ └ "),
        ("e", "│ └ "),
        ("c", "└ "),
    ]


def test_an_agent_whose_parent_is_not_known_stands_at_the_root() -> None:
    assert [
        branch.prefix for branch in build_agent_tree([agent("a", "gone"), agent("b", "b")])
    ] == [
        "├ ",
        "└ ",
    ]


def test_a_circle_of_parents_ends_and_loses_nobody() -> None:
    circle = [agent("a", "c"), agent("b", "a"), agent("c", "b"), agent("d")]
    assert [branch.agent.agent_id for branch in build_agent_tree(circle)] == ["d", "a", "b", "c"]
    two = [agent("a", "b"), agent("b", "a"), agent("c", "a"), agent("x", "y"), agent("y", "x")]
    assert [branch.agent.agent_id for branch in build_agent_tree(two)] == ["a", "b", "c", "x", "y"]


def test_a_deep_tree_is_drawn() -> None:
    chain = [agent("0")] + [agent(str(n), str(n - 1)) for n in range(1, 2_000)]
    branches = build_agent_tree(chain)
    assert len(branches) == 2_000
    assert agent_line(branches[-1], 80, NOW_MS, measure_tree(branches)).plain


def test_an_agent_s_line_has_its_number_and_its_width() -> None:
    for width in WIDTHS:
        branches = build_agent_tree([agent("a"), agent("b", "a", description="汉" * 90)])
        for branch in branches:
            line = agent_line(branch, width, NOW_MS, measure_tree(branches))
            assert " 10 %" in line.plain
            if width >= NARROWEST:
                assert line.cell_length == width
        leader = session_root_line(session(), width)
        assert " 86 %" in leader.plain
        if width >= NARROWEST:
            assert leader.cell_length == width


def test_what_an_agent_gave_back() -> None:
    result = ReturnedResult("one\ntwo", 2, 7, 1_234, 1)
    assert returned_text(agent("a", result=result), NOW_MS) == "2 lines ≈1.2 k"
    one = ReturnedResult("one", 1, 3, 9, 1)
    assert returned_text(agent("a", result=one), NOW_MS) == "1 line ≈9"
    running = agent("a", status=AgentStatus.RUNNING)
    assert returned_text(running, NOW_MS) == "running 1 min"
    assert returned_text(agent("a", status=AgentStatus.FAILED), NOW_MS) == "failed"


def test_a_summary_begins_where_it_tells_something() -> None:
    text = (
        "[COMPRESSED]\n\n<analysis>\nThis session is being continued from a previous conversation"
        " that ran out of context.\nSummary:\n# Title\n- first\n"
    )
    assert summary_beginning(text) == "Title · first"
    assert summary_beginning("[COMPRESSED]") == "[COMPRESSED]"
    assert summary_beginning("") == ""


def test_a_summary_has_two_lines_of_the_width() -> None:
    for width in range(NARROWEST, 160):
        row = summary("汉" * 300, agent_type="x" * 90, lines=12_345, estimated_tokens=999_999)
        first, second = summary_lines(row, {}, width, NOW_MS).plain.split("\n")
        assert "12345 lines ≈1 M · 1 min" in first
        for line in summary_lines(row, {}, width, NOW_MS).split("\n"):
            assert line.cell_length == width
        assert second.startswith("  汉")
