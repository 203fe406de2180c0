"""Every binding of the dashboard, found where it is declared: for the keymap and `ctxtop keys`."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Bound:
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

    def conflicts_with(self, other: Bound) -> bool:
        """Say whether both can be asked for by the same key at the same moment."""
        if issubclass(self.declared_in, other.declared_in) or issubclass(other.declared_in, self.declared_in):
            return True
        places = (self.declared_in, other.declared_in)
        if any(issubclass(place, App) for place in places):
            # A question that lies above all takes every key.
            return not any(issubclass(place, ModalScreen) for place in places)
        # Two screens are never on top at once, and two widgets never have the focus.
        return issubclass(self.declared_in, Screen) is not issubclass(other.declared_in, Screen)


def all_bindings() -> tuple[Bound, ...]:
    """Import every screen and widget, and give their bindings; takes long, never at the start."""
    from . import screens, widgets
    from .app import CtxtopApp
    from .navigating import Navigating

    found: list[type[DOMNode]] = [CtxtopApp, Navigating]
    for package in (screens, widgets):
        for module in pkgutil.iter_modules(package.__path__):
            found += _declaring(import_module(f"{package.__name__}.{module.name}").__dict__)
    return tuple(
        Bound(binding, where)
        for where in dict.fromkeys(found)
        for binding in where.__dict__.get("BINDINGS", ())
        if isinstance(binding, Binding)
    )


def _declaring(names: dict[str, object]) -> Iterator[type[DOMNode]]:
    module = names["__name__"]
    for value in names.values():
        if isinstance(value, type) and issubclass(value, DOMNode) and value.__module__ == module:
            yield value
