"""The verdict on an agent's whole run, and how well agents comply over many runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from .findings import (
    BLANK_RESULT,
    FAILED_VERDICTS,
    MAX_SHOWN_LINE_CHARS,
    PASSED_VERDICTS,
    ComplianceFinding,
    ComplianceVerdict,
    FindingCode,
    Judgement,
    ResultFormat,
)
from .judge import WHOLE_TRANSCRIPT, judge_result

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from .findings import ResultLimits
    from .judge import ComplianceSettings, ExpectedFormat


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


_ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class MarkerLine:
    """A line of an agent's transcript that holds the marker."""

    offset: int  # in bytes
    origin: str  # one of the store's `MarkerOrigin`
    message_id: str | None = None
    text: str | None = None  # of an assistant's line, its words


def best_marker_location(
    lines: Iterable[MarkerLine], final_message: str | None
) -> MarkerLocation | None:
    """Name the best place at which the marker stands; None where it stands nowhere."""
    found = {_location_of(place, final_message) for place in lines}
    return next((each for each in MarkerLocation if each in found), None)


def grep_would_pass(lines: Iterable[MarkerLine], until: int | None) -> bool:
    """Whether a grep of the whole transcript passed when the agent first stopped (000-16).

    `until` is the byte offset of the first block; None if there was none.
    """
    return any(until is None or place.offset < until for place in lines)


def _location_of(place: MarkerLine, final_message: str | None) -> MarkerLocation:
    if place.origin != _ASSISTANT:
        return MarkerLocation(place.origin)
    is_final = place.message_id is not None and place.message_id == final_message
    return MarkerLocation.FINAL_ASSISTANT if is_final else MarkerLocation.EARLIER_ASSISTANT


MAX_STOPS: Final = 2  # SubagentStops of one run: the first, and the one after a block (000-19)


