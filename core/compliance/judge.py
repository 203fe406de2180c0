"""Judges one text: the grammars of the two compressed formats (requirements 3) and the verdict."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise

from ..model.findings import (
    BLANK_RESULT,
    ComplianceVerdict,
    FindingCode,
    Judgment,
    ReviewFinding,
    make_finding,
    read_result_text,
)
from ..model.result_formats import COMPRESSED_MARKER, FORMAT_OF_SKILL, ResultFormat
from .expectations import DEFAULT_RESULT_LIMITS, ResultLimits

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Final

    from ..model.findings import ComplianceFinding, ResultLine, ResultText


CODE_FENCE: Final = "```"
MARKDOWN_HEADER: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")

_PLEASANTRY: Final = re.compile(
    r"(?:I(?:'ve|’ve| have)? completed|Great job|Here(?:'s|’s| is| are)|Let me know)\b",
    re.IGNORECASE,
)
"""Only at the start of a line: inside one it may be part of a meaningful sentence."""

_KOREAN_PLEASANTRY: Final = "완료했습니다"  # a verb, and so at the end of its sentence
_DOCS_HEADER: Final = re.compile(r" {0,3}##[ \t]+(?:Changed Files|Key Decisions|Issues)[ \t]*$")
"""Headers of the variant in a guide (R000-22)."""


def _check_surface(text: ResultText) -> Iterator[ComplianceFinding]:
    """Find V08, V09, V10 and W04 anywhere in the text."""
    inside = docs = False
    for line in text.lines:
        if line.text.lstrip().startswith(CODE_FENCE):
            inside = not inside
            if inside:
                yield make_finding(FindingCode.CODE_BLOCK, line)
        elif not inside and MARKDOWN_HEADER.match(line.text):
            yield make_finding(FindingCode.MARKDOWN_HEADER, line)
            if not docs and _DOCS_HEADER.match(line.text):
                docs = True
                yield make_finding(FindingCode.DOCS_MARKDOWN, line)
    for line in (text.first, text.last) if text.count > 1 else (text.first,):
        if _PLEASANTRY.match(line.text.lstrip()) or _KOREAN_PLEASANTRY in line.text:
            yield make_finding(FindingCode.PLEASANTRY, line)


class _LineKind(Enum):
    FIELD = auto()
    PLAIN = auto()
    BLANK = auto()
    STRAY = auto()  # its start continues no field
    BREAK = auto()  # a header or a block of code: ends a field, and is reported elsewhere


def _classify_lines(
    lines: Iterable[ResultLine], keys: Sequence[str], *, fenced: bool
) -> Iterator[tuple[_LineKind, ResultLine, str, str]]:
    """Yield each line with its kind; of a field its key, and what follows the key.

    `fenced` says that the marker itself is in a block of code.
    """
    inside = False
    for line in lines:
        text = line.text
        if text.lstrip().startswith(CODE_FENCE):
            if fenced:
                fenced = False
            else:
                inside = not inside
            yield _LineKind.BREAK, line, "", ""
        elif inside:
            continue
        elif not text:
            yield _LineKind.BLANK, line, "", ""
        elif MARKDOWN_HEADER.match(text):
            yield _LineKind.BREAK, line, "", ""
        elif key := next((each for each in keys if text.startswith(f"{each}:")), ""):
            yield _LineKind.FIELD, line, key, text[len(key) + 1 :].strip()
        else:
            yield (_LineKind.STRAY if text.startswith("#") else _LineKind.PLAIN), line, "", ""


CHANGED_FILES: Final = "Changed files"
RESULT: Final = "Result"
DECISIONS: Final = "Decisions"
BLOCKERS: Final = "Blockers"
OUTPUT_KEYS: Final = (CHANGED_FILES, RESULT, DECISIONS, BLOCKERS)
"""In their order; Blockers may also come first (T-24)."""

KOREAN_KEYS: Final = ("변경 파일", "핵심 결과", "주요 결정사항", "블로커")
"""Field names of an earlier skill: recognized, but they do not stand for today's (R000-23)."""

