"""A returned text as numbered lines, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from .codes import CODE_SENTENCES, ComplianceVerdict

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Final

    from .codes import FindingCode


COMPRESSED_MARKER: Final = "[COMPRESSED]"
"""Begins a compressed result; case counts (requirements 3)."""

MAX_RESULT_LINES: Final = 2000
"""Read of one text; longer ones have failed by their lines alone, and are still counted whole."""

MAX_SHOWN_LINE_CHARS: Final = 200
"""Of an offending line."""


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
    count: int
    """Physical lines, blank ones inside included."""
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


DEFAULT_RESULT_LIMITS: Final = ResultLimits()
"""Where nobody said anything else."""


@dataclass(frozen=True, slots=True)
class ComplianceFinding:
    """One violation or warning, and the line that shows it."""

    code: FindingCode
    line: int
    """From 1, in the text as it was given."""
    text: str
    """The offending line, cut."""
    field: str = ""
    """Of a missing field, its name."""

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

    severity: str
    """critical, warning or suggestion."""
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
    has_marker: bool = False
    """The text holds the marker anywhere: what a grep looks for."""
    review_findings: tuple[ReviewFinding, ...] = ()
    reviewed_files: int = 0
    """Files that a review names as reviewed."""
    review_passes: bool | None = None
    """What a review's own verdict says: True is PASS."""


BLANK_RESULT: Final = Judgement(ComplianceVerdict.UNKNOWN)
"""There is nothing to judge."""


def make_finding(code: FindingCode, line: ResultLine, field: str = "") -> ComplianceFinding:
    """Make a finding of a line."""
    return ComplianceFinding(code, line.number, line.excerpt, field)


def finding_labels(findings: tuple[ComplianceFinding, ...]) -> list[str]:
    """Name codes as programs read them, each once, in their order."""
    return sorted({finding.label for finding in findings})
