"""Values of the policy: which layer wins, and what becomes of one that is not understood."""

from __future__ import annotations

import random
from typing import Any

import pytest
from ctxtop.core.model.levels import (
    DEFAULT_THRESHOLDS,
    Level,
    Threshold,
    ThresholdBase,
    ThresholdOp,
)
from ctxtop.core.policy.policy import PolicyOrigin
from ctxtop.core.policy.resolve import (
    MAX_NOTICES,
    Policies,
    RawValue,
    flatten_tables,
    resolve_policy,
)
from ctxtop.core.policy.schema import KEYS
from ctxtop.core.policy.unknown_keys import OTHER_NAMES
from ctxtop.core.policy.value_types import MAX_LIST_ITEMS, format_value, to_json_value
from msgspec.structs import replace

from ..seed import SEED

SAID = [
    PolicyOrigin.COMMAND_LINE,
    PolicyOrigin.ENVIRONMENT,
    PolicyOrigin.PROJECT_FILE,
    PolicyOrigin.USER_FILE,
]


def given(origin: PolicyOrigin, value: object, key: str = "compact.min_tokens") -> RawValue:
    return RawValue(key, value, origin, f"the {origin.value}")


def test_the_highest_layer_wins_whatever_the_order() -> None:
    values = [given(origin, number) for number, origin in enumerate(SAID, start=1)]
    values.append(given(PolicyOrigin.USER_FILE, "not-agent", "preset"))
    for place in range(len(SAID)):
        rest = [each for each in values if each.origin not in SAID[:place]]
        shuffled = random.Random(SEED).sample(rest, len(rest))
        found = resolve_policy(shuffled).values["compact.min_tokens"]
        if rest:
            assert (found.value, found.origin) == (place + 1, SAID[place])
            assert found.where == f"the {SAID[place].value}"


def test_a_preset_lies_above_the_built_in_and_below_all_others() -> None:
    said = [given(PolicyOrigin.USER_FILE, "not-agent", "preset")]
    preset = resolve_policy(said).values["compact.preserve_recent"]
    said.append(given(PolicyOrigin.USER_FILE, 7, "compact.preserve_recent"))
    user = resolve_policy(said).values["compact.preserve_recent"]

    assert (preset.value, preset.origin, preset.where) == (4, PolicyOrigin.PRESET, "not-agent")
    assert (user.value, user.origin) == (7, PolicyOrigin.USER_FILE)
    assert resolve_policy(()).values["compact.preserve_recent"].origin is PolicyOrigin.BUILT_IN


def test_the_last_one_said_in_a_place_holds_there() -> None:
    said = [given(PolicyOrigin.COMMAND_LINE, "1"), given(PolicyOrigin.COMMAND_LINE, "2")]

    assert resolve_policy(said).value("compact.min_tokens") == 2


def test_a_bad_value_is_one_notice_and_the_next_layer_holds() -> None:
    policy = resolve_policy(
        [given(PolicyOrigin.ENVIRONMENT, "many"), given(PolicyOrigin.USER_FILE, 70_000)]
    )

    assert policy.value("compact.min_tokens") == 70_000
    assert policy.values["compact.min_tokens"].origin is PolicyOrigin.USER_FILE
    (notice,) = policy.notices
    assert str(notice) == (
        "the environment: compact.min_tokens: 'many' is not valid;"
        " use a whole number from 0 to 100000000; until then the next origin applies"
    )


def test_a_bad_preset_leaves_the_next_one() -> None:
    said = [
        given(PolicyOrigin.COMMAND_LINE, "nope", "preset"),
        given(PolicyOrigin.PROJECT_FILE, "omo-doc", "preset"),
    ]
    policy = resolve_policy(said)

    assert policy.preset == "omo-doc"
    assert len(policy.notices) == 1


def test_a_key_that_there_is_not_is_told_with_the_one_that_was_meant() -> None:
    (near,) = resolve_policy([given(PolicyOrigin.USER_FILE, 1, "compact.min_token")]).notices
    (far,) = resolve_policy([given(PolicyOrigin.USER_FILE, 1, "x")]).notices

    assert (near.what, near.fix) == ("no such key", "did you mean compact.min_tokens?")
    assert far.fix == "`ctxtop settings` lists the keys"


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_that_another_system_gives_to_a_setting_leads_to_it(name: str) -> None:
    (notice,) = resolve_policy([given(PolicyOrigin.USER_FILE, 1, name)]).notices
    ours = OTHER_NAMES[name].split(", ")
    assert (notice.what, notice.fix) == ("no such key", f"here it is called {', '.join(ours)}")
    assert set(ours) <= set(KEYS)