@dataclass(frozen=True, slots=True)
class AgentRun:
    """What is known of one run of an agent."""

    agent_type: str | None
    has_ended: bool  # it came to its end by itself: its last words are its result
    final_text: str | None  # its last message that has text (000-35, R000-06)
    final_message_id: str | None = None
    final_offset: int | None = None
    """In bytes, in its transcript; None where it has none of its own."""
    marker_lines: tuple[MarkerLine, ...] = ()
    """Lines of its transcript with the marker, in their order."""
    block_offsets: tuple[int, ...] = ()  # byte offsets of what hooks told it when it wanted to stop
    stops: int = 0  # SubagentStop records of it in ctxtop's own log
    was_released: bool = False  # one of them says `stop_hook_active`: it had been blocked
    retry_tokens: int = 0  # spent by its requests after the first block


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on a run, with its reasons."""

    verdict: ComplianceVerdict
    expected: ExpectedFormat
    judgement: Judgement  # of the final message alone
    violations: tuple[ComplianceFinding, ...] = ()
    warnings: tuple[ComplianceFinding, ...] = ()
    marker_location: MarkerLocation | None = None
    grep_passes: bool | None = None
    """A grep over the transcript would have let it stop at once; None without a transcript."""
    blocked: bool | None = None  # none where neither a transcript nor a record tells
    refired: bool = False  # it was asked to stop more often than a block explains (000-19)
    retry_tokens: int = 0  # spent by the requests that a block made necessary (000-23)

    @property
    def failed(self) -> bool:
        """It did not comply."""
        return self.verdict in FAILED_VERDICTS

    @property
    def grep_was_wrong(self) -> bool:
        """A grep would have passed what the final message does not fulfil (000-51, T-07)."""
        return self.grep_passes is True and self.failed


def judge_run(run: AgentRun, expected: ExpectedFormat, settings: ComplianceSettings) -> RunVerdict:
    """Judge a run.

    - not_required: nothing is expected; it is measured all the same (T-25).
    - unknown: it has not come to its end, or left no text (3.0.3).
    - compliant: the final message has no violation (3.0.3); also where another hook blocked
      a message that complied already.
    - forced: the same, after a block of a message that did not comply (000-18, 000-23).
    - clobbered: an earlier message complied, the final one lacks the marker (2.2.3, V16).
    - exhausted: it was blocked, answered, and still did not comply (000-15, 000-19).
    - non_compliant: all others.
    """
    text = run.final_text if run.has_ended else None
    judged = judge_result(text or "", expected.format, run.agent_type, settings.limits)
    has_transcript = run.final_offset is not None or bool(run.marker_lines or run.block_offsets)
    blocked = bool(run.block_offsets) or run.was_released
    violations = judged.violations
    if expected.format is ResultFormat.NONE:
        verdict = ComplianceVerdict.NOT_REQUIRED
    elif judged is BLANK_RESULT:
        verdict = ComplianceVerdict.UNKNOWN
    elif settings.mode == WHOLE_TRANSCRIPT:
        verdict = _verdict_by_grep(run) if has_transcript else ComplianceVerdict.UNKNOWN
        violations = tuple(each for each in violations if verdict in FAILED_VERDICTS)
    else:
        verdict, violations = _verdict_by_message(run, judged, expected, settings)
    return RunVerdict(
        verdict,
        expected,
        judged,
        violations,
        judged.warnings,
        best_marker_location(run.marker_lines, run.final_message_id) if has_transcript else None,
        grep_would_pass(run.marker_lines, min(run.block_offsets, default=None))
        if has_transcript
        else None,
        blocked if has_transcript or run.stops else None,
        run.stops > MAX_STOPS,
        run.retry_tokens,
    )


def _verdict_by_message(
    run: AgentRun, judged: Judgement, expected: ExpectedFormat, terms: ComplianceSettings
) -> tuple[ComplianceVerdict, tuple[ComplianceFinding, ...]]:
    complied = [
        place.offset
        for place in run.marker_lines
        if place.text
        and place.message_id != run.final_message_id
        and _complies(place.text, run, expected, terms)
    ]
    blocked = run.was_released or bool(run.block_offsets)
    if judged.verdict is ComplianceVerdict.COMPLIANT:
        first = min(run.block_offsets, default=None)
        before = first is not None and any(offset < first for offset in complied)
        return (
            ComplianceVerdict.FORCED if blocked and not before else ComplianceVerdict.COMPLIANT
        ), ()
    if complied and any(each.code is FindingCode.MARKER_MISSING for each in judged.violations):
        return ComplianceVerdict.CLOBBERED, (*judged.violations, _clobbered_finding(run))
    answered = not run.block_offsets or (run.final_offset or 0) > min(run.block_offsets)
    if blocked and answered:
        return ComplianceVerdict.EXHAUSTED, judged.violations
    return ComplianceVerdict.NON_COMPLIANT, judged.violations


def _complies(
    text: str, run: AgentRun, expected: ExpectedFormat, terms: ComplianceSettings
) -> bool:
    found = judge_result(text, expected.format, run.agent_type, terms.limits)
    return found.verdict is ComplianceVerdict.COMPLIANT


def _verdict_by_grep(run: AgentRun) -> ComplianceVerdict:
    """Decide as a hook does that looks for the marker anywhere (000-16 to 000-19)."""
    if grep_would_pass(run.marker_lines, min(run.block_offsets, default=None)):
        return ComplianceVerdict.COMPLIANT
    if not run.block_offsets:
        return ComplianceVerdict.NON_COMPLIANT
    return ComplianceVerdict.FORCED if run.marker_lines else ComplianceVerdict.EXHAUSTED


def _clobbered_finding(run: AgentRun) -> ComplianceFinding:
    text = (run.final_text or "").strip()
    first = text.partition("\n")[0]
    return ComplianceFinding(FindingCode.CLOBBERED, 1, first[:MAX_SHOWN_LINE_CHARS])


DEFAULT_CHARS_PER_TOKEN: Final = 4
"""Of English text, where no result of the format says better (requirements T-03)."""


@dataclass(frozen=True, slots=True)
class WeighedResult:
    """A ruling, and the estimated tokens of the result it is on."""

    run_verdict: RunVerdict
    tokens: int


@dataclass(frozen=True, slots=True)
class ComplianceCost:
    """What results and blocks cost; tokens, estimated where nothing else is said."""

    result_tokens: int  # of all results
    excess_tokens: int  # what the results that did not comply were longer than one that does
    retry_tokens: int  # spent, not estimated, by agents' requests after a block (000-23)


def typical_result_tokens(
    results: Iterable[WeighedResult], limits: ResultLimits
) -> dict[ResultFormat, int]:
    """Return a compliant result's typical tokens: the median by format, else the soft limit's."""
    found: dict[ResultFormat, list[int]] = {}
    for each in results:
        if each.run_verdict.verdict in PASSED_VERDICTS:
            found.setdefault(each.run_verdict.expected.format, []).append(each.tokens)
    soft = limits.soft_chars // DEFAULT_CHARS_PER_TOKEN
    return {
        each: round(median(found[each])) if each in found else soft
        for each in (ResultFormat.OUTPUT, ResultFormat.REVIEW)
    }


def sum_cost(results: Sequence[WeighedResult], typical: dict[ResultFormat, int]) -> ComplianceCost:
    """Add up what results cost, and what compliance would have saved (000-01, 000-38)."""
    return ComplianceCost(
        sum(each.tokens for each in results),
        sum(excess_tokens(each, typical) for each in results),
        sum(each.run_verdict.retry_tokens for each in results),
    )


def excess_tokens(result: WeighedResult, typical: dict[ResultFormat, int]) -> int:
    """Return how many tokens a noncompliant result has above a typical compliant one, else 0."""
    if result.run_verdict.verdict not in FAILED_VERDICTS:
        return 0
    return max(0, result.tokens - typical[result.run_verdict.expected.format])


def is_review_too_wide(ruling: RunVerdict, limits: ResultLimits) -> bool:
    """Whether a review covered more files than it can handle well (000-50)."""
    return ruling.judgement.reviewed_files > limits.review_files


MS_PER_DAY: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class ComplianceScore:
    """Verdicts counted; a share is None where fewer than the least number were judged."""

    verdicts: dict[ComplianceVerdict, int]
    judged_count: int  # results of which compression was expected, and that could be judged
    passed_share: float | None  # whose parent got what was expected, at once or after a block
    first_pass_share: float | None  # without a block (000-22)
    forced_share: float | None  # only after a block (000-23)
    grep_passed: int
    """What a grep over the whole transcript would have let pass at once, of those judged."""
    grep_wrong: int  # of these, what did not comply (000-51)
    codes: dict[str, int]  # violations and warnings, the most frequent first, each once a result

    @property
    def failed_count(self) -> int:
        """Results that did not comply."""
        return sum(self.verdicts[each] for each in FAILED_VERDICTS)

    @property
    def passed_count(self) -> int:
        return self.judged_count - self.failed_count


def make_score(run_verdicts: Iterable[RunVerdict], least: int) -> ComplianceScore:
    """Count rulings; a share of fewer than `least` judged results is not told (R004-13)."""
    listed = list(run_verdicts)
    verdicts = Counter(each.verdict for each in listed)
    judged = [each for each in listed if each.verdict in PASSED_VERDICTS | FAILED_VERDICTS]
    codes = Counter(
        code
        for each in judged
        for code in {found.label for found in (*each.violations, *each.warnings)}
    )
    enough = len(judged) >= max(1, least)

    def share(*which: ComplianceVerdict) -> float | None:
        return sum(verdicts[each] for each in which) / len(judged) if enough else None

    return ComplianceScore(
        {each: verdicts[each] for each in ComplianceVerdict},
        len(judged),
        share(*PASSED_VERDICTS),
        share(ComplianceVerdict.COMPLIANT),
        share(ComplianceVerdict.FORCED),
        sum(each.grep_passes is True for each in judged),
        sum(each.grep_was_wrong for each in judged),
        dict(sorted(codes.items(), key=lambda item: (-item[1], item[0]))),
    )


def day_start(at_ms: int) -> int:
    """Return the start of a moment's day in UTC, in milliseconds since 1970."""
    return at_ms - at_ms % MS_PER_DAY
