"""Which format an agent is expected to return, and the verdict on one text (section 3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from . import result_formats
from .findings import (
    BLANK_RESULT,
    COMPRESSED_MARKER,
    DEFAULT_RESULT_LIMITS,
    ComplianceVerdict,
    FindingCode,
    Judgement,
    ResultFormat,
    ResultLimits,
    make_finding,
    read_result_text,
)
from .result_formats import CODE_FENCE, check_surface

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from ..policy.policy import Policy
    from .findings import ComplianceFinding, ResultLimits, ResultLine, ResultText


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
"""The preset clnode's formats by agent type, where no definition says more (000-40 to 000-44)."""

LAST_MESSAGE: Final = "last_message"
WHOLE_TRANSCRIPT: Final = "whole_transcript"
OFF: Final = "off"


class ExpectationSource(StrEnum):
    """Who says what is expected."""

    PRELOADED = "preloaded"
    """The transcript shows that the skill was given to the agent when it started."""
    DECLARED = "declared"  # the agent's definition, as it is now
    PROMPT = "prompt"  # what the agent was asked
    RULE = "rule"  # the policy, by the agent's type
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class ExpectedFormat:
    """A format, and who says so."""

    format: ResultFormat
    source: ExpectationSource
    policy_format: ResultFormat = ResultFormat.NONE
    """What the policy's table says by the agent's type."""

    @property
    def differs_from_policy(self) -> bool:
        """The rules table says something, and the agent's definition something else (000-40)."""
        return self.policy_format not in {ResultFormat.NONE, self.format}


NOTHING_EXPECTED: Final = ExpectedFormat(ResultFormat.NONE, ExpectationSource.NOBODY)
"""No agent is asked for anything that nobody names."""


@dataclass(frozen=True, slots=True)
class ComplianceSettings:
    """What a policy says of compliance."""

    mode: str = LAST_MESSAGE
    limits: ResultLimits = DEFAULT_RESULT_LIMITS
    rules: Mapping[str, ResultFormat] | None = None
    """What a person said by agent type; None where nobody did, and `preset_rules` hold."""
    preset_rules: Mapping[str, ResultFormat] | None = None
    min_samples: int = 10  # results of a type before its share is told (R004-13)


_DEFAULT_ORIGINS: Final = frozenset({"preset", "built_in"})
"""Origins of a value that no person said (`PolicyOrigin`, which takes long to import)."""


def compliance_settings(policy: Policy) -> ComplianceSettings:
    found = policy.values["compliance.rules"]
    rules = {
        name: ResultFormat(each)
        for name, each in policy.strings_by_name("compliance.rules").items()
    }
    from_preset = found.origin in _DEFAULT_ORIGINS
    disabled = "compliance" in policy.texts("disabled_modules")
    return ComplianceSettings(
        OFF if disabled else policy.text("compliance.mode"),
        ResultLimits(
            output_lines=policy.integer("compliance.line_limit") or 0,
            review_lines=policy.integer("compliance.review_line_limit") or 0,
            result_lines=policy.integer("compliance.result_max_lines") or 0,
            soft_chars=policy.integer("compliance.soft_chars") or 0,
            review_files=policy.integer("compliance.review_files") or 0,
        ),
        None if from_preset else rules,
        rules or None if from_preset else None,
        policy.integer("compliance.min_samples") or 0,
    )


def skill_in_prompt(prompt: str) -> str | None:
    """Name the skill whose format a prompt asks for; None where it asks for none."""
    named = _SKILL_NAME.search(prompt)
    if named:
        return named[0]
    return "compress-output" if _MARKER_REQUEST.search(prompt) else None


_SKILL_NAME: Final = re.compile(rf"(?<![\w-])(?:{'|'.join(FORMAT_OF_SKILL)})(?![\w-])")

_MARKER_REQUEST: Final = re.compile(
    r"(?:return|reply|respond|answer|report|output|begin|start|end)\w*\b[^.\n]{0,80}"
    + re.escape(COMPRESSED_MARKER),
    re.IGNORECASE,
)
"""A prompt that only quotes another agent's result has the marker at a line's begin."""


def format_of_skills(skills: Iterable[str]) -> ResultFormat | None:
    """Name the format that skills ask for, the first that asks; a plugin's name may lead."""
    for skill in skills:
        found = FORMAT_OF_SKILL.get(skill.rpartition(":")[2])
        if found:
            return found
    return None


