"""Resolves policies: the highest origin wins, and a project's file sets only what it may."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from .policy import (
    ADDITIVE_KEYS,
    STRICTEST_FIRST,
    IgnoredValue,
    KeyPermission,
    Policy,
    PolicyNotice,
    PolicyOrigin,
    ProjectTrust,
    ResolvedValue,
    key_permission,
    make_policy,
    trust_effect,
    why_too_low,
)
from .schema import (
    KEYS,
    PRESETS,
    find_key,
    is_partial,
    parse_change,
)
from .unknown_keys import REMOVED_KEYS, unknown_key_fix
from .value_types import InvalidValueError, PartlyValidError, PolicyValue, format_value

POLICY_TABLE: Final = "policy"
"""The table of a file whose keys have no table of their own: `[policy] preset = …`."""

MAX_SHOWN_CHARS: Final = 60  # of an invalid value
MAX_NOTICES: Final = 20  # a file of something else has thousands of unknown keys


class RawValue(msgspec.Struct, frozen=True):
    """A value as it was set, not yet parsed."""

    key: str
    value: object
    origin: PolicyOrigin
    where: str  # the file, the variable or the option


def flatten_tables(table: Mapping[str, object], root: str = "") -> dict[str, object]:
    """Flatten a file's tables into dotted keys; the value of a known key is kept whole."""
    flat: dict[str, object] = {}
    for name, value in table.items():
        key = f"{root}.{name}" if root else name
        if isinstance(value, dict) and key == POLICY_TABLE:
            flat |= flatten_tables(value)
        elif isinstance(value, dict) and key not in KEYS:
            flat |= flatten_tables(value, key)
        else:
            flat[key] = value
    return flat


def resolve_policy(
    raw_values: Iterable[RawValue], preset_overrides: Mapping[str, ResolvedValue] | None = None
) -> Policy:
    """Make the policy of these values; of several for one key and origin the last one wins.

    An invalid value becomes a notice, and the next lower origin's value applies. A preset's and
    the built-in values always exist; `preset_overrides` replaces the preset's values. A project's
    file is taken as trusted: `resolve_project_policy` checks that.
    """
    notices: list[PolicyNotice] = []
    parsed = {origin: dict[str, ResolvedValue]() for origin in PolicyOrigin}
    partial: dict[tuple[PolicyOrigin, str], RawValue] = {}
    for raw in raw_values:
        try:
            if is_partial(raw.key, raw.value):
                partial[raw.origin, raw.key] = raw
                continue
            value = find_key(raw.key).parse(raw.value)
        except (KeyError, InvalidValueError) as error:
            if len(notices) < MAX_NOTICES:
                notices.append(_make_notice(raw, error))
            if not isinstance(error, PartlyValidError):
                continue
            value = error.safe
        parsed[raw.origin][raw.key] = ResolvedValue(find_key(raw.key), value, raw.origin, raw.where)
        partial.pop((raw.origin, raw.key), None)
    parsed[PolicyOrigin.BUILT_IN] = {
        key.name: ResolvedValue(key, key.default, PolicyOrigin.BUILT_IN, "")
        for key in KEYS.values()
    }
    if preset_overrides is None:
        preset_overrides = _preset_values(str(_winning_value(parsed, "preset").value))
    parsed[PolicyOrigin.PRESET] = dict(preset_overrides)
    notices += _complete_partial(parsed, partial)
    # A key without a default is in the policy only if it was set.
    without_default = {name for values in parsed.values() for name in values if name not in KEYS}
    values = {name: _winning_value(parsed, name) for name in (*KEYS, *sorted(without_default))}
    personal = (
        parsed[PolicyOrigin.USER_FILE]
        | parsed[PolicyOrigin.ENVIRONMENT]
        | parsed[PolicyOrigin.COMMAND_LINE]
    )
    restricted, ignored = _restrict(values, parsed[PolicyOrigin.PROJECT_FILE], personal)
    return make_policy(values | restricted, notices, ignored)


def _complete_partial(
    parsed: dict[PolicyOrigin, dict[str, ResolvedValue]],
    partial: Mapping[tuple[PolicyOrigin, str], RawValue],
) -> list[PolicyNotice]:
    """Complete values that leave a part to what is set below them, the lowest origin first."""
    notices = []
    order = list(PolicyOrigin)
    for (origin, name), raw in sorted(partial.items(), key=lambda it: -order.index(it[0][0])):
        below = {each: parsed[each] for each in order[order.index(origin) :]}
        try:
            value = parse_change(name, raw.value, _winning_value(below, name).value)
            parsed[origin][name] = ResolvedValue(find_key(name), value, origin, raw.where)
        except InvalidValueError as error:
            notices.append(_make_notice(raw, error))
    return notices


