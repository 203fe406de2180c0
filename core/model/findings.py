"""The vocabulary of compliance: what is expected, the text that is judged, verdicts, findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .result_formats import COMPRESSED_MARKER, ResultFormat

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Final, Self


class ComplianceVerdict(StrEnum):
    """The verdict on an agent's result (requirements 3.0.3 and 2.2.3)."""

    COMPLIANT = "compliant"
    NON_COMPLIANT = "non_compliant"
    FORCED = "forced"  # compliant, but only after a block (000-23)
    EXHAUSTED = "exhausted"  # stopped with `stop_hook_active`, and still not compliant (000-15)
    CLOBBERED = "clobbered"  # it had complied, and its last message lacks the marker (2.2.3, V16)
    NOT_REQUIRED = "not_required"  # no compression is expected of it (T-25)
    UNKNOWN = "unknown"  # there is no final message to judge


FAILED_VERDICTS: Final = frozenset(
    {ComplianceVerdict.NON_COMPLIANT, ComplianceVerdict.EXHAUSTED, ComplianceVerdict.CLOBBERED}
)
PASSED_VERDICTS: Final = frozenset({ComplianceVerdict.COMPLIANT, ComplianceVerdict.FORCED})


class FindingCode(StrEnum):
    """Violations (V) make a text non-compliant, warnings (W) do not (requirements 3.0.3).

    No sentence contains the marker itself (R000-01).
    """

    sentence: str

    def __new__(cls, value: str, sentence: str = "") -> Self:
        code = str.__new__(cls, value)
        code._value_, code.sentence = value, sentence
        return code

    MARKER_MISSING = "V01", "No line starts with the marker."
    TEXT_BEFORE_MARKER = "V02", "There is text before the line with the marker."
    AGENT_TYPE_MISSING = "V03", "The line with the marker does not name the agent's type."
    AGENT_TYPE_MISMATCH = "V04", "The line with the marker does not name this agent's type."
    LINE_LIMIT = "V05", "It has more lines than allowed."
    FIELD_MISSING = "V06", "A required field is missing or empty."
    RESULT_TOO_LONG = "V07", "The field Result has more lines than allowed."
    CODE_BLOCK = "V08", "It contains a code block; name files instead."
    MARKDOWN_HEADER = "V09", "It contains a Markdown header."
    PLEASANTRY = "V10", "It starts or ends with a filler phrase."
    UNKNOWN_BLOCK = "V11", "A field appears twice, or a line belongs to no field."
    VERDICT_MALFORMED = "V12", "The verdict is not PASS or FAIL (counts) in the last line."
    VERDICT_INCONSISTENT = "V13", "The verdict does not agree with the findings listed."
    FINDING_FORMAT = "V14", "A finding is not `file:line — description`."
    WRONG_FORMAT = "V15", "It uses the other format: a review instead of an output, or the reverse."
    CLOBBERED = "V16", "An earlier message complied; the final one replaced it."
    EMPTY_FIELD = "W01", "An optional field is empty; leave it out."
    LONG = "W02", "It is long for its number of lines."
    LEGACY_KOREAN = "W03", "Its fields have the Korean names of an earlier skill."
    DOCS_MARKDOWN = "W04", "It follows the guide's Markdown variant, not the skill."
    FIELD_ORDER = "W05", "Its fields are not in the skill's order."
    REVIEW_SCOPE = "W06", "More files were reviewed than one review can cover well."

    @property
    def is_violation(self) -> bool:
        return self.value.startswith("V")


MAX_RESULT_LINES: Final = 2000  # that are read; longer texts have failed, but are counted whole
MAX_SHOWN_LINE_CHARS: Final = 200  # of an offending line


@dataclass(frozen=True, slots=True)
class ResultLine:
    number: int  # in the original text, from 1
    text: str  # without trailing spaces


@dataclass(frozen=True, slots=True)
class ResultText:
    """A text without the blank lines around it."""

    lines: tuple[ResultLine, ...]  # the first MAX_RESULT_LINES, or those from the marker on
    first: ResultLine
    last: ResultLine
    count: int  # of all lines, blank ones inside included
    chars: int


def read_result_text(text: str) -> ResultText | None:
    """Normalize CRLF, trailing spaces and blank lines around (requirements 3); None if blank.

    Takes time in proportion to the text's length, and memory for MAX_RESULT_LINES lines.
    """
    text = text.replace("\r\n", "\n")
    stripped = text.rstrip()
    if not stripped:
        return None
    begin = stripped.rfind("\n", 0, len(stripped) - len(stripped.lstrip())) + 1
    number = stripped.count("\n", 0, begin) + 1
    count = stripped.count("\n", begin) + 1
    lines = _split_lines(stripped, begin, number)
    last = ResultLine(number + count - 1, stripped[stripped.rfind("\n") + 1 :])
    first = lines[0]
    if count > MAX_RESULT_LINES:
        chars = len(stripped) - begin
        marker = stripped.find(f"\n{COMPRESSED_MARKER}", begin) + 1
        if marker and stripped.count("\n", begin, marker) >= MAX_RESULT_LINES:
            lines = _split_lines(stripped, marker, stripped.count("\n", 0, marker) + 1)
    else:
        chars = sum(len(line.text) + 1 for line in lines) - 1
    return ResultText(tuple(lines), first, last, count, chars)


