"""An agent's report: the verdict with its reasons above what it returned."""

from __future__ import annotations

from typing import Any

from ctxtop.core.compliance.expectations import ComplianceSettings
from ctxtop.core.compliance.run_verdict import AgentRun, MarkerLine, judge_run
from ctxtop.core.injection.context_selection import (
    ExcludedResult,
    InjectedEntry,
    Injection,
    InjectionStage,
)
from ctxtop.core.model.agent import ReturnedResult
from ctxtop.core.model.findings import ExpectationSource, ExpectedFormat, RunVerdict
from ctxtop.core.model.log_records import AnswerItemRecord
from ctxtop.core.model.result_formats import ResultFormat
from ctxtop.core.model.stored_rows import FillRow
from ctxtop.core.transcript.sanitize import sanitize_text
from ctxtop.tui.entities.agent_tree import agent_line, build_agent_tree, measure_tree
from ctxtop.tui.screens.agents.agent_report import MAX_LINES, AgentDetails, agent_report
from ctxtop.tui.text.markdown_text import TextForm
from ctxtop.tui.text.session_text import agent_count
from msgspec.structs import replace

from .makers import agent
from .support import NOW_MS

GOOD = "[COMPRESSED] agent_type: worker\nChanged files: a.ts\nResult: ok"
BAD = "I built it.\n\x1b[31m[b]and[/b] this is how."
REVIEW = (
    "[COMPRESSED] agent_type: reviewer\nFiles reviewed: a\nCritical: a:1 — x\nVerdict: FAIL (1/0)"
)
OUTPUT = ExpectedFormat(ResultFormat.OUTPUT, ExpectationSource.PRELOADED)

NOTHING_EXPECTED = ExpectedFormat(ResultFormat.NONE, ExpectationSource.NONE)


def ruled(text: str, expected: ExpectedFormat = OUTPUT, **fields: Any) -> RunVerdict:  # noqa: ANN401
    known: dict[str, Any] = {"final_message_id": "m9", "final_offset": 900}
    return judge_run(
        AgentRun("worker", has_ended=True, final_text=text, **(known | fields)),
        expected,
        ComplianceSettings(),
    )


def report(text: str, ruling: RunVerdict | None, **fields: Any) -> str:  # noqa: ANN401
    result = ReturnedResult(text, text.count("\n") + 1, len(text), 9, 1)
    made = agent("a", result=result, compliance=ruling)
    return agent_report(replace(made, **fields), width=100).plain


def test_a_marker_in_an_earlier_answer_is_called_no_final_message_that_follows_the_skill() -> None:
    earlier = (MarkerLine(400, "assistant", "m4", GOOD),)
    run = AgentRun("worker", has_ended=True, final_text="Done.", marker_lines=earlier)
    ruling = judge_run(run, OUTPUT, ComplianceSettings("whole_transcript"))
    said = report("Done.", ruling)
    assert "✓ compliant: one of its answers has the marker; its final message does not" in said


def test_of_a_result_that_nobody_asks_for_no_verdict_is_told() -> None:
    for ruling in (None, ruled(GOOD, NOTHING_EXPECTED)):
        said = report(GOOD, ruling)
        assert said.startswith("✓ reviewer  look at it\n")
        asked = "" if ruling is None else ": 3 lines, no format asked for"
        assert f"Result{asked}\n[COMPRESSED] agent_type: worker\nChanged files" in said
        assert "expected" not in said


def test_a_result_without_a_format_is_drawn_as_markdown_or_as_it_is_written() -> None:
    text = "## Plan\n\n- **one** [red]x[/red]\n- [two](https://example.org)\x1b[31m"
    result = ReturnedResult(sanitize_text(text), 4, len(text), 9, 1)
    made = agent("a", result=result, compliance=ruled(text, NOTHING_EXPECTED))
    drawn = agent_report(made, width=100)
    assert "\nPlan\n" in drawn.plain
    assert "• one [red]x[/red]\n" in drawn.plain
    assert "**" not in drawn.plain
    assert "\x1b" not in drawn.plain
    assert not any("@click" in str(span.style) or "link" in str(span.style) for span in drawn.spans)
    written = agent_report(made, width=100, form=TextForm.WRITTEN).plain
    assert "1 │ ## Plan" in written
    assert "3 │ - **one** [red]x[/red]" in written
    long = ReturnedResult("- **a**\n" * 5_000, 5_000, 40_000, 9, 1)
    assert "1 │ - **a**" in agent_report(replace(made, result=long), width=100).plain


def test_a_failure_has_its_reasons_and_its_lines_are_marked() -> None:
    places = (MarkerLine(100, "skill_text"),)
    said = report(BAD, ruled(BAD, marker_lines=places, block_offsets=(500,), retry_tokens=9_000))
    for words in (
        "✗ exhausted: it was blocked once",
        "broken rules  V01 on line 1\n",
        "skill was loaded",
        "in the skill's own text",
        "would have passed it, wrongly",
        "a hook blocked",
        "9 k tokens were used",
        "1 ▌ I built it.\n  ▌ └ V01 No line starts with the marker.\n2 │ ",
    ):
        assert words in said


def test_every_line_too_many_is_marked_and_the_first_is_named() -> None:
    text = GOOD + "\nmore" * 9
    said = report(text, ruled(text))
    assert " 10 │ more" not in said
    assert "10 │ more\n11 ▌ more\n   ▌ └ V05 It has more lines than allowed.\n12 ▌ more" in said


def test_two_rules_that_one_line_breaks_are_both_named() -> None:
    text = f"I have completed it.\n{GOOD}"
    said = report(text, ruled(text))
    assert "1 ▌ I have completed it.\n  ▌ └ V02 " in said
    assert "\n  ▌ └ V10 " in said
    assert "\n2 │ [COMPRESSED]" in said


