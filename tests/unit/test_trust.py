"""What a project's file may set without the person's trust, and what no file lifts."""

from __future__ import annotations

import pytest
from ctxtop.core.compaction.automation_rules import check_automation_enabled
from ctxtop.core.policy.policy import (
    MAX_THRESHOLDS,
    MIN_COOLDOWN_S,
    MIN_THRESHOLD_SHARE,
    STRICTEST_FIRST,
    TRUST_EFFECTS,
    UNTRUSTED_KEYS,
    KeyPermission,
    Policy,
    PolicyOrigin,
    ProjectTrust,
    key_permission,
)
from ctxtop.core.policy.resolve import (
    ProjectFile,
    ProjectPolicy,
    RawValue,
    changes_if_trusted,
    resolve_project_policy,
)
from ctxtop.core.policy.schema import KEYS, PRESETS

FILE = "/p/.ctxtop.toml"

SHOW = {
    "absolute.at_tokens",
    "absolute.from_window",
    "compliance.line_limit",
    "compliance.min_samples",
    "compliance.mode",
    "compliance.result_max_lines",
    "compliance.review_files",
    "compliance.review_line_limit",
    "compliance.rules",
    "compliance.soft_chars",
    "disabled_modules",
    "preset",
    "rearm.cooldown_s",
    "rearm.hysteresis",
    "rearm.on_compaction",
    "saveflow.fresh_for_s",
    "saveflow.orphan_after_s",
    "saveflow.sentinel_ttl_s",
    "threshold",
}
"""Looked at one by one: each changes only what ctxtop shows."""

NEED_TRUST = {
    "mode",
    "saveflow.locations",
    "price",
    "terminal.answer",
    *(name for name in KEYS if name.startswith(("usage.", "limit.", "compact.", "summary."))),
    *(name for name in KEYS if name.startswith(("importance.", "recovery.", "tools."))),
    *(name for name in KEYS if name.startswith(("injection.", "steering.", "prompts."))),
}


def project(*said: tuple[str, object], trust: ProjectTrust = ProjectTrust.UNTRUSTED) -> ProjectFile:
    given = tuple(RawValue(key, value, PolicyOrigin.PROJECT_FILE, FILE) for key, value in said)
    return ProjectFile("/p", given, trust)


def person(*said: tuple[str, object]) -> tuple[RawValue, ...]:
    return tuple(RawValue(key, value, PolicyOrigin.USER_FILE, "config.toml") for key, value in said)


def untrusted(*said: tuple[str, object]) -> ProjectPolicy:
    return resolve_project_policy((), project(*said))


def ignored(policy: Policy) -> set[str]:
    return {each.key for each in policy.ignored}


@pytest.mark.parametrize("name", KEYS)
def test_each_key_of_the_schema_was_looked_at(name: str) -> None:
    """A new key needs trust; where it goes is written down here."""
    if key_permission(name) is KeyPermission.PERSON:
        personal = ("ui.", "notify.", "cold.", "limits.", "backup.", "archive.", "pause.")
        assert name.startswith(personal)
    elif name in SHOW:
        assert key_permission(name) is KeyPermission.ANYONE
    else:
        assert name in NEED_TRUST
        assert key_permission(name) is KeyPermission.TRUSTED
        assert name.partition(".")[0] in TRUST_EFFECTS


def test_the_list_of_what_shows_names_only_keys_and_a_new_key_needs_trust() -> None:
    assert UNTRUSTED_KEYS == SHOW
    assert set(KEYS) >= UNTRUSTED_KEYS
    assert key_permission("compact.new_switch") is KeyPermission.TRUSTED
    assert key_permission("keys.sort") is KeyPermission.PERSON


@pytest.mark.parametrize("name", sorted(NEED_TRUST))
def test_no_untrusted_file_sets_what_acts(name: str) -> None:
    key = KEYS[name]
    other: object = {"mode": "auto", "compact.by": "client", "recovery.confirm": []}.get(name)
    if other is None:
        other = next(
            (
                values[name]
                for values in PRESETS.values()
                if values.get(name, key.default) != key.default
            ),
            key.default,
        )
    found = untrusted((name, other))
    assert found.shown.values[name].origin is PolicyOrigin.BUILT_IN
    assert found.acting.values[name].origin is PolicyOrigin.BUILT_IN
    assert ignored(found.shown) == {name}
    trusted = resolve_project_policy((), project((name, other), trust=ProjectTrust.TRUSTED))
    assert trusted.acting.values[name].origin is PolicyOrigin.PROJECT_FILE
    assert trusted.shown.ignored == ()


def test_what_shows_counts_for_what_is_shown_alone() -> None:
    found = untrusted(("threshold", ["0.5:high:compact"]), ("compliance.line_limit", 4))
    assert [each.at for each in found.shown.thresholds] == [0.5]
    assert found.shown.integer("compliance.line_limit") == 4
    assert found.acting.integer("compliance.line_limit") == 10
    assert len(found.acting.thresholds) == 5
    assert found.shown.ignored == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", [f"{MIN_THRESHOLD_SHARE - 0.01}:notice"]),
        ("threshold", ["0.1@trigger:notice"]),
        ("threshold", ["100@tokens:notice"]),
        ("threshold", [f"0.{number}:notice" for number in range(30, 31 + MAX_THRESHOLDS)]),
        ("absolute.at_tokens", 1),
        ("rearm.cooldown_s", 0),
        ("rearm.cooldown_s", MIN_COOLDOWN_S - 1),
        ("rearm.hysteresis", 0.0),
    ],
)
def test_no_untrusted_file_makes_a_notice_each_turn(name: str, value: object) -> None:
    found = untrusted((name, value))
    assert found.shown.values[name].origin is PolicyOrigin.BUILT_IN
    assert "notify on every turn" in found.shown.ignored[0].why
    trusted = resolve_project_policy((), project((name, value), trust=ProjectTrust.TRUSTED))
    assert trusted.shown.values[name].origin is PolicyOrigin.PROJECT_FILE