FILES_REVIEWED: Final = "Files reviewed"
VERDICT_KEY: Final = "Verdict"
SEVERITIES: Final = ("Critical", "Warning", "Suggestion")
REVIEW_KEYS: Final = (FILES_REVIEWED, *SEVERITIES, VERDICT_KEY)  # in their order

_REQUIRED_KEYS: Final = {
    ResultFormat.OUTPUT: (CHANGED_FILES, RESULT),
    ResultFormat.REVIEW: (FILES_REVIEWED, VERDICT_KEY),
}

# Keys that end a field: those of the other format are no continuation. An output's sentence may
# begin with the word of a severity.
_KEYS_IN_OUTPUT: Final = (*OUTPUT_KEYS, *KOREAN_KEYS, FILES_REVIEWED, VERDICT_KEY)
_KEYS_IN_REVIEW: Final = (*REVIEW_KEYS, *OUTPUT_KEYS)

EMPTY_VALUES: Final = frozenset(
    {"", "none", "none.", "(none)", "n/a", "na", "-", "–", "—", "nothing", "없음"}
)
"""Values of an optional field that should be left out."""


@dataclass(slots=True)
class _Field:
    lines: list[ResultLine]
    value: str  # text of its first line after the key


def _check_output(
    marker: ResultLine, below: Sequence[ResultLine], limits: ResultLimits, *, fenced: bool
) -> Iterator[ComplianceFinding]:
    """Find V06, V07, V11, W01, W03 and W05 in the lines below the marker."""
    fields: dict[str, _Field] = {}
    open_field: _Field | None = None
    after_break = korean = False
    for kind, line, key, value in _classify_lines(below, _KEYS_IN_OUTPUT, fenced=fenced):
        if kind is _LineKind.FIELD:
            after_break = False
            open_field = _Field([line], value)
            if key in KOREAN_KEYS:
                if not korean:
                    yield make_finding(FindingCode.LEGACY_KOREAN, line)
                korean = True
            elif key in fields or key not in OUTPUT_KEYS:
                yield make_finding(FindingCode.UNKNOWN_BLOCK, line)
            else:
                fields[key] = open_field
        elif kind is _LineKind.PLAIN and open_field:
            open_field.lines.append(line)
        elif kind is _LineKind.BREAK:
            open_field, after_break = None, True
        elif kind is _LineKind.BLANK:
            open_field = None
        elif not after_break:
            yield make_finding(FindingCode.UNKNOWN_BLOCK, line)
            # One finding a block, not a line.
            after_break, open_field = True, None
    yield from _check_output_fields(marker, fields, limits)


def _check_output_fields(
    marker: ResultLine, fields: dict[str, _Field], limits: ResultLimits
) -> Iterator[ComplianceFinding]:
    for key in _REQUIRED_KEYS[ResultFormat.OUTPUT]:
        required = fields.get(key)
        if required is None or not (required.value or required.lines[1:]):
            line = required.lines[0] if required else marker
            yield make_finding(FindingCode.FIELD_MISSING, line, key)
    result = fields.get(RESULT)
    if result and len(result.lines) > limits.result_lines:
        yield make_finding(FindingCode.RESULT_TOO_LONG, result.lines[limits.result_lines])
    for key in (DECISIONS, BLOCKERS):
        optional = fields.get(key)
        if optional and not optional.lines[1:] and optional.value.lower() in EMPTY_VALUES:
            yield make_finding(FindingCode.EMPTY_FIELD, optional.lines[0])
    # Blockers may come first (T-24).
    ordered = [key for key in fields if key != BLOCKERS]
    if misplaced := _misplaced_key(ordered, OUTPUT_KEYS):
        yield make_finding(FindingCode.FIELD_ORDER, fields[misplaced].lines[0])


def _misplaced_key(keys: Iterable[str], order: tuple[str, ...]) -> str | None:
    """Return the first key that comes after one that should follow it."""
    return next((b for a, b in pairwise(keys) if order.index(b) < order.index(a)), None)