def find_expected_format(
    agent_type: str | None,
    preloaded_skills: Iterable[str],
    declared_skills: Iterable[str] | None,
    settings: ComplianceSettings = ComplianceSettings(),
    prompted_skill: str | None = None,
) -> ExpectedFormat:
    """Find what an agent must return: by its skill, its prompt, the policy, else nothing (000-07).

    What the client gave the agent at its start outweighs a definition that may have changed
    since. `declared_skills` is None where no definition of the type is known; the agent's prompt
    names `prompted_skill`. A preset's rules go by names alone, so they hold only where
    no definition is known: whoever defines a `reviewer` without the skill does not ask for it
    (T-25). Rules that a person wrote always hold.
    """
    table = (settings.preset_rules if settings.rules is None else settings.rules) or {}
    by_rule = table.get(agent_type or "", ResultFormat.NONE)
    if found := format_of_skills(preloaded_skills):
        return ExpectedFormat(found, ExpectationSource.PRELOADED, by_rule)
    if declared_skills is not None and (found := format_of_skills(declared_skills)):
        return ExpectedFormat(found, ExpectationSource.DECLARED, by_rule)
    if prompted_skill and (found := format_of_skills((prompted_skill,))):
        return ExpectedFormat(found, ExpectationSource.PROMPT, by_rule)
    if by_rule is ResultFormat.NONE or (settings.rules is None and declared_skills is not None):
        return ExpectedFormat(ResultFormat.NONE, ExpectationSource.NOBODY, by_rule)
    return ExpectedFormat(by_rule, ExpectationSource.RULE, by_rule)


_MARKER_LINE: Final = re.compile(r"\[COMPRESSED\][ \t]+agent_type:[ \t]+([A-Za-z0-9_.:-]+)")

REVIEWER_NAME: Final = "reviewer"
"""What a review may call its agent, whatever its type is (requirements 3.0.2)."""

_KEYS_OF_FORMAT: Final = {
    ResultFormat.OUTPUT: result_formats.OUTPUT_KEYS,
    ResultFormat.REVIEW: result_formats.REVIEW_KEYS,
}
_OTHER_FORMAT: Final = {
    ResultFormat.OUTPUT: ResultFormat.REVIEW,
    ResultFormat.REVIEW: ResultFormat.OUTPUT,
}
_MANDATORY_KEYS: Final = {
    ResultFormat.OUTPUT: result_formats.REQUIRED_OUTPUT_KEYS,
    ResultFormat.REVIEW: (result_formats.FILES_REVIEWED, result_formats.VERDICT_KEY),
}
_AMBIGUOUS_KEYS: Final = frozenset({"Warning", "Suggestion", "Critical"})
"""Words that begin a sentence as well: in an output they are no field."""


def judge_result(
    text: str,
    expected: ResultFormat,
    agent_type: str | None = None,
    limits: ResultLimits = DEFAULT_RESULT_LIMITS,
) -> Judgement:
    """Judge a final message; a blank one is `unknown`, one of which nothing is expected too long.

    `agent_type` is the run's own; None leaves out whether the text names it (V04). Never
    raises, and takes time in proportion to the text's length.
    """
    read = read_result_text(text)
    if read is None:
        return BLANK_RESULT
    has_marker = COMPRESSED_MARKER in text
    if expected is ResultFormat.NONE:
        return Judgement(
            ComplianceVerdict.NOT_REQUIRED,
            lines=read.count,
            chars=read.chars,
            has_marker=has_marker,
        )
    found = list(check_surface(read))
    place = next((n for n, line in enumerate(read.lines) if _is_marker_line(line)), None)
    review = result_formats.ParsedReview()
    if place is None:
        found.append(make_finding(FindingCode.MARKER_MISSING, read.first))
    else:
        found += _check_marker_line(read, place, agent_type, expected)
        limit = limits.output_lines if expected is ResultFormat.OUTPUT else limits.review_lines
        if read.count > limit:
            found.append(make_finding(FindingCode.LINE_LIMIT, _line_over_limit(read, limit)))
        wrong, review = _check_below_marker(read, place, expected, limits)
        found += wrong
    if read.chars > limits.soft_chars:
        found.append(make_finding(FindingCode.LONG, read.first))
    found.sort(key=lambda each: (each.line, each.code))
    violations = tuple(each for each in found if each.code.is_violation)
    return Judgement(
        ComplianceVerdict.NON_COMPLIANT if violations else ComplianceVerdict.COMPLIANT,
        violations,
        tuple(each for each in found if not each.code.is_violation),
        read.count,
        read.chars,
        has_marker,
        tuple(review.findings),
        review.files,
        review.passes,
    )


def _is_marker_line(line: ResultLine) -> bool:
    return line.text.lstrip().startswith(COMPRESSED_MARKER)


def _check_marker_line(
    read: ResultText, place: int, agent_type: str | None, expected: ResultFormat
) -> Iterable[ComplianceFinding]:
    line = read.lines[place]
    if line.number != read.first.number:
        yield make_finding(FindingCode.TEXT_BEFORE_MARKER, read.first)
    named = _MARKER_LINE.fullmatch(line.text.lstrip())
    if named is None:
        yield make_finding(FindingCode.AGENT_TYPE_MISSING, line)
    elif agent_type and named[1] not in _allowed_names(agent_type, expected):
        yield make_finding(FindingCode.AGENT_TYPE_MISMATCH, line)