@pytest.mark.parametrize("name", PRESETS)
def test_no_untrusted_file_chooses_a_preset_that_acts(name: str) -> None:
    own = person(("preset", "omo-doc"))
    found = resolve_project_policy(own, project(("preset", name)))
    base = resolve_project_policy(own, project()).shown
    assert found.shown.preset == name
    for key in KEYS:
        if key_permission(key) is not KeyPermission.ANYONE:
            assert found.shown.value(key) == base.value(key), key
    assert found.acting.values == base.values
    differs = {key for key, value in PRESETS[name].items() if value != found.shown.value(key)}
    assert ignored(found.shown) == differs
    assert not check_automation_enabled(found.shown).allowed


def test_a_preset_shows_what_it_may_show() -> None:
    found = untrusted(("preset", "hybrid-buffer")).shown
    assert [each.at for each in found.thresholds] == [0.85, 0.90, 0.95]
    assert found.text("compliance.mode") == "off"
    assert found.value("rearm.cooldown_s") == "off"
    assert found.text("mode") == "suggest"


@pytest.mark.parametrize("key", ["ui.ascii", "notify.bell", "keys.sort"])
@pytest.mark.parametrize("trust", ProjectTrust)
def test_no_project_speaks_for_the_person(key: str, trust: ProjectTrust) -> None:
    value = "f6" if key == "keys.sort" else True
    found = resolve_project_policy((), project((key, value), trust=trust))
    assert ignored(found.shown) == {key}
    assert "your own settings" in found.shown.ignored[0].why
    assert key not in found.shown.values or found.shown.values[key].origin is PolicyOrigin.BUILT_IN


@pytest.mark.parametrize("trust", ProjectTrust)
def test_what_the_person_disabled_stays_disabled(trust: ProjectTrust) -> None:
    own = person(("disabled_modules", ["auto-recovery"]))
    for said in ([], ["injection"]):
        found = resolve_project_policy(own, project(("disabled_modules", said), trust=trust))
        for policy in (found.shown, found.acting):
            assert policy.texts("disabled_modules") == ("auto-recovery", *said)


@pytest.mark.parametrize("key", STRICTEST_FIRST)
def test_a_trusted_file_does_not_loosen_what_the_person_said(key: str) -> None:
    strictest, *others = STRICTEST_FIRST[key]
    other = others[-1] if others else KEYS[key].default
    file = project((key, other), trust=ProjectTrust.TRUSTED)
    assert resolve_project_policy((), file).acting.value(key) == other
    found = resolve_project_policy(person((key, strictest)), file).acting
    assert found.value(key) == strictest
    assert found.values[key].origin is PolicyOrigin.USER_FILE
    assert "cannot loosen" in found.ignored[0].why
    stricter = project((key, strictest), trust=ProjectTrust.TRUSTED)
    assert resolve_project_policy(person((key, other)), stricter).acting.value(key) == strictest


def test_steps_that_the_person_wants_to_confirm_stay_to_be_confirmed() -> None:
    own = person(("recovery.confirm", ["revert", "summarize"]))
    file = project(("recovery.confirm", ["dedup"]), trust=ProjectTrust.TRUSTED)
    found = resolve_project_policy(own, file).acting
    assert found.texts("recovery.confirm") == ("revert", "summarize", "dedup")


def test_an_untrusted_file_sets_nothing_by_a_name_that_is_unknown() -> None:
    found = untrusted(("recovery.confirm", ["dedupe"]), ("disabled_modules", ["dedupe"]))
    assert found.acting.texts("recovery.confirm") == ("revert",)
    assert ignored(found.shown) == {"recovery.confirm"}
    assert found.acting.texts("disabled_modules") == ("preemptive", "auto-recovery")


def test_what_would_begin_to_count_is_named_with_what_it_does() -> None:
    file = project(("mode", "auto"), ("threshold", ["0.5:high"]), ("price", {}), ("x", 1))
    found = {each.key: each.effect for each in changes_if_trusted((), file)}
    assert found == {
        "mode": "lets ctxtop change sessions automatically",
        "threshold": "also applies to hooks and automatic actions",
    }
    preset = {each.key for each in changes_if_trusted((), project(("preset", "clnode-code")))}
    assert {"injection.same_type_scope", "injection.fallback", "mode"} <= preset


def test_a_changed_file_is_said_to_have_changed() -> None:
    found = resolve_project_policy((), project(("mode", "auto"), trust=ProjectTrust.CHANGED)).shown
    assert found.trust is ProjectTrust.CHANGED
    assert "has changed since you trusted it: `ctxtop trust /p`" in found.ignored[0].fix


def test_a_folder_s_name_is_quoted_for_the_shell() -> None:
    file = ProjectFile("/p; rm x", project(("mode", "auto")).raw_values, ProjectTrust.UNTRUSTED)
    assert "`ctxtop trust '/p; rm x'`" in resolve_project_policy((), file).shown.ignored[0].fix
