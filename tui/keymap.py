"""The keys that a person gave to bindings: which of them hold, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from textual.app import App
from textual.keys import Keys, key_to_character

from ..core.policy.policy import PolicyNotice
from ..core.policy.schema import CHORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..core.policy.policy import Policy, Resolved
    from .bindings import Bound

MODIFIERS: Final = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})

_NAMES: Final = frozenset(key.value.rpartition("+")[2] for key in Keys)


@dataclass(frozen=True, slots=True)
class Keymap:
    """What holds, by the binding's id, and what was said beside."""

    keys: Mapping[str, str]
    notices: tuple[PolicyNotice, ...] = ()


def read_keymap(policy: Policy, bindings: Sequence[Bound]) -> Keymap:
    """Take over what can hold; an unknown id, an unknown key and a clash are one notice each."""
    said = policy.with_prefix(CHORDS)
    by_id: dict[str, list[Bound]] = {}
    for each in bindings:
        by_id.setdefault(each.id, []).append(each)
    keys = {name: _long(str(resolved.value)) for name, resolved in said.items()}
    notices: list[PolicyNotice] = []
    for name, resolved in said.items():
        notice = _unknown_id(name, resolved, by_id) or _unknown_key(name, resolved, keys[name])
        if notice:
            notices.append(notice)
            del keys[name]
    # One that is refused keeps its own keys, which may refuse another: till all of them hold.
    while notice := _first_clash(said, keys, by_id):
        notices.append(notice)
        del keys[notice.key.removeprefix(CHORDS)]
    return Keymap({name: ",".join(each) for name, each in keys.items()}, tuple(notices))


def _long(keys: str) -> list[str]:
    """Write ? as question_mark, as bindings have it."""
    normal = App._normalize_keymap({"": keys})  # noqa: SLF001 -- what set_keymap itself does
    return normal[""].split(",")


def _unknown_id(name: str, resolved: Resolved, by_id: Mapping[str, object]) -> PolicyNotice | None:
    if name in by_id:
        return None
    near = get_close_matches(name, by_id, 1)
    remedy = f"did you mean {CHORDS}{near[0]}?" if near else "`ctxtop keys` lists them"
    return _notice(name, resolved, "no binding has this id", remedy)


def _unknown_key(name: str, resolved: Resolved, keys: Sequence[str]) -> PolicyNotice | None:
    for key in keys:
        *modifiers, last = key.split("+")
        known = last in _NAMES or len(last) == 1 or key_to_character(last) is not None
        if not known or not set(modifiers) <= MODIFIERS:
            return _notice(name, resolved, f"there is no key {key!r}", "give e.g. o, ctrl+o or f5")
    return None


def _first_clash(
    said: Mapping[str, Resolved],
    changed: Mapping[str, Sequence[str]],
    by_id: Mapping[str, Sequence[Bound]],
) -> PolicyNotice | None:
    found = (_clash(name, said[name], changed, by_id) for name in changed)
    return next((notice for notice in found if notice), None)


def _clash(
    name: str,
    resolved: Resolved,
    changed: Mapping[str, Sequence[str]],
    by_id: Mapping[str, Sequence[Bound]],
) -> PolicyNotice | None:
    for other, there in by_id.items():
        if other == name or not any(a.conflicts_with(b) for a in by_id[name] for b in there):
            continue
        own = changed.get(other) or [key for each in there for key in each.keys]
        both = [key for key in changed[name] if key in own]
        if both:
            what = f"{both[0]} is the key of {other}"
            return _notice(name, resolved, what, f"give {CHORDS}{other} another key too")
    return None


def _notice(name: str, resolved: Resolved, what: str, remedy: str) -> PolicyNotice:
    return PolicyNotice(f"{CHORDS}{name}", resolved.where, resolved.origin, what, remedy)
