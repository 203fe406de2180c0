"""The grammar of compress-review (requirements 3.0.2) over the lines below the marker."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from .blocks import Kind, pieces
from .codes import Code
from .findings import ReviewFinding, at
from .output_format import NOTHING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from .blocks import Piece
    from .findings import Finding, Limits
    from .lines import Line

FILES: Final = "Files reviewed"
VERDICT: Final = "Verdict"
GROUPS: Final = ("Critical", "Warning", "Suggestion")
KEYS: Final = (FILES, *GROUPS, VERDICT)
"""In their order."""

LONGEST: Final = 1000
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
class Review:
    """What a review says, and what is wrong with it."""

    problems: list[Finding] = field(default_factory=list)
    findings: list[ReviewFinding] = field(default_factory=list)
    files: int = 0
    passes: bool | None = None


@dataclass(slots=True)
class _Walk:
    review: Review
    seen: dict[str, Line] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    listed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    """Findings by group, also those that are written wrongly."""
    group: str = ""
    skipping: bool = False
    last: Line | None = None


def check_review(
    marker: Line, below: Sequence[Line], foreign: Iterable[str], limits: Limits, *, fenced: bool
) -> Review:
    """Find V06, V11 to V14, W01, W05 and W06 in the lines below the marker, and the findings.

    `foreign` are the fields of the other format: no finding begins with one.
    """
    walk = _Walk(Review())
    for piece in pieces(below, (*KEYS, *foreign), fenced=fenced):
        _take(walk, piece)
    review = walk.review
    for key in (FILES, VERDICT):
        if not walk.said.get(key):
            review.problems.append(at(Code.FIELD_MISSING, walk.seen.get(key, marker), key))
    named = [each for each in walk.said.get(FILES, "").split(",") if each.strip()]
    review.files = len(named)
    if review.files > limits.review_files:
        review.problems.append(at(Code.REVIEW_SCOPE, walk.seen[FILES]))
    _check_order(walk)
    if walk.said.get(VERDICT):
        _check_verdict(walk)
    return review


def _take(walk: _Walk, piece: Piece) -> None:
    wrong, line = walk.review.problems, piece.line
    if piece.kind is Kind.BLANK:
        return
    if piece.kind is Kind.BREAK:
        walk.group, walk.skipping = "", True
    elif piece.kind is Kind.FIELD and piece.key in GROUPS:
        walk.group, walk.skipping, walk.last = piece.key, False, line
        walk.seen.setdefault(piece.key, line)
        _take_finding(walk, line, piece.value, is_first=True)
    elif piece.kind is Kind.FIELD:
        walk.group, walk.skipping, walk.last = "", False, line
        if piece.key in walk.seen or piece.key not in KEYS:
            wrong.append(at(Code.UNKNOWN_BLOCK, line))
        else:
            walk.seen[piece.key], walk.said[piece.key] = line, piece.value
    elif piece.kind is Kind.PLAIN and walk.group:
        walk.last = line
        _take_finding(walk, line, line.text, is_first=False)
    elif not walk.skipping:
        # One finding a block, not a line.
        walk.skipping = True
        wrong.append(at(Code.UNKNOWN_BLOCK, line))


def _take_finding(walk: _Walk, line: Line, said: str, *, is_first: bool) -> None:
    if is_first and said.lower() in NOTHING - {""}:
        walk.review.problems.append(at(Code.EMPTY_FIELD, line))
        return
    if said:
        walk.listed[walk.group] += 1
    match = _FINDING.fullmatch(said[:LONGEST])
    if match is None:
        walk.review.problems.append(at(Code.FINDING_FORMAT, line))
        return
    begin = int(match["line"])
    end = int(match["last"]) if match["last"] else begin
    severity = walk.group.lower()
    walk.review.findings.append(
        ReviewFinding(severity, match["path"].strip(), begin, end, match["text"])
    )


def _check_order(walk: _Walk) -> None:
    # That the verdict is last is a matter of its own (V12).
    order = [key for key in walk.seen if key != VERDICT]
    for before, key in pairwise(order):
        if KEYS.index(key) < KEYS.index(before):
            walk.review.problems.append(at(Code.FIELD_ORDER, walk.seen[key]))
            return


def _check_verdict(walk: _Walk) -> None:
    review, line = walk.review, walk.seen[VERDICT]
    match = _VERDICT.fullmatch(walk.said[VERDICT][:LONGEST])
    counts = _COUNTS.fullmatch(match[2]) if match and match[2] else None
    fails = match is not None and match[1] == "FAIL"
    if match is None or (match[2] and counts is None) or (fails and counts is None):
        review.problems.append(at(Code.VERDICT_MALFORMED, line))
        return
    review.passes = not fails
    if walk.last is not line:
        review.problems.append(at(Code.VERDICT_MALFORMED, line))
    critical, warning = walk.listed["Critical"], walk.listed["Warning"]
    told = [int(each) for each in counts.groups() if each is not None] if counts else None
    if (critical + warning > 0) is not fails or (told and told != [critical, warning]):
        review.problems.append(at(Code.VERDICT_INCONSISTENT, line))
