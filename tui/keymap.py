"""Every binding of the dashboard, and the keys that a person gave to them."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Final

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys, key_to_character
from textual.screen import ModalScreen, Screen

from ..core.policy.policy import Policy, PolicyNotice, ResolvedValue
from ..core.policy.schema import KEY_BINDING_PREFIX


@dataclass(frozen=True, slots=True)
class DeclaredBinding:
    """One binding as a class declares it."""

    binding: Binding
    declared_in: type[DOMNode]

    @property
    def id(self) -> str:
        """What a person names it by."""
        return self.binding.id or ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that it has unless a person gives it others."""
        return tuple(key.strip() for key in self.binding.key.split(","))

    def conflicts_with(self, other: DeclaredBinding) -> bool:
        """Whether the same key could trigger both bindings at the same time."""
        if issubclass(self.declared_in, other.declared_in) or issubclass(
            other.declared_in, self.declared_in
        ):
            return True
        places = (self.declared_in, other.declared_in)
        if any(issubclass(place, App) for place in places):
            # A question that lies above all takes every key.
            return not any(issubclass(place, ModalScreen) for place in places)
        # Two screens are never on top at once, and two widgets never have the focus.
        return issubclass(self.declared_in, Screen) is not issubclass(other.declared_in, Screen)


def all_bindings() -> tuple[DeclaredBinding, ...]:
    """Import every screen and widget, and give their bindings; takes long, never at the start."""
    from . import screens, widgets

    # By name: the app itself reads the keymap, and imports this.
    found: list[type[DOMNode]] = []
    for name in ("app", "navigation"):
        found += _declared_classes(import_module(f"{__package__}.{name}").__dict__)
    for package in (screens, widgets):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            found += _declared_classes(import_module(module.name).__dict__)
    return tuple(
        DeclaredBinding(binding, where)
        for where in dict.fromkeys(found)
        for binding in where.__dict__.get("BINDINGS", ())
        if isinstance(binding, Binding)
    )


def _declared_classes(names: dict[str, object]) -> Iterator[type[DOMNode]]:
    module = names["__name__"]
    for value in names.values():
        if isinstance(value, type) and issubclass(value, DOMNode) and value.__module__ == module:
            yield value


MODIFIERS: Final = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})

_KEY_NAMES: Final = frozenset(key.value.rpartition("+")[2] for key in Keys)


@dataclass(frozen=True, slots=True)
class Keymap:
    """What holds, by the binding's id, and what was said beside."""

    keys: Mapping[str, str]
    notices: tuple[PolicyNotice, ...] = ()


def read_keymap(policy: Policy, bindings: Sequence[DeclaredBinding]) -> Keymap:
    """Return the policy's valid key bindings.

    An unknown id, an unknown key or a conflict is dropped and gives one notice.
    """
    said = policy.with_prefix(KEY_BINDING_PREFIX)
    by_id: dict[str, list[DeclaredBinding]] = {}
    for each in bindings:
        by_id.setdefault(each.id, []).append(each)
    keys = {name: _normalize_keys(str(resolved.value)) for name, resolved in said.items()}
    notices: list[PolicyNotice] = []
    for name, resolved in said.items():
        notice = _unknown_id(name, resolved, by_id) or _unknown_key(name, resolved, keys[name])
        if notice:
            notices.append(notice)
            del keys[name]
    # One that is refused keeps its own keys, which may refuse another: till all of them hold.
    while notice := _first_clash(said, keys, by_id):
        notices.append(notice)
        del keys[notice.key.removeprefix(KEY_BINDING_PREFIX)]
    return Keymap({name: ",".join(each) for name, each in keys.items()}, tuple(notices))


def _normalize_keys(keys: str) -> list[str]:
    """Write ? as question_mark, as bindings have it."""
    normal = App._normalize_keymap({"": keys})  # noqa: SLF001 -- what set_keymap itself does
    return normal[""].split(",")


def _unknown_id(
    name: str, resolved: ResolvedValue, by_id: Mapping[str, object]
) -> PolicyNotice | None:
    if name in by_id:
        return None
    near = get_close_matches(name, by_id, 1)
    remedy = f"did you mean {KEY_BINDING_PREFIX}{near[0]}?" if near else "`ctxtop keys` lists them"
    return _notice(name, resolved, "no binding has this id", remedy)


def _unknown_key(name: str, resolved: ResolvedValue, keys: Sequence[str]) -> PolicyNotice | None:
    for key in keys:
        *modifiers, last = key.split("+")
        known = last in _KEY_NAMES or len(last) == 1 or key_to_character(last) is not None
        if not known or not set(modifiers) <= MODIFIERS:
            return _notice(name, resolved, f"there is no key {key!r}", "give e.g. o, ctrl+o or f5")
    return None


def _first_clash(
    said: Mapping[str, ResolvedValue],
    changed: Mapping[str, Sequence[str]],
    by_id: Mapping[str, Sequence[DeclaredBinding]],
) -> PolicyNotice | None:
    found = (_find_clash(name, said[name], changed, by_id) for name in changed)
    return next((notice for notice in found if notice), None)


def _find_clash(
    name: str,
    resolved: ResolvedValue,
    changed: Mapping[str, Sequence[str]],
    by_id: Mapping[str, Sequence[DeclaredBinding]],
) -> PolicyNotice | None:
    for other, there in by_id.items():
        if other == name or not any(a.conflicts_with(b) for a in by_id[name] for b in there):
            continue
        own = changed.get(other) or [key for each in there for key in each.keys]
        both = [key for key in changed[name] if key in own]
        if both:
            what = f"{both[0]} is the key of {other}"
            return _notice(
                name, resolved, what, f"give {KEY_BINDING_PREFIX}{other} another key too"
            )
    return None


def _notice(name: str, resolved: ResolvedValue, what: str, remedy: str) -> PolicyNotice:
    return PolicyNotice(
        f"{KEY_BINDING_PREFIX}{name}", resolved.where, resolved.origin, what, remedy
    )


EVERYWHERE = "everywhere"

PRINTED_NAMES = {
    "ActionPage": "actingpage",
    "CompactionDetailScreen": "lens",
    "CoverageScreen": "replaced",
}
"""`ctxtop keys --json` names these as before."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A binding of the dashboard."""

    id: str
    keys: tuple[str, ...]
    default_keys: tuple[str, ...]
    title: str
    what: str
    where: tuple[str, ...]


def key_rows(bindings: Iterable[DeclaredBinding], keymap: Mapping[str, str]) -> tuple[KeyRow, ...]:
    """Return one row for each binding id, in the order of declaration."""
    rows: dict[str, KeyRow] = {}
    for each in bindings:
        before = rows.get(each.id)
        where = (*(before.where if before else ()), _where_name(each.declared_in))
        own = tuple(dict.fromkeys((*(before.default_keys if before else ()), *each.keys)))
        changed = keymap.get(each.id)
        keys = tuple(changed.split(",")) if changed else own
        binding = each.binding
        what = before.what if before else binding.tooltip or binding.description.lower()
        title = before.title if before else binding.description
        rows[each.id] = KeyRow(each.id, keys, own, title, what, tuple(dict.fromkeys(where)))
    return tuple(rows.values())


def _where_name(where: type[DOMNode]) -> str:
    """Name a place as a person would: HelpScreen is help."""
    if issubclass(where, App):
        return EVERYWHERE
    if where.__name__ in PRINTED_NAMES:
        return PRINTED_NAMES[where.__name__]
    name = where.__name__.removesuffix("Screen" if issubclass(where, Screen) else "Pane")
    return name.lower()
