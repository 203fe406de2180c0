"""The vocabulary of compliance: formats, what is expected of an agent, verdicts and findings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final, Self


class ResultFormat(StrEnum):
    OUTPUT = "output"  # by the skill compress-output (requirements 3.0.1)
    REVIEW = "review"  # by the skill compress-review (requirements 3.0.2)
    NONE = "none"


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


COMPRESSED_MARKER: Final = "[COMPRESSED]"
"""Begins a compressed result; case counts (requirements 3)."""

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
    """Normalise CRLF, trailing spaces and blank lines around (requirements 3); None if blank.

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
class ResultLimits:
    """The limits of a result; the defaults are requirements 2.2 and 000-50."""

    output_lines: int = 10
    review_lines: int = 20
    result_lines: int = 3
    soft_chars: int = 1000
    review_files: int = 7

    def max_lines(self, expected: ResultFormat) -> int:
        return self.output_lines if expected is ResultFormat.OUTPUT else self.review_lines


DEFAULT_RESULT_LIMITS: Final = ResultLimits()


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


FORMAT_OF_SKILL: Final = {
    "compress-output": ResultFormat.OUTPUT,
    "compress-review": ResultFormat.REVIEW,
}
"""The skills that ask for a format (000-07, 000-09)."""

CLNODE_FORMATS: Final = {
    "node-backend": ResultFormat.OUTPUT,
    "react-frontend": ResultFormat.OUTPUT,
    "cli-hooks": ResultFormat.OUTPUT,
    "reviewer": ResultFormat.REVIEW,
    "clnode-curator": ResultFormat.OUTPUT,
}
"""The preset clnode's formats by agent type, for types without a definition (000-40 to 000-44)."""

LAST_MESSAGE: Final = "last_message"
WHOLE_TRANSCRIPT: Final = "whole_transcript"
OFF: Final = "off"


class ExpectationSource(StrEnum):
    PRELOADED = "preloaded"  # the transcript shows that the agent was given the skill at its start
    DECLARED = "declared"  # the agent's definition, as it is now
    PROMPT = "prompt"
    RULE = "rule"  # the policy, by the agent's type
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class ExpectedFormat:
    format: ResultFormat
    source: ExpectationSource
    policy_format: ResultFormat = ResultFormat.NONE  # by the policy's rules for the agent's type

    @property
    def differs_from_policy(self) -> bool:
        """The policy's rules say something else than what is expected (000-40)."""
        return self.policy_format not in {ResultFormat.NONE, self.format}


@dataclass(frozen=True, slots=True)
class ComplianceSettings:
    mode: str = LAST_MESSAGE
    limits: ResultLimits = DEFAULT_RESULT_LIMITS
    rules: Mapping[str, ResultFormat] | None = None
    """A person's rules by agent type; None if there are none, and `preset_rules` apply."""
    preset_rules: Mapping[str, ResultFormat] | None = None
    min_samples: int = 10  # results of a type before its share is shown (R004-13)

    @property
    def format_rules(self) -> Mapping[str, ResultFormat]:
        """The rules that apply, by agent type."""
        return (self.preset_rules if self.rules is None else self.rules) or {}


def skill_in_prompt(prompt: str) -> str | None:
    skill = re.search(rf"(?<![\w-])(?:{'|'.join(FORMAT_OF_SKILL)})(?![\w-])", prompt)
    if skill:
        return skill[0]
    return "compress-output" if re.search(_MARKER_REQUEST, prompt, re.IGNORECASE) else None


_MARKER_REQUEST: Final = (
    r"(?:return|reply|respond|answer|report|output|begin|start|end)\w*\b[^.\n]{0,80}"
    + re.escape(COMPRESSED_MARKER)
)
"""A prompt that only quotes another agent's result has the marker at the start of a line."""


def format_of_skills(skills: Iterable[str]) -> ResultFormat | None:
    """Return the format of the first skill that asks for one; a plugin's name may precede it."""
    formats = (FORMAT_OF_SKILL.get(skill.rpartition(":")[2]) for skill in skills)
    return next(filter(None, formats), None)


def find_expected_format(
    agent_type: str | None,
    preloaded_skills: Iterable[str],
    declared_skills: Iterable[str] | None,
    settings: ComplianceSettings = ComplianceSettings(),
    prompted_skill: str | None = None,
) -> ExpectedFormat:
    """Return what an agent must return: by its skills, its prompt, the policy, or nothing (000-07).

    Skills that the client preloaded outweigh a definition that may have changed since.
    `declared_skills` are installed: an agent was never told what a missing skill asks for. It is
    None if no definition of the type is known. A preset's rules apply only
    then: whoever defines a `reviewer` without the skill does not ask for it (T-25). A person's
    rules always apply.
    """
    by_rule = settings.format_rules.get(agent_type or "", ResultFormat.NONE)
    for source, skills in (
        (ExpectationSource.PRELOADED, preloaded_skills),
        (ExpectationSource.DECLARED, declared_skills or ()),
        (ExpectationSource.PROMPT, (prompted_skill,) if prompted_skill else ()),
    ):
        if by_skill := format_of_skills(skills):
            return ExpectedFormat(by_skill, source, by_rule)
    if by_rule is ResultFormat.NONE or (settings.rules is None and declared_skills is not None):
        return ExpectedFormat(ResultFormat.NONE, ExpectationSource.NOBODY, by_rule)
    return ExpectedFormat(by_rule, ExpectationSource.RULE, by_rule)
