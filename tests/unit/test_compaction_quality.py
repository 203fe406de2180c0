"""Whether a compaction freed what it should, and what share of the facts it kept."""

from __future__ import annotations

import pytest
from ctxtop.core.summaries.artifacts import ArtifactCounts
from ctxtop.core.summaries.compaction_quality import (
    DEFAULT_TARGET_REDUCTION,
    KeptShares,
    ReductionFlag,
    flag_reduction,
    kept_shares,
)
from ctxtop.core.summaries.compaction_report import report_compactions
from ctxtop.tui.text.compaction_text import kept_text
from ctxtop.tui.text.formats import reduction_with_flag, reduction_with_sign

from ..entries import answered, asked, compacted, summed_up


@pytest.mark.parametrize(
    ("share", "flag"),
    [
        (None, None),
        (0.0, None),
        (0.499, ReductionFlag.BELOW),
        (-0.1, ReductionFlag.BELOW),
        (0.5, ReductionFlag.IN),
        (0.7, ReductionFlag.IN),
        (0.871, ReductionFlag.ABOVE),
    ],
)
def test_a_reduction_is_compared_with_its_target(
    share: float | None, flag: ReductionFlag | None
) -> None:
    """001-12 and R001-07: 87.1 % is above 50 to 70 %."""
    assert flag_reduction(share, DEFAULT_TARGET_REDUCTION) is flag


def test_a_reduction_in_words() -> None:
    assert (
        reduction_with_flag(0.871, (0.5, 0.7))
        == "87.1 % less, above the 50–70 % of compact.target_reduction"
    )
    assert reduction_with_flag(0.0, (0.5, 0.7)) == "0.0 % less"
    shares = (0.871, 0.6, 0.2, 0.0, None)
    signs = [reduction_with_sign(share, (0.5, 0.7)) for share in shares]
    assert signs == ["87.1 % ↑", "60.0 %", "20.0 % ↓", "0.0 %", "–"]


KEPT, LOST = ArtifactCounts(files=12, identifiers=61), ArtifactCounts(files=1, identifiers=39)


def test_shares_of_what_was_known() -> None:
    """001-14; there were no decisions."""
    assert kept_shares(KEPT, LOST) == KeptShares(12 / 13, 0.61, None)
    assert kept_text(KEPT, LOST) == "92 % of 13 files, 61 % of 100 names"
    assert kept_text(ArtifactCounts(), ArtifactCounts()) == ""


def test_a_report_counts_what_was_kept() -> None:
    talk = [
        asked("Rename `parse_frame`, never `read_all`."),
        answered("We decided to keep SQLite."),
        compacted(),
        summed_up("parse_frame was renamed; we decided to keep SQLite."),
    ]
    ((_, report),) = report_compactions(talk)
    assert report.kept_shares == KeptShares(None, 0.5, 1.0)
