"""The verdict on an agent's whole run, and how well agents comply over many runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median

from ..model.findings import (
    BLANK_RESULT,
    FAILED_VERDICTS,
    MAX_SHOWN_LINE_CHARS,
    PASSED_VERDICTS,
    ComplianceFinding,
    ComplianceVerdict,
    FindingCode,
    Judgment,
    MarkerLocation,
    RunVerdict,
)
from ..model.result_formats import COMPRESSED_MARKER, ResultFormat
from .expectations import WHOLE_TRANSCRIPT
from .judge import judge_result

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from ..model.findings import ExpectedFormat
    from .expectations import ComplianceSettings, ResultLimits


_ASSISTANT: Final = "assistant"  # the origin of the agent's own answers


@dataclass(frozen=True, slots=True)
class MarkerLine:
    offset: int  # in bytes
    origin: str  # one of the store's `MarkerOrigin`
    message_id: str | None = None
    text: str | None = None  # of an assistant's line


def best_marker_location(
    lines: Iterable[MarkerLine], final_message: str | None
) -> MarkerLocation | None:
    locations = set()
    for line in lines:
        if line.origin != _ASSISTANT:
            locations.add(MarkerLocation(line.origin))
        elif line.message_id is not None and line.message_id == final_message:
            locations.add(MarkerLocation.FINAL_ASSISTANT)
        else:
            locations.add(MarkerLocation.EARLIER_ASSISTANT)
    return next((each for each in MarkerLocation if each in locations), None)


def grep_would_pass(lines: Iterable[MarkerLine], until: int | None) -> bool:
    """Return whether a grep of the transcript passed when the agent first stopped (000-16).

    `until` is the byte offset of the first block; None if there was none.
    """
    return any(until is None or line.offset < until for line in lines)


@dataclass(frozen=True, slots=True)
class AgentRun:
    """What is known of one run of an agent; offsets are bytes in its transcript."""

    agent_type: str | None
    has_ended: bool  # by itself: its last message is its result
    final_text: str | None  # its last message with text (000-35, R000-06)
    final_message_id: str | None = None
    final_offset: int | None = None  # None without a transcript of its own
    marker_lines: tuple[MarkerLine, ...] = ()  # in their order
    block_offsets: tuple[int, ...] = ()  # of hooks' feedback when it wanted to stop
    stops: int = 0  # SubagentStop records of it in ctxtop's own log
    was_released: bool = False  # one of them says `stop_hook_active`: it had been blocked
    retry_tokens: int = 0  # spent by its requests after the first block

    @property
    def first_block(self) -> int | None:
        return min(self.block_offsets, default=None)

    @property
    def was_blocked(self) -> bool:
        return self.was_released or bool(self.block_offsets)

    @property
    def answered_block(self) -> bool:
        """Whether its last message came after the first block; true if there was none."""
        return self.first_block is None or (self.final_offset or 0) > self.first_block


def judge_run(run: AgentRun, expected: ExpectedFormat, settings: ComplianceSettings) -> RunVerdict:
    """Judge a run.

    - not_required: nothing is expected; it is measured all the same (T-25).
    - unknown: it has not come to its end, or left no text (3.0.3).
    - compliant: the final message has no violation (3.0.3); also if another hook blocked
      a message that complied already.
    - forced: the same, after a block of a message that did not comply (000-18, 000-23).
    - clobbered: an earlier message complied, the final one lacks the marker (2.2.3, V16).
    - exhausted: it was blocked, answered, and still did not comply (000-15, 000-19).
    - non_compliant: all others.
    """
    text = run.final_text if run.has_ended else None
    judged = judge_result(text or "", expected.format, run.agent_type, settings.limits)
    has_transcript = run.final_offset is not None or bool(run.marker_lines or run.block_offsets)
    violations, replaced = judged.violations, None
    if expected.format is ResultFormat.NONE:
        verdict = ComplianceVerdict.NOT_REQUIRED
    elif judged is BLANK_RESULT:
        verdict = ComplianceVerdict.UNKNOWN
    elif settings.mode == WHOLE_TRANSCRIPT:
        verdict = _verdict_by_any_answer(run) if has_transcript else ComplianceVerdict.UNKNOWN
        violations = violations if verdict in FAILED_VERDICTS else ()
    else:
        verdict, violations, replaced = _verdict_by_message(run, judged, expected, settings)
    location = grep_passes = None
    if has_transcript:
        location = best_marker_location(run.marker_lines, run.final_message_id)
        grep_passes = grep_would_pass(run.marker_lines, run.first_block)
    return RunVerdict(
        verdict,
        expected,
        judged,
        violations,
        judged.warnings,
        location,
        grep_passes,
        run.was_blocked if has_transcript or run.stops else None,
        run.stops,
        run.retry_tokens,
        replaced,
    )


def _verdict_by_message(
    run: AgentRun, judged: Judgment, expected: ExpectedFormat, settings: ComplianceSettings
) -> tuple[ComplianceVerdict, tuple[ComplianceFinding, ...], str | None]:
    """Return the verdict, its violations, and the compliant message that was replaced."""

    def complies(text: str) -> bool:
        result = judge_result(text, expected.format, run.agent_type, settings.limits)
        return result.verdict is ComplianceVerdict.COMPLIANT

    complied = [
        line
        for line in run.marker_lines
        if line.text and line.message_id != run.final_message_id and complies(line.text)
    ]
    first_block = run.first_block
    if judged.verdict is ComplianceVerdict.COMPLIANT:
        before = first_block is not None and any(line.offset < first_block for line in complied)
        forced = run.was_blocked and not before
        return (ComplianceVerdict.FORCED if forced else ComplianceVerdict.COMPLIANT), (), None
    if complied and any(each.code is FindingCode.MARKER_MISSING for each in judged.violations):
        first_line = (run.final_text or "").strip().partition("\n")[0]
        clobbered = ComplianceFinding(FindingCode.CLOBBERED, 1, first_line[:MAX_SHOWN_LINE_CHARS])
        violations = (*judged.violations, clobbered)
        return ComplianceVerdict.CLOBBERED, violations, complied[-1].text
    if run.was_blocked and run.answered_block:
        return ComplianceVerdict.EXHAUSTED, judged.violations, None
    return ComplianceVerdict.NON_COMPLIANT, judged.violations, None


def find_replaced_result(messages: Sequence[str], agent_type: str | None) -> str | None:
    """Return a run's last message in either format, if its final one lacks the marker.

    For what is injected into other agents: nothing there says which format was expected of a run.
    """
    if not messages or COMPRESSED_MARKER in messages[-1]:
        return None
    return next(
        (
            text
            for text in reversed(messages[:-1])
            if COMPRESSED_MARKER in text and _follows_a_format(text, agent_type)
        ),
        None,
    )


def _follows_a_format(text: str, agent_type: str | None) -> bool:
    return any(
        judge_result(text, each, agent_type).verdict is ComplianceVerdict.COMPLIANT
        for each in (ResultFormat.OUTPUT, ResultFormat.REVIEW)
    )


def _verdict_by_any_answer(run: AgentRun) -> ComplianceVerdict:
    """Decide like a hook that looks for the marker in all answers (000-16 to 000-19).

    Only in these: the client writes a preloaded skill's text into the transcript (2.1.329), so a
    grep of the whole transcript would never block an agent.
    """
    answers = [line for line in run.marker_lines if line.origin == _ASSISTANT]
    first = run.first_block
    if not run.was_blocked:
        return ComplianceVerdict.COMPLIANT if answers else ComplianceVerdict.NON_COMPLIANT
    if first is not None and any(line.offset < first for line in answers):
        return ComplianceVerdict.COMPLIANT
    if answers:
        return ComplianceVerdict.FORCED
    return ComplianceVerdict.EXHAUSTED if run.answered_block else ComplianceVerdict.NON_COMPLIANT


DEFAULT_CHARS_PER_TOKEN: Final = 4  # of English text (requirements T-03)


@dataclass(frozen=True, slots=True)
class WeighedResult:
    run_verdict: RunVerdict
    tokens: int  # of the result, estimated


@dataclass(frozen=True, slots=True)
class ComplianceCost:
    result_tokens: int  # of all results, estimated
    excess_tokens: int  # of noncompliant results beyond a typical compliant one, estimated
    retry_tokens: int  # spent by agents' requests after a block (000-23)


def typical_result_tokens(
    results: Iterable[WeighedResult], limits: ResultLimits
) -> dict[ResultFormat, int]:
    """Return a compliant result's typical tokens: the median by format, else the soft limit's."""
    tokens: dict[ResultFormat, list[int]] = {}
    for each in results:
        if each.run_verdict.verdict in PASSED_VERDICTS:
            tokens.setdefault(each.run_verdict.expected.format, []).append(each.tokens)
    default = [limits.soft_chars // DEFAULT_CHARS_PER_TOKEN]
    return {
        expected: round(median(tokens.get(expected, default)))
        for expected in (ResultFormat.OUTPUT, ResultFormat.REVIEW)
    }


def sum_cost(results: Sequence[WeighedResult], typical: dict[ResultFormat, int]) -> ComplianceCost:
    """Add up what results cost, and what compliance would have saved (000-01, 000-38)."""
    return ComplianceCost(
        sum(each.tokens for each in results),
        sum(
            max(0, each.tokens - typical[each.run_verdict.expected.format])
            for each in results
            if each.run_verdict.failed
        ),
        sum(each.run_verdict.retry_tokens for each in results),
    )


def is_review_too_wide(verdict: RunVerdict, limits: ResultLimits) -> bool:
    """Return whether a review covered more files than it can handle well (000-50)."""
    return verdict.judgment.reviewed_files > limits.review_files


MS_PER_DAY: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class ComplianceScore:
    """Counted verdicts; shares are None if too few results were judged."""

    verdicts: dict[ComplianceVerdict, int]
    judged_count: int  # results with an expected format that could be judged
    passed_share: float | None  # compliant at once or after a block
    first_pass_share: float | None  # without a block (000-22)
    forced_share: float | None  # only after a block (000-23)
    grep_passed: int  # judged results that a grep of the transcript would have passed at once
    grep_wrong: int  # those of them that did not comply (000-51)
    refires: int  # stops of all runs beyond those that a single block explains
    codes: dict[str, int]  # violations and warnings, once a result, the most frequent first

    @property
    def failed_count(self) -> int:
        return sum(self.verdicts[each] for each in FAILED_VERDICTS)

    @property
    def passed_count(self) -> int:
        return self.judged_count - self.failed_count


def make_score(run_verdicts: Iterable[RunVerdict], min_samples: int) -> ComplianceScore:
    """Count verdicts; fewer than `min_samples` judged results give no shares (R004-13)."""
    listed = list(run_verdicts)
    verdicts = Counter(each.verdict for each in listed)
    judged = [each for each in listed if each.verdict in PASSED_VERDICTS | FAILED_VERDICTS]
    codes = Counter(
        code
        for each in judged
        for code in {finding.label for finding in (*each.violations, *each.warnings)}
    )
    enough = len(judged) >= max(1, min_samples)

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
        sum(each.refires for each in listed),
        dict(sorted(codes.items(), key=lambda item: (-item[1], item[0]))),
    )


def day_start(at_ms: int) -> int:
    """Return the start of a moment's day in UTC, in milliseconds since 1970."""
    return at_ms - at_ms % MS_PER_DAY
