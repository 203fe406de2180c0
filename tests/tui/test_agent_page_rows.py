"""The rows of the agents' page without a screen: filters, folds, widths, sparks, documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compliance.agent_compliance import (
    ReviewedFinding,
    group_by_severity,
    group_findings,
)
from ctxtop.core.model.agent import AgentStatus, ReturnedResult
from ctxtop.core.model.findings import ReviewFinding
from ctxtop.tui.entities.agent_tree import (
    agent_columns,
    agent_tree_rows,
    build_agent_tree,
    fold_tree,
    measure_tree,
)
from ctxtop.tui.screens.agents.agent_tabs import agents_markdown
from ctxtop.tui.screens.agents.agents_overview import (
    AgentOrder,
    filter_agents,
    filter_findings,
    toggle_word,
)
from ctxtop.tui.screens.agents.compliance_rows import (
    finding_columns,
    finding_line,
    lay_out_findings,
)
from ctxtop.tui.text.column_headers import header_line
from ctxtop.tui.text.compliance_text import finding_markdown, findings_markdown
from ctxtop.tui.text.formats import sparkline
from ctxtop.tui.text.text_lines import item_line

from .makers import agent, session
from .support import NOW_MS
from .test_agent_report import BAD, GOOD, ruled

if TYPE_CHECKING:
    from ctxtop.core.model.agent import Agent

CHAIN = [agent("a"), agent("b", "a"), agent("c", "b"), agent("d", "a"), agent("e")]


def test_a_tree_counts_what_is_below() -> None:
    assert [each.descendants for each in build_agent_tree(CHAIN)] == [3, 1, 0, 0, 0]


def test_a_circle_of_parents_is_shown_whole() -> None:
    circle = [agent("a", "b"), agent("b", "a"), agent("c", "c")]
    assert {each.agent.agent_id for each in build_agent_tree(circle)} == {"a", "b", "c"}


def shown(folded: set[str]) -> str:
    return "".join(each.agent.agent_id for each in fold_tree(build_agent_tree(CHAIN), folded, _id))


def _id(each: Agent) -> str:
    return each.agent_id


def test_folding_leaves_out_what_is_below_and_no_more() -> None:
    assert [shown(each) for each in (set(), {"a"}, {"b"}, {"c", "e"}, {"a", "b"})] == [
        "abcde",
        "ae",
        "abde",
        "abcde",
        "ae",
    ]


def test_filters() -> None:
    agents = [
        agent("a", agent_type="worker", description="Retry it", compliance=ruled(GOOD)),
        agent("b", agent_type="worker", compliance=ruled(BAD), model="claude-haiku-4-5"),
        agent("c", agent_type="docs:writer", status=AgentStatus.RUNNING),
    ]
    for words, found in (
        ("", "abc"),
        ("retry", "a"),
        ("type:work", "ab"),
        ("type:docs:w", "c"),
        ("!type:work", "c"),
        ("noncompliant:", "b"),
        ("broke:", "b"),
        ("!broke:", "ac"),
        ("verdict:v01", "b"),
        ("verdict:compliant", "ab"),
        ("model:haiku", "b"),
        ("is:running", "c"),
        ("is:done !broke:", "a"),
        ("running", "c"),
        ("no:key", ""),
    ):
        assert "".join(each.agent_id for each in filter_agents(agents, words)) == found, words
    assert toggle_word("a broke:", "broke:") == "a"
    assert toggle_word("a", "broke:") == "a broke:"


def test_orders() -> None:
    agents = [
        agent("a", ended_at=5, result=ReturnedResult("x", 1, 4_000, None, 1)),
        agent("b", ended_at=9, result=ReturnedResult("x", 1, 8, 90, 2)),
        agent("c", status=AgentStatus.RUNNING, ended_at=None),
    ]
    orders = {
        each: "".join(one.agent_id for one in filter_agents(agents, "", each))
        for each in AgentOrder
    }
    assert orders[AgentOrder.STARTED] == "abc"
    assert orders[AgentOrder.NEWEST] == "cba"
    assert orders[AgentOrder.LARGEST] == "abc"
    assert AgentOrder.LARGEST.next is AgentOrder.STARTED


@pytest.mark.parametrize("width", [46, 56, 70, 100, 118, 200])
def test_rows_fill_their_width_whatever_their_words_are(width: int) -> None:
    wide = agent(
        "w",
        "a",
        agent_type="審査" * 9,
        description="🚑" * 40,
        compliance=ruled(BAD, block_offsets=(5,)),
    )
    lines = agent_tree_rows([*CHAIN, wide], [session(title="長い" * 30)], set())
    tree = measure_tree([each.branch for each in lines if each.branch])
    columns = agent_columns(width, NOW_MS, tree)
    assert columns[0].cells > 0
    for line in lines:
        row = item_line(columns, line, gap="")
        assert row.cell_length == width, row.plain
        if width >= 56:
            assert "10 %" in row.plain or line.branch is None
    assert header_line(columns, gap="").cell_length == width
    assert [each.fold_cell for each in lines[:4]] == [0, 1, 3, None]


def test_sessions_of_which_the_store_knows_nothing_are_still_shown() -> None:
    lines = agent_tree_rows([agent("a", session_id="s9")], [], set())
    assert [each.key for each in lines] == ["s9/", "s9/a"]
    row = item_line(agent_columns(80, NOW_MS), lines[0], gap="")
    assert row.plain.startswith("▾ s9")


def found(text: str = "wrong [x](http://e) <b>", path: str = "a`b.py") -> list[ReviewedFinding]:
    finding = ReviewFinding("critical", path, 3, 4, text)
    return [ReviewedFinding("s1", "r1", "reviewer", NOW_MS, finding)]


def test_findings_as_rows_and_as_markdown() -> None:
    (one,) = group_findings(found(), {"s1": "shop"})
    groups = group_by_severity([one])
    rows = lay_out_findings(groups, set())
    assert len({each.key for each in rows}) == 3
    for width in (40, 70, 118):
        assert {finding_line(each, width, NOW_MS).cell_length for each in rows} == {width}
        assert header_line(finding_columns(width), gap="").cell_length == width
    assert len(lay_out_findings(groups, {"critical"})) == 1
    told = findings_markdown(groups)
    assert "## Critical (1)\n\n### `a'b.py` in shop\n\n- **3-4** wrong " in told
    assert "\\[x\\](http://e) \\<b\\>" in told
    assert finding_markdown(one).startswith("- **critical** `a'b.py:3-4`: wrong \\[x\\]")
    assert findings_markdown(()) == ""
    assert filter_findings([one], "file:a severity:crit") == [one]
    assert filter_findings([one], "!project:shop") == []


def test_agents_as_markdown_keep_their_results_in_a_fence() -> None:
    text = "a\n```\nb | c"
    made = agent("a", result=ReturnedResult(text, 3, 9, 3, 1), description="x | y")
    told = agents_markdown([made], {})
    assert "x \\| y" in told
    assert f"````text\n{text}\n````" in told
    assert agents_markdown([], {}) == ""


def test_sparks() -> None:
    assert sparkline([], 5) == ""
    assert sparkline([0, 1, 2, 4], 9) == "▁▃▅█"
    assert sparkline([None, 0.5], 9, 1.0) == " ▅"
    assert sparkline(range(100), 4) == "▂▄▆█"
    assert sparkline([0, 0], 2) == "▁▁"