def _preset_values(name: str) -> dict[str, ResolvedValue]:
    return {
        key: ResolvedValue(KEYS[key], value, PolicyOrigin.PRESET, name)
        for key, value in PRESETS[name].items()
    }


def _winning_value(
    parsed: Mapping[PolicyOrigin, Mapping[str, ResolvedValue]], name: str
) -> ResolvedValue:
    return next(values[name] for values in parsed.values() if name in values)


def _make_notice(raw: RawValue, error: Exception) -> PolicyNotice:
    if isinstance(error, InvalidValueError):
        text = str(raw.value)
        until = "the next origin applies"
        if isinstance(error, PartlyValidError):
            text, until = error.unclear, f"it is read as {', '.join(error.safe)}"
        short = text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
        what, fix = f"{short!r} is not valid", f"use {error}; until then {until}"
    else:
        what = "no longer a setting" if raw.key in REMOVED_KEYS else "no such key"
        fix = unknown_key_fix(raw.key)
    return PolicyNotice(raw.key, raw.where, raw.origin, what, fix)


def _restrict(
    values: Mapping[str, ResolvedValue],
    of_project: Mapping[str, ResolvedValue],
    personal: Mapping[str, ResolvedValue],
) -> tuple[dict[str, ResolvedValue], list[IgnoredValue]]:
    """Return which values apply to keys that both set, and what of the project's does not."""
    restricted, ignored = {}, []
    for name, project in of_project.items():
        person = personal.get(name)
        if person is None:
            continue
        if name in ADDITIVE_KEYS:
            restricted[name] = _combine_lists(person, project)
        elif values[name] is project and _is_looser(name, person, project):
            restricted[name] = person
            why = (
                f"your own file says {format_value(person.value)},"
                " which a project's file cannot loosen"
            )
            fix = f"change {name} in {person.where}"
            ignored.append(IgnoredValue(name, format_value(project.value), project.where, why, fix))
    return restricted, ignored


def _combine_lists(person: ResolvedValue, project: ResolvedValue) -> ResolvedValue:
    if not (isinstance(person.value, tuple) and isinstance(project.value, tuple)):
        return person
    own = tuple(str(each) for each in person.value)
    added = tuple(str(each) for each in project.value if each not in own)
    return replace(project, value=(*own, *added)) if added else person


def _is_looser(name: str, person: ResolvedValue, project: ResolvedValue) -> bool:
    order = STRICTEST_FIRST.get(name, ())
    if person.value not in order:
        return False
    return project.value not in order[: order.index(person.value) + 1]


BUILT_IN_POLICY: Final = resolve_policy(())  # the policy if nothing was set


class Policies(msgspec.Struct, frozen=True):
    """The policy of each project, and that of all others."""

    common: Policy = BUILT_IN_POLICY
    projects: Mapping[str, Policy] = {}  # by folder, only of those that set something themselves
    acting_projects: Mapping[str, Policy] = {}
    """The same for what ctxtop does by itself: keys that only change what is shown do not count."""

    def for_project(self, project_root: str | None) -> Policy:
        """Return the policy of a session that began in this folder."""
        return self.projects.get(project_root or "", self.common)

    @property
    def acting(self) -> Policies:
        """The policies for what changes sessions, starts processes or speaks to a model."""
        return Policies(self.common, self.acting_projects, self.acting_projects)

    @property
    def all(self) -> tuple[Policy, ...]:
        return (self.common, *self.projects.values())


DEFAULT_POLICIES: Final = Policies()  # no project sets anything


class ProjectPolicy(msgspec.Struct, frozen=True):
    shown: Policy  # for what ctxtop shows
    acting: Policy  # for what ctxtop does: of an untrusted file only what it disables


class ProjectFile(msgspec.Struct, frozen=True):
    folder: str
    raw_values: tuple[RawValue, ...]
    trust: ProjectTrust