MAX_FINDING_CHARS: Final = 1000  # of a line; a description is one sentence

_FINDING: Final = re.compile(
    r"(?:- )?(?P<path>[^\s:](?:[^:]|:(?!\d))*):(?P<line>\d{1,9})(?:-(?P<last>\d{1,9}))?"
    r"[ \t]+[—–-][ \t]+(?P<text>\S.*)"
)
"""`path:line[-line] — text`; a path may contain colons that no number follows."""

_VERDICT: Final = re.compile(r"(PASS|FAIL)(?: (\(.*\)))?")
_COUNTS: Final = re.compile(
    r"\((?:(\d{1,9}) criticals?, *(\d{1,9}) warnings?|(\d{1,9})/(\d{1,9}))\)"
)


@dataclass(slots=True)
class _Review:
    """A review's content and its problems, collected line by line."""

    problems: list[ComplianceFinding] = field(default_factory=list)
    findings: list[ReviewFinding] = field(default_factory=list)
    files: int = 0
    passes: bool | None = None
    lines: dict[str, ResultLine] = field(default_factory=dict)  # first line of each key
    values: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SEVERITIES, 0))
    """Findings by severity, malformed ones included."""
    severity: str = ""
    skipping: bool = False
    last: ResultLine | None = None

    def add_problem(self, code: FindingCode, line: ResultLine, key: str = "") -> None:
        self.problems.append(make_finding(code, line, key))

    def add_line(self, kind: _LineKind, line: ResultLine, key: str, value: str) -> None:
        if kind is _LineKind.BLANK:
            return
        if kind is _LineKind.BREAK:
            self.severity, self.skipping = "", True
        elif kind is _LineKind.FIELD and key in SEVERITIES:
            self.severity, self.skipping, self.last = key, False, line
            self.lines.setdefault(key, line)
            if value.lower() in EMPTY_VALUES - {""}:
                self.add_problem(FindingCode.EMPTY_FIELD, line)
            else:
                self.add_finding(line, value)
        elif kind is _LineKind.FIELD:
            self.severity, self.skipping, self.last = "", False, line
            if key in self.lines or key not in REVIEW_KEYS:
                self.add_problem(FindingCode.UNKNOWN_BLOCK, line)
            else:
                self.lines[key], self.values[key] = line, value
        elif kind is _LineKind.PLAIN and self.severity:
            self.last = line
            self.add_finding(line, line.text)
        elif not self.skipping:
            # One finding a block, not a line.
            self.skipping = True
            self.add_problem(FindingCode.UNKNOWN_BLOCK, line)

    def add_finding(self, line: ResultLine, text: str) -> None:
        if text:
            self.counts[self.severity] += 1
        match = _FINDING.fullmatch(text[:MAX_FINDING_CHARS])
        if match is None:
            self.add_problem(FindingCode.FINDING_FORMAT, line)
            return
        begin = int(match["line"])
        end = int(match["last"] or begin)
        self.findings.append(
            ReviewFinding(self.severity.lower(), match["path"].strip(), begin, end, match["text"])
        )

    def check_verdict(self) -> None:
        line = self.lines[VERDICT_KEY]
        match = _VERDICT.fullmatch(self.values[VERDICT_KEY][:MAX_FINDING_CHARS])
        counts = _COUNTS.fullmatch(match[2]) if match and match[2] else None
        fails = match is not None and match[1] == "FAIL"
        if match is None or (match[2] and counts is None) or (fails and counts is None):
            self.add_problem(FindingCode.VERDICT_MALFORMED, line)
            return
        self.passes = not fails
        if self.last is not line:
            self.add_problem(FindingCode.VERDICT_MALFORMED, line)
        listed = [self.counts["Critical"], self.counts["Warning"]]
        stated = [int(each) for each in counts.groups() if each is not None] if counts else listed
        if any(listed) is not fails or stated != listed:
            self.add_problem(FindingCode.VERDICT_INCONSISTENT, line)


