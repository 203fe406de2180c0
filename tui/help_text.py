"""What the help says: the keys by where they hold, and the signs from the widgets' own tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from textual.app import App
from textual.content import Content

from .formats import fit, one_line
from .sign_words import signs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from textual.binding import ActiveBinding, Binding

HERE: Final = "On this page"
MOVING: Final = "Moving"
EVERYWHERE: Final = "Everywhere"
GROUPS: Final = (HERE, EVERYWHERE, MOVING)

MOVES: Final = frozenset(
    {"down", "up", "first", "last", "page_down", "page_up", "left", "right", "previous", "next"}
)
"""Ids of what moves the mark or the page: everybody knows them, so they come last."""

LEAVES_TOO: Final = "ctrl+q"
"""Textual's own second key for leaving."""

KEY_CELLS: Final = 16


@dataclass(frozen=True, slots=True)
class KeyHelp:
    """What one or several keys do, and where."""

    group: str
    keys: tuple[str, ...]
    what: str


def explain(
    active: Mapping[str, ActiveBinding], display: Callable[[Binding], str]
) -> tuple[KeyHelp, ...]:
    """Explain the bindings that a screen has just now; what says nothing is Textual's own."""
    keys: dict[tuple[str, str], list[str]] = {}
    for key, entry in active.items():
        binding = entry.binding
        if binding.system or not binding.tooltip or key == LEAVES_TOO:
            continue
        shown = keys.setdefault((_group(entry), binding.tooltip), [])
        if (name := display(binding)) not in shown:
            shown.append(name)
    found = [KeyHelp(group, tuple(names), what) for (group, what), names in keys.items()]
    return tuple(sorted(found, key=lambda each: GROUPS.index(each.group)))


def _group(entry: ActiveBinding) -> str:
    if entry.binding.id in MOVES:
        return MOVING
    return EVERYWHERE if isinstance(entry.node, App) else HERE


def help_text(keys: Sequence[KeyHelp], words: str = "") -> Content:
    """Write keys and signs in groups; of those only what has all the words."""
    wanted = one_line(words).casefold().split()
    lines: list[Content] = []
    for group in GROUPS:
        lines += _part(
            group,
            ((" ".join(each.keys), each.what) for each in keys if each.group == group),
            wanted,
        )
    for title, some in signs():
        lines += _part(title, some, wanted)
    if not lines:
        return Content.styled(f"no key and no sign has the words “{one_line(words)}”", "$quiet")
    return Content("\n").join(lines[:-1])


def _part(title: str, rows: Iterable[tuple[str, str]], wanted: Sequence[str]) -> Iterator[Content]:
    found = [
        (sign, what)
        for sign, what in rows
        if all(word in f"{title} {sign} {what}".casefold() for word in wanted)
    ]
    if not found:
        return
    yield Content.styled(title, "bold $accent")
    for sign, what in found:
        yield Content.assemble((f"  {fit(sign, KEY_CELLS)}", "$primary"), (what, "$foreground"))
    yield Content("")