def _allowed_names(agent_type: str, expected: ResultFormat) -> set[str]:
    """Name what an agent may call itself: a plugin's may leave out the plugin (3.0.1)."""
    names = {agent_type, agent_type.rpartition(":")[2]}
    return names | {REVIEWER_NAME} if expected is ResultFormat.REVIEW else names


def _check_below_marker(
    read: ResultText, place: int, expected: ResultFormat, limits: ResultLimits
) -> tuple[list[ComplianceFinding], result_formats.ParsedReview]:
    below = read.lines[place + 1 :]
    if wrong := _in_other_format(below, expected):
        # Its fields are those of the other format: nothing more is to be said of them.
        return [make_finding(FindingCode.WRONG_FORMAT, wrong)], result_formats.ParsedReview()
    before = read.lines[:place]
    fenced = sum(line.text.lstrip().startswith(CODE_FENCE) for line in before) % 2 == 1
    foreign = set(_KEYS_OF_FORMAT[_OTHER_FORMAT[expected]]) - _AMBIGUOUS_KEYS
    marker = read.lines[place]
    if expected is ResultFormat.OUTPUT:
        found = result_formats.check_output(marker, below, foreign, limits, fenced=fenced)
        return list(found), result_formats.ParsedReview()
    review = result_formats.check_review(marker, below, foreign, limits, fenced=fenced)
    return review.problems, review


def _in_other_format(below: Iterable[ResultLine], expected: ResultFormat) -> ResultLine | None:
    """Find the line that shows it: a field that only the other format must have."""
    own = tuple(f"{key}:" for key in _MANDATORY_KEYS[expected])
    other = tuple(f"{key}:" for key in _MANDATORY_KEYS[_OTHER_FORMAT[expected]])
    shown = None
    for line in below:
        if line.text.startswith(own):
            return None
        if shown is None and line.text.startswith(other):
            shown = line
    return shown


def _line_over_limit(read: ResultText, place: int) -> ResultLine:
    """Return the first line over the limit, or the last one that was read."""
    number = read.first.number + place
    return next((line for line in read.lines if line.number == number), read.last)


MAX_NAMED_FINDINGS: Final = 3  # findings in words: with a head and what to do they make five lines
MAX_QUOTED_CHARS: Final = 60  # of an offending line
_SKILL_OF_FORMAT: Final = {
    ResultFormat.OUTPUT: "compress-output",
    ResultFormat.REVIEW: "compress-review",
}
_FORMAT_FIELDS: Final = {
    ResultFormat.OUTPUT: "`Changed files:`, `Result:`; `Decisions:` and `Blockers:` only if any",
    ResultFormat.REVIEW: (
        "`Files reviewed:`, one `Critical:`/`Warning:`/`Suggestion: file:line —"
        " text`"
        " a finding, `Verdict: PASS` or `Verdict: FAIL (N critical, N warnings)`"
    ),
}

_MARKER_IN_WORDS: Final = "COMPRESSED in square brackets"
"""The marker itself would make every later grep over the transcript pass (R000-01)."""


def block_reason(
    judged: Judgement, expected: ResultFormat, agent_type: str, limits: ResultLimits
) -> str:
    """Explain in at most five lines why a result was rejected, without the marker itself."""
    most = limits.output_lines if expected is ResultFormat.OUTPUT else limits.review_lines
    named = judged.violations[:MAX_NAMED_FINDINGS]
    more = len(judged.violations) - len(named)
    head = f"Your result does not follow the skill {_SKILL_OF_FORMAT[expected]}:"
    lines = [head, *(_format_finding(each, judged, limits, expected) for each in named)]
    if more:
        lines[-1] += f" And {more} more."
    lines.append(
        f"Return ONLY the result again, in at most {most} lines: first line {_MARKER_IN_WORDS},"
        " then"
        f" ` agent_type: {agent_type}`; then {_FORMAT_FIELDS[expected]}."
    )
    return "\n".join(lines).replace(COMPRESSED_MARKER, "the marker")


def _format_finding(
    found: ComplianceFinding, judged: Judgement, limits: ResultLimits, expected: ResultFormat
) -> str:
    said = f"- {found.label}: {found.sentence}"
    if found.code is FindingCode.LINE_LIMIT:
        most = limits.output_lines if expected is ResultFormat.OUTPUT else limits.review_lines
        return f"{said} {judged.lines} lines, {most} allowed."
    if found.code in {FindingCode.MARKER_MISSING, FindingCode.FIELD_MISSING}:
        return said
    quoted = found.text.strip()
    short = quoted if len(quoted) <= MAX_QUOTED_CHARS else f"{quoted[:MAX_QUOTED_CHARS]}…"
    return f"{said} Line {found.line}: {short}"