def test_a_verdict_on_other_words_than_the_parent_got_shows_both() -> None:
    ruling = ruled("Mended.", marker_lines=(MarkerLine(1, "assistant", "m1", GOOD),))
    said = report(GOOD, ruling, last_message="Mended.")
    assert "✗ clobbered" in said
    judged, given = (
        said.index("which was checked"),
        said.index("Result added to the parent's context"),
    )
    assert judged < said.index("1 ▌ Mended.") < given < said.index("1 │ [COMPRESSED]")


def test_a_compliant_message_that_no_parent_got_is_shown() -> None:
    ruling = ruled("Done.", marker_lines=(MarkerLine(1, "assistant", "m1", GOOD),), stops=4)
    said = report("Done.", ruling)
    kept = said.index("Last compliant message, which its final one replaced\n1 │ [COMPRESSED]")
    assert kept < said.index("Result\n1 ▌ Done.")
    assert "it stopped 4 times, 2 refires beyond what a block explains" in said


def test_one_that_complied_says_so() -> None:
    said = report(GOOD, ruled(GOOD, marker_lines=(MarkerLine(900, "assistant", "m9", GOOD),)))
    assert "✓ compliant: its final message follows the skill" in said
    assert "in its final message" in said
    assert "wrongly" not in said
    assert "▌" not in said


def test_no_line_is_longer_than_its_room_and_no_word_is_lost() -> None:
    text = "界" * 90 + "\n" + "word " * 60 + "\n" + "x" * 200
    for width in (30, 46, 110):
        made = agent("a", result=ReturnedResult(text, 3, len(text), 9, 1), compliance=ruled(text))
        lines = agent_report(made, width=width).split("\n")
        shown = [each for each in lines if "▌" in each.plain or "│" in each.plain]
        assert all(each.cell_length <= width for each in shown)
        assert sum(each.plain.count("界") for each in shown) == 90
        assert sum(each.plain.count("x") for each in shown) >= 200


def test_a_huge_result_is_cut_and_says_so() -> None:
    text = "line\n" * 5_000 + "y" * 9_000
    said = report(text, None)
    assert f"… {5_001 - MAX_LINES:,} more lines; y copies all" in said
    assert len(report("z" * 1_000_000, None)) < 10_000


def test_what_is_read_of_it_stands_below() -> None:
    entry = InjectedEntry(InjectionStage.SIBLING, "of the same parent", "text", 90, "s1", "b1")
    out = tuple(ExcludedResult(f"c{n}", "s1", "docs", "not finished") for n in range(10))
    given = AnswerItemRecord(
        0, 1, "inject", "s0", "a", "same_type", "of the same type", 120, "s1", "b7"
    )
    fill = tuple(FillRow(n, tokens, cut) for n, (tokens, cut) in enumerate(STEPS))
    detail = AgentDetails("Look.\nThen tell.", fill, (given,), Injection("x", (entry,), out, 90))
    made = agent("a")
    said = agent_report(made, detail, 100).plain
    assert "Task\n  Look.\n  Then tell." in said
    assert "▁██▂  1 k to 2 k, 3 answers, 1 compaction" in said
    assert "Context injected at its start\n  same type: b7" in said
    assert "could have been injected" not in said
    assert "docs c7 of s1: not finished\n  … 2 more; `ctxtop inject` lists all" in said
    alone = agent_report(made, replace(detail, injected=()), 100).plain
    assert "Context that could have been injected at its start\n  sibling: b1, of the same" in alone
    assert "reviewer has not returned anything yet." in alone


STEPS = ((1_000, 0), (8_500, 0), (9_000, 0), (2_000, 1))


def test_the_tree_tells_the_verdict_where_there_is_room() -> None:
    review = ExpectedFormat(ResultFormat.REVIEW, ExpectationSource.DECLARED)
    for ruling, sign, words in (
        (ruled(GOOD), "✓", ""),
        (ruled(GOOD, block_offsets=(500,)), "✓", "forced"),
        (ruled(BAD), "✗", "V01"),
        (ruled(BAD, block_offsets=(500,)), "✗", "exhausted V01"),
        (ruled(f"Well.\n{GOOD}\n# x"), "✗", "V02+1"),
        (ruled("Done.", marker_lines=(MarkerLine(1, "assistant", "m1", GOOD),)), "✗", "clobbered"),
        (ruled(REVIEW, review), "✓", "FAIL 1/0"),
        (ruled(BAD, NOTHING_EXPECTED), "✓", ""),
    ):
        (branch,) = branches = build_agent_tree(
            [agent("a", agent_type="worker", compliance=ruling)]
        )
        for width in (40, 58, 80, 120):
            line = agent_line(branch, width, NOW_MS, measure_tree(branches))
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
    branches = build_agent_tree(
        [
            agent("a", agent_type="worker", description="First", compliance=ruled(GOOD)),
            agent("b", "a", agent_type="general-purpose", description="Second"),
            agent(
                "c",
                agent_type="docs",
                description="Third",
                compliance=ruled(BAD, block_offsets=(500,)),
            ),
        ]
    )
    columns = measure_tree(branches)
    lines = [agent_line(branch, 120, NOW_MS, columns).plain for branch in branches]
    places = {
        line.index(word) for line, word in zip(lines, ("First", "Second", "Third"), strict=True)
    }
    assert len(places) == 1
    narrow = [agent_line(branch, 55, NOW_MS, columns) for branch in branches]
    assert "Second" in narrow[1].plain
    assert {line.cell_length for line in narrow} == {55}