def _check_review(
    marker: ResultLine, below: Sequence[ResultLine], limits: ResultLimits, *, fenced: bool
) -> _Review:
    """Find V06, V11 to V14, W01, W05 and W06 in the lines below the marker, and the findings."""
    review = _Review()
    for classified in _classify_lines(below, _KEYS_IN_REVIEW, fenced=fenced):
        review.add_line(*classified)
    for key in _REQUIRED_KEYS[ResultFormat.REVIEW]:
        if not review.values.get(key):
            review.add_problem(FindingCode.FIELD_MISSING, review.lines.get(key, marker), key)
    paths = review.values.get(FILES_REVIEWED, "").split(",")
    review.files = sum(bool(path.strip()) for path in paths)
    if review.files > limits.review_files:
        review.add_problem(FindingCode.REVIEW_SCOPE, review.lines[FILES_REVIEWED])
    # A verdict that is not last is V12.
    ordered = [key for key in review.lines if key != VERDICT_KEY]
    if misplaced := _misplaced_key(ordered, REVIEW_KEYS):
        review.add_problem(FindingCode.FIELD_ORDER, review.lines[misplaced])
    if review.values.get(VERDICT_KEY):
        review.check_verdict()
    return review


_MARKER_LINE: Final = re.compile(r"\[COMPRESSED\][ \t]+agent_type:[ \t]+([A-Za-z0-9_.:-]+)")
REVIEWER_NAME: Final = "reviewer"  # any reviewer may use it (requirements 3.0.2)


def judge_result(
    text: str,
    expected: ResultFormat,
    agent_type: str | None = None,
    limits: ResultLimits = DEFAULT_RESULT_LIMITS,
) -> Judgment:
    """Judge a final message; a blank one is `unknown`, even if nothing is expected.

    `agent_type` is the run's own; None skips the check of the name in the text (V04). Never
    raises, and takes time in proportion to the text's length.
    """
    read = read_result_text(text)
    if read is None:
        return BLANK_RESULT
    if expected is ResultFormat.NONE:
        return Judgment(ComplianceVerdict.NOT_REQUIRED, lines=read.count, chars=read.chars)
    findings = list(_check_surface(read))
    starts = (line.text.lstrip().startswith(COMPRESSED_MARKER) for line in read.lines)
    place = next((n for n, is_marker in enumerate(starts) if is_marker), None)
    review = _Review()
    if place is None:
        findings.append(make_finding(FindingCode.MARKER_MISSING, read.first))
    else:
        findings += _check_marker_line(read, place, agent_type, expected)
        limit = limits.max_lines(expected)
        if read.count > limit:
            number = read.first.number + limit
            over = next((line for line in read.lines if line.number == number), read.last)
            findings.append(make_finding(FindingCode.LINE_LIMIT, over))
        problems, review = _check_below_marker(read, place, expected, limits)
        findings += problems
    if read.chars > limits.soft_chars:
        findings.append(make_finding(FindingCode.LONG, read.first))
    findings.sort(key=lambda each: (each.line, each.code))
    violations = tuple(each for each in findings if each.code.is_violation)
    return Judgment(
        ComplianceVerdict.NON_COMPLIANT if violations else ComplianceVerdict.COMPLIANT,
        violations,
        tuple(each for each in findings if not each.code.is_violation),
        read.count,
        read.chars,
        tuple(review.findings),
        review.files,
        review.passes,
    )


def _check_marker_line(
    read: ResultText, place: int, agent_type: str | None, expected: ResultFormat
) -> Iterator[ComplianceFinding]:
    line = read.lines[place]
    if line.number != read.first.number:
        yield make_finding(FindingCode.TEXT_BEFORE_MARKER, read.first)
    match = _MARKER_LINE.fullmatch(line.text.lstrip())
    if match is None:
        yield make_finding(FindingCode.AGENT_TYPE_MISSING, line)
    elif agent_type:
        # A plugin's agent may leave out the plugin (3.0.1).
        names = {agent_type, agent_type.rpartition(":")[2]}
        if expected is ResultFormat.REVIEW:
            names.add(REVIEWER_NAME)
        if match[1] not in names:
            yield make_finding(FindingCode.AGENT_TYPE_MISMATCH, line)


