"""An agent's report: the verdict with its reasons above what it gave back."""

from __future__ import annotations

from typing import Any

from ctxtop.core.agents import Result
from ctxtop.core.compliance.codes import Format
from ctxtop.core.compliance.expected import NOTHING, Expected, Ground, Terms
from ctxtop.core.compliance.origin import Place
from ctxtop.core.compliance.states import Ruling, Run, rule
from ctxtop.tui.agent_report import agent_report
from ctxtop.tui.agent_rows import agent_line, columns_of
from ctxtop.tui.agent_tree import grow_tree
from ctxtop.tui.compliance_words import agent_count

from .makers import agent
from .support import NOW_MS

GOOD = "[COMPRESSED] agent_type: worker\nChanged files: a.ts\nResult: ok"
BAD = "I built it.\n\x1b[31m[b]and[/b] this is how."
REVIEW = (
    "[COMPRESSED] agent_type: reviewer\nFiles reviewed: a\nCritical: a:1 — x\nVerdict: FAIL (1/0)"
)
OUTPUT = Expected(Format.OUTPUT, Ground.PRELOADED)


def ruled(text: str, expected: Expected = OUTPUT, **fields: Any) -> Ruling:  # noqa: ANN401
    known: dict[str, Any] = {"final_message": "m9", "final_offset": 900}
    return rule(Run("worker", has_ended=True, final=text, **(known | fields)), expected, Terms())


def report(text: str, ruling: Ruling | None) -> str:
    result = Result(text, text.count("\n") + 1, len(text), 9, 1)
    return agent_report(agent("a", result=result, ruling=ruling)).plain


def test_a_result_without_a_verdict_stands_alone() -> None:
    assert report(GOOD, None) == GOOD
    assert report(GOOD, ruled(GOOD, NOTHING)) == GOOD


def test_a_failure_has_its_reasons_and_the_line() -> None:
    places = (Place(100, "skill_text"),)
    said = report(BAD, ruled(BAD, places=places, blocks=(500,)))
    lines = said.split("\n")
    assert lines[0].startswith("✗ exhausted: it was blocked once")
    assert "V01  No line begins with the marker." in lines[1]
    assert lines[2].strip() == "line 1: I built it."
    for words in (
        "given the skill",
        "in the skill's own text",
        "would have let it stop at once, wrongly",
        "a hook held it up",
    ):
        assert words in said
    assert said.endswith(BAD)


def test_one_that_complied_says_so() -> None:
    said = report(GOOD, ruled(GOOD, places=(Place(900, "assistant", "m9", GOOD),)))
    assert said.startswith("✓ compliant: its final message follows the skill")
    assert "in its final message" in said
    assert "wrongly" not in said


def test_the_tree_tells_the_verdict_where_there_is_room() -> None:
    review = Expected(Format.REVIEW, Ground.DECLARED)
    for ruling, sign, words in (
        (ruled(GOOD), "✓", ""),
        (ruled(GOOD, blocks=(500,)), "✓", "forced"),
        (ruled(BAD), "✗", "V01"),
        (ruled(BAD, blocks=(500,)), "✗", "exhausted V01"),
        (ruled(f"Well.\n{GOOD}\n# x"), "✗", "V02+1"),
        (ruled("Done.", places=(Place(1, "assistant", "m1", GOOD),)), "✗", "clobbered"),
        (ruled(REVIEW, review), "✓", "FAIL 1/0"),
        (ruled(BAD, NOTHING), "✓", ""),
    ):
        (branch,) = branches = grow_tree([agent("a", agent_type="worker", ruling=ruling)])
        for width in (40, 58, 80, 120):
            line = agent_line(branch, width, NOW_MS, columns_of(branches))
            assert line.cell_length == width
            assert line.plain.startswith(f"└ {sign} worker")
            assert (f" {words} " in line.plain) or width == 40


def test_a_session_s_count_of_agents() -> None:
    assert [agent_count(*each) for each in ((0, 0), (4, None), (4, 0), (4, 1))] == [
        "",
        "4",
        "4",
        "4 ✗1",
    ]


def test_what_agents_were_to_do_begins_in_one_column() -> None:
    branches = grow_tree(
        [
            agent("a", agent_type="worker", description="First", ruling=ruled(GOOD)),
            agent("b", "a", agent_type="general-purpose", description="Second"),
            agent("c", agent_type="docs", description="Third", ruling=ruled(BAD, blocks=(500,))),
        ]
    )
    columns = columns_of(branches)
    lines = [agent_line(branch, 120, NOW_MS, columns).plain for branch in branches]
    places = {
        line.index(word) for line, word in zip(lines, ("First", "Second", "Third"), strict=True)
    }
    assert len(places) == 1
    narrow = [agent_line(branch, 55, NOW_MS, columns) for branch in branches]
    assert "Second" in narrow[1].plain
    assert {line.cell_length for line in narrow} == {55}
