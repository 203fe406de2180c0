"""How a verdict is written: a sign, a word, a colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.compliance.codes import FAILED, Verdict
from ..core.compliance.findings import labels

if TYPE_CHECKING:
    from ..core.compliance.states import Ruling

WORDS: Final = {
    Verdict.COMPLIANT: "compliant",
    Verdict.NON_COMPLIANT: "not compliant",
    Verdict.FORCED: "forced",
    Verdict.EXHAUSTED: "exhausted",
    Verdict.CLOBBERED: "clobbered",
    Verdict.NOT_REQUIRED: "not required",
    Verdict.UNKNOWN: "not judged",
}

MEANINGS: Final = {
    Verdict.COMPLIANT: "its final message follows the skill",
    Verdict.NON_COMPLIANT: "its final message does not follow the skill",
    Verdict.FORCED: "its final message follows the skill, after a block",
    Verdict.EXHAUSTED: "it was blocked once, and still does not follow the skill",
    Verdict.CLOBBERED: "an earlier message followed the skill, and the final one replaced it",
    Verdict.NOT_REQUIRED: "no skill asks it to compress its result",
    Verdict.UNKNOWN: "it left no final message yet that could be judged",
}

SIGNS: Final = {
    Verdict.COMPLIANT: "✓",
    Verdict.FORCED: "✓",
    Verdict.NON_COMPLIANT: "✗",
    Verdict.EXHAUSTED: "✗",
    Verdict.CLOBBERED: "✗",
    Verdict.NOT_REQUIRED: " ",
    Verdict.UNKNOWN: " ",
}


def agent_count(agents: int, failed: int | None) -> str:
    """Count a session's agents, and those that did not comply: `4 ✗1`."""
    if not agents:
        return ""
    return f"{agents} ✗{failed}" if failed else str(agents)


def short_verdict(ruling: Ruling | None) -> str:
    """Say a verdict in a row: nothing where nothing is asked; of a review its own verdict too.

    A failure names its first violation: `not compliant V01`.
    """
    if ruling is None or not SIGNS[ruling.verdict].strip():
        return ""
    if ruling.verdict is Verdict.CLOBBERED:
        return WORDS[ruling.verdict]
    if ruling.verdict in FAILED:
        codes = labels(ruling.violations)
        more = f"+{len(codes) - 1}" if len(codes) > 1 else ""
        return f"{_FAILED[ruling.verdict]} {codes[0].partition(':')[0]}{more}".strip()
    if (review := review_verdict(ruling)) and ruling.verdict is Verdict.COMPLIANT:
        return review
    return "" if ruling.verdict is Verdict.COMPLIANT else WORDS[ruling.verdict]


_FAILED: Final = {
    Verdict.NON_COMPLIANT: "",
    Verdict.EXHAUSTED: "exhausted",
}


def review_verdict(ruling: Ruling) -> str:
    """Write a review's own verdict: PASS, or FAIL with critical and warning findings."""
    judged = ruling.judgement
    if judged.review_passes is None:
        return ""
    if judged.review_passes:
        return "PASS"
    counts = [sum(each.severity == name for each in judged.review_findings) for name in _COUNTED]
    return "FAIL {}/{}".format(*counts)


_COUNTED: Final = ("critical", "warning")
