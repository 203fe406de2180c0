"""Every strategy on sessions of the real client, in both modes: sent as planned, taken back whole.

`make prove` does every strategy on every session in both modes; without it each is done once.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
from ctxtop.core.compaction.receipts import ApplyMode
from ctxtop.core.compaction.transcript_planning import STRATEGIES

from .acts import VARIABLES
from .days import DAYS
from .lab import Lab
from .pairs import LEVELS, Day, Pair, days_of, prove_pair
from .ways import Counting

if TYPE_CHECKING:
    from collections.abc import Callable

    from .proofs import Proofs

MODES = (ApplyMode.FORK, ApplyMode.IN_PLACE)


ALL = (*(each.name for each in STRATEGIES), *LEVELS)


def every_pair() -> list[Pair]:
    return [Pair(each, day, mode) for each in ALL for day in days_of(each) for mode in MODES]


def one_of_each() -> list[Pair]:
    """Pick one pair for each strategy, so that every session and both modes occur."""
    found = []
    for number, each in enumerate(ALL):
        days = days_of(each)
        mode = MODES[(number + number // len(days)) % len(MODES)]
        found.append(Pair(each, days[number % len(days)], mode))
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "pair" in metafunc.fixturenames:
        pairs = every_pair() if metafunc.config.getoption("--all-pairs") else one_of_each()
        # Sessions take longest to make: what is done to one is done together.
        pairs.sort(key=lambda each: list(DAYS).index(each.day))
        metafunc.parametrize("pair", pairs, ids=str)


@pytest.fixture(scope="module")
def day_of(new_lab: Callable[[type[Lab]], Lab]) -> Callable[[str], Day]:
    """Sessions that are made once each."""

    @cache
    def day(name: str) -> Day:
        lab = new_lab(Counting)
        lab.variables = VARIABLES
        lab.define_agent("worker")
        return Day(name, lab, DAYS[name](lab))

    return day


def test_every_strategy_has_three_sessions_and_all_come_up() -> None:
    assert all(len(set(days_of(each))) >= 3 for each in ALL)
    chosen = one_of_each()
    assert [pair.strategy for pair in chosen] == [*ALL]
    assert {(pair.day, pair.mode) for pair in chosen} == {(day, m) for day in DAYS for m in MODES}


def test_a_strategy(day_of: Callable[[str], Day], pair: Pair, proofs: Proofs) -> None:
    proofs.tried.append(pair)
    # Equal bytes are sent equally: one pair a strategy asks the client once more.
    asked_again = pair in one_of_each()
    proofs.held[pair] = prove_pair(pair, day_of(pair.day), asked_again=asked_again)
