"""How well agents comply, by type and over time; no share is told of a few results (R004-13)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .codes import FAILED, PASSED, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from .states import Ruling

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Score:
    """Verdicts counted; a share is None where fewer than the least number were judged."""

    verdicts: dict[Verdict, int]
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


def score(run_verdicts: Iterable[Ruling], least: int) -> Score:
    """Count rulings; a share of fewer than `least` judged results is not told (R004-13)."""
    listed = list(run_verdicts)
    verdicts = Counter(each.verdict for each in listed)
    judged = [each for each in listed if each.verdict in PASSED | FAILED]
    codes = Counter(
        code
        for each in judged
        for code in {found.label for found in (*each.violations, *each.warnings)}
    )
    enough = len(judged) >= max(1, least)

    def share(*which: Verdict) -> float | None:
        return sum(verdicts[each] for each in which) / len(judged) if enough else None

    return Score(
        {each: verdicts[each] for each in Verdict},
        len(judged),
        share(*PASSED),
        share(Verdict.COMPLIANT),
        share(Verdict.FORCED),
        sum(each.grep_passes is True for each in judged),
        sum(each.grep_was_wrong for each in judged),
        dict(sorted(codes.items(), key=lambda item: (-item[1], item[0]))),
    )


def day_of(at_ms: int) -> int:
    """Give the beginning of a moment's day in UTC, in milliseconds since 1970."""
    return at_ms - at_ms % DAY_MS
