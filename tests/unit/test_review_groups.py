"""What reviewers found, gathered; and how the results of each type of agent were over time."""

from __future__ import annotations

from typing import Any

import pytest
from ctxtop.core.compliance.agent_compliance import (
    LAST_VERDICTS,
    NO_RESULT_SIZES,
    ReviewedFinding,
    group_by_severity,
    group_findings,
    measure_result_sizes,
    summarize_compliance,
)
from ctxtop.core.compliance.expectations import ComplianceSettings
from ctxtop.core.compliance.run_verdict import AgentRun, judge_run
from ctxtop.core.measure.token_estimate import nearest_rank
from ctxtop.core.model.agent import AgentStatus, ReturnedResult
from ctxtop.core.model.findings import (
    ComplianceVerdict,
    ExpectationSource,
    ExpectedFormat,
    ReviewFinding,
)
from ctxtop.core.model.result_formats import ResultFormat

from ..tui.makers import agent
from ..tui.support import NOW_MS

DAY_MS = 86_400_000
GOOD = "[COMPRESSED] agent_type: worker\nChanged files: a.ts\nResult: ok"
BAD = "I built it.\n" * 40


def said(who: str, at: int, line: int, text: str = "x", **fields: Any) -> ReviewedFinding:  # noqa: ANN401
    known: dict[str, Any] = {"severity": "warning", "path": "a.py", "last_line": line} | fields
    return ReviewedFinding("s1", who, "reviewer", at, ReviewFinding(line=line, text=text, **known))


def test_the_most_severe_and_the_files_with_the_most_come_first() -> None:
    found = group_findings(
        [
            said("r1", 1, 9, severity="suggestion"),
            said("r1", 1, 7, path="b.py"),
            said("r1", 1, 8, severity="critical", path="z.py"),
            said("r1", 1, 30),
            said("r1", 1, 4),
            said("r1", 1, 4, severity="odd"),
        ],
        {"s1": "shop"},
    )
    groups = group_by_severity(found)
    assert [each.severity for each in groups] == ["critical", "warning", "suggestion", "odd"]
    assert [each.count for each in groups] == [1, 3, 1, 1]
    files = groups[1].files
    assert [(each.project, each.path) for each in files] == [("shop", "a.py"), ("shop", "b.py")]
    assert [each.location for each in files[0].findings] == ["a.py:4", "a.py:30"]


def test_what_several_say_in_the_same_words_is_one_thing_the_newest_first() -> None:
    once = group_findings(
        [said("r1", 5, 4), said("r2", 9, 4), said("r3", 7, 4, "other"), said("r4", 8, 4)], {}
    )
    assert [[each.agent_id for each in found.reviews] for found in once] == [
        ["r2", "r4", "r1"],
        ["r3"],
    ]


def test_the_same_path_in_two_projects_is_two_files() -> None:
    elsewhere = ReviewedFinding("s2", "r2", "reviewer", 1, said("r1", 1, 4).finding)
    (group,) = group_by_severity(
        group_findings([said("r1", 1, 4), elsewhere], {"s1": "shop", "s2": "notes"})
    )
    assert [each.project for each in group.files] == ["notes", "shop"]


def test_lines_are_written_as_people_write_them() -> None:
    (found,) = group_findings([said("r1", 1, 3, last_line=5)], {})
    assert found.location == "a.py:3-5"


def test_a_type_s_history() -> None:
    expected = ExpectedFormat(ResultFormat.OUTPUT, ExpectationSource.PRELOADED)
    agents = []
    for number in range(14):
        text = BAD if number % 7 == 0 else GOOD
        run = AgentRun(
            "worker", has_ended=True, final_text=text, final_message_id="m", final_offset=9
        )
        agents.append(
            agent(
                f"a{number}",
                agent_type="worker",
                ended_at=NOW_MS - number // 5 * DAY_MS - number,
                result=ReturnedResult(
                    text, text.count("\n") + 1, len(text), 10 * (number + 1), number
                ),
                compliance=judge_run(run, expected, ComplianceSettings()),
            )
        )
    running = agent("r", agent_type="worker", status=AgentStatus.RUNNING, ended_at=None)
    unended = AgentRun("worker", has_ended=False, final_text=None)
    agents.append(replace_ruling(running, judge_run(unended, expected, ComplianceSettings())))
    (part,) = summarize_compliance(agents, ComplianceSettings()).types
    assert (part.name, part.runs, part.running) == ("worker", 15, 1)
    assert part.score.passed_share == pytest.approx(12 / 14)
    assert [each.score.judged_count for each in part.days] == [4, 5, 5]
    assert part.days[0].at < part.days[1].at
    assert len(part.last_verdicts) == LAST_VERDICTS
    assert part.last_verdicts[:2] == (ComplianceVerdict.NON_COMPLIANT, ComplianceVerdict.COMPLIANT)
    assert (part.sizes.results, part.sizes.median_tokens, part.sizes.p90_tokens) == (14, 70, 130)
    assert (part.sizes.median_lines, part.sizes.p90_lines) == (3, 41)


def replace_ruling(made: Any, ruling: Any) -> Any:  # noqa: ANN401
    from msgspec.structs import replace

    return replace(made, compliance=ruling)


def test_sizes_of_nothing_and_ranks() -> None:
    assert measure_result_sizes([agent("a")]) == NO_RESULT_SIZES
    assert [nearest_rank([1, 2, 3, 4], share) for share in (0.5, 0.75, 0.76, 1.0)] == [2, 3, 4, 4]