def test_a_key_that_was_removed_says_what_applies_instead() -> None:
    policy = resolve_policy([given(PolicyOrigin.USER_FILE, False, "compact.pair_safe")])
    (notice,) = policy.notices

    assert notice.what == "no longer a setting"
    assert notice.fix == "remove it: a tool call is always kept with its result"
    assert "compact.pair_safe" not in policy.values


def test_a_file_of_something_else_is_no_flood() -> None:
    policy = resolve_policy(
        given(PolicyOrigin.USER_FILE, 1, f"x{number}") for number in range(5000)
    )

    assert len(policy.notices) == MAX_NOTICES


BAD: list[tuple[str, object]] = [
    ("mode", "automatic"),
    ("mode", 1),
    ("compact.min_tokens", True),
    ("compact.min_tokens", 1.5),
    ("compact.min_tokens", -1),
    ("compact.min_tokens", "nan"),
    ("compact.min_tokens", float("inf")),
    ("compact.min_tokens", 10**400),
    ("compact.min_tokens", [1]),
    ("summary.cache", "perhaps"),
    ("summary.cache", 2),
    ("rearm.hysteresis", "never"),
    ("rearm.hysteresis", -0.1),
    ("rearm.hysteresis", 1.01),
    ("compact.target_reduction", [0.7, 0.5]),
    ("compact.target_reduction", [0.5]),
    ("compact.target_reduction", "a,b"),
    ("limit.override", {"m": 0}),
    ("limit.override", {"m": 33_000}),
    ("limit.override", {"m": "many"}),
    ("limit.override", "no-equals"),
    ("limit.override", 5),
    ("summary.model", ""),
    ("summary.model", "m" * 500),
    ("threshold", "60, 75"),
    ("threshold", "60%"),
    ("threshold", "60%, 90%"),
    ("threshold", "75%, 60%"),
    ("threshold", "0.6, 0.6"),
    ("threshold", "60%, high"),
    ("threshold", "0%, 75%"),
    ("threshold", "1%, 2%, 3%, 4%, 5%, 6%"),
    ("threshold", True),
    ("threshold", "0.8:loud"),
    ("threshold", "0:notice"),
    ("threshold", "3:notice"),
    ("threshold", "0.8:warning:dance"),
    ("threshold", "0.8:warning:warn:more"),
    ("threshold", "0.8@moon:warning"),
    ("threshold", "0.8:warning,0.8:high"),
    ("threshold", [{"at": 0.8}]),
    ("threshold", [{"at": 0.8, "level": "high", "color": "red"}]),
    ("threshold", [{"at": 0.8, "level": ["high"]}]),
    ("threshold", [7]),
    ("threshold", [{"at": 0.001 * n, "level": "high"} for n in range(1, MAX_LIST_ITEMS + 2)]),
]


@pytest.mark.parametrize(("key", "value"), BAD)
def test_what_a_key_does_not_take(key: str, value: object) -> None:
    policy = resolve_policy([given(PolicyOrigin.PROJECT_FILE, value, key)])

    assert policy.value(key) == KEYS[key].default
    assert len(policy.notices) == 1
    assert len(str(policy.notices[0])) < 400


STEPS = ("dedup", "aggressive", "truncate_largest", "fix_empty", "summarize", "dcp")
MONITOR, ACTING = "context-window-monitor", ("preemptive", "auto-recovery")
UNCLEAR: dict[str, tuple[str, object, tuple[str, ...], str]] = {
    "a name of nothing": ("disabled_modules", ["nothing"], ACTING, "'nothing'"),
    "no list": ("disabled_modules", 3, ACTING, "'3'"),
    "too many": ("disabled_modules", [MONITOR] * 51, (MONITOR, *ACTING), "['context"),
    "known names stay": (
        "disabled_modules",
        f"{MONITOR}, nothing, injection, else",
        (MONITOR, "injection", *ACTING),
        "'nothing, else'",
    ),
    "steps": ("recovery.confirm", ["dedupe", "revert"], ("revert", *STEPS), "'dedupe'"),
}


@pytest.mark.parametrize("name", UNCLEAR)
def test_an_unknown_name_allows_nothing_that_was_forbidden(name: str) -> None:
    """What is not understood may be any of the modules that act: these wait for the person."""
    key, value, applies, unclear = UNCLEAR[name]
    for origin in (PolicyOrigin.ENVIRONMENT, PolicyOrigin.USER_FILE):
        policy = resolve_policy([given(origin, value, key)])
        (notice,) = policy.notices
        assert policy.value(key) == applies
        assert policy.values[key].origin is origin
        assert unclear in notice.what
        assert notice.fix.endswith(f"until then it is read as {', '.join(applies)}")


