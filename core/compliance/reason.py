"""What an agent is told whose result does not comply: which rules, and what is missing."""

from __future__ import annotations

from .codes import Code, Format
from .lines import MARKER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from .findings import Finding, Judgement, Limits

MOST_NAMED: Final = 3
"""Findings in words: with a head and what to do they make five lines."""

QUOTED_CHARS: Final = 60
"""Of an offending line."""

_SKILL: Final = {Format.OUTPUT: "compress-output", Format.REVIEW: "compress-review"}
_FIELDS: Final = {
    Format.OUTPUT: "`Changed files:`, `Result:`; `Decisions:` and `Blockers:` only if any",
    Format.REVIEW: "`Files reviewed:`, one `Critical:`/`Warning:`/`Suggestion: file:line — text`"
    " a finding, `Verdict: PASS` or `Verdict: FAIL (N critical, N warnings)`",
}

_WORDED: Final = "COMPRESSED in square brackets"
"""The marker itself would make every later grep over the transcript pass (R000-01)."""


def reason(judged: Judgement, expected: Format, agent_type: str, limits: Limits) -> str:
    """Say in at most five lines why a result was not taken, never with the marker itself."""
    most = limits.output_lines if expected is Format.OUTPUT else limits.review_lines
    named = judged.violations[:MOST_NAMED]
    more = len(judged.violations) - len(named)
    head = f"Your result does not follow the skill {_SKILL[expected]}:"
    lines = [head, *(_worded(each, judged, limits, expected) for each in named)]
    if more:
        lines[-1] += f" And {more} more."
    lines.append(
        f"Return ONLY the result again, in at most {most} lines: first line {_WORDED}, then"
        f" ` agent_type: {agent_type}`; then {_FIELDS[expected]}."
    )
    return "\n".join(lines).replace(MARKER, "the marker")


def _worded(found: Finding, judged: Judgement, limits: Limits, expected: Format) -> str:
    said = f"- {found.label}: {found.sentence}"
    if found.code is Code.LINE_LIMIT:
        most = limits.output_lines if expected is Format.OUTPUT else limits.review_lines
        return f"{said} {judged.lines} lines, {most} allowed."
    if found.code in {Code.MARKER_MISSING, Code.FIELD_MISSING}:
        return said
    quoted = found.text.strip()
    short = quoted if len(quoted) <= QUOTED_CHARS else f"{quoted[:QUOTED_CHARS]}…"
    return f"{said} Line {found.line}: {short}"
