"""From what was said in six places to one policy: the highest place wins, value by value."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import msgspec

from .kinds import BadValueError
from .policy import Origin, Policy, PolicyNotice, Resolved, make_policy
from .presets import PRESETS
from .restraint import restrain
from .schema import KEYS, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


ROOT: Final = "policy"
"""The table of a file whose keys have no table of their own: `[policy] preset = …`."""

SHOWN_CHARS: Final = 60
"""Of a value that was not understood."""

MOST_NOTICES: Final = 20
"""A file of something else has thousands of unknown keys; more help nobody."""


class Given(msgspec.Struct, frozen=True):
    """One value as it was said, not yet read."""

    key: str
    value: object
    origin: Origin
    where: str
    """The file, the variable or the option."""


def flatten(table: Mapping[str, object], root: str = "") -> dict[str, object]:
    """Give a file's tables as dotted keys; what a known key holds stays whole."""
    found: dict[str, object] = {}
    for name, value in table.items():
        key = f"{root}.{name}" if root else name
        if isinstance(value, dict) and key == ROOT:
            found |= flatten(value)
        elif isinstance(value, dict) and key not in KEYS:
            found |= flatten(value, key)
        else:
            found[key] = value
    return found


def resolve(
    raw_values: Iterable[Given], preset_overrides: Mapping[str, Resolved] | None = None
) -> Policy:
    """Make the policy of what was said; the last one said in a place holds there.

    A value that its key does not take is one notice, and the next lower place's holds; a
    preset's and the built-in value are always there. `preset` holds the preset's values where
    not all of them count. What a project's file says is taken as trusted: whether it is, is
    for `projects.resolve_project`.
    """
    notices: list[PolicyNotice] = []
    read = {origin: dict[str, Resolved]() for origin in Origin}
    for each in raw_values:
        try:
            read[each.origin][each.key] = _read(each)
        except (KeyError, BadValueError) as error:
            if len(notices) < MOST_NOTICES:
                notices.append(_notice(each, error))
    read[Origin.BUILT_IN] = {
        key.name: Resolved(key, key.default, Origin.BUILT_IN, "") for key in KEYS.values()
    }
    if preset_overrides is None:
        preset_overrides = preset_layer(str(_highest(read, "preset").value))
    read[Origin.PRESET] = dict(preset_overrides)
    # A key that has no default is in the policy only where somebody said it.
    said = {name for values in read.values() for name in values if name not in KEYS}
    found = {name: _highest(read, name) for name in (*KEYS, *sorted(said))}
    of_person = read[Origin.USER_FILE] | read[Origin.ENVIRONMENT] | read[Origin.COMMAND_LINE]
    held, ignored = restrain(found, read[Origin.PROJECT_FILE], of_person)
    return make_policy(found | held, notices, ignored)


def preset_layer(name: str) -> dict[str, Resolved]:
    """List what a preset sets, by key."""
    return {
        key: Resolved(KEYS[key], value, Origin.PRESET, name) for key, value in PRESETS[name].items()
    }


def _read(given: Given) -> Resolved:
    key = key_of(given.key)
    return Resolved(key, key.value_type.parse(given.value), given.origin, given.where)


def _highest(read: Mapping[Origin, Mapping[str, Resolved]], name: str) -> Resolved:
    return next(values[name] for values in read.values() if name in values)


def _notice(given: Given, error: Exception) -> PolicyNotice:
    if isinstance(error, BadValueError):
        said = str(given.value)
        short = said if len(said) <= SHOWN_CHARS else f"{said[:SHOWN_CHARS]}…"
        what, remedy = f"{short!r} is not taken", f"give {error}; until then the next layer holds"
    else:
        near = get_close_matches(given.key, KEYS, 1)
        what = "no such key"
        remedy = f"did you mean {near[0]}?" if near else "`ctxtop policy` lists the keys"
    return PolicyNotice(given.key, given.where, given.origin, what, remedy)


BUILT_IN: Final = resolve(())
"""The policy where nobody said anything."""


class Policies(msgspec.Struct, frozen=True):
    """The policy of each project, and that of all others."""

    common: Policy = BUILT_IN
    projects: Mapping[str, Policy] = {}
    """By folder, only of those that say something of their own."""
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


COMMON: Final = Policies()
"""No project says anything of its own."""
