"""What is wrong with a text, where, and the values that decide it."""

from __future__ import annotations

from dataclasses import dataclass

from .codes import SENTENCES, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from .codes import Code
    from .lines import Line


@dataclass(frozen=True, slots=True)
class Limits:
    """What a text is measured by; the defaults are requirements 2.2 and 000-50."""

    output_lines: int = 10
    review_lines: int = 20
    result_lines: int = 3
    soft_chars: int = 1000
    review_files: int = 7


LIMITS: Final = Limits()
"""Where nobody said anything else."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation or warning, and the line that shows it."""

    code: Code
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
        said = SENTENCES[self.code]
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

    verdict: Verdict
    violations: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    lines: int = 0
    chars: int = 0
    has_marker: bool = False
    """The text holds the marker anywhere: what a grep looks for."""
    review_findings: tuple[ReviewFinding, ...] = ()
    reviewed_files: int = 0
    """Files that a review names as reviewed."""
    review_passes: bool | None = None
    """What a review's own verdict says: True is PASS."""


BLANK: Final = Judgement(Verdict.UNKNOWN)
"""There is nothing to judge."""


def at(code: Code, line: Line, field: str = "") -> Finding:
    """Make a finding of a line."""
    return Finding(code, line.number, line.excerpt, field)


def labels(findings: tuple[Finding, ...]) -> list[str]:
    """Name codes as programs read them, each once, in their order."""
    return sorted({finding.label for finding in findings})
