"""The comparison with another commit: both run in turn, and the ratio is of their medians."""

from __future__ import annotations

from pathlib import Path

from ..bench.compare import Build, in_turn

HERE, OTHER = Build("here", Path("/a/ctxtop")), Build("other", Path("/b/ctxtop"))


def test_both_builds_run_in_turn_and_each_goes_first_as_often() -> None:
    ran: list[str] = []
    times = {"here": iter([9.0, 2.0, 1.0, 3.0, 2.0]), "other": iter([9.0, 4.0, 4.0, 4.0, 5.0])}

    def measure(build: Build) -> float:
        ran.append(build.name)
        return next(times[build.name])

    row = in_turn("start", "s", (HERE, OTHER), 4, measure)
    assert ran == ["other", "here", "here", "other"] * 2 + ["other", "here"]
    assert (row.ours, row.theirs) == ([2.0, 1.0, 3.0, 2.0], [4.0, 4.0, 4.0, 5.0])
    assert str(row).split() == ["start", "4.00", "2.00", "s", "0.50"]
