"""The grammars of the two compressed formats (requirements 3), and what neither may contain."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise

from .findings import FindingCode, ReviewFinding, make_finding

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Final

    from .findings import ComplianceFinding, ResultLimits, ResultLine, ResultText


CODE_FENCE: Final = "```"

MARKDOWN_HEADER: Final = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")

_PLEASANTRY: Final = re.compile(
    r"(?:I(?:'ve|’ve| have)? completed|Great job|Here(?:'s|’s| is| are)|Let me know)\b",
    re.IGNORECASE,
)
"""At the beginning of a line: inside one it may be part of a sentence that says something."""

_KOREAN_PLEASANTRY: Final = "완료했습니다"  # a verb, and so at the end of its sentence
_DOCS_HEADER: Final = re.compile(r" {0,3}##[ \t]+(?:Changed Files|Key Decisions|Issues)[ \t]*$")
"""Headers of the variant that a guide shows (R000-22)."""


def check_surface(text: ResultText) -> Iterator[ComplianceFinding]:
    """Find V08, V09, V10 and W04, wherever they stand."""
    yield from _check_markdown(text.lines)
    for line in (text.first, text.last) if text.count > 1 else (text.first,):
        if _PLEASANTRY.match(line.text.lstrip()) or _KOREAN_PLEASANTRY in line.text:
            yield make_finding(FindingCode.PLEASANTRY, line)


def _check_markdown(lines: Iterable[ResultLine]) -> Iterator[ComplianceFinding]:
    inside = docs = False
    for line in lines:
        if line.text.lstrip().startswith(CODE_FENCE):
            inside = not inside
            if inside:
                yield make_finding(FindingCode.CODE_BLOCK, line)
        elif not inside and MARKDOWN_HEADER.match(line.text):
            yield make_finding(FindingCode.MARKDOWN_HEADER, line)
            if not docs and _DOCS_HEADER.match(line.text):
                docs = True
                yield make_finding(FindingCode.DOCS_MARKDOWN, line)


class LineKind(Enum):
    """What a line below the marker is."""

    FIELD = auto()
    PLAIN = auto()
    BLANK = auto()
    STRAY = auto()  # it begins with what continues no field
    BREAK = auto()  # a header or a block of code: ends a field, and is told of elsewhere


@dataclass(frozen=True, slots=True)
class ClassifiedLine:
    """A line and what it is."""

    kind: LineKind
    line: ResultLine
    key: str = ""
    value: str = ""  # of a field's first line, what follows the key


@dataclass(slots=True)
class ResultField:
    """A field: its first line, and all lines that belong to it."""

    key: str
    lines: list[ResultLine]
    value: str
    more_lines: list[ResultLine] = field(default_factory=list)

    @property
    def has_text(self) -> bool:
        """There is text, in its first line or below it."""
        return bool(self.value or self.more_lines)


def classify_lines(
    lines: Iterable[ResultLine], keys: Iterable[str], *, fenced: bool
) -> Iterator[ClassifiedLine]:
    """Sort lines by what they are; `fenced`: the marker itself stands in a block of code."""
    known = tuple(keys)
    inside = False
    for line in lines:
        text = line.text
        if text.lstrip().startswith(CODE_FENCE):
            if fenced:
                fenced = False
            else:
                inside = not inside
            yield ClassifiedLine(LineKind.BREAK, line)
        elif inside:
            continue
        elif not text:
            yield ClassifiedLine(LineKind.BLANK, line)
        elif MARKDOWN_HEADER.match(text):
            yield ClassifiedLine(LineKind.BREAK, line)
        elif key := next((each for each in known if text.startswith(f"{each}:")), ""):
            yield ClassifiedLine(LineKind.FIELD, line, key, text[len(key) + 1 :].strip())
        else:
            yield ClassifiedLine(LineKind.STRAY if text.startswith("#") else LineKind.PLAIN, line)


CHANGED_FILES: Final = "Changed files"
RESULT: Final = "Result"
DECISIONS: Final = "Decisions"
BLOCKERS: Final = "Blockers"

OUTPUT_KEYS: Final = (CHANGED_FILES, RESULT, DECISIONS, BLOCKERS)
"""In their order; Blockers may also come first (T-24)."""

KOREAN_KEYS: Final = {
    "변경 파일": CHANGED_FILES,
    "핵심 결과": RESULT,
    "주요 결정사항": DECISIONS,
    "블로커": BLOCKERS,
}
"""Names that an earlier skill gave the fields (R000-23)."""

REQUIRED_OUTPUT_KEYS: Final = (CHANGED_FILES, RESULT)

EMPTY_VALUES: Final = frozenset(
    {"", "none", "none.", "(none)", "n/a", "na", "-", "–", "—", "nothing", "없음"}
)
"""What an optional field says that had better be left out."""


def check_output(
    marker: ResultLine,
    below: Sequence[ResultLine],
    foreign: Iterable[str],
    limits: ResultLimits,
    *,
    fenced: bool,
) -> Iterator[ComplianceFinding]:
    """Find V06, V07, V11, W01, W03 and W05 in the lines below the marker.

    `foreign` are the fields of the other format: none of them continues a field of this one.
    """
    fields: dict[str, ResultField] = {}
    open_field: ResultField | None = None
    after_break = korean = False
    for piece in classify_lines(below, (*OUTPUT_KEYS, *KOREAN_KEYS, *foreign), fenced=fenced):
        key = KOREAN_KEYS.get(piece.key, piece.key)
        if piece.kind is LineKind.FIELD:
            after_break = False
            open_field = ResultField(key, [piece.line], piece.value)
            if piece.key in KOREAN_KEYS and not korean:
                korean = True
                yield make_finding(FindingCode.LEGACY_KOREAN, piece.line)
            if key in fields or key not in OUTPUT_KEYS:
                yield make_finding(FindingCode.UNKNOWN_BLOCK, piece.line)
            else:
                fields[key] = open_field
        elif piece.kind is LineKind.PLAIN and open_field:
            open_field.lines.append(piece.line)
            open_field.more_lines.append(piece.line)
        elif piece.kind is LineKind.BREAK:
            open_field, after_break = None, True
        elif piece.kind is LineKind.BLANK:
            open_field = None
        elif not after_break:
            yield make_finding(FindingCode.UNKNOWN_BLOCK, piece.line)
            # One finding a block, not a line.
            after_break, open_field = True, None
    yield from _missing_fields(marker, fields)
    result = fields.get(RESULT)
    if result and len(result.lines) > limits.result_lines:
        yield make_finding(FindingCode.RESULT_TOO_LONG, result.lines[limits.result_lines])
    for key in (DECISIONS, BLOCKERS):
        found = fields.get(key)
        if found and not found.more_lines and found.value.lower() in EMPTY_VALUES:
            yield make_finding(FindingCode.EMPTY_FIELD, found.lines[0])
    yield from _check_output_order(fields)


def _missing_fields(
    marker: ResultLine, fields: dict[str, ResultField]
) -> Iterator[ComplianceFinding]:
    for key in REQUIRED_OUTPUT_KEYS:
        found = fields.get(key)
        if found is None or not found.has_text:
            yield make_finding(FindingCode.FIELD_MISSING, found.lines[0] if found else marker, key)


def _check_output_order(fields: dict[str, ResultField]) -> Iterator[ComplianceFinding]:
    # Only the others' order counts: blockers may lead (T-24).
    places = [OUTPUT_KEYS.index(key) for key in fields if key != BLOCKERS]
    for before, place, key in zip(
        places, places[1:], [key for key in fields if key != BLOCKERS][1:], strict=False
    ):
        if place < before:
            yield make_finding(FindingCode.FIELD_ORDER, fields[key].lines[0])
            return


FILES_REVIEWED: Final = "Files reviewed"
VERDICT_KEY: Final = "Verdict"
SEVERITIES: Final = ("Critical", "Warning", "Suggestion")
REVIEW_KEYS: Final = (FILES_REVIEWED, *SEVERITIES, VERDICT_KEY)  # in their order
MAX_FINDING_CHARS: Final = 1000
"""Characters of a line that is looked into for a finding; a description is one sentence."""

_FINDING: Final = re.compile(
    r"(?:- )?(?P<path>[^\s:](?:[^:]|:(?!\d))*):(?P<line>\d{1,9})(?:-(?P<last>\d{1,9}))?"
    r"[ \t]+[—–-][ \t]+(?P<text>\S.*)"
)
"""`path:line[-line] — text`; a colon inside the path is none that a number follows."""

_VERDICT: Final = re.compile(r"(PASS|FAIL)(?: (\(.*\)))?")
_COUNTS: Final = re.compile(
    r"\((?:(\d{1,9}) criticals?, *(\d{1,9}) warnings?|(\d{1,9})/(\d{1,9}))\)"
)


@dataclass(slots=True)
class ParsedReview:
    """What a review says, and what is wrong with it."""

    problems: list[ComplianceFinding] = field(default_factory=list)
    findings: list[ReviewFinding] = field(default_factory=list)
    files: int = 0
    passes: bool | None = None


@dataclass(slots=True)
class _ReviewState:
    review: ParsedReview
    seen: dict[str, ResultLine] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SEVERITIES, 0))
    """Findings by group, also those that are written wrongly."""
    group: str = ""
    skipping: bool = False
    last: ResultLine | None = None


def check_review(
    marker: ResultLine,
    below: Sequence[ResultLine],
    foreign: Iterable[str],
    limits: ResultLimits,
    *,
    fenced: bool,
) -> ParsedReview:
    """Find V06, V11 to V14, W01, W05 and W06 in the lines below the marker, and the findings.

    `foreign` are the fields of the other format: no finding begins with one.
    """
    walk = _ReviewState(ParsedReview())
    for piece in classify_lines(below, (*REVIEW_KEYS, *foreign), fenced=fenced):
        _read_line(walk, piece)
    review = walk.review
    for key in (FILES_REVIEWED, VERDICT_KEY):
        if not walk.said.get(key):
            review.problems.append(
                make_finding(FindingCode.FIELD_MISSING, walk.seen.get(key, marker), key)
            )
    named = [each for each in walk.said.get(FILES_REVIEWED, "").split(",") if each.strip()]
    review.files = len(named)
    if review.files > limits.review_files:
        review.problems.append(make_finding(FindingCode.REVIEW_SCOPE, walk.seen[FILES_REVIEWED]))
    _check_review_order(walk)
    if walk.said.get(VERDICT_KEY):
        _check_verdict(walk)
    return review


def _read_line(walk: _ReviewState, piece: ClassifiedLine) -> None:
    wrong, line = walk.review.problems, piece.line
    if piece.kind is LineKind.BLANK:
        return
    if piece.kind is LineKind.BREAK:
        walk.group, walk.skipping = "", True
    elif piece.kind is LineKind.FIELD and piece.key in SEVERITIES:
        walk.group, walk.skipping, walk.last = piece.key, False, line
        walk.seen.setdefault(piece.key, line)
        _read_finding(walk, line, piece.value, is_first=True)
    elif piece.kind is LineKind.FIELD:
        walk.group, walk.skipping, walk.last = "", False, line
        if piece.key in walk.seen or piece.key not in REVIEW_KEYS:
            wrong.append(make_finding(FindingCode.UNKNOWN_BLOCK, line))
        else:
            walk.seen[piece.key], walk.said[piece.key] = line, piece.value
    elif piece.kind is LineKind.PLAIN and walk.group:
        walk.last = line
        _read_finding(walk, line, line.text, is_first=False)
    elif not walk.skipping:
        # One finding a block, not a line.
        walk.skipping = True
        wrong.append(make_finding(FindingCode.UNKNOWN_BLOCK, line))


def _read_finding(walk: _ReviewState, line: ResultLine, said: str, *, is_first: bool) -> None:
    if is_first and said.lower() in EMPTY_VALUES - {""}:
        walk.review.problems.append(make_finding(FindingCode.EMPTY_FIELD, line))
        return
    if said:
        walk.listed[walk.group] += 1
    match = _FINDING.fullmatch(said[:MAX_FINDING_CHARS])
    if match is None:
        walk.review.problems.append(make_finding(FindingCode.FINDING_FORMAT, line))
        return
    begin = int(match["line"])
    end = int(match["last"]) if match["last"] else begin
    severity = walk.group.lower()
    walk.review.findings.append(
        ReviewFinding(severity, match["path"].strip(), begin, end, match["text"])
    )


def _check_review_order(walk: _ReviewState) -> None:
    # That the verdict is last is a matter of its own (V12).
    order = [key for key in walk.seen if key != VERDICT_KEY]
    for before, key in pairwise(order):
        if REVIEW_KEYS.index(key) < REVIEW_KEYS.index(before):
            walk.review.problems.append(make_finding(FindingCode.FIELD_ORDER, walk.seen[key]))
            return


def _check_verdict(walk: _ReviewState) -> None:
    review, line = walk.review, walk.seen[VERDICT_KEY]
    match = _VERDICT.fullmatch(walk.said[VERDICT_KEY][:MAX_FINDING_CHARS])
    counts = _COUNTS.fullmatch(match[2]) if match and match[2] else None
    fails = match is not None and match[1] == "FAIL"
    if match is None or (match[2] and counts is None) or (fails and counts is None):
        review.problems.append(make_finding(FindingCode.VERDICT_MALFORMED, line))
        return
    review.passes = not fails
    if walk.last is not line:
        review.problems.append(make_finding(FindingCode.VERDICT_MALFORMED, line))
    critical, warning = walk.listed["Critical"], walk.listed["Warning"]
    told = [int(each) for each in counts.groups() if each is not None] if counts else None
    if (critical + warning > 0) is not fails or (told and told != [critical, warning]):
        review.problems.append(make_finding(FindingCode.VERDICT_INCONSISTENT, line))
