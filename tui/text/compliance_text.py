"""Compliance in words: verdicts' names, meanings and signs; reviewers' findings as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ...core.compliance.findings import FAILED_VERDICTS, ComplianceVerdict, finding_labels
from ..tables import code_span, escape_links
from .formats import date_time, tokens

if TYPE_CHECKING:
    from ...core.compliance.run_verdict import ComplianceCost, RunVerdict
    from ...core.measure.agent_compliance import FileFindings, GroupedFinding, SeverityFindings


VERDICT_NAMES: Final = {
    ComplianceVerdict.COMPLIANT: "compliant",
    ComplianceVerdict.NON_COMPLIANT: "not compliant",
    ComplianceVerdict.FORCED: "forced",
    ComplianceVerdict.EXHAUSTED: "exhausted",
    ComplianceVerdict.CLOBBERED: "clobbered",
    ComplianceVerdict.NOT_REQUIRED: "not required",
    ComplianceVerdict.UNKNOWN: "not judged",
}

VERDICT_MEANINGS: Final = {
    ComplianceVerdict.COMPLIANT: "its final message follows the skill",
    ComplianceVerdict.NON_COMPLIANT: "its final message does not follow the skill",
    ComplianceVerdict.FORCED: "its final message follows the skill, after a block",
    ComplianceVerdict.EXHAUSTED: "it was blocked once, and still does not follow the skill",
    ComplianceVerdict.CLOBBERED: (
        "an earlier message followed the skill, and the final one replaced it"
    ),
    ComplianceVerdict.NOT_REQUIRED: "no skill asks it to compress its result",
    ComplianceVerdict.UNKNOWN: "it left no final message yet that could be judged",
}

VERDICT_SIGNS: Final = {
    ComplianceVerdict.COMPLIANT: "✓",
    ComplianceVerdict.FORCED: "✓",
    ComplianceVerdict.NON_COMPLIANT: "✗",
    ComplianceVerdict.EXHAUSTED: "✗",
    ComplianceVerdict.CLOBBERED: "✗",
    ComplianceVerdict.NOT_REQUIRED: " ",
    ComplianceVerdict.UNKNOWN: " ",
}


def agent_count(agents: int, failed: int | None) -> str:
    """Count a session's agents, and those that did not comply: `4 ✗1`."""
    if not agents:
        return ""
    return f"{agents} ✗{failed}" if failed else str(agents)


def short_verdict(ruling: RunVerdict | None) -> str:
    """Shorten a verdict for a table row; empty if no verdict applies.

    A failure names its first violation (`V01`), a compliant review its own verdict (`PASS`).
    """
    if ruling is None or not VERDICT_SIGNS[ruling.verdict].strip():
        return ""
    if ruling.verdict is ComplianceVerdict.CLOBBERED:
        return VERDICT_NAMES[ruling.verdict]
    if ruling.verdict in FAILED_VERDICTS:
        codes = finding_labels(ruling.violations)
        more = f"+{len(codes) - 1}" if len(codes) > 1 else ""
        return f"{_FAILURE_PREFIXES[ruling.verdict]} {codes[0].partition(':')[0]}{more}".strip()
    if (review := review_verdict(ruling)) and ruling.verdict is ComplianceVerdict.COMPLIANT:
        return review
    return "" if ruling.verdict is ComplianceVerdict.COMPLIANT else VERDICT_NAMES[ruling.verdict]


_FAILURE_PREFIXES: Final = {
    ComplianceVerdict.NON_COMPLIANT: "",
    ComplianceVerdict.EXHAUSTED: "exhausted",
}


def review_verdict(ruling: RunVerdict) -> str:
    """Write a review's own verdict: PASS, or FAIL with critical and warning findings."""
    judged = ruling.judgement
    if judged.review_passes is None:
        return ""
    if judged.review_passes:
        return "PASS"
    counts = [
        sum(each.severity == name for each in judged.review_findings)
        for name in _COUNTED_SEVERITIES
    ]
    return "FAIL {}/{}".format(*counts)


_COUNTED_SEVERITIES: Final = ("critical", "warning")


def reviewers_text(found: GroupedFinding) -> str:
    """Name who said it last, and count the others."""
    newest, *others = found.reviews
    return f"{newest.agent_type} +{len(others)}" if others else newest.agent_type


def excess_text(cost: ComplianceCost) -> str:
    """Write the tokens that compliance would have saved, empty if none."""
    return f"≈{tokens(cost.excess_tokens)}" if cost.excess_tokens else ""


FINDINGS_TITLE: Final = "Findings of reviewers"


def findings_markdown(groups: Iterable[SeverityFindings]) -> str:
    """Write groups as a document; empty where there are none."""
    lines = [line for group in groups for line in _severity_section(group)]
    return "\n".join([f"# {FINDINGS_TITLE}", *lines, ""]) if lines else ""


def finding_markdown(found: GroupedFinding) -> str:
    """Write one thing as a line that stands for itself."""
    return (
        f"- **{found.finding.severity}** {code_span(found.location)}: {_text_and_reviewers(found)}"
    )


def _severity_section(group: SeverityFindings) -> Iterator[str]:
    yield from ("", f"## {escape_links(group.severity).capitalize()} ({group.count})")
    for each in group.files:
        yield from _file_section(each)


def _file_section(each: FileFindings) -> Iterator[str]:
    where = f" in {escape_links(each.project)}" if each.project else ""
    yield from ("", f"### {code_span(each.path)}{where}", "")
    for found in each.findings:
        place = found.location.removeprefix(found.finding.path).removeprefix(":")
        yield f"- **{place}** {_text_and_reviewers(found)}"


def _text_and_reviewers(found: GroupedFinding) -> str:
    who = "; ".join(
        f"{escape_links(each.agent_type)}, {date_time(each.at)}" for each in found.reviews
    )
    return f"{escape_links(found.finding.text)} _({who})_"
