"""Compliance in words: verdicts' names, meanings and signs; reviewers' findings as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...core.model.findings import (
    FAILED_VERDICTS,
    PASSED_VERDICTS,
    ComplianceVerdict,
    finding_labels,
)
from ...core.model.result_formats import ResultFormat
from ...core.transcript.sanitize import one_line
from .formats import date_time, tokens
from .tables import code_span, escape_links

if TYPE_CHECKING:
    from ...core.compliance.agent_compliance import (
        AgentTypeCompliance,
        GroupedFinding,
        SeverityFindings,
    )
    from ...core.compliance.agent_inventory import DefinedAgent, ForceHook
    from ...core.compliance.run_verdict import ComplianceCost
    from ...core.model.findings import RunVerdict


# The name, the meaning and the sign of each verdict.
_VERDICTS: Final = {
    ComplianceVerdict.COMPLIANT: ("compliant", "its final message follows the skill", "✓"),
    ComplianceVerdict.NON_COMPLIANT: (
        "noncompliant",
        "its final message does not follow the skill",
        "✗",
    ),
    ComplianceVerdict.FORCED: ("forced", "its final message follows the skill, after a block", "✓"),
    ComplianceVerdict.EXHAUSTED: (
        "exhausted",
        "it was blocked once and still does not follow the skill",
        "✗",
    ),
    ComplianceVerdict.CLOBBERED: (
        "clobbered",
        "an earlier message followed the skill, and the final one replaced it",
        "✗",
    ),
    ComplianceVerdict.NOT_REQUIRED: (
        "not required",
        "no skill asks it to compress its result",
        " ",
    ),
    ComplianceVerdict.UNKNOWN: (
        "not checked",
        "there is no final message to check yet",
        " ",
    ),
}
VERDICT_NAMES: Final = {verdict: name for verdict, (name, _, _) in _VERDICTS.items()}
VERDICT_SIGNS: Final = {verdict: sign for verdict, (_, _, sign) in _VERDICTS.items()}


def verdict_meaning(run: RunVerdict) -> str:
    if run.verdict in PASSED_VERDICTS and run.judgment.verdict in FAILED_VERDICTS:
        # In the mode whole_transcript.
        return "one of its answers has the marker; its final message does not follow the skill"
    return _VERDICTS[run.verdict][1]


def force_hook_text(hooks: Sequence[ForceHook]) -> str:
    """Name the files that install a hook that enforces compressed results, if any do."""
    if not hooks:
        return "no force hook is installed: nothing enforces compressed results"
    places = ", ".join(dict.fromkeys(one_line(each.path) for each in hooks))
    if len({each.command for each in hooks}) > 1:
        return f"{len(hooks)} force hooks, each of which blocks an agent: keep one: {places}"
    return f"force hook in {places}"


def drift_text(found: AgentTypeCompliance) -> str:
    """Describe how a type's definition differs from the settings' rule; empty if it does not."""
    if found.drift is None:
        return ""
    declared = ", ".join(sorted({each.expected.value for each in found.definitions}))
    return f"compliance.rules says {found.drift.value}, its definition {declared or 'nothing'}"


def expected_text(found: AgentTypeCompliance) -> str:
    """Name the formats expected of a type, and how long its results may be; empty if none is."""
    formats = ", ".join(each.value for each in found.formats if each is not ResultFormat.NONE)
    return f"{formats}, at most {found.line_limit} lines" if formats else ""


def model_text(found: AgentTypeCompliance) -> str:
    """Name the models that a type is defined with; empty for those of their sessions."""
    models = dict.fromkeys(each.model for each in found.definitions if each.model)
    return one_line(", ".join(models))


def definition_problem(agent: DefinedAgent) -> str:
    """Describe the problem of a definition; empty if there is none."""
    if agent.problem:
        return agent.problem
    missing = ", ".join(agent.missing_skills)
    return f"declares {missing}, which no SKILL.md defines" if missing else ""


def short_verdict(run: RunVerdict | None) -> str:
    """Shorten a verdict for a table row; empty if no verdict applies.

    A failure names its first violation (`V01`), a compliant review its own verdict (`PASS`).
    """
    if run is None or not VERDICT_SIGNS[run.verdict].strip():
        return ""
    if run.verdict is ComplianceVerdict.COMPLIANT:
        return _review_verdict(run)
    if run.verdict not in FAILED_VERDICTS or run.verdict is ComplianceVerdict.CLOBBERED:
        return VERDICT_NAMES[run.verdict]
    codes = finding_labels(run.violations)
    more = f"+{len(codes) - 1}" if len(codes) > 1 else ""
    prefix = "exhausted " if run.verdict is ComplianceVerdict.EXHAUSTED else ""
    return f"{prefix}{codes[0].partition(':')[0]}{more}"


def _review_verdict(run: RunVerdict) -> str:
    passes, findings = run.judgment.review_passes, run.judgment.review_findings
    if passes is None:
        return ""
    critical, warning = (
        sum(each.severity == severity for each in findings) for severity in ("critical", "warning")
    )
    return "PASS" if passes else f"FAIL {critical}/{warning}"


def reviewers_text(finding: GroupedFinding) -> str:
    newest, *others = finding.reviews
    return f"{newest.agent_type} +{len(others)}" if others else newest.agent_type


def excess_text(cost: ComplianceCost) -> str:
    """Write the tokens that compliance would have saved, empty if none."""
    return f"≈{tokens(cost.excess_tokens)}" if cost.excess_tokens else ""


def findings_markdown(groups: Iterable[SeverityFindings]) -> str:
    """Write a document of all findings; empty if there are none."""
    lines = [line for group in groups for line in _severity_section(group)]
    return "\n".join(["# Findings of reviewers", *lines, ""]) if lines else ""


def finding_markdown(finding: GroupedFinding) -> str:
    severity, place = finding.finding.severity, code_span(finding.location)
    return f"- **{severity}** {place}: {_text_and_reviewers(finding)}"


def _severity_section(group: SeverityFindings) -> Iterator[str]:
    yield from ("", f"## {escape_links(group.severity).capitalize()} ({group.count})")
    for file in group.files:
        where = f" in {escape_links(file.project)}" if file.project else ""
        yield from ("", f"### {code_span(file.path)}{where}", "")
        for finding in file.findings:
            place = finding.location.removeprefix(finding.finding.path).removeprefix(":")
            yield f"- **{place}** {_text_and_reviewers(finding)}"


def _text_and_reviewers(finding: GroupedFinding) -> str:
    reviewers = "; ".join(
        f"{escape_links(each.agent_type)}, {date_time(each.at)}" for each in finding.reviews
    )
    return f"{escape_links(finding.finding.text)} _({reviewers})_"
