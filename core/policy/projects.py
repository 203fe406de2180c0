"""The policy of a project: what its file may set is added to what the person set."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import msgspec

from .kinds import BadValueError, words
from .layers import Given, preset_layer, resolve
from .policy import Ignored, Origin, Policy
from .presets import PRESETS
from .schema import KEYS, key_of
from .trust import Standing, Trust, effect_of, standing_of, why_too_low

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .kinds import Value
    from .policy import Resolved


class ProjectPolicy(msgspec.Struct, frozen=True):
    """The policy of one project, for its two uses."""

    shown: Policy
    """What ctxtop shows by."""
    acting: Policy
    """What ctxtop acts by: of an untrusted file only what it disables."""


class ProjectFile(msgspec.Struct, frozen=True):
    """What a project's file says, and whether the person trusts it."""

    folder: str
    raw_values: tuple[Given, ...]
    trust: Trust


def resolve_project(personal_values: Sequence[Given], file: ProjectFile) -> ProjectPolicy:
    """Make a project's policy of what the person and the project's file say."""
    personal = [each for each in file.raw_values if standing_of(each.key) is Standing.PERSON]
    others = [each for each in file.raw_values if standing_of(each.key) is not Standing.PERSON]
    ignored = [_ignored(each, _NOT_PERSONAL, _OWN_FILE) for each in personal]
    if file.trust is Trust.TRUSTED:
        policy = _complete(resolve((*others, *personal_values)), ignored, file)
        return ProjectPolicy(policy, policy)
    kept: list[Given] = []
    for each in others:
        why = _why_not(each)
        if why:
            ignored.append(_untrusted(each, why, file))
        else:
            kept.append(each)
    disabled = [each for each in kept if each.key == "disabled_modules"]
    shown = resolve((*kept, *personal_values), _mixed_preset(personal_values, kept))
    ignored += _left_of_preset(shown, file)
    acting = _complete(resolve((*disabled, *personal_values)), (), file)
    return ProjectPolicy(_complete(shown, ignored, file), acting)


class Begun(msgspec.Struct, frozen=True):
    """A value that begins to count once a project's file is trusted."""

    key: str
    value_text: str
    """The value in words."""
    effect: str


def begins_to_count(personal_values: Sequence[Given], file: ProjectFile) -> list[Begun]:
    """List what trusting a project's file changes, of what is shown and of what acts."""
    before = resolve_project(personal_values, msgspec.structs.replace(file, trust=Trust.UNTRUSTED))
    after = resolve_project(
        personal_values, msgspec.structs.replace(file, trust=Trust.TRUSTED)
    ).acting
    return [
        Begun(name, words(found.value), effect_of(name))
        for name, found in after.values.items()
        if name in KEYS
        and (found.value, found.value)
        != (before.acting.values[name].value, before.shown.values[name].value)
    ]


_NOT_PERSONAL = "only your own settings say this, no project's file does"
_OWN_FILE = "say it in your own file: `ctxtop policy set`"


def _why_not(given: Given) -> str:
    """Why an untrusted file's value does not count; empty where it does, or is no value at all."""
    try:
        key = key_of(given.key)
        value = key.value_type.parse(given.value)
    except (KeyError, BadValueError):
        # The layers tell of it.
        return ""
    if standing_of(given.key) is not Standing.ANYONE:
        return f"it {effect_of(given.key)}"
    return _too_low(given.key, value)


def _too_low(name: str, value: Value) -> str:
    low = why_too_low(name, value)
    return f"{low}, which would make a notice each turn" if low else ""


def _mixed_preset(person: Sequence[Given], kept: Sequence[Given]) -> dict[str, Resolved] | None:
    """Combine an untrusted file's preset (display keys only) with the person's preset."""
    if not any(each.key == "preset" for each in kept):
        return None
    own, chosen = resolve(person).preset, resolve((*kept, *person)).preset
    mixed = {
        name: each
        for name, each in preset_layer(own).items()
        if standing_of(name) is not Standing.ANYONE
    }
    return mixed | {name: each for name, each in preset_layer(chosen).items() if _counts(each)}


def _counts(found: Resolved) -> bool:
    is_shown = standing_of(found.key.name) is Standing.ANYONE
    return is_shown and not _too_low(found.key.name, found.value)


def _left_of_preset(shown: Policy, file: ProjectFile) -> list[Ignored]:
    preset = shown.values["preset"]
    if preset.origin is not Origin.PROJECT_FILE:
        return []
    left: list[Ignored] = []
    own = {each.key for each in file.raw_values}
    for name, value in PRESETS[shown.preset].items():
        if name in own or shown.values[name].value == value:
            continue
        why = f"it {effect_of(name)}" if standing_of(name) is not Standing.ANYONE else ""
        why = why or _too_low(name, value)
        if why:
            where = f"{preset.where}: preset {shown.preset}"
            left.append(_untrusted(Given(name, value, preset.origin, where), why, file))
    return left


def _untrusted(given: Given, why: str, file: ProjectFile) -> Ignored:
    state = "has changed since you trusted it" if file.trust is Trust.CHANGED else "is not trusted"
    remedy = f"the file {state}: `ctxtop trust {shlex.quote(file.folder)}` shows it, and asks"
    return _ignored(given, why, remedy)


def _ignored(given: Given, why: str, remedy: str) -> Ignored:
    try:
        said = words(key_of(given.key).value_type.parse(given.value))
    except (KeyError, BadValueError):
        said = str(given.value)
    return Ignored(given.key, said, given.where, why, remedy)


def _complete(policy: Policy, ignored: Sequence[Ignored], file: ProjectFile) -> Policy:
    order = list(KEYS)

    def place(each: Ignored) -> int:
        return order.index(each.key) if each.key in KEYS else len(order)

    every = tuple(sorted((*ignored, *policy.ignored), key=place))
    return msgspec.structs.replace(policy, ignored=every, trust=file.trust)
