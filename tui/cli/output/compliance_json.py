"""The JSON of compliance: of one text, of an agent, and of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ....core.compliance.findings import ComplianceFinding, Judgement, finding_labels
from ...text.formats import iso_time

if TYPE_CHECKING:
    from ....core.compliance.run_verdict import ComplianceCost, ComplianceScore, RunVerdict
    from ....core.measure.agent_compliance import ComplianceDay, ComplianceSummary


Record = dict[str, Any]


def verdict_fields(ruling: RunVerdict | None) -> Record:
    """The keys of an agent that say whether it compressed its result."""
    return {
        "expected_format": ruling.expected.format.value if ruling else None,
        "verdict": ruling.verdict.value if ruling else None,
        "violations": finding_labels(ruling.violations) if ruling else [],
        "warnings": finding_labels(ruling.warnings) if ruling else [],
        "marker_origin": ruling.marker_location.value
        if ruling and ruling.marker_location
        else None,
        "blocked": ruling.blocked if ruling else None,
    }


def verdict_reason_fields(ruling: RunVerdict | None) -> Record:
    """More of an agent's keys: how it is known."""
    return {
        "expected_by": ruling.expected.source.value if ruling else None,
        "grep_passes": ruling.grep_passes if ruling else None,
        "refired": ruling.refired if ruling else None,
        "findings": [finding_record(each) for each in (*ruling.violations, *ruling.warnings)]
        if ruling
        else [],
    }


def check_record(found: Judgement) -> Record:
    """The object of `ctxtop check`."""
    return {
        "verdict": found.verdict.value,
        "violations": finding_labels(found.violations),
        "warnings": finding_labels(found.warnings),
        "lines": found.lines,
        "chars": found.chars,
        "findings": [finding_record(each) for each in (*found.violations, *found.warnings)],
        "review": [asdict(each) for each in found.review_findings],
    }


def finding_record(found: ComplianceFinding) -> Record:
    """A violation or a warning, with the line that shows it."""
    return {
        "code": found.label,
        "name": found.code.name,
        "line": found.line,
        "text": found.text,
        "why": found.sentence,
    }


def compliance_record(found: ComplianceSummary) -> Record:
    """The object of `ctxtop compliance`."""
    return {
        **_score_fields(found.score, found.cost),
        "min_samples": found.min_samples,
        "types": [
            {
                "agent_type": each.name,
                "expected_formats": [one.value for one in each.formats],
                "drift_from_rule": each.drift.value if each.drift else None,
                **_score_fields(each.score, each.cost),
                "runs": each.runs,
                "running": each.running,
                "median_lines": each.sizes.median_lines if each.sizes.results else None,
                "p90_lines": each.sizes.p90_lines if each.sizes.results else None,
                "median_tokens": each.sizes.median_tokens if each.sizes.results else None,
                "p90_tokens": each.sizes.p90_tokens if each.sizes.results else None,
                "last_verdicts": [one.value for one in each.last_verdicts],
                "days": _day_records(each.days),
            }
            for each in found.types
        ],
        "days": _day_records(found.days),
        "failed": [
            {
                "session_id": each.session_id,
                "agent_id": each.agent_id,
                "agent_type": each.agent_type,
                "at": iso_time(each.ended_at),
                **verdict_fields(each.compliance),
                **verdict_reason_fields(each.compliance),
            }
            for each in found.noncompliant
        ],
        "reviewed": [
            {
                "session_id": each.session_id,
                "agent_id": each.agent_id,
                "agent_type": each.agent_type,
                "at": iso_time(each.at),
                **asdict(each.finding),
            }
            for each in found.findings
        ],
        "too_wide": [
            {"session_id": each.session_id, "agent_id": each.agent_id}
            for each in found.oversized_reviews
        ],
    }


def _day_records(days: Iterable[ComplianceDay]) -> list[Record]:
    return [
        {"day": (iso_time(each.at) or "")[:10], **_score_fields(each.score, each.cost)}
        for each in days
    ]


def _score_fields(score: ComplianceScore, cost: ComplianceCost) -> Record:
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
