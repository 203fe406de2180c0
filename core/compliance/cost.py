"""What agents' results cost their parents, and what compliance would have saved."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from .codes import FAILED, PASSED, Format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Final

    from .findings import Limits
    from .states import Ruling

CHARS_A_TOKEN: Final = 4
"""Of English text, where no result of the format says better (requirements T-03)."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A ruling, and the estimated tokens of the result it is on."""

    run_verdict: Ruling
    tokens: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What results and blocks cost; tokens, estimated where nothing else is said."""

    result_tokens: int
    """Of all results."""
    excess_tokens: int
    """What the results that did not comply were longer than one that does."""
    retry_tokens: int
    """Spent, not estimated, by agents' requests after a block (000-23)."""


def typical_tokens(results: Iterable[Weighed], limits: Limits) -> dict[Format, int]:
    """Say how long a result that complies is: the median by format, else the soft limit's."""
    found: dict[Format, list[int]] = {}
    for each in results:
        if each.run_verdict.verdict in PASSED:
            found.setdefault(each.run_verdict.expected.format, []).append(each.tokens)
    soft = limits.soft_chars // CHARS_A_TOKEN
    return {
        each: round(median(found[each])) if each in found else soft
        for each in (Format.OUTPUT, Format.REVIEW)
    }


def cost(results: Sequence[Weighed], typical: dict[Format, int]) -> Cost:
    """Add up what results cost, and what compliance would have saved (000-01, 000-38)."""
    return Cost(
        sum(each.tokens for each in results),
        sum(excess(each, typical) for each in results),
        sum(each.run_verdict.retry_tokens for each in results),
    )


def excess(result: Weighed, typical: dict[Format, int]) -> int:
    """Give the tokens that a result has above one that complies; 0 of one that does."""
    if result.run_verdict.verdict not in FAILED:
        return 0
    return max(0, result.tokens - typical[result.run_verdict.expected.format])


def is_too_wide(ruling: Ruling, limits: Limits) -> bool:
    """Say whether a review took on more files than it holds well (000-50)."""
    return ruling.judgement.reviewed_files > limits.review_files
