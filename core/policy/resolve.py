"""Resolves policies: the highest origin wins, and a project's file sets only what it may."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import msgspec

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
from .presets import PRESETS
from .schema import KEYS, find_key
from .value_types import InvalidValueError, PolicyValue, format_value


def apply_restrictions(
    found: Mapping[str, ResolvedValue],
    of_project: Mapping[str, ResolvedValue],
    of_person: Mapping[str, ResolvedValue],
) -> tuple[dict[str, ResolvedValue], list[IgnoredValue]]:
    """Return what holds of the keys that both set, and what the project's file says in vain."""
    held, ignored = {}, []
    for name, project in of_project.items():
        person = of_person.get(name)
        if person is None:
            continue
        if name in ADDITIVE_KEYS:
            held[name] = _combine_lists(person, project)
        elif found[name] is project and _is_looser(name, person, project):
            held[name] = person
            ignored.append(_not_loosened(person, project))
    return held, ignored


def _combine_lists(person: ResolvedValue, project: ResolvedValue) -> ResolvedValue:
    if not (isinstance(person.value, tuple) and isinstance(project.value, tuple)):
        return person
    own = tuple(str(each) for each in person.value)
    more = tuple(str(each) for each in project.value if each not in own)
    return (
        ResolvedValue(project.key, (*own, *more), project.origin, project.where) if more else person
    )


def _is_looser(name: str, person: ResolvedValue, project: ResolvedValue) -> bool:
    order = STRICTEST_FIRST.get(name, ())
    if person.value not in order:
        return False
    return project.value not in order[: order.index(person.value) + 1]


def _not_loosened(person: ResolvedValue, project: ResolvedValue) -> IgnoredValue:
    why = f"your own file says {format_value(person.value)}, which a project's file does not loosen"
    remedy = f"change {project.key.name} in {person.where}"
    return IgnoredValue(project.key.name, format_value(project.value), project.where, why, remedy)


POLICY_TABLE: Final = "policy"
"""The table of a file whose keys have no table of their own: `[policy] preset = …`."""

MAX_SHOWN_CHARS: Final = 60  # of a value that was not understood
MAX_NOTICES: Final = 20  # a file of something else has thousands of unknown keys; more help nobody


class RawValue(msgspec.Struct, frozen=True):
    """One value as it was said, not yet read."""

    key: str
    value: object
    origin: PolicyOrigin
    where: str  # the file, the variable or the option


def flatten_tables(table: Mapping[str, object], root: str = "") -> dict[str, object]:
    """Flatten a file's tables into dotted keys; the value of a known key is kept whole."""
    found: dict[str, object] = {}
    for name, value in table.items():
        key = f"{root}.{name}" if root else name
        if isinstance(value, dict) and key == POLICY_TABLE:
            found |= flatten_tables(value)
        elif isinstance(value, dict) and key not in KEYS:
            found |= flatten_tables(value, key)
        else:
            found[key] = value
    return found


def resolve_policy(
    raw_values: Iterable[RawValue], preset_overrides: Mapping[str, ResolvedValue] | None = None
) -> Policy:
    """Make the policy of what was said; the last one said in a place holds there.

    A value that its key does not take is one notice, and the next lower place's holds; a
    preset's and the built-in value are always there. `preset_overrides` holds the preset's values
    where not all of them count. What a project's file says is taken as trusted: whether it is, is
    for `resolve_project_policy`.
    """
    notices: list[PolicyNotice] = []
    read = {origin: dict[str, ResolvedValue]() for origin in PolicyOrigin}
    for each in raw_values:
        try:
            read[each.origin][each.key] = _parse_value(each)
        except (KeyError, InvalidValueError) as error:
            if len(notices) < MAX_NOTICES:
                notices.append(_make_notice(each, error))
    read[PolicyOrigin.BUILT_IN] = {
        key.name: ResolvedValue(key, key.default, PolicyOrigin.BUILT_IN, "")
        for key in KEYS.values()
    }
    if preset_overrides is None:
        preset_overrides = preset_values(str(_winning_value(read, "preset").value))
    read[PolicyOrigin.PRESET] = dict(preset_overrides)
    # A key that has no default is in the policy only where somebody said it.
    said = {name for values in read.values() for name in values if name not in KEYS}
    found = {name: _winning_value(read, name) for name in (*KEYS, *sorted(said))}
    of_person = (
        read[PolicyOrigin.USER_FILE]
        | read[PolicyOrigin.ENVIRONMENT]
        | read[PolicyOrigin.COMMAND_LINE]
    )
    held, ignored = apply_restrictions(found, read[PolicyOrigin.PROJECT_FILE], of_person)
    return make_policy(found | held, notices, ignored)


