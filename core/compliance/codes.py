"""The result formats, the verdicts, and every violation and warning with its sentence."""

from __future__ import annotations

from enum import StrEnum

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Final


class ResultFormat(StrEnum):
    """What an agent is expected to return, and how."""

    OUTPUT = "output"
    """By the skill compress-output (requirements 3.0.1)."""
    REVIEW = "review"
    """By the skill compress-review (requirements 3.0.2)."""
    NONE = "none"


class ComplianceVerdict(StrEnum):
    """What is said of an agent's result (requirements 3.0.3 and 2.2.3)."""

    COMPLIANT = "compliant"
    NON_COMPLIANT = "non_compliant"
    FORCED = "forced"
    """Compliant, but only after a block (000-23)."""
    EXHAUSTED = "exhausted"
    """Let go with `stop_hook_active`, although it still did not comply (000-15)."""
    CLOBBERED = "clobbered"
    """It had complied, and its last words lack the marker (2.2.3, V16)."""
    NOT_REQUIRED = "not_required"
    """No compression is expected of it (T-25)."""
    UNKNOWN = "unknown"
    """There is no final message that could be judged."""


FAILED_VERDICTS: Final = frozenset(
    {ComplianceVerdict.NON_COMPLIANT, ComplianceVerdict.EXHAUSTED, ComplianceVerdict.CLOBBERED}
)
"""Verdicts of agents that did not comply."""

PASSED_VERDICTS: Final = frozenset({ComplianceVerdict.COMPLIANT, ComplianceVerdict.FORCED})
"""Verdicts of agents whose parent got what was expected."""


class FindingCode(StrEnum):
    """Violations (V) make a text non-compliant, warnings (W) do not (requirements 3.0.3)."""

    MARKER_MISSING = "V01"
    TEXT_BEFORE_MARKER = "V02"
    AGENT_TYPE_MISSING = "V03"
    AGENT_TYPE_MISMATCH = "V04"
    LINE_LIMIT = "V05"
    FIELD_MISSING = "V06"
    RESULT_TOO_LONG = "V07"
    CODE_BLOCK = "V08"
    MARKDOWN_HEADER = "V09"
    PLEASANTRY = "V10"
    UNKNOWN_BLOCK = "V11"
    VERDICT_MALFORMED = "V12"
    VERDICT_INCONSISTENT = "V13"
    FINDING_FORMAT = "V14"
    WRONG_FORMAT = "V15"
    CLOBBERED = "V16"
    EMPTY_FIELD = "W01"
    LONG = "W02"
    LEGACY_KOREAN = "W03"
    DOCS_MARKDOWN = "W04"
    FIELD_ORDER = "W05"
    REVIEW_SCOPE = "W06"

    @property
    def is_violation(self) -> bool:
        return self.value.startswith("V")


CODE_SENTENCES: Final = {
    FindingCode.MARKER_MISSING: "No line begins with the marker.",
    FindingCode.TEXT_BEFORE_MARKER: "There is text before the line with the marker.",
    FindingCode.AGENT_TYPE_MISSING: "The line with the marker does not name the agent's type.",
    FindingCode.AGENT_TYPE_MISMATCH: (
        "The line with the marker names another type than the agent has."
    ),
    FindingCode.LINE_LIMIT: "It has more lines than allowed.",
    FindingCode.FIELD_MISSING: "A field that must be there is not, or is empty.",
    FindingCode.RESULT_TOO_LONG: "The field Result has more lines than allowed.",
    FindingCode.CODE_BLOCK: "It holds a block of code; name files instead.",
    FindingCode.MARKDOWN_HEADER: "It holds a Markdown header.",
    FindingCode.PLEASANTRY: "It begins or ends with a phrase that says nothing.",
    FindingCode.UNKNOWN_BLOCK: "A field stands there twice, or a line belongs to no field.",
    FindingCode.VERDICT_MALFORMED: "The verdict is not PASS or FAIL (counts) in the last line.",
    FindingCode.VERDICT_INCONSISTENT: "The verdict does not agree with the findings listed.",
    FindingCode.FINDING_FORMAT: "A finding is not `file:line — description`.",
    FindingCode.WRONG_FORMAT: "It is in the other format: a review for an output, or the reverse.",
    FindingCode.CLOBBERED: "An earlier message complied; the final one replaced it.",
    FindingCode.EMPTY_FIELD: "An optional field says nothing; leave it out.",
    FindingCode.LONG: "It is longer than its lines should make.",
    FindingCode.LEGACY_KOREAN: "Its fields have the Korean names of an earlier skill.",
    FindingCode.DOCS_MARKDOWN: "It follows the guide's Markdown variant, not the skill.",
    FindingCode.FIELD_ORDER: "Its fields stand in another order than the skill's.",
    FindingCode.REVIEW_SCOPE: "More files were reviewed than one review holds well.",
}
"""One sentence a code; none of them holds the marker itself (R000-01)."""