def _split_lines(text: str, begin: int, number: int) -> list[ResultLine]:
    lines = text[begin:].split("\n", MAX_RESULT_LINES)[:MAX_RESULT_LINES]
    return [ResultLine(place, line.rstrip()) for place, line in enumerate(lines, number)]


@dataclass(frozen=True, slots=True)
class ComplianceFinding:
    code: FindingCode
    line: int  # from 1, in the original text
    text: str  # the offending line, cut
    field: str = ""  # the name of a missing field

    @property
    def label(self) -> str:
        """The code as programs read it: `V06:Result`, `V05`."""
        return f"{self.code.value}:{self.field}" if self.field else self.code.value

    @property
    def sentence(self) -> str:
        if self.field:
            return f"The field {self.field} is missing or empty."
        return self.code.sentence


@dataclass(frozen=True, slots=True)
class ReviewFinding:
    severity: str  # critical, warning or suggestion
    path: str
    line: int
    last_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Judgment:
    """The verdict on one text by itself."""

    verdict: ComplianceVerdict
    violations: tuple[ComplianceFinding, ...] = ()
    warnings: tuple[ComplianceFinding, ...] = ()
    lines: int = 0
    chars: int = 0
    review_findings: tuple[ReviewFinding, ...] = ()
    reviewed_files: int = 0  # number of files that a review lists as reviewed
    review_passes: bool | None = None  # the review's own verdict: True is PASS


BLANK_RESULT: Final = Judgment(ComplianceVerdict.UNKNOWN)


def make_finding(code: FindingCode, line: ResultLine, field: str = "") -> ComplianceFinding:
    is_long = len(line.text) > MAX_SHOWN_LINE_CHARS
    text = f"{line.text[:MAX_SHOWN_LINE_CHARS]}…" if is_long else line.text
    return ComplianceFinding(code, line.number, text, field)


def finding_labels(findings: tuple[ComplianceFinding, ...]) -> list[str]:
    return sorted({finding.label for finding in findings})


class MarkerLocation(StrEnum):
    """Where a marker was found, the best place first (R000-01)."""

    FINAL_ASSISTANT = "final_assistant"
    EARLIER_ASSISTANT = "earlier_assistant"
    TASK_PROMPT = "task_prompt"
    HOOK_FEEDBACK = "hook_feedback"
    TOOL_RESULT = "tool_result"
    SKILL_TEXT = "skill_text"
    INJECTED_CONTEXT = "injected_context"
    OTHER = "other"
    REQUEST_COPY = "request_copy"


MAX_STOPS: Final = 2  # SubagentStops of one run: the first, and the one after a block (000-19)


@dataclass(frozen=True, slots=True)
class RunVerdict:
    verdict: ComplianceVerdict
    expected: ExpectedFormat
    judgment: Judgment  # of the final message alone
    violations: tuple[ComplianceFinding, ...] = ()
    warnings: tuple[ComplianceFinding, ...] = ()
    marker_location: MarkerLocation | None = None
    grep_passes: bool | None = None  # at the first stop; None without a transcript
    blocked: bool | None = None  # None without a transcript or a record
    stops: int = 0  # SubagentStop records of the run
    retry_tokens: int = 0  # spent by the requests that a block made necessary (000-23)
    replaced_result: str | None = None  # the last compliant message of a clobbered run

    @property
    def failed(self) -> bool:
        return self.verdict in FAILED_VERDICTS

    @property
    def refires(self) -> int:
        """How often the agent stopped beyond what a single block explains (000-19)."""
        return max(0, self.stops - MAX_STOPS)

    @property
    def grep_was_wrong(self) -> bool:
        """A grep would have passed a final message that does not comply (000-51, T-07)."""
        return self.grep_passes is True and self.failed


class ExpectationSource(StrEnum):
    PRELOADED = "preloaded"  # the transcript shows that the agent was given the skill at its start
    DECLARED = "declared"  # the agent's definition, as it is now
    PROMPT = "prompt"
    RULE = "rule"  # the policy, by the agent's type
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ExpectedFormat:
    format: ResultFormat
    source: ExpectationSource
    policy_format: ResultFormat = ResultFormat.NONE  # by the policy's rules for the agent's type

    @property
    def differs_from_policy(self) -> bool:
        """The policy's rules say something else than what is expected (000-40)."""
        return self.policy_format not in {ResultFormat.NONE, self.format}