def preset_values(name: str) -> dict[str, ResolvedValue]:
    """List what a preset sets, by key."""
    return {
        key: ResolvedValue(KEYS[key], value, PolicyOrigin.PRESET, name)
        for key, value in PRESETS[name].items()
    }


def _parse_value(given: RawValue) -> ResolvedValue:
    key = find_key(given.key)
    return ResolvedValue(key, key.parse(given.value), given.origin, given.where)


def _winning_value(
    read: Mapping[PolicyOrigin, Mapping[str, ResolvedValue]], name: str
) -> ResolvedValue:
    return next(values[name] for values in read.values() if name in values)


def _make_notice(given: RawValue, error: Exception) -> PolicyNotice:
    if isinstance(error, InvalidValueError):
        said = str(given.value)
        short = said if len(said) <= MAX_SHOWN_CHARS else f"{said[:MAX_SHOWN_CHARS]}…"
        what, remedy = f"{short!r} is not taken", f"give {error}; until then the next layer holds"
    else:
        near = get_close_matches(given.key, KEYS, 1)
        what = "no such key"
        remedy = f"did you mean {near[0]}?" if near else "`ctxtop policy` lists the keys"
    return PolicyNotice(given.key, given.where, given.origin, what, remedy)


BUILT_IN_POLICY: Final = resolve_policy(())  # the policy where nobody said anything


class Policies(msgspec.Struct, frozen=True):
    """The policy of each project, and that of all others."""

    common: Policy = BUILT_IN_POLICY
    projects: Mapping[str, Policy] = {}  # by folder, only of those that say something of their own
    acting_projects: Mapping[str, Policy] = {}
    """The same of what ctxtop acts by: nothing that only shows counts there."""

    def for_project(self, project_root: str | None) -> Policy:
        """Return the policy of a session that began in this folder."""
        return self.projects.get(project_root or "", self.common)

    @property
    def acting(self) -> Policies:
        """The policies for what changes sessions, starts processes or speaks to a model."""
        return Policies(self.common, self.acting_projects, self.acting_projects)

    @property
    def all(self) -> tuple[Policy, ...]:
        """Every policy that holds somewhere."""
        return (self.common, *self.projects.values())


DEFAULT_POLICIES: Final = Policies()  # no project says anything of its own


class ProjectPolicy(msgspec.Struct, frozen=True):
    """The policy of one project, for its two uses."""

    shown: Policy  # what ctxtop shows by
    acting: Policy  # what ctxtop acts by: of an untrusted file only what it disables


class ProjectFile(msgspec.Struct, frozen=True):
    """What a project's file says, and whether the person trusts it."""

    folder: str
    raw_values: tuple[RawValue, ...]
    trust: ProjectTrust


def resolve_project_policy(personal_values: Sequence[RawValue], file: ProjectFile) -> ProjectPolicy:
    """Make a project's policy of what the person and the project's file say."""
    personal = [
        each for each in file.raw_values if key_permission(each.key) is KeyPermission.PERSON
    ]
    others = [
        each for each in file.raw_values if key_permission(each.key) is not KeyPermission.PERSON
    ]
    ignored = [_ignored(each, _ONLY_PERSONAL, _SET_IT_YOURSELF) for each in personal]
    if file.trust is ProjectTrust.TRUSTED:
        policy = _with_project(resolve_policy((*others, *personal_values)), ignored, file)
        return ProjectPolicy(policy, policy)
    kept: list[RawValue] = []
    for each in others:
        why = _why_ignored(each)
        if why:
            ignored.append(_untrusted(each, why, file))
        else:
            kept.append(each)
    disabled = [each for each in kept if each.key == "disabled_modules"]
    shown = resolve_policy((*kept, *personal_values), _mixed_preset(personal_values, kept))
    ignored += _ignored_of_preset(shown, file)
    acting = _with_project(resolve_policy((*disabled, *personal_values)), (), file)
    return ProjectPolicy(_with_project(shown, ignored, file), acting)


