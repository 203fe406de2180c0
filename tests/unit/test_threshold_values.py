"""Levels that numbers or a slider move: the others stay, and their order is kept."""

from __future__ import annotations

import pytest
from ctxtop.core.model.levels import DEFAULT_THRESHOLDS, Level, Threshold, ThresholdBase
from ctxtop.core.policy.policy import Policy, PolicyOrigin, ProjectTrust
from ctxtop.core.policy.resolve import (
    ProjectFile,
    RawValue,
    resolve_policy,
    resolve_project_policy,
)
from ctxtop.core.policy.schema import KEYS, parse_change
from ctxtop.core.policy.threshold_values import (
    change_thresholds,
    movable_thresholds,
    move_threshold,
)
from ctxtop.core.policy.value_types import InvalidValueError

OWN = ["0.5:notice:inform", "0.65:warning:warn", "0.9:emergency", "300000@tokens:notice:inform"]


def resolved(*said: tuple[PolicyOrigin, object]) -> Policy:
    return resolve_policy(RawValue("threshold", value, origin, "x") for origin, value in said)


def levels(policy: Policy) -> list[tuple[str, float]]:
    return [(each.level.value, each.at) for each in policy.thresholds]


def test_numbers_move_levels_of_the_value_below_and_leave_the_others() -> None:
    policy = resolved((PolicyOrigin.USER_FILE, OWN), (PolicyOrigin.ENVIRONMENT, "60%, 88%"))
    assert policy.notices == ()
    assert policy.values["threshold"].origin is PolicyOrigin.ENVIRONMENT
    assert policy.thresholds == (
        Threshold(0.6, Level.NOTICE, "inform"),
        Threshold(0.88, Level.WARNING, "warn"),
        Threshold(0.9, Level.EMERGENCY, "alert"),
        Threshold(300_000, Level.NOTICE, "inform", of=ThresholdBase.TOKENS),
    )


def test_numbers_in_two_places_both_apply() -> None:
    policy = resolved((PolicyOrigin.COMMAND_LINE, 0.78), (PolicyOrigin.USER_FILE, [0.6, 0.75, 0.9]))
    assert levels(policy)[:4] == [
        ("notice", 0.6),
        ("warning", 0.78),
        ("high", 0.9),
        ("emergency", 0.95),
    ]


def test_numbers_move_levels_of_a_preset() -> None:
    policy = resolve_policy(
        [
            RawValue("preset", "omo-2.6", PolicyOrigin.USER_FILE, "x"),
            RawValue("threshold", "60%, 75%", PolicyOrigin.USER_FILE, "x"),
        ]
    )
    assert levels(policy) == [("notice", 0.6), ("warning", 0.75), ("high", 0.85)]


def test_numbers_out_of_order_are_one_notice_and_the_value_below_applies() -> None:
    policy = resolved((PolicyOrigin.USER_FILE, OWN), (PolicyOrigin.ENVIRONMENT, "60%, 95%"))
    (notice,) = policy.notices
    assert "rising shares: warning at 95% is not below emergency at 90%" in str(notice)
    assert levels(policy)[1] == ("warning", 0.65)


def test_an_untrusted_file_sets_no_low_level_by_a_number_either() -> None:
    own = [RawValue("threshold", "0.9:notice", PolicyOrigin.USER_FILE, "mine")]
    for said in ("0.1, 0.86", "10%, 86%"):
        raw = RawValue("threshold", said, PolicyOrigin.PROJECT_FILE, "theirs")
        project = ProjectFile("/p", (raw,), ProjectTrust.UNTRUSTED)
        found = resolve_project_policy(own, project).shown
        assert levels(found) == [("notice", 0.9)]
        assert [each.key for each in found.ignored] == ["threshold"]


def test_a_change_is_read_on_top_of_the_value_in_force() -> None:
    current = change_thresholds(OWN, ())
    found = parse_change("threshold", "55%, 70%", current)
    assert found == change_thresholds("55%, 70%", current)
    assert [each.at for each in movable_thresholds(found)] == [0.55, 0.7, 0.9]
    assert parse_change("threshold", "0.8:high", current) == (
        Threshold(0.8, Level.HIGH, "offer_compact"),
    )
    assert parse_change("mode", "auto", "observe") == "auto"
    with pytest.raises(
        InvalidValueError, match="warning at 95% is not below emergency at 90%; move both"
    ):
        parse_change("threshold", 0.95, current)


def test_one_moved_level_leaves_the_others() -> None:
    found = move_threshold(DEFAULT_THRESHOLDS, 1, 0.75)
    assert [each.at for each in found] == [0.7, 0.75, 0.85, 0.95, 1.0]
    assert [each.action for each in found] == [each.action for each in DEFAULT_THRESHOLDS]


@pytest.mark.parametrize(
    ("place", "at", "expected"),
    [(1, 0.2, 0.71), (1, 0.99, 0.84), (0, -1, 0.01), (0, 0.7, 0.7), (4, 9, 2.0), (1, 0.8149, 0.81)],
)
def test_a_level_does_not_pass_its_neighbours(place: int, at: float, expected: float) -> None:
    found = move_threshold(DEFAULT_THRESHOLDS, place, at)
    assert found[place].at == expected
    assert len(found) == len(DEFAULT_THRESHOLDS)


def test_what_is_no_share_of_the_window_is_not_moved() -> None:
    value = (Threshold(1.0, Level.HIGH, "native", of=ThresholdBase.TRIGGER), *DEFAULT_THRESHOLDS)
    assert movable_thresholds(value) == DEFAULT_THRESHOLDS
    assert move_threshold(value, 0, 0.6)[0] == value[0]


@pytest.mark.parametrize("name", ["backup.keep_days", "backup.max_mib"])
def test_only_a_person_sets_how_long_backups_stay(name: str) -> None:
    raw = RawValue(name, 16, PolicyOrigin.PROJECT_FILE, "theirs")
    for trust in ProjectTrust:
        found = resolve_project_policy((), ProjectFile("/p", (raw,), trust))
        assert found.acting.value(name) == KEYS[name].default
        assert [each.key for each in found.shown.ignored] == [name]
