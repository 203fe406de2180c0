"""The dashboard's bindings, one row for each id with the keys that hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.app import App
from textual.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from textual.dom import DOMNode

    from .keymap import DeclaredBinding


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