class TrustChange(msgspec.Struct, frozen=True):
    """A value that begins to count once a project's file is trusted."""

    key: str
    value_text: str  # the value in words
    effect: str


def changes_if_trusted(personal_values: Sequence[RawValue], file: ProjectFile) -> list[TrustChange]:
    """List what trusting a project's file changes, of what is shown and of what acts."""
    before = resolve_project_policy(
        personal_values, msgspec.structs.replace(file, trust=ProjectTrust.UNTRUSTED)
    )
    after = resolve_project_policy(
        personal_values, msgspec.structs.replace(file, trust=ProjectTrust.TRUSTED)
    ).acting
    return [
        TrustChange(name, format_value(found.value), trust_effect(name))
        for name, found in after.values.items()
        if name in KEYS
        and (found.value, found.value)
        != (before.acting.values[name].value, before.shown.values[name].value)
    ]


_ONLY_PERSONAL = "only your own settings say this, no project's file does"
_SET_IT_YOURSELF = "say it in your own file: `ctxtop policy set`"


def _why_ignored(given: RawValue) -> str:
    """Why an untrusted file's value does not count; empty where it does, or is no value at all."""
    try:
        key = find_key(given.key)
        value = key.parse(given.value)
    except (KeyError, InvalidValueError):
        # The layers tell of it.
        return ""
    if key_permission(given.key) is not KeyPermission.ANYONE:
        return f"it {trust_effect(given.key)}"
    return _too_low(given.key, value)


def _too_low(name: str, value: PolicyValue) -> str:
    low = why_too_low(name, value)
    return f"{low}, which would make a notice each turn" if low else ""


def _mixed_preset(
    person: Sequence[RawValue], kept: Sequence[RawValue]
) -> dict[str, ResolvedValue] | None:
    """Combine an untrusted file's preset (display keys only) with the person's preset."""
    if not any(each.key == "preset" for each in kept):
        return None
    own, chosen = resolve_policy(person).preset, resolve_policy((*kept, *person)).preset
    mixed = {
        name: each
        for name, each in preset_values(own).items()
        if key_permission(name) is not KeyPermission.ANYONE
    }
    return mixed | {
        name: each for name, each in preset_values(chosen).items() if _counts_untrusted(each)
    }


def _counts_untrusted(found: ResolvedValue) -> bool:
    is_shown = key_permission(found.key.name) is KeyPermission.ANYONE
    return is_shown and not _too_low(found.key.name, found.value)


def _ignored_of_preset(shown: Policy, file: ProjectFile) -> list[IgnoredValue]:
    preset = shown.values["preset"]
    if preset.origin is not PolicyOrigin.PROJECT_FILE:
        return []
    left: list[IgnoredValue] = []
    own = {each.key for each in file.raw_values}
    for name, value in PRESETS[shown.preset].items():
        if name in own or shown.values[name].value == value:
            continue
        why = f"it {trust_effect(name)}" if key_permission(name) is not KeyPermission.ANYONE else ""
        why = why or _too_low(name, value)
        if why:
            where = f"{preset.where}: preset {shown.preset}"
            left.append(_untrusted(RawValue(name, value, preset.origin, where), why, file))
    return left


def _untrusted(given: RawValue, why: str, file: ProjectFile) -> IgnoredValue:
    state = (
        "has changed since you trusted it"
        if file.trust is ProjectTrust.CHANGED
        else "is not trusted"
    )
    remedy = f"the file {state}: `ctxtop trust {shlex.quote(file.folder)}` shows it, and asks"
    return _ignored(given, why, remedy)


def _ignored(given: RawValue, why: str, remedy: str) -> IgnoredValue:
    try:
        said = format_value(find_key(given.key).parse(given.value))
    except (KeyError, InvalidValueError):
        said = str(given.value)
    return IgnoredValue(given.key, said, given.where, why, remedy)


def _with_project(policy: Policy, ignored: Sequence[IgnoredValue], file: ProjectFile) -> Policy:
    order = list(KEYS)

    def place(each: IgnoredValue) -> int:
        return order.index(each.key) if each.key in KEYS else len(order)

    every = tuple(sorted((*ignored, *policy.ignored), key=place))
    return msgspec.structs.replace(policy, ignored=every, trust=file.trust)