def test_the_names_that_oh_my_opencode_gives_its_hooks_are_understood() -> None:
    """002-104: its two, as its documentation has them; and the later ones (0.2)."""
    seed = [MONITOR, "anthropic-auto-compact"]
    policy = resolve_policy([given(PolicyOrigin.USER_FILE, seed, "disabled_modules")])
    assert (policy.warns, policy.suggests, policy.recovers) == (False, True, False)
    assert policy.notices == ()
    later = "anthropic-context-window-limit-recovery, preemptive-compaction, auto-recovery"
    policy = resolve_policy([given(PolicyOrigin.USER_FILE, later, "disabled_modules")])
    assert policy.texts("disabled_modules") == ("auto-recovery", "preemptive")


DEFAULT_WITH_60_75 = (
    replace(DEFAULT_THRESHOLDS[0], at=0.6),
    replace(DEFAULT_THRESHOLDS[1], at=0.75),
    *DEFAULT_THRESHOLDS[2:],
)

GOOD: list[tuple[str, object, object]] = [
    ("compact.min_tokens", "70_000", 70_000),
    ("compact.min_tokens", 70_000.0, 70_000),
    ("summary.cache", "off", False),
    ("rearm.hysteresis", "off", "off"),
    ("rearm.hysteresis", 0, 0.0),
    ("compact.preserve_recent", "native", "native"),
    ("disabled_modules", "", ()),
    ("disabled_modules", "compliance, injection", ("compliance", "injection")),
    ("compact.target_reduction", "0.4, 0.6", (0.4, 0.6)),
    ("limit.override", "a=33001, b=64000", {"a": 33_001, "b": 64_000}),
    ("threshold", "", ()),
    ("threshold", "60%, 75%", DEFAULT_WITH_60_75),
    ("threshold", "0.6,0.75", DEFAULT_WITH_60_75),
    ("threshold", ["60%", 0.75], DEFAULT_WITH_60_75),
    (
        "threshold",
        0.82,
        (*DEFAULT_THRESHOLDS[:1], replace(DEFAULT_THRESHOLDS[1], at=0.82), *DEFAULT_THRESHOLDS[2:]),
    ),
    ("threshold", "82%:warning", (Threshold(0.82, Level.WARNING, "suggest"),)),
    (
        "threshold",
        "0.7:notice, >0.9:high:compact, 1@trigger:emergency, 300000@tokens:notice:inform",
        (
            Threshold(0.7, Level.NOTICE, "reassure"),
            Threshold(0.9, Level.HIGH, "compact", ThresholdOp.ABOVE),
            Threshold(1.0, Level.EMERGENCY, "alert", of=ThresholdBase.TRIGGER),
            Threshold(300_000, Level.NOTICE, "inform", of=ThresholdBase.TOKENS),
        ),
    ),
    (
        "threshold",
        [{"at": 0.6, "op": ">", "level": "warning", "action": "warn"}],
        (Threshold(0.6, Level.WARNING, "warn", ThresholdOp.ABOVE),),
    ),
]


@pytest.mark.parametrize(("key", "said", "value"), GOOD)
def test_what_a_key_takes(key: str, said: object, value: object) -> None:
    policy = resolve_policy([given(PolicyOrigin.ENVIRONMENT, said, key)])

    assert policy.notices == ()
    assert policy.value(key) == value


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_what_is_shown_can_be_said(key: Any) -> None:  # noqa: ANN401
    assert key.parse(format_value(key.default)) == key.default
    assert key.parse(to_json_value(key.default)) == key.default


def test_a_value_of_another_kind_than_was_asked_for() -> None:
    policy = resolve_policy(())

    with pytest.raises(TypeError):
        policy.flag("mode")
    with pytest.raises(TypeError):
        policy.integer("summary.cache")
    with pytest.raises(KeyError):
        policy.value("nothing")
    assert policy.integer("rearm.cooldown_s") is None


def test_tables_become_dotted_keys() -> None:
    table = {
        "policy": {"preset": "omo-doc"},
        "rearm": {"hysteresis": 0.1},
        "recovery": {"retry": {"max": 3}},
        "limit": {"override": {"a.b": 1}},
        "threshold": [{"at": 0.5, "level": "notice"}],
    }

    assert flatten_tables(table) == {
        "preset": "omo-doc",
        "rearm.hysteresis": 0.1,
        "recovery.retry.max": 3,
        "limit.override": {"a.b": 1},
        "threshold": [{"at": 0.5, "level": "notice"}],
    }


def test_a_projects_policy_is_its_own() -> None:
    own = resolve_policy([given(PolicyOrigin.PROJECT_FILE, 1)])
    policies = Policies(projects={"/p": own})

    assert policies.for_project("/p") is own
    assert policies.for_project("/q") is policies.for_project(None) is policies.common