def _check_below_marker(
    read: ResultText, place: int, expected: ResultFormat, limits: ResultLimits
) -> tuple[list[ComplianceFinding], _Review]:
    marker, below = read.lines[place], read.lines[place + 1 :]
    if wrong := _line_of_other_format(below, expected):
        # Its fields are those of the other format: check nothing more.
        missing = [
            make_finding(FindingCode.FIELD_MISSING, marker, key) for key in _REQUIRED_KEYS[expected]
        ]
        return [make_finding(FindingCode.WRONG_FORMAT, wrong), *missing], _Review()
    fences = sum(line.text.lstrip().startswith(CODE_FENCE) for line in read.lines[:place])
    fenced = fences % 2 == 1
    if expected is ResultFormat.OUTPUT:
        return list(_check_output(marker, below, limits, fenced=fenced)), _Review()
    review = _check_review(marker, below, limits, fenced=fenced)
    return review.problems, review


def _line_of_other_format(below: Sequence[ResultLine], expected: ResultFormat) -> ResultLine | None:
    """Return the first line with a required field of the other format, if none of its own is."""
    is_output = expected is ResultFormat.OUTPUT
    unexpected = ResultFormat.REVIEW if is_output else ResultFormat.OUTPUT
    own, other = (
        tuple(f"{key}:" for key in _REQUIRED_KEYS[each]) for each in (expected, unexpected)
    )
    if any(line.text.startswith(own) for line in below):
        return None
    return next((line for line in below if line.text.startswith(other)), None)


MAX_NAMED_FINDINGS: Final = 3  # with the first and the last line they make five lines
MAX_QUOTED_CHARS: Final = 60  # of an offending line
_SKILL_OF_FORMAT: Final = {result: skill for skill, result in FORMAT_OF_SKILL.items()}
_FORMAT_FIELDS: Final = {
    ResultFormat.OUTPUT: "`Changed files:`, `Result:`; `Decisions:` and `Blockers:` only if any",
    ResultFormat.REVIEW: (
        "`Files reviewed:`, one `Critical:`/`Warning:`/`Suggestion: file:line — text`"
        " per finding, `Verdict: PASS` or `Verdict: FAIL (N critical, N warnings)`"
    ),
}

# A grep must not find the marker (R000-01).
_MARKER_IN_WORDS: Final = "COMPRESSED in square brackets"


def block_reason(
    judged: Judgment, expected: ResultFormat, agent_type: str, limits: ResultLimits
) -> str:
    """Explain in at most five lines why a result was rejected, without the marker itself."""
    most = limits.max_lines(expected)
    shown = judged.violations[:MAX_NAMED_FINDINGS]
    more = len(judged.violations) - len(shown)
    lines = [
        f"Your result does not follow the skill {_SKILL_OF_FORMAT[expected]}:",
        *(_describe_finding(each, judged.lines, most) for each in shown),
    ]
    if more:
        lines[-1] += f" And {more} more."
    lines.append(
        f"Return ONLY the result again, in at most {most} lines: first line {_MARKER_IN_WORDS},"
        f" then ` agent_type: {agent_type}`; then {_FORMAT_FIELDS[expected]}."
    )
    return "\n".join(lines).replace(COMPRESSED_MARKER, "the marker")


def _describe_finding(finding: ComplianceFinding, lines: int, max_lines: int) -> str:
    text = f"- {finding.label}: {finding.sentence}"
    if finding.code is FindingCode.LINE_LIMIT:
        return f"{text} {lines} lines, {max_lines} allowed."
    if finding.code in {FindingCode.MARKER_MISSING, FindingCode.FIELD_MISSING}:
        return text
    quoted = finding.text.strip()
    short = quoted if len(quoted) <= MAX_QUOTED_CHARS else f"{quoted[:MAX_QUOTED_CHARS]}…"
    return f"{text} Line {finding.line}: {short}"
