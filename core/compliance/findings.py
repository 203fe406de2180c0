"""The result formats and violations, and what is wrong with the text that an agent returned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Final


class ResultFormat(StrEnum):
    """What an agent is expected to return, and how."""

    OUTPUT = "output"  # by the skill compress-output (requirements 3.0.1)
    REVIEW = "review"  # by the skill compress-review (requirements 3.0.2)
    NONE = "none"


class ComplianceVerdict(StrEnum):
    """What is said of an agent's result (requirements 3.0.3 and 2.2.3)."""

    COMPLIANT = "compliant"
    NON_COMPLIANT = "non_compliant"
    FORCED = "forced"  # compliant, but only after a block (000-23)
    EXHAUSTED = "exhausted"
    """Stopped with `stop_hook_active` set although it still did not comply (000-15)."""
    CLOBBERED = "clobbered"  # it had complied, and its last words lack the marker (2.2.3, V16)
    NOT_REQUIRED = "not_required"  # no compression is expected of it (T-25)
    UNKNOWN = "unknown"  # there is no final message that could be judged


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


COMPRESSED_MARKER: Final = "[COMPRESSED]"
"""Begins a compressed result; case counts (requirements 3)."""

MAX_RESULT_LINES: Final = 2000
"""Read of one text; longer ones have failed by their lines alone, and are still counted whole."""

MAX_SHOWN_LINE_CHARS: Final = 200  # of an offending line


@dataclass(frozen=True, slots=True)
class ResultLine:
    """A line without its trailing spaces, and its number in the text as it was given."""

    number: int
    text: str

    @property
    def excerpt(self) -> str:
        """As much of it as a person needs to find it."""
        return (
            self.text
            if len(self.text) <= MAX_SHOWN_LINE_CHARS
            else f"{self.text[:MAX_SHOWN_LINE_CHARS]}…"
        )


@dataclass(frozen=True, slots=True)
class ResultText:
    """A text without blank lines around it."""

    lines: tuple[ResultLine, ...]
    """The first of them; from the marker on, where that stands further below."""
    first: ResultLine
    last: ResultLine
    count: int  # physical lines, blank ones inside included
    chars: int


def read_result_text(text: str) -> ResultText | None:
    """Normalise a text (requirements 3): CRLF, trailing spaces, blank lines around; None if blank.

    Takes time in proportion to the text's length, and memory for MAX_RESULT_LINES lines.
    """
    text = text.replace("\r\n", "\n")
    stripped = text.rstrip()
    if not stripped:
        return None
    begin = stripped.rfind("\n", 0, len(stripped) - len(stripped.lstrip())) + 1
    number = stripped.count("\n", 0, begin) + 1
    count = stripped.count("\n", begin) + 1
    lines = _lines(stripped, begin, number)
    last_begin = stripped.rfind("\n") + 1
    last = ResultLine(number + count - 1, stripped[last_begin:])
    first = lines[0]
    if count > MAX_RESULT_LINES:
        chars = len(stripped) - begin
        marker = stripped.find(f"\n{COMPRESSED_MARKER}", begin) + 1
        # The marker may stand below what is read of the beginning.
        if marker and stripped.count("\n", begin, marker) >= MAX_RESULT_LINES:
            lines = _lines(stripped, marker, stripped.count("\n", 0, marker) + 1)
    else:
        chars = sum(len(line.text) + 1 for line in lines) - 1
    return ResultText(tuple(lines), first, last, count, chars)


def _lines(text: str, begin: int, number: int) -> list[ResultLine]:
    found: list[ResultLine] = []
    while begin <= len(text) and len(found) < MAX_RESULT_LINES:
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        found.append(ResultLine(number + len(found), text[begin:end].rstrip()))
        begin = end + 1
    return found


@dataclass(frozen=True, slots=True)
class ResultLimits:
    """What a text is measured by; the defaults are requirements 2.2 and 000-50."""

    output_lines: int = 10
    review_lines: int = 20
    result_lines: int = 3
    soft_chars: int = 1000
    review_files: int = 7


DEFAULT_RESULT_LIMITS: Final = ResultLimits()  # where nobody said anything else


@dataclass(frozen=True, slots=True)
class ComplianceFinding:
    """One violation or warning, and the line that shows it."""

    code: FindingCode
    line: int  # from 1, in the text as it was given
    text: str  # the offending line, cut
    field: str = ""  # of a missing field, its name

    @property
    def label(self) -> str:
        """The code as programs read it: `V06:Result`, `V05`."""
        return f"{self.code.value}:{self.field}" if self.field else self.code.value

    @property
    def sentence(self) -> str:
        """What is wrong, in words."""
        said = CODE_SENTENCES[self.code]
        return f"The field {self.field} is missing or empty." if self.field else said


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    """One thing that a reviewer found."""

    severity: str  # critical, warning or suggestion
    path: str
    line: int
    last_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one text, by that text alone."""

    verdict: ComplianceVerdict
    violations: tuple[ComplianceFinding, ...] = ()
    warnings: tuple[ComplianceFinding, ...] = ()
    lines: int = 0
    chars: int = 0
    has_marker: bool = False  # the text holds the marker anywhere: what a grep looks for
    review_findings: tuple[ReviewFinding, ...] = ()
    reviewed_files: int = 0  # files that a review names as reviewed
    review_passes: bool | None = None  # what a review's own verdict says: True is PASS


BLANK_RESULT: Final = Judgement(ComplianceVerdict.UNKNOWN)  # there is nothing to judge


def make_finding(code: FindingCode, line: ResultLine, field: str = "") -> ComplianceFinding:
    """Make a finding of a line."""
    return ComplianceFinding(code, line.number, line.excerpt, field)


def finding_labels(findings: tuple[ComplianceFinding, ...]) -> list[str]:
    """Name codes as programs read them, each once, in their order."""
    return sorted({finding.label for finding in findings})