def resolve_project_policy(personal_values: Sequence[RawValue], file: ProjectFile) -> ProjectPolicy:
    ignored: list[IgnoredValue] = []
    others: list[RawValue] = []
    for raw in file.raw_values:
        if key_permission(raw.key) is KeyPermission.PERSON:
            why = "only your own settings can set this"
            ignored.append(_ignored(raw, why, "set it in your own file: `ctxtop settings set`"))
        else:
            others.append(raw)
    if file.trust is ProjectTrust.TRUSTED:
        policy = _with_project(resolve_policy((*others, *personal_values)), ignored, file)
        return ProjectPolicy(policy, policy)
    kept: list[RawValue] = []
    for raw in others:
        if why := _why_ignored(raw):
            ignored.append(_untrusted(raw, why, file))
        else:
            kept.append(raw)
    disabled = [raw for raw in kept if raw.key == "disabled_modules"]
    shown = resolve_policy((*kept, *personal_values), _mixed_preset(personal_values, kept))
    ignored += _ignored_of_preset(shown, file)
    acting = _with_project(resolve_policy((*disabled, *personal_values)), (), file)
    return ProjectPolicy(_with_project(shown, ignored, file), acting)


class TrustChange(msgspec.Struct, frozen=True):
    """A value that begins to apply once a project's file is trusted."""

    key: str
    value_text: str
    effect: str


def changes_if_trusted(personal_values: Sequence[RawValue], file: ProjectFile) -> list[TrustChange]:
    """List what trusting a project's file changes, in what is shown and in what ctxtop does."""
    before, trusted = (
        resolve_project_policy(personal_values, replace(file, trust=trust))
        for trust in (ProjectTrust.UNTRUSTED, ProjectTrust.TRUSTED)
    )
    return [
        TrustChange(name, format_value(new.value), trust_effect(name))
        for name, new in trusted.acting.values.items()
        if name in KEYS
        and (new.value, new.value)
        != (before.acting.values[name].value, before.shown.values[name].value)
    ]


def _why_ignored(raw: RawValue) -> str:
    """Return why an untrusted file's value does not apply; empty if it does, or is invalid."""
    try:
        # Only what a partial value names itself: the rest is the person's.
        value = parse_change(raw.key, raw.value, ())
    except PartlyValidError as error:
        value = error.safe
    except (KeyError, InvalidValueError):
        # `resolve_policy` makes a notice of it.
        return ""
    return _why_untrusted(raw.key, value)


def _why_untrusted(name: str, value: PolicyValue) -> str:
    if key_permission(name) is not KeyPermission.ANYONE:
        return f"it {trust_effect(name)}"
    low = why_too_low(name, value)
    return f"{low}, which would notify on every turn" if low else ""


def _mixed_preset(
    personal_values: Sequence[RawValue], kept: Sequence[RawValue]
) -> dict[str, ResolvedValue] | None:
    """Combine an untrusted file's preset (display keys only) with the person's preset."""
    if not any(raw.key == "preset" for raw in kept):
        return None
    own = _preset_values(resolve_policy(personal_values).preset)
    chosen = _preset_values(resolve_policy((*kept, *personal_values)).preset)
    mixed = {
        name: value
        for name, value in own.items()
        if key_permission(name) is not KeyPermission.ANYONE
    }
    return mixed | {
        name: each for name, each in chosen.items() if not _why_untrusted(name, each.value)
    }


def _ignored_of_preset(shown: Policy, file: ProjectFile) -> list[IgnoredValue]:
    preset = shown.values["preset"]
    if preset.origin is not PolicyOrigin.PROJECT_FILE:
        return []
    own = {raw.key for raw in file.raw_values}
    where = f"{preset.where}: preset {shown.preset}"
    return [
        _untrusted(RawValue(name, value, preset.origin, where), why, file)
        for name, value in PRESETS[shown.preset].items()
        if name not in own and shown.values[name].value != value
        if (why := _why_untrusted(name, value))
    ]


def _untrusted(raw: RawValue, why: str, file: ProjectFile) -> IgnoredValue:
    state = (
        "has changed since you trusted it"
        if file.trust is ProjectTrust.CHANGED
        else "is not trusted"
    )
    fix = f"the file {state}: `ctxtop trust {shlex.quote(file.folder)}` shows it, and asks"
    return _ignored(raw, why, fix)


def _ignored(raw: RawValue, why: str, fix: str) -> IgnoredValue:
    try:
        text = format_value(parse_change(raw.key, raw.value, ()))
    except (KeyError, InvalidValueError):
        text = str(raw.value)
    return IgnoredValue(raw.key, text, raw.where, why, fix)


def _with_project(policy: Policy, ignored: Sequence[IgnoredValue], file: ProjectFile) -> Policy:
    order = {name: place for place, name in enumerate(KEYS)}
    every = sorted((*ignored, *policy.ignored), key=lambda each: order.get(each.key, len(order)))
    return replace(policy, ignored=tuple(every), trust=file.trust)
