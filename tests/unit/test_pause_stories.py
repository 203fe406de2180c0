"""Stories of paused fleets: no session is paused twice, or while it must not be."""

from __future__ import annotations

from collections import Counter

import pytest

from ..engine_fates import in_memory
from ..pause_stories import tell_pause_story

STORIES = 15
"""`python -m tests.prove_pauses` runs 1,000."""


@pytest.fixture(scope="module")
def ends() -> Counter[str]:
    found = Counter[str]()
    with in_memory() as folder:
        for seed in range(STORIES):
            found += tell_pause_story(seed, folder / "p")
    return found


def test_no_rule_is_broken_and_every_way_is_taken(ends: Counter[str]) -> None:
    assert ends["acted: client"] > 0
    assert ends["acted: hand-off"] > 0


def test_stories_have_what_they_are_about(ends: Counter[str]) -> None:
    """Processes were killed, others came first, sessions changed, and each reason was met."""
    assert ends["killed"] > 0
    assert ends["acted: paused"] > 0
    assert ends["acted: changed"] > 0
    for reason in ("busy", "waiting", "cold", "small", "idle-compaction", "unreachable", "paused"):
        assert ends[f"previewed: {reason}"] > 0
