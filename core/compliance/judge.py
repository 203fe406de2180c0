"""The verdict on one text, by the grammar of requirements section 3; pure."""

from __future__ import annotations

import re

from . import output_format, review_format
from .codes import Code, Format, Verdict
from .findings import BLANK, LIMITS, Judgement, at
from .lines import MARKER, read_text
from .surface import FENCE, surface

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from .findings import Finding, Limits
    from .lines import Line, Text

_NAMED: Final = re.compile(r"\[COMPRESSED\][ \t]+agent_type:[ \t]+([A-Za-z0-9_.:-]+)")

REVIEWER: Final = "reviewer"
"""What a review may call its agent, whatever its type is (requirements 3.0.2)."""

_KEYS: Final = {Format.OUTPUT: output_format.KEYS, Format.REVIEW: review_format.KEYS}
_OTHER: Final = {Format.OUTPUT: Format.REVIEW, Format.REVIEW: Format.OUTPUT}
_MANDATORY: Final = {
    Format.OUTPUT: output_format.REQUIRED,
    Format.REVIEW: (review_format.FILES, review_format.VERDICT),
}
_SHARED: Final = frozenset({"Warning", "Suggestion", "Critical"})
"""Words that begin a sentence as well: in an output they are no field."""


def judge(
    text: str, expected: Format, agent_type: str | None = None, limits: Limits = LIMITS
) -> Judgement:
    """Judge a final message; a blank one is `unknown`, one of which nothing is expected too long.

    `agent_type` is the run's own; None leaves out whether the text names it (V04). Never
    raises, and takes time in proportion to the text's length.
    """
    read = read_text(text)
    if read is None:
        return BLANK
    has_marker = MARKER in text
    if expected is Format.NONE:
        return Judgement(
            Verdict.NOT_REQUIRED, lines=read.count, chars=read.chars, has_marker=has_marker
        )
    found = list(surface(read))
    place = next((n for n, line in enumerate(read.lines) if _begins(line)), None)
    review = review_format.Review()
    if place is None:
        found.append(at(Code.MARKER_MISSING, read.first))
    else:
        found += _at_marker(read, place, agent_type, expected)
        limit = limits.output_lines if expected is Format.OUTPUT else limits.review_lines
        if read.count > limit:
            found.append(at(Code.LINE_LIMIT, _line(read, limit)))
        wrong, review = _below(read, place, expected, limits)
        found += wrong
    if read.chars > limits.soft_chars:
        found.append(at(Code.LONG, read.first))
    found.sort(key=lambda each: (each.line, each.code))
    violations = tuple(each for each in found if each.code.is_violation)
    return Judgement(
        Verdict.NON_COMPLIANT if violations else Verdict.COMPLIANT,
        violations,
        tuple(each for each in found if not each.code.is_violation),
        read.count,
        read.chars,
        has_marker,
        tuple(review.findings),
        review.files,
        review.passes,
    )


def _begins(line: Line) -> bool:
    return line.text.lstrip().startswith(MARKER)


def _at_marker(
    read: Text, place: int, agent_type: str | None, expected: Format
) -> Iterable[Finding]:
    line = read.lines[place]
    if line.number != read.first.number:
        yield at(Code.TEXT_BEFORE_MARKER, read.first)
    named = _NAMED.fullmatch(line.text.lstrip())
    if named is None:
        yield at(Code.AGENT_TYPE_MISSING, line)
    elif agent_type and named[1] not in _names(agent_type, expected):
        yield at(Code.AGENT_TYPE_MISMATCH, line)


def _names(agent_type: str, expected: Format) -> set[str]:
    """Name what an agent may call itself: a plugin's may leave out the plugin (3.0.1)."""
    names = {agent_type, agent_type.rpartition(":")[2]}
    return names | {REVIEWER} if expected is Format.REVIEW else names


def _below(
    read: Text, place: int, expected: Format, limits: Limits
) -> tuple[list[Finding], review_format.Review]:
    below = read.lines[place + 1 :]
    if wrong := _in_other_format(below, expected):
        # Its fields are those of the other format: nothing more is to be said of them.
        return [at(Code.WRONG_FORMAT, wrong)], review_format.Review()
    before = read.lines[:place]
    fenced = sum(line.text.lstrip().startswith(FENCE) for line in before) % 2 == 1
    foreign = set(_KEYS[_OTHER[expected]]) - _SHARED
    marker = read.lines[place]
    if expected is Format.OUTPUT:
        found = output_format.check_output(marker, below, foreign, limits, fenced=fenced)
        return list(found), review_format.Review()
    review = review_format.check_review(marker, below, foreign, limits, fenced=fenced)
    return review.problems, review


def _in_other_format(below: Iterable[Line], expected: Format) -> Line | None:
    """Find the line that shows it: a field that only the other format must have."""
    own = tuple(f"{key}:" for key in _MANDATORY[expected])
    other = tuple(f"{key}:" for key in _MANDATORY[_OTHER[expected]])
    shown = None
    for line in below:
        if line.text.startswith(own):
            return None
        if shown is None and line.text.startswith(other):
            shown = line
    return shown


def _line(read: Text, place: int) -> Line:
    """Give the first line that is too many, or the last one that was read."""
    number = read.first.number + place
    return next((line for line in read.lines if line.number == number), read.last)
