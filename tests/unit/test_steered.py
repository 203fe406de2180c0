"""Which of the things that it was asked to keep a compaction kept."""

from __future__ import annotations

from ctxtop.core.model.log_records import AnswerItemRecord
from ctxtop.core.model.stored_rows import CompactionRow
from ctxtop.core.summaries.artifacts import LostArtifacts, Quote
from ctxtop.core.summaries.compaction_report import (
    CompactionReport,
    SteeringOutcome,
    steering_outcomes,
)


def asked(at: int, kind: str, text: str, agent_id: str | None = None) -> AnswerItemRecord:
    return AnswerItemRecord(0, at, "steer", "s", agent_id, kind, text, None, None, None)


def compaction(at: int | None) -> CompactionRow:
    return CompactionRow("s", None, "b", at, "auto", None, None, None, None, None, None)


RULE = asked(90, "constraint", '"Never push."')
FILE = asked(90, "file", "/p/a.py (edited 2×)")


def test_what_was_forgotten_was_not_kept() -> None:
    told = CompactionReport(LostArtifacts(constraints=(Quote("Never push.", 1),)))
    assert steering_outcomes([(compaction(100), told)], [RULE, FILE]) == [
        (
            SteeringOutcome("constraint", '"Never push."', kept=False),
            SteeringOutcome("file", "/p/a.py (edited 2×)", kept=True),
        )
    ]


def test_nothing_is_known_of_it_before_it_is_told_or_of_agents() -> None:
    agent = asked(90, "agent", "w a1: do")
    (before,) = steering_outcomes([(compaction(100), None)], [RULE])
    (after,) = steering_outcomes([(compaction(100), CompactionReport())], [agent])
    assert [each.kept for each in (*before, *after)] == [None, None]


def test_it_is_of_the_next_compaction_of_its_context_alone() -> None:
    again = asked(95, "constraint", '"Never push."')
    of_agent = asked(95, "constraint", '"Wait."', "a1")
    early, late = asked(40, "todo", "early"), asked(101, "todo", "late")
    both = [(compaction(100), CompactionReport()), (compaction(50), CompactionReport())]
    found = steering_outcomes(both, [early, RULE, again, of_agent, late])
    assert [[each.text for each in items] for items in found] == [['"Never push."'], ["early"]]
    assert steering_outcomes([(compaction(None), CompactionReport())], [RULE]) == [()]
    assert steering_outcomes(both, []) == [(), ()]
