"""Hours in which a person is not disturbed."""

from __future__ import annotations

from datetime import time

import pytest
from ctxtop.core.policy.value_types import InvalidValueError, parse_quiet_hours, quiet_hours


@pytest.mark.parametrize(
    ("said", "moment", "quiet"),
    [
        ("22:00-07:00", time(23, 59), True),
        ("22:00-07:00", time(0, 0), True),
        ("22:00-07:00", time(6, 59, 59), True),
        ("22:00-07:00", time(7, 0), False),
        ("22:00-07:00", time(21, 59), False),
        ("9:00 - 12:30", time(12, 29), True),
        ("9:00 - 12:30", time(12, 30), False),
        ("9:00 - 12:30", time(8, 59), False),
        ("08:00-08:00", time(8, 0), False),
    ],
)
def test_they_hold_also_over_midnight(said: str, moment: time, quiet: bool) -> None:
    hours = parse_quiet_hours(said)
    assert hours is not None
    assert hours.contains(moment) is quiet


@pytest.mark.parametrize("said", ["", "22-7", "24:00-07:00", "22:60-07:00", "22:00", "x"])
def test_other_words_are_none(said: str) -> None:
    assert parse_quiet_hours(said) is None
    with pytest.raises(InvalidValueError, match=r"22:00-07:00, or 'off'"):
        quiet_hours("off")(said)


def test_they_are_written_in_one_way() -> None:
    assert quiet_hours("off")("7:05 - 9:00") == "07:05-09:00"
    assert quiet_hours("off")("off") == "off"
