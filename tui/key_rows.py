"""The bindings as a person looks for them: one row an id, with the keys that hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.app import App
from textual.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.dom import DOMNode

    from .bindings import Bound

EVERYWHERE = "everywhere"


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A binding of the dashboard."""

    id: str
    keys: tuple[str, ...]
    default_keys: tuple[str, ...]
    title: str
    what: str
    where: tuple[str, ...]


def key_rows(bindings: Iterable[Bound], keymap: Mapping[str, str]) -> tuple[KeyRow, ...]:
    """Give one row an id, in the order in which they are declared."""
    rows: dict[str, KeyRow] = {}
    for each in bindings:
        before = rows.get(each.id)
        where = (*(before.where if before else ()), _place(each.declared_in))
        own = tuple(dict.fromkeys((*(before.default_keys if before else ()), *each.keys)))
        changed = keymap.get(each.id)
        keys = tuple(changed.split(",")) if changed else own
        binding = each.binding
        what = before.what if before else binding.tooltip or binding.description.lower()
        title = before.title if before else binding.description
        rows[each.id] = KeyRow(each.id, keys, own, title, what, tuple(dict.fromkeys(where)))
    return tuple(rows.values())


def _place(where: type[DOMNode]) -> str:
    """Name a place as a person would: HelpScreen is help."""
    if issubclass(where, App):
        return EVERYWHERE
    name = where.__name__.removesuffix("Screen" if issubclass(where, Screen) else "Pane")
    return name.lower()
