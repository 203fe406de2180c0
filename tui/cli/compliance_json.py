"""What programs read of compliance."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...core.compliance.findings import labels
from .times import time_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...core.compliance.cost import Cost
    from ...core.compliance.findings import Finding, Judgement
    from ...core.compliance.score import Score
    from ...core.compliance.states import Ruling
    from ...core.compliance_summary import Compliance, Day

Record = dict[str, Any]


def of_agent(ruling: Ruling | None) -> Record:
    """The keys of an agent that say whether it compressed its result."""
    return {
        "expected_format": ruling.expected.format.value if ruling else None,
        "verdict": ruling.verdict.value if ruling else None,
        "violations": labels(ruling.violations) if ruling else [],
        "warnings": labels(ruling.warnings) if ruling else [],
        "marker_origin": ruling.marker_location.value
        if ruling and ruling.marker_location
        else None,
        "blocked": ruling.blocked if ruling else None,
    }


def reasons_of(ruling: Ruling | None) -> Record:
    """More of an agent's keys: how it is known."""
    return {
        "expected_by": ruling.expected.source.value if ruling else None,
        "grep_passes": ruling.grep_passes if ruling else None,
        "refired": ruling.refired if ruling else None,
        "findings": [finding(each) for each in (*ruling.violations, *ruling.warnings)]
        if ruling
        else [],
    }


def checked(found: Judgement) -> Record:
    """The object of `ctxtop check`."""
    return {
        "verdict": found.verdict.value,
        "violations": labels(found.violations),
        "warnings": labels(found.warnings),
        "lines": found.lines,
        "chars": found.chars,
        "findings": [finding(each) for each in (*found.violations, *found.warnings)],
        "review": [asdict(each) for each in found.review_findings],
    }


def finding(found: Finding) -> Record:
    """A violation or a warning, with the line that shows it."""
    return {
        "code": found.label,
        "name": found.code.name,
        "line": found.line,
        "text": found.text,
        "why": found.sentence,
    }


def summed(found: Compliance) -> Record:
    """The object of `ctxtop compliance`."""
    return {
        **_scored(found.score, found.cost),
        "min_samples": found.min_samples,
        "types": [
            {
                "agent_type": each.name,
                "expected_formats": [one.value for one in each.formats],
                "drift_from_rule": each.drift.value if each.drift else None,
                **_scored(each.score, each.cost),
                "runs": each.runs,
                "running": each.running,
                "median_lines": each.sizes.median_lines if each.sizes.results else None,
                "p90_lines": each.sizes.p90_lines if each.sizes.results else None,
                "median_tokens": each.sizes.median_tokens if each.sizes.results else None,
                "p90_tokens": each.sizes.p90_tokens if each.sizes.results else None,
                "last_verdicts": [one.value for one in each.last_verdicts],
                "days": _days(each.days),
            }
            for each in found.types
        ],
        "days": _days(found.days),
        "failed": [
            {
                "session_id": each.session_id,
                "agent_id": each.agent_id,
                "agent_type": each.agent_type,
                "at": time_of(each.ended_at),
                **of_agent(each.compliance),
                **reasons_of(each.compliance),
            }
            for each in found.noncompliant
        ],
        "reviewed": [
            {
                "session_id": each.session_id,
                "agent_id": each.agent_id,
                "agent_type": each.agent_type,
                "at": time_of(each.at),
                **asdict(each.finding),
            }
            for each in found.findings
        ],
        "too_wide": [
            {"session_id": each.session_id, "agent_id": each.agent_id}
            for each in found.oversized_reviews
        ],
    }


def _days(days: Iterable[Day]) -> list[Record]:
    return [
        {"day": (time_of(each.at) or "")[:10], **_scored(each.score, each.cost)} for each in days
    ]


def _scored(score: Score, cost: Cost) -> Record:
    return {
        "verdicts": {name.value: count for name, count in score.verdicts.items()},
        "judged": score.judged_count,
        "passed_share": score.passed_share,
        "first_pass_share": score.first_pass_share,
        "forced_share": score.forced_share,
        "grep_passed": score.grep_passed,
        "grep_wrong": score.grep_wrong,
        "codes": score.codes,
        "result_tokens": cost.result_tokens,
        "excess_tokens": cost.excess_tokens,
        "retry_tokens": cost.retry_tokens,
    }
