"""How well agents comply, and what noncompliant results cost their parents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median

from .codes import FAILED_VERDICTS, PASSED_VERDICTS, ComplianceVerdict, ResultFormat

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from .findings import ResultLimits
    from .run_verdict import RunVerdict


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

    result_tokens: int
    """Of all results."""
    excess_tokens: int
    """What the results that did not comply were longer than one that does."""
    retry_tokens: int
    """Spent, not estimated, by agents' requests after a block (000-23)."""


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
    judged_count: int
    """Results of which compression was expected, and that could be judged."""
    passed_share: float | None
    """Whose parent got what was expected, at once or after a block."""
    first_pass_share: float | None
    """Without a block (000-22)."""
    forced_share: float | None
    """Only after a block (000-23)."""
    grep_passed: int
    """What a grep over the whole transcript would have let pass at once, of those judged."""
    grep_wrong: int
    """Of these, what did not comply (000-51)."""
    codes: dict[str, int]
    """Violations and warnings, the most frequent first, each once a result."""


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
